/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of memory that the requester may not use, and receives that do not fit. */
#include "statuses.h"

static void wrong_lkey(struct pair *pair, struct request *request)
{
  (void)pair;
  request->sge.lkey ^= 0x00a5a500;
}

static void stale_lkey(struct pair *pair, struct request *request)
{
  (void)request;
  struct end *req = &pair->end[REQ];
  require("ibv_dereg_mr", ibv_dereg_mr(req->mr) == 0);
  req->mr = NULL;
}

static void past_end(struct pair *pair, struct request *request)
{
  request->sge.addr = (uintptr_t)pair->end[REQ].memory + REGION_BYTES - 4;
}

static void before_start(struct pair *pair, struct request *request)
{
  request->sge.addr = (uintptr_t)pair->end[REQ].memory - 8;
}

static void lkey_of_other_pd(struct pair *pair, struct request *request)
{
  request->sge.addr = (uintptr_t)pair->end[RSP].memory;
  request->sge.lkey = pair->end[RSP].mr->lkey;
}

static void inline_and_wrong_lkey(struct pair *pair, struct request *request)
{
  wrong_lkey(pair, request);
  request->wr.send_flags |= IBV_SEND_INLINE;
}

static void no_bytes_and_wrong_lkey(struct pair *pair, struct request *request)
{
  wrong_lkey(pair, request);
  request->sge.length = 0;
}

static void requester(const char *name, enum ibv_wr_opcode opcode,
                      void (*spoil)(struct pair *, struct request *))
{
  struct setup setup = setup_usual();
  setup.cap.max_inline_data = 64;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, opcode);
  struct request follower = request_make(&pair, IBV_WR_RDMA_WRITE);
  /* Receives for a SEND, should it come. */
  require("ibv_post_recv", receive_post(&pair.end[RSP], 64) == 0);
  spoil(&pair, &request);
  int refused = request_post(&pair.end[REQ], &request);
  for (int i = 0; i < FOLLOWERS && !refused; i++)
    refused = request_post(&pair.end[REQ], &follower);
  if (refused)
    tell(name, "post %s", errno_name(refused));
  else
    tell_outcome(name, &pair, 1 + FOLLOWERS, 0);
  pair_close(&pair);
}

void family_local(void)
{
  requester("local.wrong-lkey.send", IBV_WR_SEND, wrong_lkey);
  requester("local.wrong-lkey.write", IBV_WR_RDMA_WRITE, wrong_lkey);
  requester("local.wrong-lkey.read", IBV_WR_RDMA_READ, wrong_lkey);
  requester("local.stale-lkey.write", IBV_WR_RDMA_WRITE, stale_lkey);
  requester("local.past-end.write", IBV_WR_RDMA_WRITE, past_end);
  requester("local.past-end.read", IBV_WR_RDMA_READ, past_end);
  requester("local.before-start.send", IBV_WR_SEND, before_start);
  requester("local.lkey-of-other-pd.write", IBV_WR_RDMA_WRITE, lkey_of_other_pd);
  requester("local.inline-wrong-lkey.write", IBV_WR_RDMA_WRITE, inline_and_wrong_lkey);
  requester("local.no-bytes-wrong-lkey.write", IBV_WR_RDMA_WRITE, no_bytes_and_wrong_lkey);
}

/* A receive that was spoilt, a SEND of 64 bytes into it and what follows. */
static void into_receive(const char *name, void (*spoil)(struct pair *, struct ibv_sge *),
                         int mr_access, enum ibv_wr_opcode opcode)
{
  struct setup setup = setup_usual();
  setup.mr_access[RSP] = mr_access;
  struct pair pair;
  pair_open(&pair, &setup);
  struct end *rsp = &pair.end[RSP];
  struct ibv_sge sge = {.addr = (uintptr_t)rsp->memory, .length = 64, .lkey = rsp->mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr *bad = NULL;
  if (spoil)
    spoil(&pair, &sge);
  int refused = ibv_post_recv(rsp->qp, &wr, &bad);
  if (refused) {
    tell(name, "post %s", errno_name(refused));
  } else {
    require("ibv_post_recv", receive_post(rsp, 64) == 0);
    struct request request = request_make(&pair, opcode);
    request.sge.length = 64;
    require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
    struct request follower = request_make(&pair, IBV_WR_SEND);
    require("ibv_post_send", request_post(&pair.end[REQ], &follower) == 0);
    tell_outcome(name, &pair, 2, 2);
  }
  pair_close(&pair);
}

static void receive_short(struct pair *pair, struct ibv_sge *sge)
{
  (void)pair;
  sge->length = 32;
}

static void receive_wrong_lkey(struct pair *pair, struct ibv_sge *sge)
{
  (void)pair;
  sge->lkey ^= 0x00a5a500;
}

static void receive_past_end(struct pair *pair, struct ibv_sge *sge)
{
  sge->addr = (uintptr_t)pair->end[RSP].memory + REGION_BYTES - 4;
}

/* No receive at all: the requester gives up after so many tries. */
static void no_receive(int rnr_retry, enum ibv_wr_opcode opcode, const char *what)
{
  struct setup setup = setup_usual();
  setup.rnr_retry = (uint8_t)rnr_retry;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, opcode);
  struct request follower = request_make(&pair, IBV_WR_RDMA_WRITE);
  require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  require("ibv_post_send", request_post(&pair.end[REQ], &follower) == 0);
  char name[64];
  snprintf(name, sizeof(name), "receive.none.%s.rnr-retry-%d", what, rnr_retry);
  /* 7 is for ever: the quiet time is all that is waited for. */
  tell_outcome(name, &pair, rnr_retry == 7 ? 0 : 2, 0);
  if (rnr_retry == 7) {
    require("ibv_post_recv", receive_post(&pair.end[RSP], 64) == 0);
    tell_outcome("receive.none.send.rnr-retry-7.then-posted", &pair, 2, 1);
  }
  pair_close(&pair);
}

static void no_srq_receive(void)
{
  struct setup setup = setup_usual();
  setup.srq = true;
  setup.rnr_retry = 1;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_SEND);
  require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  tell_outcome("receive.none-in-srq.rnr-retry-1", &pair, 1, 0);
  pair_close(&pair);
}

void family_receive(void)
{
  int usual = setup_usual().mr_access[RSP];
  into_receive("receive.short.send", receive_short, usual, IBV_WR_SEND);
  into_receive("receive.short.write-imm", receive_short, usual, IBV_WR_RDMA_WRITE_WITH_IMM);
  into_receive("receive.wrong-lkey", receive_wrong_lkey, usual, IBV_WR_SEND);
  into_receive("receive.past-end", receive_past_end, usual, IBV_WR_SEND);
  into_receive("receive.mr-without-local-write", NULL, IBV_ACCESS_REMOTE_READ, IBV_WR_SEND);
  for (int tries = 0; tries <= 7; tries++)
    no_receive(tries, IBV_WR_SEND, "send");
  no_receive(1, IBV_WR_RDMA_WRITE_WITH_IMM, "write-imm");
  no_srq_receive();
}
