/* SPDX-License-Identifier: Apache-2.0 */
/* How ends meet: which addresses are refused, who says hello, and when an end is connected. */
#include <endian.h>

#include "connection.h"
#include "ops.h"
#include "support.h"

static struct pst_host host;
static struct rc_blob peer;
static struct pst_endpoint second;
static struct rc_connection second_connection;
static uint32_t deferred, erred;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
  (void)qp;
  assert_int_equal(mask, IBV_QP_STATE);
  assert_int_equal(attr->qp_state, IBV_QPS_ERR);
  erred++;
  return 0;
}

/* The first reads counters. The other would set queue pairs up, and is left alone. */
static int defer(const struct pst_host *of, const void *key, void (*work)(void *), void *arg)
{
  (void)of;
  assert_ptr_equal(key, &endpoint);
  if (deferred++ == 0)
    work(arg);
  return 0;
}

/* An end that sends and receives by two queue pairs, and the address of a peer that fits. */
static int begin(void **state)
{
  (void)state;
  start_connection(2);
  host = *device.host;
  host.defer = defer;
  device.host = &host;
  deferred = erred = 0;
  free(tx.credits.at); /* which come with the peer's address */
  tx.credits = (struct vb_slot_fifo){0};
  endpoint.closing.deadline_ns = VB_NEVER;
  endpoint.message_max = 2048;
  endpoint.is_connected = false;
  connection.stage = (struct rc_stage){.name = RC_NEW, .connecting.by_ns = VB_NEVER};
  connection.own = (struct rc_blob){.is_ethernet = true,
                                    .gid_type = VB_GID_ROCE_V2,
                                    .mtu = IBV_MTU_1024,
                                    .gid = {[10] = 0xff, 0xff, 10, 0, 0, 1},
                                    .is_sender = true,
                                    .is_receiver = true,
                                    .lanes = 2,
                                    .qps = {{100, 1}, {101, 2}},
                                    .control_receives = 32,
                                    .control_bytes = 64,
                                    .address = 4096,
                                    .rkey = 9,
                                    .stride = 512,
                                    .payload_max = 500,
                                    .slots = 16,
                                    .share = 8,
                                    .run_count = 2,
                                    .runs = {{4, 3}, {12, 4}}};
  peer = connection.own;
  peer.gid[15] = 2;
  peer.qps[0].qpn = 200;
  for (uint32_t i = 0; i < 2; i++) {
    connection.lanes[i].is_erred = false;
    connection.lanes[i].sets_up = true;
  }
  assert_int_equal(pst_places_take(&worker.endpoints, &endpoint, VB_PLACES, &endpoint.place), 0);
  return 0;
}

static int end(void **state)
{
  rc_counter_baseline_end(&endpoint);
  free(worker.endpoints.all);
  worker.endpoints = (struct pst_places){0};
  return stop_support(state);
}

static int connect_to(const struct rc_blob *to)
{
  uint8_t bytes[RC_BLOB_BYTES];
  const struct pst_blob blob = {.bytes = bytes, .length = sizeof(bytes)};

  rc_blob_write(to, bytes);
  return rc_endpoint_connect(&endpoint, &blob);
}

/* ---- Addresses --------------------------------------------------------------------------- */

static void an_address_gives_what_is_sent_to(void **state)
{
  (void)state;
  endpoint.timeout_ns = 1000;
  assert_int_equal(connect_to(&peer), 0);
  assert_int_equal(connection.stage.name, RC_SETTING_UP);
  assert_int_equal(connection.setup, 1);
  assert_int_equal(deferred, 2);
  assert_int_equal(connection.stage.connecting.by_ns, fake_clock_ns + 1000);
  assert_int_equal(worker.soonest_ns, fake_clock_ns + 1000);
  assert_int_equal(tx.address, 4096);
  assert_int_equal(tx.rkey, 9);
  assert_int_equal(tx.stride, 512);
  assert_int_equal(tx.slots, 16);
  assert_int_equal(tx.message_max, 500); /* what its slots hold */
  assert_int_equal(tx.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  assert_int_equal(tx.credits.count, 7);
  assert_int_equal(vb_slot_fifo_get(&tx.credits), 4);
  assert_string_equal(fake_log(), "");
  assert_int_equal(connect_to(&peer), -EALREADY);
}

static void addresses_that_do_not_fit_are_refused(void **state)
{
  struct {
    bool *what;
    int rc;
    const char *why;
  } all[] = {{&peer.is_sender, -EPROTO, "does not receive, or sends, too"},
             {&peer.is_receiver, -EPROTO, "does not receive, or sends, too"},
             {&peer.sends, -EPROTO, "the peer has `operation: send`, and this end write"},
             {&peer.is_split, -EPROTO, "both ends need a domain, or neither"},
             {&peer.is_ethernet, -EXDEV, "one end is on Ethernet (RoCE), the other on InfiniBand"}};

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    fake_log_clear();
    *all[i].what = !*all[i].what;
    assert_int_equal(connect_to(&peer), all[i].rc);
    assert_non_null(strstr(fake_log(), all[i].why));
    *all[i].what = !*all[i].what;
  }
  peer.is_cm = true;
  peer.cm_port = 1;
  assert_int_equal(connect_to(&peer), -EPROTO);
  assert_non_null(strstr(fake_log(), "the peer has `connection: rdma_cm`, and this end exchange"));
  peer.is_cm = false;
  peer.lanes = 3;
  assert_int_equal(connect_to(&peer), -EPROTO);
  assert_non_null(strstr(fake_log(), "the peer has `qps: 3`, and this end 2"));
  peer.lanes = 2;
  peer.gid_type = VB_GID_ROCE_V1;
  assert_int_equal(connect_to(&peer), -EXDEV);
  peer.gid_type = VB_GID_ROCE_V2;
  peer.gid[0] = 0xfd; /* IPv6 */
  assert_int_equal(connect_to(&peer), -EXDEV);
  assert_non_null(strstr(fake_log(), "ours is of the other version of IP"));
  peer.mtu = 0;
  assert_int_equal(connect_to(&peer), -EPROTO);
  assert_non_null(strstr(fake_log(), "it is not one of verbs_rc's"));
  assert_int_equal(rc_endpoint_connect(&endpoint, NULL), -EINVAL);
  assert_int_equal(connection.stage.name, RC_NEW); /* it may still connect */
  assert_int_equal(deferred, 0);
}

/* Its packets have no IP. */
static void roce_v1_goes_by_any_gid(void **state)
{
  (void)state;
  connection.own.gid_type = peer.gid_type = VB_GID_ROCE_V1;
  peer.gid[0] = 0xfd;
  assert_int_equal(connect_to(&peer), 0);
}

static void who_closes_does_not_connect(void **state)
{
  (void)state;
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  assert_int_equal(connect_to(&peer), -EALREADY);
  assert_int_equal(deferred, 0);
}

static void one_end_with_reconnect_is_a_warning(void **state)
{
  (void)state;
  peer.reconnects = true;
  assert_int_equal(connect_to(&peer), 0);
  assert_non_null(strstr(fake_log(), "1 camera: the peer has `reconnect`, and this end does not"));
}

/* The peer's queue pair would never answer the second. */
static void a_receiver_is_connected_to_once(void **state)
{
  (void)state;
  second = endpoint;
  second_connection = (struct rc_connection){.stage.name = RC_CONNECTED, .peer = peer};
  second.rc = &second_connection;
  assert_int_equal(pst_places_take(&worker.endpoints, &second, VB_PLACES, &second.place), 0);
  assert_int_equal(connect_to(&peer), 0);
  assert_int_equal(connection.stage.name, RC_FAILED);
  assert_int_equal(connection.stage.over.status, -EADDRINUSE);
  assert_non_null(strstr(fake_log(), "connects to the same receiver already"));
}

static void a_connection_that_is_over_takes_no_receiver(void **state)
{
  (void)state;
  second = endpoint;
  second_connection = (struct rc_connection){.stage.name = RC_LEFT, .peer = peer};
  second.rc = &second_connection;
  assert_int_equal(pst_places_take(&worker.endpoints, &second, VB_PLACES, &second.place), 0);
  assert_int_equal(connect_to(&peer), 0);
  assert_int_equal(connection.stage.name, RC_SETTING_UP);
}

/* ---- Hellos ------------------------------------------------------------------------------ */

static void one_of_both_says_hello(void **state)
{
  (void)state;
  connection.peer = peer;
  assert_true(rc_says_hello(&endpoint)); /* the lower GID */
  connection.own.gid[15] = 3;
  assert_false(rc_says_hello(&endpoint));
  connection.peer.gid[15] = 3;
  assert_true(rc_says_hello(&endpoint)); /* of one GID, the lower number */
  connection.own.qps[0].qpn = 201;
  assert_false(rc_says_hello(&endpoint));
  connection.cm = (struct rc_cm *)(void *)&deferred;
  assert_false(rc_says_hello(&endpoint)); /* both send */
  connection.own.is_receiver = false;
  assert_true(rc_says_hello(&endpoint)); /* by rdma_cm who sends */
}

static void set_up(int rc)
{
  connection.stage = (struct rc_stage){.name = RC_SETTING_UP};
  connection.peer = peer;
  connection.setup = 2;
  connection.setup_rc = rc;
}

static void hellos_go_once_all_is_set_up(void **state)
{
  (void)state;
  set_up(0);
  connection.lanes[0].sets_up = false; /* it was greeted before */
  rc_greet(&endpoint);
  assert_int_equal(connection.stage.name, RC_GREETING);
  assert_int_equal(connection.setup, 0);
  assert_int_equal(posted_count, 1);
  assert_int_equal(posted[0].lane, 1);
  assert_true(rc_is_hello(be32toh(posted[0].wr.imm_data)));
  assert_false(connection.lanes[1].sets_up);
  set_up(0);
  peer.gid[15] = 0; /* the peer is the one to say it */
  connection.peer = peer;
  connection.lanes[0].sets_up = true;
  rc_greet(&endpoint);
  assert_int_equal(posted_count, 1);
  assert_false(connection.lanes[0].sets_up);
}

static void a_failed_set_up_fails_the_connection(void **state)
{
  (void)state;
  set_up(EADDRNOTAVAIL);
  rc_greet(&endpoint);
  assert_int_equal(connection.stage.name, RC_FAILED);
  assert_int_equal(connection.stage.over.status, -EADDRNOTAVAIL);
  assert_non_null(strstr(fake_log(), "the port's GID has changed since the peer got its address"));
  assert_int_equal(posted_count, 0);
  assert_int_equal(erred, 2);
}

static void who_closes_says_no_hello(void **state)
{
  (void)state;
  set_up(0);
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  rc_greet(&endpoint);
  assert_int_equal(posted_count, 0);
  assert_int_equal(connection.stage.name, RC_SETTING_UP);
}

static void it_is_connected_once_all_queue_pairs_are_heard(void **state)
{
  (void)state;
  set_up(0);
  rc_greet(&endpoint);
  rc_lane_heard(&endpoint, &connection.lanes[1]);
  rc_lane_heard(&endpoint, &connection.lanes[1]);
  assert_int_equal(connection.stage.name, RC_GREETING);
  assert_false(endpoint.tell_connected);
  rc_lane_heard(&endpoint, &connection.lanes[0]);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
  assert_true(endpoint.tell_connected && endpoint.is_connected);
  assert_ptr_equal(worker.pending, &endpoint);
  endpoint.tell_connected = false;
  rc_lane_heard(&endpoint, &connection.lanes[0]);
  assert_false(endpoint.tell_connected); /* once */
}

/* The peer's hellos may be here while the deferred work still goes on. */
static void a_hello_that_comes_early_is_kept(void **state)
{
  (void)state;
  set_up(0);
  for (uint32_t i = 0; i < 2; i++)
    rc_lane_heard(&endpoint, &connection.lanes[i]);
  assert_int_equal(connection.stage.name, RC_SETTING_UP);
  rc_greet(&endpoint);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
  assert_true(endpoint.tell_connected);
}

static void a_hello_is_said_again_once_all_is_flushed(void **state)
{
  (void)state;
  set_up(0);
  connection.setup = 0;
  connection.stage.name = RC_GREETING;
  connection.lanes[0].sets_up = connection.lanes[1].sets_up = false;
  connection.lanes[1].greets_again = true;
  connection.lanes[1].rq.posted = 1;
  rc_greet_again(&endpoint);
  assert_int_equal(deferred, 0);
  connection.lanes[1].rq.posted = 0;
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  rc_greet_again(&endpoint);
  assert_int_equal(deferred, 0);
  endpoint.closing.mode = 0;
  deferred = 1; /* counters are read once */
  rc_greet_again(&endpoint);
  assert_int_equal(deferred, 2);
  assert_true(connection.lanes[1].sets_up);
  assert_false(connection.lanes[0].sets_up);
  assert_int_equal(connection.stage.name, RC_SETTING_UP);
  rc_greet_again(&endpoint); /* it is under way */
  assert_int_equal(deferred, 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(an_address_gives_what_is_sent_to),
      CASE(addresses_that_do_not_fit_are_refused),
      CASE(roce_v1_goes_by_any_gid),
      CASE(who_closes_does_not_connect),
      CASE(one_end_with_reconnect_is_a_warning),
      CASE(a_receiver_is_connected_to_once),
      CASE(a_connection_that_is_over_takes_no_receiver),
      CASE(one_of_both_says_hello),
      CASE(hellos_go_once_all_is_set_up),
      CASE(a_failed_set_up_fails_the_connection),
      CASE(who_closes_says_no_hello),
      CASE(it_is_connected_once_all_queue_pairs_are_heard),
      CASE(a_hello_that_comes_early_is_kept),
      CASE(a_hello_is_said_again_once_all_is_flushed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
