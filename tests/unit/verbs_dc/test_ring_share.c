/* SPDX-License-Identifier: Apache-2.0 */
/* How endpoints share the slots of a ring: no slot twice, none lost, none starved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ring_share.h"

#define PEERS 4u

static struct pst_ring ring;
static struct vb_rx rx[PEERS];
static struct dc_endpoint peers[PEERS];

static void open_ring(uint32_t slots, uint32_t endpoints, uint32_t endpoint_slots)
{
  ring = (struct pst_ring){
      .params = {.slots = slots, .endpoints = endpoints, .endpoint_slots = endpoint_slots},
      .free_count = slots,
      .idle = endpoints};
  for (uint32_t i = 0; i < PEERS; i++) {
    rx[i] = (struct vb_rx){.ring = &ring, .sends = true};
    peers[i] = (struct dc_endpoint){.endpoint.rx = &rx[i]};
  }
}

/* The peer sends so many, the host has them, and gives them back. */
static void arrive(uint32_t i, uint32_t n)
{
  assert_true(n <= rx[i].granted);
  rx[i].granted -= n;
  rx[i].out += n;
}
static void release(uint32_t i, uint32_t n)
{
  assert_true(n <= rx[i].out);
  rx[i].out -= n;
  rx[i].ungranted += n;
  dc_share_settle(&peers[i]);
}
static void grant(uint32_t i)
{
  const uint32_t more = dc_share_more(&peers[i]);

  if (more)
    dc_share_grant(&peers[i], more);
}

/* Each slot is somebody's or nobody's. */
static void all_are_there(uint32_t slots)
{
  uint32_t sum = ring.free_count;

  for (uint32_t i = 0; i < PEERS; i++)
    sum += rx[i].granted + rx[i].out + rx[i].ungranted;
  assert_int_equal(sum, slots);
}

static void streams_have_equal_shares(void **state)
{
  (void)state;
  open_ring(10, 4, 0);
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(dc_share_begin(&peers[i]), 0);
  for (uint32_t i = 0; i < 4; i++)
    assert_in_range(rx[i].granted, 2, 3);
  all_are_there(10);
  assert_int_equal(ring.free_count, 0);
  arrive(0, 2);
  grant(0);
  release(0, 2);
  grant(0);
  assert_int_equal(rx[0].granted, 3);
  all_are_there(10);
}

static void busy_peer_grows_and_leaves_one_for_each(void **state)
{
  (void)state;
  open_ring(16, 4, 16);
  for (uint32_t i = 0; i < 3; i++) /* the fourth is still to come */
    assert_int_equal(dc_share_begin(&peers[i]), 0);
  assert_int_equal(rx[0].granted, 1);
  for (uint32_t turn = 0; turn < 8; turn++) {
    arrive(0, rx[0].granted);
    grant(0);
  }
  /* 16 less one of each of the two others, and of the one to come. */
  assert_int_equal(rx[0].granted + rx[0].out, 13);
  assert_int_equal(dc_share_begin(&peers[3]), 0);
  assert_int_equal(rx[3].granted, 1);
  all_are_there(16);
}

static void slots_of_one_that_goes_are_the_others(void **state)
{
  (void)state;
  open_ring(8, 2, 8);
  assert_int_equal(dc_share_begin(&peers[0]), 0);
  assert_int_equal(dc_share_begin(&peers[1]), 0);
  arrive(0, rx[0].granted);
  grant(0);
  const uint32_t out = rx[0].out;
  dc_share_end(&peers[0]);
  rx[0] = (struct vb_rx){0};
  ring.free_count += out; /* as vb_release() does where the owner is gone */
  all_are_there(8);
  assert_int_equal(dc_share_begin(&peers[2]), 0);
  for (uint32_t turn = 0; turn < 8; turn++) {
    arrive(1, rx[1].granted);
    grant(1);
  }
  assert_int_equal(rx[1].granted + rx[1].out, 7);
  all_are_there(8);
}

static void ring_without_a_slot_left_refuses(void **state)
{
  (void)state;
  open_ring(2, 2, 0);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(dc_share_begin(&peers[i]), 0);
  assert_int_equal(dc_share_begin(&peers[2]), -ENOSPC);
  all_are_there(2);
  assert_int_equal(ring.open_count, 2);
}

int main(void)
{
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(streams_have_equal_shares),
      cmocka_unit_test(busy_peer_grows_and_leaves_one_for_each),
      cmocka_unit_test(slots_of_one_that_goes_are_the_others),
      cmocka_unit_test(ring_without_a_slot_left_refuses),
  };

  return cmocka_run_group_tests(cases, NULL, NULL) ? 1 : 0;
}
