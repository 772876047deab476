/* SPDX-License-Identifier: Apache-2.0 */
/* Going through a send queue: what became of each try, and when the next one is. */
#include "engine.h"

static enum ibv_wc_opcode completed_as(uint32_t opcode)
{
  switch (opcode) {
  case IBV_WR_RDMA_WRITE:
  case IBV_WR_RDMA_WRITE_WITH_IMM:
    return IBV_WC_RDMA_WRITE;
  case IBV_WR_RDMA_READ:
    return IBV_WC_RDMA_READ;
  case IBV_WR_ATOMIC_CMP_AND_SWP:
    return IBV_WC_COMP_SWAP;
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    return IBV_WC_FETCH_ADD;
  case IBV_WR_LOCAL_INV:
    return IBV_WC_LOCAL_INV;
  case IBV_WR_BIND_MW:
    return IBV_WC_BIND_MW;
  default:
    return IBV_WC_SEND;
  }
}

/* Takes the request at `next` off the queue, with a completion if it is to have one. */
static void finish(struct sim_qp *qp, enum ibv_wc_status status)
{
  struct sim_sq *sq = qp->sq;
  struct sim_slot *slot = sim_slot_at(sq, sq->next++);
  sq->retries = sq->rnr_retries = 0;
  sq->timed = false;
  sq->wake_ns = 0;
  bool signaled = (slot->flags & IBV_SEND_SIGNALED) || qp->init.sq_sig_all;
  if (status == IBV_WC_SUCCESS && !signaled)
    return;
  struct sim_cqe cqe = {.wr_id = slot->wr_id,
                        .status = status,
                        .opcode = completed_as(slot->opcode),
                        .vendor_err = sim_syndrome(status),
                        .byte_len = slot->length,
                        .qp_num = qp->number,
                        .is_send = 1,
                        .sq_count = sq->next};
  struct fab_qp *entry = sim_fab_qp(qp);
  if (entry->send_cq)
    sim_complete(entry->send_cq - 1, &cqe);
}

void sim_sq_flush(struct sim_qp *qp)
{
  while (qp->sq->next != qp->sq->head)
    finish(qp, IBV_WC_WR_FLUSH_ERR);
}

static bool stream_failed(const struct sim_sq *sq, uint16_t stream)
{
  return sq->stream_errors && (sq->stream_errors[stream / 64] >> stream % 64 & 1);
}

/* An initiator with streams loses the stream alone, until too many are lost. */
static bool contain(struct sim_qp *qp, uint16_t stream)
{
  struct sim_sq *sq = qp->sq;
  if (!sq->stream_errors)
    return false;
  sq->stream_errors[stream / 64] |= UINT64_C(1) << stream % 64;
  unsigned failed = 0;
  for (uint32_t i = 0; i < sq->stream_words; i++)
    failed += (unsigned)__builtin_popcountll(sq->stream_errors[i]);
  return failed < 1u << qp->dc.log_num_errored;
}

static void fail(struct sim_qp *qp, enum ibv_wc_status status)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  uint16_t stream = sim_slot_at(qp->sq, qp->sq->next)->stream;
  fab_log(2, "qp 0x%06x: a request ends with %d", qp->number, (int)status);
  if (contain(qp, stream)) {
    finish(qp, status);
    return;
  }
  bool reliable = qp->kind == SIM_RC || qp->kind == SIM_DCI;
  if (!reliable)
    atomic_store(&entry->state, IBV_QPS_SQE);
  finish(qp, status);
  if (reliable) {
    sim_qp_lock(entry);
    sim_qp_fail(entry);
    fab_unlock(&entry->lock);
  }
  sim_sq_flush(qp);
}

/* The acknowledgement that does not come: 4.096 us x 2^timeout, 0 for never. */
static uint64_t ack_timeout_ns(const struct sim_qp *qp)
{
  unsigned timeout = qp->attr.timeout & 31;
  return timeout ? UINT64_C(4096) << timeout : UINT64_C(1) << 62;
}

static void lost(struct sim_qp *qp)
{
  if (qp->kind == SIM_UC || qp->kind == SIM_UD) {
    finish(qp, IBV_WC_SUCCESS);
    return;
  }
  qp->sq->timed = true;
  qp->sq->wake_ns = fab_clock_ns(fab) + ack_timeout_ns(qp);
}

static void not_ready(struct sim_qp *qp, uint64_t wait_ns)
{
  struct sim_sq *sq = qp->sq;
  if (qp->attr.rnr_retry != 7 && sq->rnr_retries == qp->attr.rnr_retry) {
    fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  if (sq->rnr_retries < 7)
    sq->rnr_retries++;
  sq->wake_ns = fab_clock_ns(fab) + wait_ns;
}

static void settle(struct sim_qp *qp, const struct sim_outcome *outcome)
{
  switch (outcome->fate) {
  case SIM_DONE:
    finish(qp, IBV_WC_SUCCESS);
    break;
  case SIM_LOST:
    lost(qp);
    break;
  case SIM_RNR:
    not_ready(qp, outcome->wait_ns);
    break;
  case SIM_WAIT:
    qp->sq->wake_ns = fab_clock_ns(fab) + outcome->wait_ns;
    break;
  default:
    fail(qp, outcome->status);
    break;
  }
}

static bool tries_for_ever(const struct sim_qp *qp)
{
  return qp->attr.retry_cnt == 7 && sim_fab_device(qp->qp.context)->caps.retries_for_ever;
}

/* True if the request at `next` may be tried now. */
static bool due(struct sim_qp *qp, struct sim_slot *slot)
{
  struct sim_sq *sq = qp->sq;
  uint64_t at = sq->wake_ns ? sq->wake_ns : slot->not_before_ns;
  if (at && fab_clock_ns(fab) < at) {
    sq->wake_ns = at;
    return false;
  }
  sq->wake_ns = 0;
  if (!sq->timed)
    return true;
  sq->timed = false;
  if (sq->retries >= qp->attr.retry_cnt && !tries_for_ever(qp)) {
    fail(qp, IBV_WC_RETRY_EXC_ERR);
    return false;
  }
  sq->retries++;
  fab_counted(fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num), FAB_RETRIES);
  return true;
}

static void drained(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  if (!sq->draining)
    return;
  sq->draining = false;
  if (qp->attr.en_sqd_async_notify)
    sim_qp_event(sim_fab_qp(qp), IBV_EVENT_SQ_DRAINED);
}

static void go_through(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  const struct fab_qp *entry = sim_fab_qp(qp);
  while (sq->next != sq->head) {
    enum ibv_qp_state state = atomic_load_explicit(&entry->state, memory_order_acquire);
    if (state == IBV_QPS_ERR) {
      sim_sq_flush(qp);
      return;
    }
    bool begun = sq->wake_ns || sq->retries || sq->rnr_retries;
    if (state == IBV_QPS_SQE) {
      sim_sq_flush(qp);
      return;
    }
    if (state != IBV_QPS_RTS && !(state == IBV_QPS_SQD && begun))
      break;
    struct sim_slot *slot = sim_slot_at(sq, sq->next);
    if (stream_failed(sq, slot->stream)) {
      finish(qp, IBV_WC_WR_FLUSH_ERR);
      continue;
    }
    if (!due(qp, slot)) {
      if (!sq->wake_ns)
        continue;
      /* The NIC thread is to learn of the time. */
      atomic_store(&sq->attention, true);
      return;
    }
    struct sim_outcome outcome = sim_try(qp, slot);
    settle(qp, &outcome);
  }
  drained(qp);
}

void sim_sq_run(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  go_through(qp);
  atomic_store_explicit(&sq->waits, sq->next != sq->head || sq->late, memory_order_relaxed);
}
