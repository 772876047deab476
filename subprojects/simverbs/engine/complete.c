/* SPDX-License-Identifier: Apache-2.0 */
/* Completions, the errors that end a queue pair, and what a killed process left half done. */
#include "engine.h"

#include <string.h>

uint32_t sim_syndrome(enum ibv_wc_status status)
{
  switch (status) {
  case IBV_WC_SUCCESS:
    return 0;
  case IBV_WC_LOC_LEN_ERR:
    return 0x6a;
  case IBV_WC_LOC_QP_OP_ERR:
    return 0x68;
  case IBV_WC_LOC_PROT_ERR:
    return 0x51;
  case IBV_WC_WR_FLUSH_ERR:
    return 0xf9;
  case IBV_WC_MW_BIND_ERR:
    return 0x6b;
  case IBV_WC_REM_INV_REQ_ERR:
    return 0x8a;
  case IBV_WC_REM_ACCESS_ERR:
    return 0x88;
  case IBV_WC_REM_OP_ERR:
    return 0x89;
  case IBV_WC_RETRY_EXC_ERR:
    return 0x81;
  case IBV_WC_RNR_RETRY_EXC_ERR:
    return 0x87;
  default:
    return 0xff;
  }
}

static bool sim_complete_wakes(const struct fab_cq *cq, const struct sim_cqe *cqe)
{
  if (cq->armed == FAB_ARM_SOLICITED)
    return cqe->solicited || cqe->status != IBV_WC_SUCCESS;
  return cq->armed == FAB_ARM_ANY;
}

void sim_cq_fail(struct fab_cq *cq)
{
  if (atomic_exchange(&cq->overrun, 1))
    return;
  atomic_fetch_or(&cq->async_bits, 1u << IBV_EVENT_CQ_ERR);
  fab_kick(cq->owner);
}

void sim_cq_repair(struct fab_cq *cq)
{
  if (cq->finisher && cq->ring.head != cq->finisher_head)
    fab->qp[cq->finisher - 1].taken = 0;
  cq->finisher = 0;
}

static void sim_complete_put(struct fab_cq *cq, const struct sim_cqe *cqe,
                             const struct sim_scatter *scatter, struct fab_qp *taker)
{
  struct fab_ring *ring = &cq->ring;
  struct sim_entry *to = sim_ring_at(ring, ring->head);

  to->cqe = *cqe;
  to->cqe.timestamp_ns = fab_clock_ns(fab);
  if (cqe->scattered)
    to->scatter = *scatter;
  if (taker) {
    cq->finisher_head = ring->head;
    atomic_signal_fence(memory_order_seq_cst);
    cq->finisher = (uint32_t)(taker - fab->qp) + 1;
  }
  atomic_store_explicit(&ring->head, ring->head + 1, memory_order_release);
  if (!taker)
    return;
  taker->taken = 0;
  atomic_signal_fence(memory_order_seq_cst);
  cq->finisher = 0;
}

static void sim_complete_one(uint32_t index, const struct sim_cqe *cqe,
                             const struct sim_scatter *scatter, struct fab_qp *taker)
{
  struct fab_cq *cq = &fab->cq[index];
  struct fab_ring *ring = &cq->ring;
  fab_lock(&cq->lock);
  sim_cq_repair(cq);
  bool full = ring->head - ring->tail >= ring->size - 1;
  if (!cq->number || (full && !cq->ignore_overrun) || cq->overrun) {
    if (cq->number && !cq->overrun) {
      fab_counted(NULL, FAB_CQ_OVERRUNS);
      fab_log(2, "a completion queue of %u entries is overrun", cq->ring.size - 1);
      sim_cq_fail(cq);
    }
    fab_unlock(&cq->lock);
    return;
  }
  if (full)
    ring->tail++;
  sim_complete_put(cq, cqe, scatter, taker);
  bool wake = sim_complete_wakes(cq, cqe);
  if (wake) {
    /* In this order: killed between the two, the owner has an event too many, not one too few. */
    atomic_fetch_add(&cq->event, 1);
    atomic_signal_fence(memory_order_seq_cst);
    cq->armed = FAB_ARM_NONE;
  }
  fab_unlock(&cq->lock);
  if (wake)
    fab_kick(cq->owner);
}

void sim_complete(uint32_t index, const struct sim_cqe *cqe)
{
  sim_complete_one(index, cqe, NULL, NULL);
}

void sim_complete_taken(struct fab_qp *qp, const struct sim_cqe *cqe,
                        const struct sim_scatter *scatter)
{
  sim_complete_one(qp->recv_cq - 1, cqe, scatter, qp);
  qp->taken = 0; /* where the queue was full, too */
}

void sim_qp_event(struct fab_qp *qp, enum ibv_event_type event)
{
  atomic_fetch_or(&qp->async_bits, 1u << event);
  fab_kick(qp->owner);
}

static void sim_complete_flush_receive(struct fab_qp *qp, uint64_t wr_id)
{
  struct sim_cqe cqe = {.wr_id = wr_id,
                        .status = IBV_WC_WR_FLUSH_ERR,
                        .opcode = IBV_WC_RECV,
                        .vendor_err = sim_syndrome(IBV_WC_WR_FLUSH_ERR),
                        .qp_num = qp->number,
                        .srq = qp->srq};
  if (qp->recv_cq)
    sim_complete(qp->recv_cq - 1, &cqe);
}

void sim_qp_fail(struct fab_qp *qp)
{
  /* A target serves many: what one of them does wrong ends that one. */
  if (qp->kind == SIM_DCT)
    return;
  bool first = qp->state != IBV_QPS_ERR || !qp->flushed;
  atomic_store_explicit(&qp->state, IBV_QPS_ERR, memory_order_release);
  while (!qp->srq && qp->rq.tail != qp->rq.head) {
    const struct fab_recv *recv = sim_ring_at(&qp->rq, qp->rq.tail);
    sim_note_taken(qp, recv, qp->rq.tail);
    if (fab->strict)
      sim_strict_recv_taken(qp, recv);
    qp->rq.tail++;
    sim_complete_flush_receive(qp, recv->wr_id);
    qp->taken = 0;
  }
  if (!first)
    return;
  qp->flushed = 1;
  if (qp->srq && fab->device[qp->device].caps.last_wqe)
    atomic_fetch_or(&qp->async_bits, 1u << IBV_EVENT_QP_LAST_WQE_REACHED);
  atomic_store(&qp->attention, 1);
  fab_kick(qp->owner);
}

void sim_note_taken(struct fab_qp *qp, const struct fab_recv *recv, uint32_t tail)
{
  qp->taken_wr_id = recv->wr_id;
  qp->taken_tail = tail;
  atomic_signal_fence(memory_order_seq_cst);
  qp->taken = 1;
}

void sim_srq_repair(struct fab_srq *srq)
{
  if (srq->taker && srq->ring.tail == srq->taker_tail)
    fab->qp[srq->taker - 1].taken = 0;
  srq->taker = 0;
}

void sim_qp_repair(struct fab_qp *qp)
{
  if (qp->srq) {
    struct fab_srq *srq = &fab->srq[qp->srq - 1];
    if (fab_lock(&srq->lock))
      sim_srq_repair(srq);
    fab_unlock(&srq->lock);
  }
  if (!qp->number || !qp->taken || !qp->recv_cq)
    return;
  struct fab_cq *cq = &fab->cq[qp->recv_cq - 1];
  fab_lock(&cq->lock);
  sim_cq_repair(cq);
  fab_unlock(&cq->lock);
  if (!qp->taken)
    return;
  qp->taken = 0;
  /* The receive was not taken yet. sim_srq_repair() checks a shared queue. */
  if (!qp->srq && qp->rq.tail == qp->taken_tail)
    return;
  fab_log(2, "a process died delivering to qp 0x%06x: its receive is flushed", qp->number);
  sim_complete_flush_receive(qp, qp->taken_wr_id);
}
