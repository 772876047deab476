/* SPDX-License-Identifier: Apache-2.0 */
/* Reports and their times, on a clock of the test's; the queries are those of routers. */
#include "support.h"

#include "message.h"
#include "multicast.h"

#define START (1000 * SECOND)

static struct eth_groups *groups;
static uint8_t frame[ETH_CONTROL_MAX];
static struct eth_packet packet;
static uint64_t now;

static int open_groups(void **state)
{
  struct eth_groups_params params = {.vlan = ETH_UNTAGGED, .seed = 7};

  (void)state;
  memcpy(params.mac, mac_a, ETH_MAC_BYTES);
  memcpy(params.own_v4, AT("10.0.0.1"), 16);
  now = START;
  return eth_groups_open(&params, &groups);
}

static int close_groups(void **state)
{
  (void)state;
  eth_groups_close(groups);
  return 0;
}

/* The next frame's message. */
static const uint8_t *next(void)
{
  const uint32_t length = eth_groups_next(groups, now, frame);

  if (!length)
    return NULL;
  assert_true(length <= ETH_CONTROL_MAX);
  const enum eth_verdict verdict = parse(frame, length, &packet);
  assert_true(verdict == ETH_IS_IGMP || verdict == ETH_IS_ICMPV6);
  assert_true(packet.has_alert);
  assert_int_equal(packet.hop_limit, 1);
  return frame + packet.offset;
}

/* The next frame has these bytes behind its checksum; and goes to that group. */
static void expect(const char *to, uint8_t type, const char *text)
{
  uint8_t bytes[1300];
  const uint8_t *message = next();

  assert_non_null(message);
  const uint32_t length = hex(text, bytes);
  assert_int_equal(message[0], type);
  assert_int_equal(packet.length, length + 4);
  assert_memory_equal(message + 4, bytes, length);
  assert_memory_equal(packet.to.address, AT(to), 16);
}

static void expect_v4(const char *records)
{
  expect("224.0.0.22", 0x22, records);
}

static void expect_v6(const char *records)
{
  expect("ff02::16", 143, records);
}

/* Nothing until then, and then it is due. */
static void pass_until_due(uint64_t most)
{
  const uint64_t due = eth_groups_due(groups);

  assert_in_range(due, now, now + most);
  if (due > now) {
    now = due - 1;
    assert_null(next());
  }
  now = due;
}

static void quiet(void)
{
  assert_null(next());
  assert_true(eth_groups_due(groups) == UINT64_MAX);
}

static int join(const char *group, const char *source)
{
  const struct dg_source from = source ? end_of(source, 0) : (struct dg_source){0};

  return eth_groups_join(groups, AT(group), source ? from.address : NULL, now);
}

static int leave(const char *group, const char *source)
{
  const struct dg_source from = source ? end_of(source, 0) : (struct dg_source){0};

  return eth_groups_leave(groups, AT(group), source ? from.address : NULL, now);
}

static bool hear(const uint8_t *bytes, uint32_t length)
{
  const struct eth_bytes heard = guarded(bytes, length, length);
  struct eth_packet judged;

  (void)eth_parse(&heard, 0, &judged);
  return eth_groups_take(groups, &heard, &judged, now);
}

/* A message of IGMP from a router, its checksum put in. */
static void hear_v4(const char *to, const char *text)
{
  const struct eth_link link = {{2, 0, 0, 0, 0, 0xc}, ETH_UNTAGGED};
  uint8_t bytes[ETH_CONTROL_MAX], message[200];
  const uint32_t length = hex(text, message);

  assert_true(hear(bytes, eth_igmp_write(bytes, &link, AT("10.0.0.254"), AT(to), message, length)));
}

static bool hear_v6_as(const char *from, uint8_t hop_limit, bool has_alert, const char *text)
{
  const struct eth_link link = {{2, 0, 0, 0, 0, 0xc}, ETH_UNTAGGED};
  const struct dg_source router = end_of(from, 0), all = end_of("ff02::1", 0);
  uint8_t bytes[ETH_CONTROL_MAX], message[200];
  const struct eth_icmpv6 query = {.from = router.address,
                                   .to = all.address,
                                   .hop_limit = hop_limit,
                                   .has_alert = has_alert,
                                   .message = message,
                                   .length = hex(text, message)};

  return hear(bytes, eth_icmpv6_write(bytes, &link, &query));
}

static void hear_v6(const char *text)
{
  assert_true(hear_v6_as("fe80::1", 1, true, text));
}

static void any_source_is_joined_and_left(void **state)
{
  (void)state;
  assert_int_equal(join("239.1.2.3", NULL), 0);
  expect_v4("0000 0001 04 00 0000 ef010203");
  assert_memory_equal(packet.from.address, AT("10.0.0.1"), 16);
  assert_int_equal(packet.traffic_class, 0xc0);
  assert_int_equal(frame[0], 1);
  assert_int_equal(frame[5], 22);
  pass_until_due(SECOND);
  expect_v4("0000 0001 04 00 0000 ef010203");
  quiet();
  assert_int_equal(leave("239.1.2.3", NULL), 0);
  expect_v4("0000 0001 03 00 0000 ef010203");
  pass_until_due(SECOND);
  expect_v4("0000 0001 03 00 0000 ef010203");
  quiet();
  assert_int_equal(leave("239.1.2.3", NULL), -ENOENT);
}

static void one_source_is_allowed_and_blocked(void **state)
{
  (void)state;
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  expect_v4("0000 0001 05 00 0001 e8010203 c0000201");
  pass_until_due(SECOND);
  assert_int_equal(join("232.1.2.3", "192.0.2.2"), 0);
  expect_v4("0000 0001 05 00 0002 e8010203 c0000201 c0000202");
  pass_until_due(SECOND);
  expect_v4("0000 0001 05 00 0001 e8010203 c0000202");
  quiet();
  assert_int_equal(leave("232.1.2.3", "192.0.2.1"), 0);
  expect_v4("0000 0001 06 00 0001 e8010203 c0000201");
  pass_until_due(SECOND);
  expect_v4("0000 0001 06 00 0001 e8010203 c0000201");
  quiet();
}

static void joins_are_counted(void **state)
{
  (void)state;
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  expect_v4("0000 0001 05 00 0001 e8010203 c0000201");
  pass_until_due(SECOND);
  expect_v4("0000 0001 05 00 0001 e8010203 c0000201");
  assert_int_equal(leave("232.1.2.3", "192.0.2.1"), 0);
  quiet();
  assert_int_equal(leave("232.1.2.3", "192.0.2.1"), 0);
  expect_v4("0000 0001 06 00 0001 e8010203 c0000201");
}

/* RFC 3376, section 5.1: a change of mode says all, and what was owed before is void. */
static void modes_follow_the_joins(void **state)
{
  (void)state;
  assert_int_equal(join("239.1.2.3", "192.0.2.1"), 0);
  assert_int_equal(join("239.1.2.3", NULL), 0);
  expect_v4("0000 0001 04 00 0000 ef010203");
  pass_until_due(SECOND);
  expect_v4("0000 0001 04 00 0000 ef010203");
  quiet();
  assert_int_equal(join("239.1.2.3", "192.0.2.9"), 0);
  quiet();
  assert_int_equal(leave("239.1.2.3", NULL), 0);
  expect_v4("0000 0001 03 00 0002 ef010203 c0000201 c0000209");
}

/* RFC 3376, section 9.1 of a router's general query; the answer comes within 10 s. */
static void a_general_query_is_answered_after_a_while(void **state)
{
  uint64_t first = 0;
  bool differs = false;

  (void)state;
  assert_int_equal(join("239.1.2.3", NULL), 0);
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  expect_v4("0000 0002 04 00 0000 ef010203 05 00 0001 e8010203 c0000201");
  pass_until_due(SECOND);
  assert_non_null(next());
  while (eth_groups_due(groups) != UINT64_MAX) { /* each group at a time of its own */
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  for (uint32_t i = 0; i < 20; i++) {
    const uint64_t asked = now;
    hear_v4("224.0.0.1", "11 64 0000 00000000 02 7d 0000");
    pass_until_due(10 * SECOND);
    expect_v4("0000 0002 02 00 0000 ef010203 01 00 0001 e8010203 c0000201");
    quiet();
    if (i == 0)
      first = now - asked;
    differs |= now - asked != first;
  }
  assert_true(differs);
}

static void a_query_for_a_group_is_answered_for_it(void **state)
{
  (void)state;
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  assert_int_equal(join("232.1.2.4", "192.0.2.1"), 0);
  while (eth_groups_due(groups) != UINT64_MAX) {
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  hear_v4("232.1.2.4", "11 0a 0000 e8010204 02 7d 0000");
  pass_until_due(SECOND);
  expect_v4("0000 0001 01 00 0001 e8010204 c0000201");
  quiet();
  hear_v4("232.1.2.4", "11 0a 0000 e8010204 02 7d 0002 c0000201 c0000202"); /* and sources */
  pass_until_due(SECOND);
  expect_v4("0000 0001 01 00 0001 e8010204 c0000201");
  quiet();
  hear_v4("232.1.2.4", "11 0a 0000 e8010204 02 7d 0001 c0000203"); /* of none that is wanted */
  while (eth_groups_due(groups) != UINT64_MAX) {
    now = eth_groups_due(groups);
    assert_null(next());
  }
  hear_v4("232.9.9.9", "11 0a 0000 e8090909 02 7d 0000"); /* not joined */
  quiet();
}

/* RFC 3376, section 5.2, rules 1, 4 and 5. */
static void queries_that_overlap_have_one_answer(void **state)
{
  (void)state;
  assert_int_equal(join("239.1.2.3", NULL), 0);
  while (eth_groups_due(groups) != UINT64_MAX) {
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  hear_v4("239.1.2.3", "11 0a 0000 ef010203 02 7d 0001 c0000201");
  hear_v4("239.1.2.3", "11 0a 0000 ef010203 02 7d 0001 c0000202");
  pass_until_due(SECOND);
  expect_v4("0000 0001 01 00 0002 ef010203 c0000201 c0000202");
  quiet();
  hear_v4("239.1.2.3", "11 0a 0000 ef010203 02 7d 0001 c0000201");
  hear_v4("239.1.2.3", "11 0a 0000 ef010203 02 7d 0000");
  pass_until_due(SECOND);
  expect_v4("0000 0001 02 00 0000 ef010203");
  quiet();
  hear_v4("224.0.0.1", "11 01 0000 00000000 02 7d 0000");
  const uint64_t due = eth_groups_due(groups);
  hear_v4("239.1.2.3", "11 ff 0000 ef010203 02 7d 0000"); /* later than the general answer */
  assert_true(eth_groups_due(groups) == due);
  now = due;
  expect_v4("0000 0001 02 00 0000 ef010203");
  quiet();
}

/* RFC 3376, section 4.1.1: (15 | 16) << (7 + 3) tenths of a second. */
static void long_delays_have_an_exponent(void **state)
{
  uint64_t longest = 0;

  (void)state;
  assert_int_equal(join("239.1.2.3", NULL), 0);
  now = eth_groups_due(groups);
  assert_non_null(next());
  now = eth_groups_due(groups);
  assert_non_null(next());
  for (uint32_t i = 0; i < 50; i++) {
    hear_v4("224.0.0.1", "11 ff 0000 00000000 02 7d 0000");
    const uint64_t wait = eth_groups_due(groups) - now;
    assert_true(wait <= 31744 * 100 * MS);
    longest = wait > longest ? wait : longest;
    now += wait;
    assert_non_null(next());
  }
  assert_true(longest > 1600 * SECOND);
}

static void an_older_querier_hears_its_own_version(void **state)
{
  struct eth_groups_counts counts;

  (void)state;
  hear_v4("224.0.0.1", "11 64 0000 00000000");
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  expect("232.1.2.3", 0x16, "e8010203");
  eth_groups_counts(groups, &counts);
  assert_int_equal(counts.igmp_version, 2);
  assert_int_equal(counts.mld_version, 2);
  pass_until_due(SECOND);
  expect("232.1.2.3", 0x16, "e8010203");
  quiet();
  hear_v4("224.0.0.1", "11 64 0000 00000000");
  pass_until_due(10 * SECOND);
  expect("232.1.2.3", 0x16, "e8010203");
  hear_v4("232.1.2.3", "11 0a 0000 e8010203");
  hear_v4("232.1.2.3", "16 00 0000 e8010203"); /* another member answers */
  quiet();
  assert_int_equal(leave("232.1.2.3", "192.0.2.1"), 0);
  expect("224.0.0.2", 0x17, "e8010203");
  quiet();
  hear_v4("224.0.0.1", "11 00 0000 00000000"); /* version 1 knows no leaving */
  assert_int_equal(join("239.1.2.3", NULL), 0);
  expect("239.1.2.3", 0x12, "ef010203");
  pass_until_due(SECOND);
  expect("239.1.2.3", 0x12, "ef010203");
  assert_int_equal(leave("239.1.2.3", NULL), 0);
  quiet();
  now += 261 * SECOND; /* the older ones are gone */
  assert_int_equal(join("239.1.2.3", NULL), 0);
  expect_v4("0000 0001 04 00 0000 ef010203");
}

/* RFC 3810, sections 5.2 and 6.1: from the link-local address, to ff02::16. */
static void mld_is_the_same_with_longer_addresses(void **state)
{
  (void)state;
  assert_int_equal(join("ff35::1:2", "2001:db8::1"), 0);
  expect_v6("0000 0001 05 00 0001 ff350000000000000000000000010002"
            "20010db8000000000000000000000001");
  assert_memory_equal(packet.from.address, AT("fe80::ff:fe00:a"), 16);
  assert_int_equal(frame[0], 0x33);
  assert_int_equal(frame[5], 0x16);
  pass_until_due(SECOND);
  assert_non_null(next());
  quiet();
  hear_v6("82 00 0000 03e8 0000 00000000000000000000000000000000 02 7d 0000");
  pass_until_due(SECOND);
  expect_v6("0000 0001 01 00 0001 ff350000000000000000000000010002"
            "20010db8000000000000000000000001");
  hear_v6("82 00 0000 03e8 0000 ff350000000000000000000000010002 02 7d 0001"
          "20010db8000000000000000000000001");
  pass_until_due(SECOND);
  expect_v6("0000 0001 01 00 0001 ff350000000000000000000000010002"
            "20010db8000000000000000000000001");
  quiet();
  hear_v6("82 00 0000 03e8 0000 00000000000000000000000000000000"); /* version 1 */
  pass_until_due(SECOND);
  expect("ff35::1:2", 131, "00000000 ff350000000000000000000000010002");
  assert_int_equal(leave("ff35::1:2", "2001:db8::1"), 0);
  expect("ff02::2", 132, "00000000 ff350000000000000000000000010002");
  quiet();
}

/* RFC 3810, section 6.2; lengths that do not add up, of both. */
static void queries_that_break_the_rules_are_refused(void **state)
{
  static const char general[] = "82 00 0000 03e8 0000 00000000000000000000000000000000 02 7d 0000";
  struct eth_groups_counts counts;

  (void)state;
  assert_int_equal(join("ff35::1:2", NULL), 0);
  assert_int_equal(join("239.1.2.3", NULL), 0);
  while (eth_groups_due(groups) != UINT64_MAX) {
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  assert_true(hear_v6_as("2001:db8::1", 1, true, general));
  assert_true(hear_v6_as("fe80::1", 2, true, general));
  assert_true(hear_v6_as("fe80::1", 1, false, general));
  hear_v6("82 00 0000 03e8 0000 00000000000000000000000000000000 02 7d");
  hear_v6("82 00 0000 03e8 0000 00000000000000000000000000000000 02 7d 0001");
  hear_v6("82 00 0000 03e8");
  hear_v4("224.0.0.1", "11 64 0000 00000000 02 7d");
  hear_v4("224.0.0.1", "11 64 0000 00000000 02 7d 0001");
  eth_groups_counts(groups, &counts);
  assert_int_equal(counts.refused, 8);
  assert_int_equal(counts.queries, 0);
  quiet();
  assert_false(hear_v6_as("fe80::1", 255, false, "87 00 0000 00000000")); /* ND is another's */
}

static void what_needs_no_report_has_none(void **state)
{
  static const char *const silent[] = {"224.0.0.1", "ff02::1", "ff01::5", "ff00::9"};

  (void)state;
  for (uint32_t i = 0; i < LENGTH(silent); i++)
    assert_int_equal(join(silent[i], NULL), 0);
  quiet();
  hear_v4("224.0.0.1", "11 0a 0000 00000000 02 7d 0000");
  hear_v6("82 00 0000 03e8 0000 00000000000000000000000000000000 02 7d 0000");
  now += 20 * SECOND;
  quiet();
  for (uint32_t i = 0; i < LENGTH(silent); i++)
    assert_int_equal(leave(silent[i], NULL), 0);
  quiet();
  assert_int_equal(join("10.0.0.1", NULL), -EINVAL);
  assert_int_equal(join("232.1.2.3", "232.1.2.4"), -EINVAL);
  assert_int_equal(join("232.1.2.3", "fd00::1"), -EINVAL);
  assert_int_equal(join("232.1.2.3", "0.0.0.0"), -EINVAL);
  assert_int_equal(leave("232.1.2.3", NULL), -ENOENT);
}

/* All groups with all their sources: several frames, none longer than it may be. */
static void long_answers_are_cut_into_frames(void **state)
{
  uint32_t records = 0, frames = 0;
  char group[32], source[32];

  (void)state;
  for (uint32_t i = 0; i < ETH_GROUPS_MAX; i++)
    for (uint32_t j = 0; j < ETH_SOURCES_MAX; j++) {
      snprintf(group, sizeof(group), "ff35::%x", i + 1);
      snprintf(source, sizeof(source), "2001:db8::%x", j + 1);
      assert_int_equal(join(group, source), 0);
    }
  assert_int_equal(join("ff35::1", "2001:db8::99"), -ENOSPC);
  assert_int_equal(join("ff35::999", NULL), -ENOSPC);
  while (next())
    records += eth_get16(frame + packet.offset + 6);
  assert_int_equal(records, ETH_GROUPS_MAX);
  while (eth_groups_due(groups) != UINT64_MAX) {
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  hear_v6("82 00 0000 03e8 0000 00000000000000000000000000000000 02 7d 0000");
  now += SECOND;
  for (records = 0; next(); frames++)
    records += eth_get16(frame + packet.offset + 6);
  assert_int_equal(records, ETH_GROUPS_MAX);
  assert_int_equal(frames, 16);
  quiet();
}

static void what_leaves_at_once_is_one_report_a_family(void **state)
{
  (void)state;
  assert_int_equal(join("239.1.2.3", NULL), 0);
  assert_int_equal(join("239.1.2.3", NULL), 0);
  assert_int_equal(join("232.1.2.3", "192.0.2.1"), 0);
  assert_int_equal(join("232.1.2.3", "192.0.2.2"), 0);
  assert_int_equal(join("ff35::1", NULL), 0);
  while (next())
    ;
  assert_int_equal(leave("239.1.2.3", NULL), 0);
  assert_int_equal(leave("239.1.2.3", NULL), 0);
  assert_int_equal(leave("232.1.2.3", "192.0.2.1"), 0);
  assert_int_equal(leave("232.1.2.3", "192.0.2.2"), 0);
  assert_int_equal(leave("ff35::1", NULL), 0);
  expect_v4("0000 0002 03 00 0000 ef010203 06 00 0002 e8010203 c0000201 c0000202");
  expect_v6("0000 0001 03 00 0000 ff350000000000000000000000000001");
  assert_null(next());
  while (eth_groups_due(groups) != UINT64_MAX) {
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  assert_int_equal(leave("239.1.2.3", NULL), -ENOENT);
}

/* A querier on a lossy link asks for more of them. */
static void robustness_is_the_queriers(void **state)
{
  uint32_t reports = 0;

  (void)state;
  hear_v4("224.0.0.1", "11 64 0000 00000000 05 7d 0000");
  now += 20 * SECOND;
  assert_null(next());
  assert_int_equal(join("239.1.2.3", NULL), 0);
  for (; eth_groups_due(groups) != UINT64_MAX; reports++) {
    now = eth_groups_due(groups);
    assert_non_null(next());
  }
  assert_int_equal(reports, 5);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_groups, close_groups)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(any_source_is_joined_and_left),
      CASE(one_source_is_allowed_and_blocked),
      CASE(joins_are_counted),
      CASE(modes_follow_the_joins),
      CASE(a_general_query_is_answered_after_a_while),
      CASE(a_query_for_a_group_is_answered_for_it),
      CASE(queries_that_overlap_have_one_answer),
      CASE(long_delays_have_an_exponent),
      CASE(an_older_querier_hears_its_own_version),
      CASE(mld_is_the_same_with_longer_addresses),
      CASE(queries_that_break_the_rules_are_refused),
      CASE(what_needs_no_report_has_none),
      CASE(long_answers_are_cut_into_frames),
      CASE(what_leaves_at_once_is_one_report_a_family),
      CASE(robustness_is_the_queriers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
