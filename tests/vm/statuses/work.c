/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, and receives for them. */
#include "statuses.h"

enum { USUAL_BYTES = 8 };

static bool is_atomic(enum ibv_wr_opcode opcode)
{
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

struct request request_make(const struct pair *pair, enum ibv_wr_opcode opcode)
{
  const struct end *req = &pair->end[REQ];
  const struct end *rsp = &pair->end[RSP];
  struct request request = {
      .sge = {.addr = (uintptr_t)req->memory, .length = USUAL_BYTES, .lkey = req->mr->lkey},
      .wr = {.opcode = opcode, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED},
  };
  if (is_atomic(opcode)) {
    request.wr.wr.atomic.remote_addr = (uintptr_t)rsp->memory;
    request.wr.wr.atomic.rkey = rsp->mr->rkey;
    request.wr.wr.atomic.compare_add = 1;
  } else {
    request.wr.wr.rdma.remote_addr = (uintptr_t)rsp->memory;
    request.wr.wr.rdma.rkey = rsp->mr->rkey;
  }
  return request;
}

int request_post(const struct end *end, struct request *request)
{
  struct ibv_send_wr *bad = NULL;
  request->wr.sg_list = &request->sge;
  return ibv_post_send(end->qp, &request->wr, &bad);
}

int receive_post(const struct end *end, uint32_t length)
{
  struct ibv_sge sge = {.addr = (uintptr_t)end->memory, .length = length, .lkey = end->mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr *bad = NULL;
  if (end->srq)
    return ibv_post_srq_recv(end->srq, &wr, &bad);
  return ibv_post_recv(end->qp, &wr, &bad);
}
