/* SPDX-License-Identifier: Apache-2.0 */
/* Several receivers at one address and UDP port: whose a frame is. */
#include "match.h"
#include "support.h"

enum { MOST = 4 };

static struct eth_match all[MOST];
static uint64_t now_ns;
static int lock;
static const int queues[MOST];

/* Receivers that know nothing of their senders and have met none. */
static void open_some(uint32_t count)
{
  const struct dg_source at = end_of("192.0.2.1", 0);

  memset(all, 0, sizeof(all));
  for (uint32_t i = 0; i < count; i++) {
    memcpy(all[i].at, at.address, sizeof(all[i].at));
    all[i].next = i + 1 < count ? &all[i + 1] : NULL;
  }
  now_ns = 1000000000;
}

static void meet(uint32_t i, enum dg_framing framing, const char *address, uint16_t port)
{
  struct dg_flow_params wants = {.framing = framing, .payload_type = -1};

  if (address) {
    wants.source = end_of(address, port);
    wants.address_is_fixed = true;
    wants.port_is_fixed = port != 0;
  }
  eth_match_meet(&all[i], &wants);
}

/* The number of who has a frame; -1: nobody. */
static int find_by(const char *address, uint16_t port, const void *queue)
{
  const struct dg_source to = end_of("192.0.2.1", 5004), from = end_of(address, port);
  const struct eth_match *found = eth_match_find(all, to.address, &from, queue, now_ns, &lock);

  assert_int_equal(lock, 0);
  return found ? (int)(found - all) : -1;
}

static int find(const char *address, uint16_t port)
{
  return find_by(address, port, NULL);
}

static void one_has_all_and_other_addresses_nobody(void **state)
{
  const struct dg_source from = end_of("192.0.2.9", 1), to = end_of("192.0.2.2", 5004);

  (void)state;
  open_some(1);
  assert_int_equal(find("192.0.2.9", 1), 0);
  assert_null(eth_match_find(all, to.address, &from, NULL, now_ns, &lock));
  assert_null(eth_match_find(NULL, to.address, &from, NULL, now_ns, &lock));
}

static void senders_are_told_apart_by_address_and_port(void **state)
{
  (void)state;
  open_some(3);
  meet(0, DG_FRAMING_RTP, "192.0.2.9", 1000);
  meet(1, DG_FRAMING_RTP, "192.0.2.9", 1001);
  meet(2, DG_FRAMING_NONE, "192.0.2.8", 0);
  assert_int_equal(find("192.0.2.9", 1001), 1);
  assert_int_equal(find("192.0.2.9", 1000), 0);
  assert_int_equal(find("192.0.2.8", 1000), 2);
  assert_int_equal(find("192.0.2.7", 1000), 0); /* who counts it as another's */
}

static void a_penstock_has_what_its_sender_sends(void **state)
{
  struct dg_flow_params wants = {.framing = DG_FRAMING_SEQUENCE, .numbered = true};

  (void)state;
  open_some(3);
  meet(0, DG_FRAMING_SEQUENCE, NULL, 0);
  wants.port_is_fixed = true;
  wants.source.port = 4000;
  wants.host_count = 1;
  memcpy(wants.hosts[0], end_of("192.0.2.9", 0).address, 16);
  eth_match_meet(&all[1], &wants);
  memcpy(wants.hosts[0], end_of("192.0.2.8", 0).address, 16);
  eth_match_meet(&all[2], &wants);
  assert_int_equal(find("192.0.2.9", 4000), 1);
  assert_int_equal(find("192.0.2.8", 4000), 2);
  assert_int_equal(find("192.0.2.9", 4001), 0);
}

static void each_follows_the_first_that_nobody_follows(void **state)
{
  (void)state;
  open_some(3);
  meet(1, DG_FRAMING_RTP, NULL, 0);
  meet(2, DG_FRAMING_RTP, NULL, 0);
  assert_int_equal(find("192.0.2.9", 1), 1);
  assert_int_equal(find("192.0.2.8", 1), 2);
  assert_int_equal(find("192.0.2.9", 1), 1);
  assert_int_equal(find("192.0.2.8", 1), 2);
  assert_int_equal(find("192.0.2.7", 1), 0); /* the one that has not met its peer drops it */
  meet(0, DG_FRAMING_RTP, NULL, 0);
  assert_int_equal(find("192.0.2.7", 1), 0);
  assert_int_equal(find("192.0.2.8", 1), 2);
}

static void who_names_the_sender_goes_first(void **state)
{
  (void)state;
  open_some(3);
  meet(0, DG_FRAMING_RTP, NULL, 0);
  meet(1, DG_FRAMING_RTP, "192.0.2.9", 0);
  meet(2, DG_FRAMING_NONE, NULL, 0);
  assert_int_equal(find("192.0.2.9", 1), 1);
  assert_int_equal(find("192.0.2.9", 2), 1); /* whoever sends from there */
  assert_int_equal(find("192.0.2.8", 1), 0);
  assert_int_equal(find("192.0.2.8", 2), 2); /* which takes all */
}

/* A host with two senders is booted anew: both have other ports. */
static void senders_that_start_anew_are_followed_again(void **state)
{
  (void)state;
  open_some(2);
  meet(0, DG_FRAMING_RTP, NULL, 0);
  meet(1, DG_FRAMING_RTP, NULL, 0);
  assert_int_equal(find("192.0.2.9", 1), 0);
  now_ns += 1000;
  assert_int_equal(find("192.0.2.9", 2), 1);
  assert_int_equal(find("192.0.2.9", 3), 0); /* the one that has heard nothing for longest */
  now_ns += 1000;
  assert_int_equal(find("192.0.2.9", 1), 0);
  assert_int_equal(find("192.0.2.9", 3), 1);
  now_ns += DG_SILENCE_MAX_NS;
  assert_int_equal(find("192.0.2.9", 3), 1);
  assert_int_equal(find("192.0.2.9", 4), 0);
  for (int i = 0; i < 3; i++) {
    now_ns += 1000000;
    assert_int_equal(find("192.0.2.9", 4), 0);
    assert_int_equal(find("192.0.2.9", 3), 1);
  }
}

static void by_rss_the_owner_of_the_queue_has_it(void **state)
{
  (void)state;
  open_some(4);
  for (uint32_t i = 0; i < 4; i++) {
    all[i].queue = &queues[i];
    meet(i, i < 2 ? DG_FRAMING_RTP : DG_FRAMING_NONE, i < 2 ? "192.0.2.9" : NULL, 0);
  }
  assert_int_equal(find_by("192.0.2.9", 1, &queues[1]), 1);
  assert_int_equal(find_by("192.0.2.9", 1, &queues[0]), 1);
  assert_int_equal(find_by("192.0.2.9", 2, &queues[1]), 0);
  for (uint16_t port = 1; port < 20; port++) {
    assert_int_equal(find_by("192.0.2.8", port, &queues[3]), 3);
    assert_int_equal(find_by("192.0.2.8", port, &queues[2]), 2);
  }
}

/* As many senders as there are: each is whole, and each receiver has some. */
static void without_rss_a_hash_spreads_senders(void **state)
{
  uint32_t had[MOST] = {0};

  (void)state;
  open_some(4);
  for (uint32_t i = 0; i < 4; i++) {
    all[i].queue = &queues[0]; /* of a ring that they share */
    meet(i, DG_FRAMING_NONE, NULL, 0);
  }
  for (uint16_t port = 4000; port < 4100; port++) {
    const int first = find_by("192.0.2.9", port, &queues[0]);
    assert_int_equal(find_by("192.0.2.9", port, &queues[0]), first);
    had[first]++;
  }
  for (uint32_t i = 0; i < 4; i++)
    assert_in_range(had[i], 10, 40);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_has_all_and_other_addresses_nobody),
      cmocka_unit_test(senders_are_told_apart_by_address_and_port),
      cmocka_unit_test(a_penstock_has_what_its_sender_sends),
      cmocka_unit_test(each_follows_the_first_that_nobody_follows),
      cmocka_unit_test(who_names_the_sender_goes_first),
      cmocka_unit_test(senders_that_start_anew_are_followed_again),
      cmocka_unit_test(by_rss_the_owner_of_the_queue_has_it),
      cmocka_unit_test(without_rss_a_hash_spreads_senders),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
