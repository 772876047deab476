/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that go well, and requests that the responder must refuse. */
#include "statuses.h"

#define WRITE IBV_WR_RDMA_WRITE
#define READ IBV_WR_RDMA_READ
#define FETCH_ADD IBV_WR_ATOMIC_FETCH_AND_ADD
#define SWAP IBV_WR_ATOMIC_CMP_AND_SWP

enum {
  ALL_LOCAL = IBV_ACCESS_LOCAL_WRITE,
  ALL_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct remote_case {
  const char *name;
  enum ibv_wr_opcode opcode;
  void (*spoil)(struct pair *pair, struct request *request);
  int mr_lacks;
  unsigned int qp_lacks;
};

static void shift_addr(struct request *request, int64_t by)
{
  if (request->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
      request->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
    request->wr.wr.atomic.remote_addr += (uint64_t)by;
  else
    request->wr.wr.rdma.remote_addr += (uint64_t)by;
}

static uint32_t *key_of(struct request *request)
{
  bool atomic = request->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
                request->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  return atomic ? &request->wr.wr.atomic.rkey : &request->wr.wr.rdma.rkey;
}

static void wrong_rkey(struct pair *pair, struct request *request)
{
  (void)pair;
  *key_of(request) ^= 0x00a5a500;
}

static void wrong_rkey_low_byte(struct pair *pair, struct request *request)
{
  (void)pair;
  *key_of(request) ^= 0x5a;
}

static void stale_rkey(struct pair *pair, struct request *request)
{
  (void)request;
  struct end *rsp = &pair->end[RSP];
  require("ibv_dereg_mr", ibv_dereg_mr(rsp->mr) == 0);
  rsp->mr = NULL;
}

static void rkey_of_other_pd(struct pair *pair, struct request *request)
{
  *key_of(request) = pair->end[REQ].mr->rkey;
  shift_addr(request, pair->end[REQ].memory - pair->end[RSP].memory);
}

static void past_end(struct pair *pair, struct request *request)
{
  (void)pair;
  shift_addr(request, REGION_BYTES - 4);
}

static void before_start(struct pair *pair, struct request *request)
{
  (void)pair;
  shift_addr(request, -8);
}

static void around_the_end_of_addresses(struct pair *pair, struct request *request)
{
  (void)pair;
  request->wr.wr.rdma.remote_addr = UINT64_MAX - 3;
}

static void last_packet_past_end(struct pair *pair, struct request *request)
{
  (void)pair;
  shift_addr(request, REGION_BYTES - 2048);
  request->sge.length = 2052;
}

static void no_bytes_and_wrong_rkey(struct pair *pair, struct request *request)
{
  wrong_rkey(pair, request);
  request->wr.num_sge = 0;
}

static void misaligned(struct pair *pair, struct request *request)
{
  (void)pair;
  shift_addr(request, 4);
}

static void four_bytes(struct pair *pair, struct request *request)
{
  (void)pair;
  request->sge.length = 4;
}

static const struct remote_case cases[] = {
    {"wrong-rkey.write", WRITE, wrong_rkey, 0, 0},
    {"wrong-rkey.read", READ, wrong_rkey, 0, 0},
    {"wrong-rkey.fetch-add", FETCH_ADD, wrong_rkey, 0, 0},
    {"wrong-rkey-low-byte.write", WRITE, wrong_rkey_low_byte, 0, 0},
    {"stale-rkey.write", WRITE, stale_rkey, 0, 0},
    {"stale-rkey.read", READ, stale_rkey, 0, 0},
    {"rkey-of-other-pd.write", WRITE, rkey_of_other_pd, 0, 0},
    {"past-end.write", WRITE, past_end, 0, 0},
    {"past-end.read", READ, past_end, 0, 0},
    {"past-end.compare-swap", SWAP, past_end, 0, 0},
    {"before-start.write", WRITE, before_start, 0, 0},
    {"before-start.read", READ, before_start, 0, 0},
    {"address-overflow.write", WRITE, around_the_end_of_addresses, 0, 0},
    {"last-packet-past-end.write", WRITE, last_packet_past_end, 0, 0},
    {"last-packet-past-end.read", READ, last_packet_past_end, 0, 0},
    {"no-bytes-wrong-rkey.write", WRITE, no_bytes_and_wrong_rkey, 0, 0},
    {"no-bytes-wrong-rkey.read", READ, no_bytes_and_wrong_rkey, 0, 0},
    {"mr-without-right.write", WRITE, NULL, IBV_ACCESS_REMOTE_WRITE, 0},
    {"mr-without-right.read", READ, NULL, IBV_ACCESS_REMOTE_READ, 0},
    {"mr-without-right.fetch-add", FETCH_ADD, NULL, IBV_ACCESS_REMOTE_ATOMIC, 0},
    {"qp-without-right.write", WRITE, NULL, 0, IBV_ACCESS_REMOTE_WRITE},
    {"qp-without-right.read", READ, NULL, 0, IBV_ACCESS_REMOTE_READ},
    {"qp-without-right.fetch-add", FETCH_ADD, NULL, 0, IBV_ACCESS_REMOTE_ATOMIC},
    {"misaligned.fetch-add", FETCH_ADD, misaligned, 0, 0},
    {"misaligned.compare-swap", SWAP, misaligned, 0, 0},
    {"four-bytes.fetch-add", FETCH_ADD, four_bytes, 0, 0},
};

static void run_case(const struct remote_case *one)
{
  struct setup setup = setup_usual();
  setup.mr_access[RSP] = ALL_LOCAL | (ALL_REMOTE & ~one->mr_lacks);
  setup.qp_access[RSP] = ALL_REMOTE & ~one->qp_lacks;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, one->opcode);
  struct request follower = request_make(&pair, IBV_WR_RDMA_WRITE);
  if (one->spoil)
    one->spoil(&pair, &request);
  int refused = request_post(&pair.end[REQ], &request);
  for (int i = 0; i < FOLLOWERS && !refused; i++)
    refused = request_post(&pair.end[REQ], &follower);
  char name[64];
  snprintf(name, sizeof(name), "remote.%s", one->name);
  if (refused)
    tell(name, "post %s", errno_name(refused));
  else
    tell_outcome(name, &pair, 1 + FOLLOWERS, 0);
  pair_close(&pair);
}

/* READ with no room for one at the responder, and at the requester. */
static void without_rd_atomic(const char *name, int which)
{
  struct setup setup = setup_usual();
  if (which == RSP)
    setup.dest_rd_atomic[RSP] = 0;
  else
    setup.rd_atomic[REQ] = 0;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_RDMA_READ);
  tell(name, "post %s", errno_name(request_post(&pair.end[REQ], &request)));
  tell_outcome(name, &pair, 1, 0);
  pair_close(&pair);
}

/* More READs at once than the responder has room for. */
static void rd_atomic_exceeded(void)
{
  struct setup setup = setup_usual();
  setup.rd_atomic[REQ] = 8;
  setup.dest_rd_atomic[RSP] = 1;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_RDMA_READ);
  request.sge.length = 16384;
  for (int i = 0; i < 8; i++)
    require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  tell_outcome("remote.rd-atomic-exceeded", &pair, 8, 0);
  pair_close(&pair);
}

static void read_into(const char *name, int access)
{
  struct setup setup = setup_usual();
  setup.mr_access[REQ] = access;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_RDMA_READ);
  struct request follower = request_make(&pair, IBV_WR_RDMA_WRITE);
  int refused = request_post(&pair.end[REQ], &request);
  for (int i = 0; i < FOLLOWERS && !refused; i++)
    refused = request_post(&pair.end[REQ], &follower);
  tell_outcome(name, &pair, 1 + FOLLOWERS, 0);
  pair_close(&pair);
}

void family_remote(void)
{
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    run_case(&cases[i]);
  without_rd_atomic("remote.responder-rd-atomic-0", RSP);
  without_rd_atomic("remote.requester-rd-atomic-0", REQ);
  rd_atomic_exceeded();
  read_into("remote.read-into-mr-without-local-write", IBV_ACCESS_REMOTE_READ);
}

/* One successful request: what the completions say. */
static void success(const char *name, enum ibv_wr_opcode opcode, bool receive)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  if (receive)
    require("ibv_post_recv", receive_post(&pair.end[RSP], 64) == 0);
  struct request request = request_make(&pair, opcode);
  request.wr.imm_data = htobe32(0x12345678);
  require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  struct ibv_wc wc[2] = {{0}};
  for (int which = REQ; which <= (receive ? RSP : REQ); which++) {
    struct end *end = &pair.end[which];
    for (int tries = 0; tries < 100000000 && ibv_poll_cq(end->cq, 1, &wc[which]) == 0; tries++)
      continue;
    tell(name, "%s %s opcode %d byte_len %u flags %u imm %#x", which == REQ ? "req" : "rsp",
         status_name(wc[which].status), wc[which].opcode,
         which == RSP || opcode == IBV_WR_RDMA_READ ? wc[which].byte_len : 0, wc[which].wc_flags,
         wc[which].wc_flags & IBV_WC_WITH_IMM ? be32toh(wc[which].imm_data) : 0);
  }
  pair_close(&pair);
}

void family_success(void)
{
  success("success.send", IBV_WR_SEND, true);
  success("success.send-imm", IBV_WR_SEND_WITH_IMM, true);
  success("success.write", IBV_WR_RDMA_WRITE, false);
  success("success.write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, true);
  success("success.read", IBV_WR_RDMA_READ, false);
  success("success.fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD, false);
  success("success.compare-swap", IBV_WR_ATOMIC_CMP_AND_SWP, false);
}
