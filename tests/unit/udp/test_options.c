/* SPDX-License-Identifier: Apache-2.0 */
/* The description's checks of option values, without a machine. */
#include "support.h"

#include <stdio.h>

static char reported[512]; /* "OPTION: TEXT\n" each */

static void PST_PRINTF(3, 4)
    report(const struct pst_check *check, const char *option, const char *format, ...)
{
  size_t used = strlen(reported);
  va_list args;
  (void)check;
  used += (size_t)snprintf(reported + used, sizeof(reported) - used, "%s: ", option);
  va_start(args, format);
  used += (size_t)vsnprintf(reported + used, sizeof(reported) - used, format, args);
  va_end(args);
  snprintf(reported + used, sizeof(reported) - used, "\n");
}

static struct pst_facts check(uint32_t side, uint32_t flags, const struct fake_option *options)
{
  const struct pst_check what = {.struct_size = sizeof(what),
                                 .side = side,
                                 .flags = flags,
                                 .options = FAKE_OPTIONS(options),
                                 .option_uint = fake_host.option_uint,
                                 .option_string = fake_host.option_string,
                                 .report = report};
  struct pst_facts facts = {.struct_size = sizeof(facts)};
  reported[0] = '\0';
  pst_description_v1.description->check(&what, &facts);
  return facts;
}

#define SENDER PST_SCOPE_SENDER
#define RECEIVER PST_SCOPE_RECEIVER

static void good(uint32_t side, uint32_t flags, const struct fake_option *options)
{
  check(side, flags, options);
  assert_string_equal(reported, "");
}

/* Exactly one report, which begins so. */
static void wrong(uint32_t side, uint32_t flags, const struct fake_option *options,
                  const char *begins)
{
  check(side, flags, options);
  if (strncmp(reported, begins, strlen(begins)) != 0 ||
      strchr(reported, '\n') != reported + strlen(reported) - 1)
    fail_msg("\"%s\" is not the one report of: %s", begins, reported);
}

static void addresses_are_numbers(void **state)
{
  (void)state;
  good(SENDER, 0, LIST({"to", "192.0.2.7:5004"}));
  good(SENDER, 0, LIST({"to", "[2001:db8::7%eth0]:5004"}));
  wrong(SENDER, 0, LIST({"to", "camera:5004"}), "to: \"camera:5004\" is not an address; ");
  wrong(RECEIVER, 0, LIST({"group", "239.1.2"}), "group: \"239.1.2\" is not an address; ");
  wrong(RECEIVER, 0, LIST({"source", "x"}), "source: \"x\" is not an address; ");
  good(RECEIVER, 0, LIST({"to", "x"})); /* not this side's */
}

static void group_is_multicast_and_hosts_are_not(void **state)
{
  (void)state;
  good(RECEIVER, 0, LIST({"group", "239.1.2.3"}));
  good(RECEIVER, 0, LIST({"group", "ff15::1"}));
  wrong(RECEIVER, 0, LIST({"group", "192.0.2.1"}), "group: not a multicast address");
  wrong(RECEIVER, 0, LIST({"source", "239.1.2.3"}),
        "source: a multicast address is not an address of a host");
  wrong(RECEIVER, 0, LIST({"source", "0.0.0.0"}),
        "source: 0.0.0.0 and :: are not addresses of a host");
  wrong(SENDER, 0, LIST({"device", "ff15::1"}),
        "device: a multicast address is not an address of a host");
  wrong(SENDER, 0, LIST({"device", "::"}), "device: 0.0.0.0 and :: are not addresses of a host");
  good(SENDER, 0, LIST({"device", "any"}));
  good(SENDER, 0, LIST({"to", "239.1.2.3:5004"}));
}

static void families_are_one(void **state)
{
  (void)state;
  wrong(SENDER, 0, LIST({"to", "192.0.2.7"}, {"device", "2001:db8::1"}),
        "to: IPv4 here, and `device` is IPv6; make both the same");
  wrong(SENDER, 0, LIST({"to", "192.0.2.7"}, {"family", "ipv6"}),
        "to: IPv4 here, and `family` is IPv6");
  wrong(RECEIVER, 0, LIST({"group", "239.1.2.3"}, {"source", "2001:db8::1"}),
        "source: IPv6 here, and `group` is IPv4");
  good(SENDER, 0, LIST({"to", "192.0.2.7"}, {"device", "eth0"}));
}

static void foreign_sender_needs_a_destination_and_its_port(void **state)
{
  const uint32_t opens = PST_CHECK_FOREIGN | PST_CHECK_OPENS;

  (void)state;
  wrong(SENDER, opens, LIST(), "to: with `control: none` a sender needs a destination");
  good(SENDER, PST_CHECK_FOREIGN, LIST()); /* the file may leave it to the other end's user */
  good(SENDER, PST_CHECK_OPENS, LIST());
  good(RECEIVER, opens, LIST());
  wrong(SENDER, PST_CHECK_FOREIGN, LIST({"to", "192.0.2.7"}), "to: no port; ");
  good(SENDER, opens, LIST({"to", "192.0.2.7:5004"}));
}

static void expect_takes(uint32_t side, uint32_t flags, const struct fake_option *options,
                         const char *takes, const char *meets)
{
  struct pst_facts facts = check(side, flags, options);
  assert_string_equal(facts.takes, takes);
  assert_string_equal(facts.meets, meets);
  assert_string_equal(facts.takes_option, side == RECEIVER ? "port" : "source_port");
}

/* No two sockets of a host may have the same, nor one a part of the other's. */
static void port_is_taken_with_what_it_is_bound_to(void **state)
{
  const uint32_t foreign = PST_CHECK_FOREIGN;

  (void)state;
  expect_takes(RECEIVER, foreign, LIST({"port", "5004"}), "UDP port 5004 of IPv4", "");
  expect_takes(RECEIVER, foreign, LIST({"port", "5004"}, {"family", "ipv6"}),
               "UDP port 5004 of IPv6", "");
  expect_takes(RECEIVER, foreign, LIST({"port", "5004"}, {"device", "192.0.2.1"}),
               "UDP port 5004 of IPv4/192.0.2.1", "192.0.2.1");
  expect_takes(RECEIVER, foreign, LIST({"port", "5004"}, {"device", "eth0"}),
               "UDP port 5004 of interface/eth0", "");
  expect_takes(RECEIVER, foreign, LIST({"port", "5004"}, {"device", "any"}),
               "UDP port 5004 of IPv4", "");
  expect_takes(RECEIVER, 0, LIST({"port", "5004"}), "UDP port 5004 of IPv4/127.0.0.1", "127.0.0.1");
  expect_takes(RECEIVER, 0, LIST({"port", "5004"}, {"family", "ipv6"}), "UDP port 5004 of IPv6/::1",
               "::1");
  expect_takes(RECEIVER, PST_CHECK_APART, LIST({"port", "5004"}),
               "UDP port 5004 of IPv4/the address of control", "");
  expect_takes(RECEIVER, 0, LIST(), "", "127.0.0.1"); /* the kernel chooses the port */
  expect_takes(SENDER, 0, LIST({"source_port", "99"}), "UDP port 99 of IPv4", "");
}

static void group_is_shared_and_both_ends_meet_there(void **state)
{
  struct pst_facts facts;

  (void)state;
  facts = check(RECEIVER, 0, LIST({"port", "5004"}, {"group", "ff15::1"}));
  assert_string_equal(facts.takes, "UDP port 5004 of IPv6/ff15::1");
  assert_true(facts.flags & PST_FACTS_SHARES);
  assert_string_equal(facts.meets, "ff15::1");
  assert_string_equal(facts.meets_option, "group");
  facts = check(RECEIVER, 0, LIST({"port", "5004"}, {"group", "ff15::1%eth0"}));
  assert_string_equal(facts.takes, "UDP port 5004 of IPv6/ff15::1%eth0");
  assert_string_equal(facts.meets, "ff15::1"); /* a zone is this host's word */
  facts = check(SENDER, 0, LIST({"to", "[ff15::1%eth0]:5004"}));
  assert_false(facts.flags & PST_FACTS_SHARES);
  assert_string_equal(facts.meets, "ff15::1");
  assert_string_equal(facts.meets_option, "to");
}

static void facts_follow_framing_and_timestamps(void **state)
{
  struct pst_facts facts = check(RECEIVER, 0, LIST());

  (void)state;
  assert_int_equal(facts.message_max, 65507 - 16);
  assert_int_equal(facts.lacks, ~(uint64_t)UDP_CAPABILITIES);
  assert_false(facts.flags & PST_FACTS_PROTOCOL_META);
  facts = check(RECEIVER, 0, LIST({"framing", "rtp"}, {"timestamps", "off"}));
  assert_int_equal(facts.message_max, 65507 - 24);
  assert_true(facts.flags & PST_FACTS_PROTOCOL_META);
  assert_int_equal(facts.lacks, ~(uint64_t)UDP_CAPABILITIES | PST_CAP_TIME);
  facts = check(RECEIVER, 0, LIST({"framing", "none"}));
  assert_int_equal(facts.message_max, 65507);
  assert_int_equal(facts.lacks, ~(uint64_t)UDP_CAPABILITIES | PST_CAP_SEQUENCE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(addresses_are_numbers),
      cmocka_unit_test(group_is_multicast_and_hosts_are_not),
      cmocka_unit_test(families_are_one),
      cmocka_unit_test(foreign_sender_needs_a_destination_and_its_port),
      cmocka_unit_test(port_is_taken_with_what_it_is_bound_to),
      cmocka_unit_test(group_is_shared_and_both_ends_meet_there),
      cmocka_unit_test(facts_follow_framing_and_timestamps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
