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

static struct sim_cq *of(struct ibv_cq_ex *ex)
{
  return sim_container_of(ex, struct sim_cq, ex);
}

static void lock(struct sim_cq *cq)
{
  struct poll_lock *held = cq->front;

  if (!held->unused)
    pthread_mutex_lock(&held->mutex);
}

static void unlock(struct sim_cq *cq)
{
  struct poll_lock *held = cq->front;

  if (!held->unused)
    pthread_mutex_unlock(&held->mutex);
}

static int next_poll(struct ibv_cq_ex *ex)
{
  struct sim_cq *cq = of(ex);
  int got = sim_cq_poll(cq, &cq->current, 1);

  if (got <= 0)
    return got ? -got : ENOENT;
  ex->status = cq->current.status;
  ex->wr_id = cq->current.wr_id;
  return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
  if (attr->comp_mask)
    return EINVAL;
  lock(of(ex));
  int error = next_poll(ex);
  if (error)
    unlock(of(ex));
  return error;
}

static void end_poll(struct ibv_cq_ex *ex)
{
  unlock(of(ex));
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
  return of(ex)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
  return of(ex)->current.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
  return of(ex)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
  return of(ex)->current.imm_or_rkey;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
  return of(ex)->current.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
  return of(ex)->current.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
  return of(ex)->current.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
  return of(ex)->current.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
  return of(ex)->current.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
  return of(ex)->current.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
  return of(ex)->current.timestamp_ns;
}

static int fill(struct sim_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
  struct ibv_cq_ex *ex = &cq->ex;
  struct poll_lock *held = calloc(1, sizeof(*held));

  if (!held)
    return ENOMEM;
  pthread_mutex_init(&held->mutex, NULL);
  held->unused = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
                 attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  cq->front = held;
  ex->start_poll = start_poll;
  ex->next_poll = next_poll;
  ex->end_poll = end_poll;
  ex->read_opcode = read_opcode;
  ex->read_vendor_err = read_vendor_err;
  ex->read_wc_flags = read_wc_flags;
#define ASKED(flag, reader)                                                                        \
  do {                                                                                             \
    if (attr->wc_flags & (flag))                                                                   \
      ex->reader = reader;                                                                         \
  } while (0)
  ASKED(IBV_WC_EX_WITH_BYTE_LEN, read_byte_len);
  ASKED(IBV_WC_EX_WITH_IMM, read_imm_data);
  ASKED(IBV_WC_EX_WITH_QP_NUM, read_qp_num);
  ASKED(IBV_WC_EX_WITH_SRC_QP, read_src_qp);
  ASKED(IBV_WC_EX_WITH_SLID, read_slid);
  ASKED(IBV_WC_EX_WITH_SL, read_sl);
  ASKED(IBV_WC_EX_WITH_DLID_PATH_BITS, read_dlid_path_bits);
  ASKED(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, read_completion_ts);
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
  int error = fill(cq, attr);
  if (error) {
    sim_cq_destroy(cq);
    return SIM_FAIL(error, NULL);
  }
  return &cq->ex;
}
