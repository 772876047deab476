// SPDX-License-Identifier: Apache-2.0
// The extended CQ: one completion at a time, read field by field. Only the readers that were asked
// for at creation are there, as on hardware.
#include "front.h"

#include <errno.h>
#include <stdlib.h>

// Held from ibv_start_poll to ibv_end_poll, unless the CQ is promised to be used by one thread.
struct poll_lock {
  pthread_mutex_t mutex;
  bool unused;
};

static struct sim_cq *front_cq_ex_of(struct ibv_cq_ex *ex)
{
  return sim_container_of(ex, struct sim_cq, ex);
}

static void front_cq_ex_lock(struct sim_cq *cq)
{
  struct poll_lock *held = cq->front;

  if (!held->unused)
    pthread_mutex_lock(&held->mutex);
}

static void front_cq_ex_unlock(struct sim_cq *cq)
{
  struct poll_lock *held = cq->front;

  if (!held->unused)
    pthread_mutex_unlock(&held->mutex);
}

static int front_cq_ex_next_poll(struct ibv_cq_ex *ex)
{
  struct sim_cq *cq = front_cq_ex_of(ex);
  int got = sim_cq_poll(cq, &cq->current, 1);

  if (got <= 0)
    return got ? -got : ENOENT;
  ex->status = cq->current.status;
  ex->wr_id = cq->current.wr_id;
  return 0;
}

static int front_cq_ex_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
  if (attr->comp_mask)
    return EINVAL;
  front_cq_ex_lock(front_cq_ex_of(ex));
  int error = front_cq_ex_next_poll(ex);
  if (error)
    front_cq_ex_unlock(front_cq_ex_of(ex));
  return error;
}

static void front_cq_ex_end_poll(struct ibv_cq_ex *ex)
{
  front_cq_ex_unlock(front_cq_ex_of(ex));
}

static enum ibv_wc_opcode front_cq_ex_read_opcode(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.opcode;
}

static uint32_t front_cq_ex_read_vendor_err(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.vendor_err;
}

static uint32_t front_cq_ex_read_byte_len(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.byte_len;
}

static __be32 front_cq_ex_read_imm_data(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.imm_or_rkey;
}

static uint32_t front_cq_ex_read_qp_num(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.qp_num;
}

static uint32_t front_cq_ex_read_src_qp(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.src_qp;
}

static unsigned int front_cq_ex_read_wc_flags(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.wc_flags;
}

static uint32_t front_cq_ex_read_slid(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.slid;
}

static uint8_t front_cq_ex_read_sl(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.sl;
}

static uint8_t front_cq_ex_read_dlid_path_bits(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.dlid_path_bits;
}

static uint64_t front_cq_ex_read_completion_ts(struct ibv_cq_ex *ex)
{
  return front_cq_ex_of(ex)->current.timestamp_ns;
}

static int front_cq_ex_fill(struct sim_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
  struct ibv_cq_ex *ex = &cq->ex;
  struct poll_lock *held = calloc(1, sizeof(*held));

  if (!held)
    return ENOMEM;
  pthread_mutex_init(&held->mutex, NULL);
  held->unused = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
                 attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  cq->front = held;
  ex->start_poll = front_cq_ex_start_poll;
  ex->next_poll = front_cq_ex_next_poll;
  ex->end_poll = front_cq_ex_end_poll;
  ex->read_opcode = front_cq_ex_read_opcode;
  ex->read_vendor_err = front_cq_ex_read_vendor_err;
  ex->read_wc_flags = front_cq_ex_read_wc_flags;
#define ASKED(flag, reader)                                                                        \
  do {                                                                                             \
    if (attr->wc_flags & (flag))                                                                   \
      ex->read_##reader = front_cq_ex_read_##reader;                                               \
  } while (0)
  ASKED(IBV_WC_EX_WITH_BYTE_LEN, byte_len);
  ASKED(IBV_WC_EX_WITH_IMM, imm_data);
  ASKED(IBV_WC_EX_WITH_QP_NUM, qp_num);
  ASKED(IBV_WC_EX_WITH_SRC_QP, src_qp);
  ASKED(IBV_WC_EX_WITH_SLID, slid);
  ASKED(IBV_WC_EX_WITH_SL, sl);
  ASKED(IBV_WC_EX_WITH_DLID_PATH_BITS, dlid_path_bits);
  ASKED(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, completion_ts);
#undef ASKED
  return 0;
}

struct ibv_cq_ex *front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
  const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;

  if (attr->wc_flags & ~known)
    return SIM_FAIL(EOPNOTSUPP, NULL);
  struct sim_cq *cq = sim_cq_create(sim_context_of(context), attr);
  if (!cq)
    return NULL;
  int error = front_cq_ex_fill(cq, attr);
  if (error) {
    sim_cq_destroy(cq);
    return SIM_FAIL(error, NULL);
  }
  return &cq->ex;
}
