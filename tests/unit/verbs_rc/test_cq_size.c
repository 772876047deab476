/* SPDX-License-Identifier: Apache-2.0 */
/* How much room a worker's completion queue begins with, and what all that is planned would need.
 */
#include "qp.h"
#include "support.h"

/* Sizes for an endpoint with 2000 requests and 8 slots. */
#define SENDER 2044u
#define RECEIVER 2052u
#define RMA 2012u
#define PEER 2084u

/* Ten senders and twenty receivers, on one worker. */
static int begin(void **state)
{
  (void)state;
  start_connection(1);
  device.attr.max_cqe = 1 << 22;
  device.plan = (struct pst_plan){.workers = 1,
                                  .rings = 20,
                                  .senders = 10,
                                  .receivers = 20,
                                  .requests = 2000,
                                  .ring_slots = 160};
  return 0;
}

static void expect_planned(uint32_t first, uint32_t all)
{
  const struct vb_planned planned = rc_cq_size_completions(&device);

  assert_int_equal(planned.first, first);
  assert_int_equal(planned.all, all);
}

static void all_endpoints_have_room(void **state)
{
  const uint32_t all = 10 * SENDER + 20 * RECEIVER;

  (void)state;
  expect_planned(all, all);
  device.plan.rma = 5;
  expect_planned(all + 5 * RMA, all + 5 * RMA);
  device.plan.rma = 0;
  device.plan.ring_slots = 161; /* the largest share is the one that counts */
  expect_planned(all + 20, all + 20);
  device.plan.ring_slots = 160;
  device.plan.requests = 1 << 20; /* an endpoint has no more than 2048 */
  expect_planned(all + 30 * 48, all + 30 * 48);
}

static void workers_have_a_part_each(void **state)
{
  const uint32_t all = 10 * SENDER + 20 * RECEIVER;

  (void)state;
  device.plan.workers = 4;
  expect_planned(all / 4, all);
  device.plan.workers = 1000; /* a sender and a receiver at least */
  expect_planned(SENDER + RECEIVER, all);
  device.plan.senders = 0;
  expect_planned(RECEIVER, 20 * RECEIVER);
}

static void little_is_rounded_up(void **state)
{
  (void)state;
  device.plan = (struct pst_plan){.senders = 1, .requests = 16};
  expect_planned(1024, 1024);
  device.plan = (struct pst_plan){0};
  expect_planned(1024, 1024);
}

static void a_device_has_no_more_than_it_says(void **state)
{
  (void)state;
  device.attr.max_cqe = 5000;
  expect_planned(5000, 5000);
  device.plan.workers = 30;
  expect_planned(SENDER + RECEIVER, 5000);
  device.attr.max_cqe = 100;
  expect_planned(100, 100);
}

static void several_queue_pairs_have_more(void **state)
{
  (void)state;
  device.qps = 2;
  device.plan.receivers = 0;
  /* The second has half of the requests, a turn more, a hello, a farewell and a late one. */
  expect_planned(10 * (SENDER + 1000 + 32 + 3 + 4), 10 * (SENDER + 1000 + 32 + 3 + 4));
  device.plan.senders = 0;
  device.plan.rma = 3; /* which have one each */
  expect_planned(3 * RMA, 3 * RMA);
}

/* They may never come. */
static void peers_begin_with_less(void **state)
{
  (void)state;
  device.plan.flags = PST_PLAN_PEERS;
  expect_planned(16384, 20 * PEER);
  device.plan.rings = 4;
  device.plan.ring_slots = 32;
  expect_planned(4 * PEER, 4 * PEER);
  device.plan.rings = 0; /* they have none: as without the flag, but bounded */
  device.plan.ring_slots = 0;
  device.plan.receivers = 0;
  expect_planned(16384, 10 * SENDER);
}

static void shared_slots_are_counted_once_more(void **state)
{
  (void)state;
  device.shares = true;
  device.plan.requests = 16;
  device.plan.senders = device.plan.receivers = device.plan.rings = 100;
  device.plan.ring_slots = 800;
  expect_planned(100 * (36 + 44), 100 * (36 + 44));
  device.sends = true; /* slots of all endpoints lie in one queue */
  expect_planned(100 * (36 + 41) + 800, 100 * (36 + 41) + 800);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(all_endpoints_have_room),
      CASE(workers_have_a_part_each),
      CASE(little_is_rounded_up),
      CASE(a_device_has_no_more_than_it_says),
      CASE(several_queue_pairs_have_more),
      CASE(peers_begin_with_less),
      CASE(shared_slots_are_counted_once_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
