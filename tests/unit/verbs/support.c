/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of verbs. */
#include <stdio.h>

#include "receives.h"
#include "support.h"

struct pst_device device;
struct pst_worker worker;
struct vb_tx tx;
static struct vb_own_slots own_slots;
static struct vb_credit_buffers buffers;
struct vb_rx rx = {.own = &own_slots};
struct pst_ring ring;
struct pst_endpoint endpoint;
struct pst_mr memory;
struct pst_remote remote;
struct posted posted[POSTED_MAX];
uint32_t posted_count, post_calls, posts_left;
struct ibv_qp qps[LANES_MAX];
struct vb_receive_queue rq;
struct vb_receives receives;
int failed_status;
char failed_why[128];

static struct pst_host host;
static struct vb_device info;
static struct ibv_context context;
static struct ibv_mr verbs_mr;
static struct ibv_send_wr wrs[QUEUE];
static struct ibv_sge sges[QUEUE * PIECES];
static struct vb_sent sent[QUEUE];
static uint32_t owners[SLOTS];
static uint64_t held, ring_held, first_of[VB_CONTROL_RECEIVES];

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  post_calls++;
  for (; wr; wr = wr->next) {
    if (posts_left == 0) {
      *bad = wr;
      return ENOMEM;
    }
    posts_left--;
    assert_in_range(posted_count, 0, POSTED_MAX - 1);
    posted[posted_count++] =
        (struct posted){.lane = (uint32_t)(qp - qps), .call = post_calls, .wr = *wr};
  }
  return 0;
}

static int defer(const struct pst_host *of, const void *key, void (*work)(void *), void *arg)
{
  (void)of;
  (void)key;
  (void)work;
  (void)arg;
  return 0;
}

static void failed(struct pst_endpoint *of, int status, const char *why)
{
  if (failed_status)
    return;
  failed_status = status;
  snprintf(failed_why, sizeof(failed_why), "%s", why);
  of->is_connected = false;
}

static int refuses(const struct pst_endpoint *of)
{
  (void)of;
  return failed_status ? -ECONNRESET : -ENOTCONN;
}

static int restore(struct pst_endpoint *of)
{
  return vb_receives_restore(of, of->rq);
}

struct vb_transport transport = {.failed = failed, .refuses = refuses, .restore = restore};

static void start_send_queue(void)
{
  memset(wrs, 0, sizeof(wrs));
  memset(sges, 0, sizeof(sges));
  memset(sent, 0, sizeof(sent));
  for (uint32_t i = 0; i < QUEUE; i++) {
    wrs[i].next = &wrs[(i + 1) % QUEUE];
    wrs[i].sg_list = &sges[(size_t)i * PIECES];
  }
}

static void start_memory(void)
{
  verbs_mr = (struct ibv_mr){.lkey = 77, .rkey = 78};
  memory = (struct pst_mr){.domain = &device.own,
                           .verbs = {.mr = &verbs_mr, .address = MEMORY},
                           .length = LENGTH,
                           .lkey = verbs_mr.lkey,
                           .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE,
                           .is_cpu_readable = true};
  remote = (struct pst_remote){.endpoint = &endpoint,
                               .address = REMOTE,
                               .length = LENGTH,
                               .rkey = 87,
                               .flush_rkey = 88,
                               .has_flush = true,
                               .access = VB_REMOTE_ACCESS};
}

static void start_ends(void)
{
  memset(owners, 0, sizeof(owners));
  held = ring_held = 0;
  ring = (struct pst_ring){.worker = &worker,
                           .place = 3,
                           .params = {.slots = SLOTS,
                                      .base = 4096,
                                      .stride = 512,
                                      .payload_max = 256,
                                      .headroom = 32,
                                      .mr = &memory},
                           .owners = owners,
                           .held = &ring_held};
  tx = (struct vb_tx){.address = REMOTE,
                      .stride = 512,
                      .message_max = 256,
                      .rkey = 86,
                      .slots = SLOTS,
                      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                      .turn = 1,
                      .run_max = 1,
                      .run_length_min = UINT64_MAX};
  own_slots = (struct vb_own_slots){.turn = 1, .held = &held, .first_of = first_of};
  rx = (struct vb_rx){.ring = &ring, .share = SLOTS, .own = &own_slots};
  assert_int_equal(vb_slot_fifo_open(&tx.credits, SLOTS), 0);
  assert_int_equal(vb_slot_fifo_open(&rx.own->line, SLOTS), 0);
  assert_int_equal(vb_slot_fifo_open(&rx.back, SLOTS), 0);
}

static void start_queue_pairs(uint32_t lanes)
{
  memset(qps, 0, sizeof(qps));
  for (uint32_t i = 0; i < lanes; i++)
    qps[i] = (struct ibv_qp){.context = &context, .qp_num = 100 + i};
  rq = (struct vb_receive_queue){.qp = qps};
}

void start_support(uint32_t lanes)
{
  host = fake_host;
  host.defer = defer;
  fake_clock_ns = 100;
  fake_log_clear();
  context.ops.post_send = post_send;
  posted_count = post_calls = 0;
  posts_left = POSTED_MAX;
  info = (struct vb_device){.name = "fake0", .port_count = 1, .ports[0].number = 1};
  failed_status = 0;
  failed_why[0] = 0;
  device = (struct pst_device){.host = &host,
                               .transport = &transport,
                               .open = {.info = &info, .port = &info.ports[0]},
                               .capabilities =
                                   PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC,
                               .message_max = 2048,
                               .keepalive_ns = 1000,
                               .qps = lanes};
  device.own.device = &device;
  worker = (struct pst_worker){.device = &device, .soonest_ns = VB_NEVER};
  start_send_queue();
  start_memory();
  stop_support(NULL);
  start_ends();
  start_queue_pairs(lanes);
  endpoint = (struct pst_endpoint){.worker = &worker,
                                   .device = &device,
                                   .place = 9,
                                   .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
                                   .cookie = COOKIE,
                                   .pieces_max = PIECES,
                                   .label = "camera",
                                   .buffers = &buffers,
                                   .domain = &device.own,
                                   .local = &device.own,
                                   .is_connected = true,
                                   .lane_count = lanes,
                                   .sq = {.qp = qps,
                                          .wr_id = WR_ID,
                                          .size = QUEUE,
                                          .mask = QUEUE - 1,
                                          .requests_max = QUEUE / 2,
                                          .posted_max = QUEUE / 2,
                                          .max_inline = INLINE,
                                          .sent = sent,
                                          .wrs = wrs,
                                          .sges = sges,
                                          .failed_from = VB_NEVER,
                                          .refused_at = VB_NEVER},
                                   .rq = &rq,
                                   .receives = &receives,
                                   .tx = &tx,
                                   .rx = &rx};
}

int stop_support(void **state)
{
  (void)state;
  free(tx.credits.at);
  free(rx.own->line.at);
  free(rx.back.at);
  tx.credits.at = rx.own->line.at = rx.back.at = NULL;
  return 0;
}

void add_credit(uint32_t slot)
{
  vb_slot_fifo_put(&tx.credits, slot, 1);
}

void add_slot(uint32_t slot)
{
  owners[slot] = endpoint.place;
  vb_slot_fifo_put(&rx.own->line, slot, 1);
}
