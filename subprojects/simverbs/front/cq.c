// SPDX-License-Identifier: Apache-2.0
// Completion queues: made, armed and polled with ibv_poll_cq. cq_ex.c has the extended polling.
#include "front.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum {
  POLL_BATCH = 16,
  // Polls in vain after which a spinning program lets others run, and between two times of that.
  PATIENT_POLLS = 4096,
  POLLS_BETWEEN = 64,
};

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
  const struct ibv_cq_init_attr_ex attr = {
      .cqe = (uint32_t)cqe,
      .cq_context = cq_context,
      .channel = channel,
      .comp_vector = (uint32_t)comp_vector,
      .wc_flags = IBV_WC_STANDARD_FLAGS,
  };

  if (cqe <= 0)
    return SIM_FAIL(EINVAL, NULL);
  struct sim_cq *cq = sim_cq_create(sim_context_of(context), &attr);
  return cq ? &cq->cq : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
  return cqe <= 0 ? EINVAL : sim_cq_resize(sim_cq_of(cq), (unsigned)cqe);
}

int front_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
  return sim_cq_modify(sim_cq_of(cq), attr);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
  void *front = sim_cq_of(cq)->front;
  int error = sim_cq_destroy(sim_cq_of(cq));

  if (!error)
    free(front);
  return error;
}

int front_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
  return sim_cq_arm(sim_cq_of(cq), solicited_only);
}

static void front_cq_wc_of(struct ibv_wc *wc, const struct sim_cqe *cqe)
{
  wc->wr_id = cqe->wr_id;
  wc->status = cqe->status;
  wc->opcode = cqe->opcode;
  wc->vendor_err = cqe->vendor_err;
  wc->byte_len = cqe->byte_len;
  wc->imm_data = cqe->imm_or_rkey;
  wc->qp_num = cqe->qp_num;
  wc->src_qp = cqe->src_qp;
  wc->wc_flags = cqe->wc_flags;
  wc->pkey_index = cqe->pkey_index;
  wc->slid = cqe->slid;
  wc->sl = cqe->sl;
  wc->dlid_path_bits = cqe->dlid_path_bits;
}

// The peer, which on hardware would have a core and a NIC of its own, may be waiting for this core.
static void front_cq_give_way(bool in_vain)
{
  static _Thread_local unsigned polls;

  if (!in_vain) {
    polls = 0;
  } else if (++polls == PATIENT_POLLS) {
    polls -= POLLS_BETWEEN;
    sched_yield();
  }
}

int front_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
  struct sim_cqe batch[POLL_BATCH];
  int done = 0;

  while (done < count) {
    int wanted = count - done < POLL_BATCH ? count - done : POLL_BATCH;
    int got = sim_cq_poll(sim_cq_of(cq), batch, wanted);
    if (got < 0)
      return done ? done : got;
    for (int i = 0; i < got; i++)
      front_cq_wc_of(&wc[done++], &batch[i]);
    if (got < wanted)
      break;
  }
  front_cq_give_way(!done);
  return done;
}
