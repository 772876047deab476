/* SPDX-License-Identifier: Apache-2.0 */
/* The send queue: posting into it. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct sim_sq *sim_sq_alloc(const struct ibv_qp_cap *cap, unsigned log_streams)
{
  struct sim_sq *sq = calloc(1, sizeof(*sq));
  if (!sq)
    return NULL;
  sq->room = cap->max_send_wr ? cap->max_send_wr : 1;
  sq->max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
  sq->max_inline = cap->max_inline_data;
  for (sq->size = 1; sq->size < sq->room;)
    sq->size *= 2;
  size_t stride = sizeof(struct sim_slot) + sq->max_sge * sizeof(struct ibv_sge) + sq->max_inline;
  sq->stride = (uint32_t)((stride + 15) & ~(size_t)15);
  /* Few of them are ever used: malloc() would fill, or clear, those that are not. */
  sq->slots = mmap(NULL, (size_t)sq->size * sq->stride, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sq->slots == MAP_FAILED)
    sq->slots = NULL;
  sq->flow_count = 1u << log_streams;
  sq->flows = calloc(sq->flow_count, sizeof(*sq->flows));
  if (log_streams) {
    /* How many run at once is the device's matter; which ids there are is the program's. */
    sq->stream_words = (UINT16_MAX + 1) / 64;
    sq->stream_errors = calloc(sq->stream_words, sizeof(*sq->stream_errors));
  }
  if (!sq->slots || !sq->flows || (log_streams && !sq->stream_errors)) {
    sim_sq_free(sq);
    return NULL;
  }
  pthread_mutex_init(&sq->lock, NULL);
  return sq;
}

void sim_sq_free(struct sim_sq *sq)
{
  if (!sq)
    return;
  free(sq->stream_errors);
  free(sq->flows);
  if (sq->slots)
    munmap(sq->slots, (size_t)sq->size * sq->stride);
  free(sq);
}

static bool sim_sq_has_opcode(enum sim_qp_kind kind, uint32_t opcode)
{
  switch (opcode) {
  case IBV_WR_SEND:
  case IBV_WR_SEND_WITH_IMM:
    return kind != SIM_DCT;
  case IBV_WR_RDMA_WRITE:
  case IBV_WR_RDMA_WRITE_WITH_IMM:
    return kind == SIM_RC || kind == SIM_UC || kind == SIM_DCI;
  case IBV_WR_LOCAL_INV:
  case IBV_WR_BIND_MW:
  case IBV_WR_SEND_WITH_INV:
    return kind == SIM_RC || kind == SIM_UC;
  case IBV_WR_RDMA_READ:
  case IBV_WR_ATOMIC_CMP_AND_SWP:
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    return kind == SIM_RC || kind == SIM_DCI;
  default:
    return false;
  }
}

/* iWARP's RDMA protocol has no immediate data: RFC 5040. */
static bool sim_sq_lacks_immediate(const struct sim_qp *qp, uint32_t opcode)
{
  return (opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM) &&
         qp->qp.context->device->transport_type == IBV_TRANSPORT_IWARP;
}

static bool sim_sq_may_be_inline(uint32_t opcode)
{
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
         opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Inline data are read now: the program may have its buffer back at once. */
static int sim_sq_copy_inline(struct sim_sq *sq, struct sim_slot *slot, const struct sim_wqe *wqe)
{
  char *to = sim_slot_inline(sq, slot);
  uint64_t length = 0;
  uint32_t count = wqe->num_buf ? wqe->num_buf : wqe->num_sge;
  if (!sim_sq_may_be_inline(wqe->opcode))
    return EINVAL;
  for (uint32_t i = 0; i < count; i++) {
    const void *from =
        wqe->num_buf ? wqe->bufs[i].addr : (const void *)(uintptr_t)wqe->sges[i].addr;
    uint64_t bytes = wqe->num_buf ? wqe->bufs[i].length : wqe->sges[i].length;
    if (length + bytes > sq->max_inline)
      return ENOMEM;
    if (bytes)
      memcpy(to + length, from, bytes);
    length += bytes;
  }
  slot->inline_length = slot->length = (uint32_t)length;
  return 0;
}

static int sim_sq_copy_sges(struct sim_sq *sq, struct sim_slot *slot, const struct sim_wqe *wqe)
{
  if (wqe->num_sge > sq->max_sge)
    return ENOMEM;
  uint64_t length = 0;
  for (uint32_t i = 0; i < wqe->num_sge; i++) {
    slot->sges[i] = wqe->sges[i];
    length += wqe->sges[i].length;
  }
  slot->num_sge = wqe->num_sge;
  slot->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
  return 0;
}

static void sim_sq_fill(struct sim_slot *slot, const struct sim_wqe *wqe)
{
  *slot = (struct sim_slot){.wr_id = wqe->wr_id,
                            .opcode = wqe->opcode,
                            .flags = wqe->flags,
                            .imm_or_rkey = wqe->imm_or_rkey,
                            .rkey = wqe->rkey,
                            .remote_addr = wqe->remote_addr,
                            .compare_add = wqe->compare_add,
                            .swap = wqe->swap,
                            .remote_qpn = wqe->remote_qpn,
                            .remote_qkey = wqe->remote_qkey,
                            .dc_key = wqe->dc_key,
                            .stream = wqe->stream,
                            .mw = wqe->mw ? sim_mw_of(wqe->mw) : NULL,
                            .bind = wqe->bind};
  if (wqe->ah)
    slot->ah = sim_ah_of(wqe->ah)->attr;
}

void sim_post_begin(struct sim_qp *qp)
{
  if (!qp->sq)
    return;
  pthread_mutex_lock(&qp->sq->lock);
  qp->sq->pending = qp->sq->head;
}

int sim_post_add(struct sim_qp *qp, const struct sim_wqe *wqe)
{
  struct sim_sq *sq = qp->sq;
  struct fab_qp *entry = sim_fab_qp(qp);
  if (!sq || !sim_sq_has_opcode(qp->kind, wqe->opcode) || sim_sq_lacks_immediate(qp, wqe->opcode))
    return EINVAL;
  enum ibv_qp_state state = atomic_load_explicit(&entry->state, memory_order_relaxed);
  if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR)
    return EINVAL;
  if ((qp->kind == SIM_UD || qp->kind == SIM_DCI) && !wqe->ah)
    return EINVAL;
  if (sq->pending - atomic_load_explicit(&entry->sq_freed, memory_order_acquire) >= sq->room)
    return ENOMEM;
  struct sim_slot *slot = sim_slot_at(sq, sq->pending);
  sim_sq_fill(slot, wqe);
  int error = wqe->flags & IBV_SEND_INLINE ? sim_sq_copy_inline(sq, slot, wqe)
                                           : sim_sq_copy_sges(sq, slot, wqe);
  if (!error)
    sq->pending++;
  return error;
}

static void sim_sq_defer(struct sim_sq *sq)
{
  uint64_t now = fab_clock_ns(fab);
  for (uint32_t i = sq->head; i != sq->pending; i++)
    sim_slot_at(sq, i)->not_before_ns =
        now + (fab->engine_delay_ns ? fab_random() % (fab->engine_delay_ns + 1) : 0);
}

void sim_post_end(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  if (!sq)
    return;
  if (fab->strict) {
    for (uint32_t i = sq->head; i != sq->pending; i++)
      sim_strict_posted(qp, sim_slot_at(sq, i));
  }
  bool deferred = fab->engine == FAB_ENGINE_DEFERRED;
  if (deferred)
    sim_sq_defer(sq);
  sq->head = sq->pending;
  if (!deferred)
    sim_sq_run(qp);
  else {
    atomic_store(&sq->waits, true);
    atomic_store(&sq->attention, true);
  }
  sim_sq_unlock(qp);
}

void sim_post_abort(struct sim_qp *qp)
{
  if (!qp->sq)
    return;
  qp->sq->pending = qp->sq->head;
  sim_sq_unlock(qp);
}

void sim_sq_unlock(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  pthread_mutex_unlock(&sq->lock);
  /* The NIC thread came by, or something waits for a time that it does not know of yet. */
  if (atomic_exchange(&sq->attention, false))
    fab_kick(fab_slot);
}
