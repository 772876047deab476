/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that wait are probed; who answers goes first, who does not is tried later, and the others'
 * probes are posted again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_host.h"
#include "probe.h"

#define PEERS 4u
#define MS UINT64_C(1000000)

static struct vb_device info = {.name = "mlx5_0"};
static struct vb_port port = {.number = 1, .is_ethernet = true};
static struct dc_device device;
static struct pst_worker worker;
static struct dc_worker pool;
static struct dc_endpoint peers[PEERS];
static struct dc_handle handle;
static struct dc_initiator prober, spare;
static struct ibv_qp qps[2] = {{.qp_num = 7}, {.qp_num = 8}};
static struct ibv_qp_ex ex;
static struct mlx5dv_qp_ex dv;
static uint32_t resets, posted[64], posted_count, by_streams;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
  (void)mask;
  assert_ptr_equal(qp, prober.qp);
  resets += attr->qp_state == IBV_QPS_RESET;
  return 0;
}

static void start_requests(struct ibv_qp_ex *qp)
{
  (void)qp;
  posted_count = 0;
}
static void write_nothing(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
  assert_int_equal(qp->wr_flags, IBV_SEND_SIGNALED);
  assert_true(rkey == 0 && address == 0);
}
static void set_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
  (void)qp;
  (void)list;
  assert_int_equal(count, 0);
}
static int complete_requests(struct ibv_qp_ex *qp)
{
  (void)qp;
  return 0;
}
static void set_target(struct mlx5dv_qp_ex *qp, struct ibv_ah *ah, uint32_t number, uint64_t key)
{
  (void)qp;
  (void)ah;
  assert_int_equal(key, 99);
  posted[posted_count++] = number;
}

/* Each by a stream of its own. */
static void set_target_stream(struct mlx5dv_qp_ex *qp, struct ibv_ah *ah, uint32_t number,
                              uint64_t key, uint16_t stream)
{
  assert_int_equal(stream, posted_count);
  by_streams++;
  set_target(qp, ah, number, key);
}

static int start(void **state)
{
  (void)state;
  fake_log_clear();
  fake_clock_ns = 1000 * MS;
  resets = posted_count = by_streams = 0;
  device = (struct dc_device){.device = {.host = &fake_host,
                                         .open = {.info = &info, .port = &port},
                                         .path = {.timeout = 8, .retry_cnt = 7}}};
  ex = (struct ibv_qp_ex){.wr_start = start_requests,
                          .wr_complete = complete_requests,
                          .wr_rdma_write = write_nothing,
                          .wr_set_sge_list = set_list};
  dv = (struct mlx5dv_qp_ex){.wr_set_dc_addr = set_target,
                             .wr_set_dc_addr_stream = set_target_stream};
  handle = (struct dc_handle){.device = &device.device, .users = PEERS};
  prober = (struct dc_initiator){.qp = &qps[0], .ex = &ex, .dv = &dv};
  spare = (struct dc_initiator){.qp = &qps[1], .is_reserve = true};
  pool = (struct dc_worker){.worker = &worker, .prober = &prober, .reserve = &spare};
  worker = (struct pst_worker){.device = &device.device, .own = &pool, .has_all = true};
  for (uint32_t i = 0; i < PEERS; i++) {
    peers[i] = (struct dc_endpoint){.endpoint = {.worker = &worker,
                                                 .device = &device.device,
                                                 .is_connected = true,
                                                 .sq = {.wr_id = (uint64_t)(i + 1) << 32,
                                                        .head = 1000,
                                                        .done = 1000,
                                                        .told = 1000,
                                                        .failed_from = VB_NEVER,
                                                        .refused_at = VB_NEVER}},
                                    .stage = DC_CONNECTED,
                                    .handle = &handle,
                                    .peer = {.control = 100 + i, .key = 99}};
    assert_false(dc_take(&peers[i]));
  }
  dc_probe_look(&worker); /* they have just come */
  assert_int_equal(posted_count, 0);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  return 0;
}

static void complete_of(uint32_t batch, uint32_t i, enum ibv_wc_status status)
{
  const struct ibv_wc wc = {.status = status,
                            .qp_num = qps[0].qp_num,
                            .wr_id = peers[i].endpoint.sq.wr_id | (1000u + 0x80000000u + batch)};

  dc_probe_sent(&peers[i], &wc);
}

static void complete(uint32_t i, enum ibv_wc_status status)
{
  complete_of(pool.batches, i, status);
}

static void assert_posted(uint32_t count, const uint32_t which[])
{
  assert_int_equal(posted_count, count);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(posted[i], 100 + which[i]);
}

static void who_answers_has_the_reserve(void **state)
{
  (void)state;
  assert_posted(4, (uint32_t[]){0, 1, 2, 3});
  complete(0, IBV_WC_SUCCESS);
  assert_ptr_equal(peers[0].initiator, &spare);
  complete(1, IBV_WC_SUCCESS); /* the next one that is given back */
  assert_null(peers[1].initiator);
  assert_false(dc_take(&peers[1]));
  dc_give(&peers[0]);
  peers[0].handed_for = 4; /* it has had its polls */
  dc_give(&peers[0]);
  assert_ptr_equal(peers[1].initiator, &spare);
  assert_int_equal(resets, 0);
}

static void who_is_silent_holds_up_no_other_probe(void **state)
{
  (void)state;
  complete(0, IBV_WC_SUCCESS);
  fake_clock_ns += 3 * MS;
  dc_probe_look(&worker);
  assert_int_equal(resets, 0);
  fake_clock_ns += 1 * MS;
  dc_probe_look(&worker);
  assert_int_equal(resets, 1);
  assert_posted(2, (uint32_t[]){2, 3});
  assert_ptr_equal(pool.lines[DC_SILENT].last, &peers[1]);
  complete(2, IBV_WC_WR_FLUSH_ERR); /* of the batch before */
  assert_int_equal(resets, 1);
  complete(2, IBV_WC_RETRY_EXC_ERR); /* before our own patience is over */
  assert_int_equal(resets, 2);
  assert_posted(1, (uint32_t[]){3});
  complete(2, IBV_WC_SUCCESS); /* it was polled before the reset */
  assert_int_equal(pool.probes_answered, 0);
  complete(3, IBV_WC_SUCCESS);
  assert_int_equal(pool.probes_missed, 2);
}

/* The silent are tried again, less and less often, and have no initiator before they answer. */
static void silence_ends_as_that_of_a_send(void **state)
{
  uint32_t tries = 0;

  (void)state;
  complete(0, IBV_WC_SUCCESS);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  complete(2, IBV_WC_SUCCESS);
  complete(3, IBV_WC_SUCCESS);
  pool.free = &spare;
  assert_false(dc_take(&peers[1]));
  pool.free = NULL;
  for (; peers[1].stage == DC_CONNECTED && tries < 100; tries++) {
    fake_clock_ns += 1 * MS;
    dc_probe_look(&worker);
  }
  assert_int_equal(peers[1].stage, DC_FAILED);
  assert_int_equal(peers[1].status, -ECONNRESET);
  assert_in_range(tries, 4, 40); /* timeout 8, 8 times: 8.4 ms, where the next probe ends */
  assert_non_null(strstr(fake_log(), "IBV_WC_RETRY_EXC_ERR"));
  assert_true(handle.is_stale);
}

static void an_answer_ends_the_silence(void **state)
{
  (void)state;
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_posted(3, (uint32_t[]){1, 2, 3});
  for (uint32_t i = 1; i < PEERS; i++)
    complete(i, IBV_WC_SUCCESS);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_posted(1, (uint32_t[]){0});
  complete(0, IBV_WC_SUCCESS);
  assert_int_equal(peers[0].silent_ns, 0);
  assert_ptr_equal(pool.lines[DC_ANSWERED].last, &peers[0]);
  assert_int_equal(pool.silent, 0);
}

/* A device that serves streams side by side: who has not answered by then is silent. */
static void an_answer_that_passes_others_ends_all_of_them(void **state)
{
  (void)state;
  assert_int_equal(by_streams, 0);
  device.log_streams = 5;
  complete(0, IBV_WC_SUCCESS);
  complete(3, IBV_WC_SUCCESS);
  assert_int_equal(peers[3].line, DC_ANSWERED);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_int_equal(pool.probes_missed, 2);
  assert_int_equal(resets, 1);
  assert_int_equal(pool.probe_count, 0);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_posted(2, (uint32_t[]){1, 2});
  assert_int_equal(by_streams, 2);
}

static void who_goes_leaves_the_others_probes(void **state)
{
  (void)state;
  complete(0, IBV_WC_SUCCESS);
  dc_wait_no_more(&peers[2]);
  dc_probe_forget(&peers[2]);
  assert_int_equal(resets, 0);
  assert_null(peers[2].handle);
  assert_int_equal(handle.users, PEERS); /* as long as the probe is under way */
  complete(3, IBV_WC_SUCCESS);
  assert_int_equal(peers[3].line, DC_ANSWERED);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_int_equal(resets, 1);
  assert_int_equal(handle.users, PEERS - 1);
  assert_int_equal(peers[1].line, DC_SILENT);
}

/* Completions that were polled before the reset, of peers that are probed again, are ignored. */
static void completions_of_an_older_batch_are_none(void **state)
{
  const uint32_t older = pool.batches;

  (void)state;
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_posted(3, (uint32_t[]){1, 2, 3});
  complete_of(older, 1, IBV_WC_SUCCESS);
  assert_int_equal(pool.probes_answered, 0);
  assert_null(peers[1].initiator);
  complete_of(older, 2, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(resets, 1);
  complete(1, IBV_WC_SUCCESS);
  assert_ptr_equal(peers[1].initiator, &spare);
}

/* A look takes from each line those whose time has come, and passes over none that is not due. */
static void silent_peers_are_tried_in_their_order(void **state)
{
  (void)state;
  device.log_streams = 5;
  device.device.path.timeout = 14;
  complete(3, IBV_WC_SUCCESS); /* it passes others: all of them are silent */
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_int_equal(pool.silent, 3);
  assert_int_equal(pool.probe_count, 0);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_posted(3, (uint32_t[]){0, 1, 2});
  complete(1, IBV_WC_SUCCESS);
  fake_clock_ns += 4 * MS;
  dc_probe_look(&worker);
  assert_ptr_equal(pool.lines[DC_SILENT + 1].first, &peers[0]);
  assert_ptr_equal(pool.lines[DC_SILENT + 1].last, &peers[2]);
  assert_null(pool.lines[DC_SILENT].first);
  fake_clock_ns += 7 * MS;
  dc_probe_look(&worker);
  assert_int_equal(pool.probe_count, 0);
  fake_clock_ns += 1 * MS;
  dc_probe_look(&worker);
  assert_posted(2, (uint32_t[]){0, 2});
}

/* Nobody else who waits has answered. */
static void a_hello_is_an_answer(void **state)
{
  (void)state;
  dc_wait_no_more(&peers[3]);
  peers[3].stage = DC_GREETING;
  peers[3].is_heard = true;
  assert_true(dc_take(&peers[3]));
  assert_ptr_equal(peers[3].initiator, &spare);
  dc_wait_no_more(&peers[2]);
  peers[2].stage = DC_GREETING;
  peers[2].is_heard = true;
  assert_false(dc_take(&peers[2])); /* the next one of the reserve */
  assert_ptr_equal(pool.lines[DC_ANSWERED].first, &peers[2]);
}

int main(void)
{
  const struct CMUnitTest cases[] = {
      cmocka_unit_test_setup(who_answers_has_the_reserve, start),
      cmocka_unit_test_setup(who_is_silent_holds_up_no_other_probe, start),
      cmocka_unit_test_setup(silence_ends_as_that_of_a_send, start),
      cmocka_unit_test_setup(an_answer_ends_the_silence, start),
      cmocka_unit_test_setup(an_answer_that_passes_others_ends_all_of_them, start),
      cmocka_unit_test_setup(who_goes_leaves_the_others_probes, start),
      cmocka_unit_test_setup(completions_of_an_older_batch_are_none, start),
      cmocka_unit_test_setup(silent_peers_are_tried_in_their_order, start),
      cmocka_unit_test_setup(a_hello_is_an_answer, start),
  };

  return cmocka_run_group_tests(cases, NULL, NULL) ? 1 : 0;
}
