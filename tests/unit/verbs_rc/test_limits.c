/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of devices of some sizes, and which of them bounds endpoints. */
#include <penstock/page.h>

#include "ops.h"
#include "support.h"

#define MOST (UINT32_C(1024) * 65535) /* endpoints of all workers */
#define OWN 44u                       /* of a queue: for credit, hellos, farewells and keepalives */

static struct pst_limits limits;

/* A device of one stream that does not say what it has, but for the depth of its queues. */
static int begin(void **state)
{
  (void)state;
  start_connection(1);
  device.attr.max_qp_wr = 1000 + OWN;
  device.attr.max_cq = 16;
  device.pieces_max = 30;
  device.plan = (struct pst_plan){.workers = 1, .senders = 1, .requests = 16};
  return 0;
}

static void ask(void)
{
  limits = (struct pst_limits){.struct_size = sizeof(limits)};
  assert_int_equal(rc_limits(&device, &limits), 0);
}

static void expect_endpoints(uint32_t most, const char *reason)
{
  ask();
  assert_int_equal(limits.device_endpoints_max, most);
  assert_int_equal(limits.endpoints_max, most < VB_PLACES ? most : VB_PLACES);
  assert_string_equal(limits.endpoints_reason, reason);
}

static void limits_of_messages_and_requests(void **state)
{
  (void)state;
  ask();
  assert_int_equal(limits.struct_size, sizeof(limits));
  assert_int_equal(limits.sequence_bits, 32);
  assert_int_equal(limits.capabilities, RC_CAPABILITIES);
  assert_int_equal(limits.message_max, 2048);
  assert_int_equal(limits.rma_max, 2048);
  assert_int_equal(limits.slot_alignment, 1);
  assert_int_equal(limits.slots_min, 1);
  assert_int_equal(limits.slots_max, 1000);
  assert_int_equal(limits.requests_max, 1000);
  assert_int_equal(limits.pieces_max, 30);
  assert_int_equal(limits.workers_max, 16);
  assert_int_equal(limits.ring_needs, PST_NEED_EXPORT_DMABUF);
  assert_int_equal(limits.send_needs, PST_NEED_EXPORT_DMABUF);
  assert_int_equal(limits.page_size, pst_page_size());
  assert_int_equal(limits.address_max, RC_BLOB_BYTES);
  assert_int_equal(limits.remote_max, VB_REMOTE_BYTES);
  assert_int_equal(limits.headroom + limits.tailroom + limits.send_headroom, 0);
  device.capabilities &= ~(uint64_t)PST_CAP_READ;
  ask();
  assert_int_equal(limits.rma_max, 0);
}

static void depths_of_queues_bound_slots_and_requests(void **state)
{
  static const struct {
    int depth;
    uint32_t slots, requests;
  } all[] = {{1, 1, 1},       {OWN, 1, 1},          {OWN + 1, 1, 1},
             {OWN + 2, 2, 2}, {32768, 32724, 2048}, {1 << 30, 1 << 22, 2048}};

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    device.attr.max_qp_wr = all[i].depth;
    ask();
    assert_int_equal(limits.slots_max, all[i].slots);
    assert_int_equal(limits.requests_max, all[i].requests);
  }
  device.attr.max_cq = 1 << 20;
  ask();
  assert_int_equal(limits.workers_max, 1024);
}

/* Slots are receives of a shared queue, which has credit's, hellos and farewells beside them. */
static void shared_receives_bound_slots(void **state)
{
  (void)state;
  device.shares = true;
  device.attr.max_srq_wr = 512;
  ask();
  assert_int_equal(limits.slots_max, 500);
  assert_int_equal(limits.requests_max, 1000);
}

static void a_device_that_does_not_say_bounds_nothing(void **state)
{
  (void)state;
  expect_endpoints(MOST, "");
  assert_int_equal(limits.domains_max, 0);
  device.attr.max_qp = -1;
  expect_endpoints(MOST, "");
}

static void queue_pairs_bound_endpoints(void **state)
{
  (void)state;
  device.attr.max_qp = 1000;
  expect_endpoints(1000, "max_qp is 1000, of which each takes 1");
  device.qps = 3;
  expect_endpoints(333, "max_qp is 1000, of which each takes 3");
  device.attr.max_qp = 2; /* it is for the device to refuse */
  expect_endpoints(1, "max_qp is 2, of which each takes 3");
  device.attr.max_qp = 1000;
  device.plan = (struct pst_plan){.rma = 1}; /* which several queue pairs are not for */
  expect_endpoints(1000, "max_qp is 1000, of which each takes 1");
  device.plan.receivers = 1;
  expect_endpoints(333, "max_qp is 1000, of which each takes 3");
}

static void registrations_do_not_bound_streams(void **state)
{
  (void)state;
  device.attr.max_qp = 1000;
  device.attr.max_mr = 2; /* which endpoints of streams share */
  expect_endpoints(1000, "max_qp is 1000, of which each takes 1");
}

static void protection_domains_are_peers(void **state)
{
  static const uint32_t most[] = {0, 1, 1, 2};

  (void)state;
  for (int i = 0; i < 4; i++) {
    device.attr.max_pd = i;
    ask();
    assert_int_equal(limits.domains_max, most[i]);
  }
  device.is_soft = true;
  ask();
  assert_int_equal(limits.domains_max, 2);
  device.shares = true; /* then all have the device's own */
  device.attr.max_srq_wr = 512;
  ask();
  assert_int_equal(limits.domains_max, 0);
}

/* Ten peers of 8 slots and 16 requests: 100 completions each. */
static void begin_peers(void)
{
  device.plan = (struct pst_plan){.flags = PST_PLAN_PEERS,
                                  .workers = 1,
                                  .rings = 10,
                                  .senders = 10,
                                  .receivers = 10,
                                  .rma = 10,
                                  .requests = 16,
                                  .ring_slots = 80};
}

static void peers_take_two_of_each(void **state)
{
  (void)state;
  begin_peers();
  expect_endpoints(MOST, "");
  device.attr.max_qp = 1000;
  expect_endpoints(500, "max_qp is 1000, of which each takes 2");
  device.attr.max_mr = 601;
  expect_endpoints(300, "max_mr is 601, of which each takes 2");
  device.attr.max_pd = 101;
  expect_endpoints(100, "max_pd is 101, of which each takes 1 and the device 1");
  assert_int_equal(limits.domains_max, 100);
  device.attr.max_pd = 1;
  expect_endpoints(1, "max_pd is 1, of which each takes 1 and the device 1");
  device.plan.flags = 0;
  device.attr.max_mr = 0;
  expect_endpoints(1000, "max_qp is 1000, of which each takes 1");
}

static void completions_bound_peers(void **state)
{
  (void)state;
  begin_peers();
  device.attr.max_cqe = 5050;
  expect_endpoints(50, "max_cqe is 5050, of which each takes 100");
  device.plan.requests = 1 << 20; /* as many as the queues have */
  expect_endpoints(4, "max_cqe is 5050, of which each takes 1084");
  begin_peers();
  device.plan.ring_slots = 1 << 20;
  expect_endpoints(4, "max_cqe is 5050, of which each takes 1092");
  begin_peers();
  device.qps = 2;
  expect_endpoints(39, "max_cqe is 5050, of which each takes 128");
  device.attr.max_qp = 100;
  expect_endpoints(25, "max_qp is 100, of which each takes 4");
  device.plan.flags = 0; /* streams' are not known before they are opened */
  device.attr.max_qp = 0;
  expect_endpoints(MOST, "");
}

static void shared_receives_bound_peers(void **state)
{
  (void)state;
  begin_peers();
  device.shares = true;
  device.attr.max_srq = 1;
  device.attr.max_srq_wr = 2012;
  expect_endpoints(51, "max_srq is 1 of max_srq_wr 2012, of which each takes 20 receives");
  device.attr.max_srq = 3; /* 1024, 2012, 2012 */
  expect_endpoints(251, "max_srq is 3 of max_srq_wr 2012, of which each takes 20 receives");
  device.attr.max_srq_wr = 205;
  expect_endpoints(30, "max_srq is 3 of max_srq_wr 205, of which each takes 20 receives");
  device.attr.max_cqe = 520; /* the buffers of credit are fewer, too */
  expect_endpoints(10, "max_cqe is 520, of which each takes 52");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(limits_of_messages_and_requests), CASE(depths_of_queues_bound_slots_and_requests),
      CASE(shared_receives_bound_slots),     CASE(a_device_that_does_not_say_bounds_nothing),
      CASE(queue_pairs_bound_endpoints),     CASE(registrations_do_not_bound_streams),
      CASE(protection_domains_are_peers),    CASE(peers_take_two_of_each),
      CASE(completions_bound_peers),         CASE(shared_receives_bound_peers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
