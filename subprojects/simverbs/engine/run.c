/* SPDX-License-Identifier: Apache-2.0 */
/* Going through a send queue: what became of each try, and when the next one is. */
#include "engine.h"

#include <string.h>

static enum ibv_wc_opcode sim_run_completed_as(uint32_t opcode)
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

static void sim_run_free_done(struct sim_sq *sq)
{
  while (sq->next != sq->head && sim_slot_at(sq, sq->next)->done)
    sq->next++;
}

/* The request at `at` is over, with a completion if it is to have one. */
static void sim_run_finish(struct sim_qp *qp, uint32_t at, enum ibv_wc_status status)
{
  struct sim_sq *sq = qp->sq;
  struct sim_slot *slot = sim_slot_at(sq, at);
  slot->done = 1;
  sim_run_free_done(sq);
  bool signaled = (slot->flags & IBV_SEND_SIGNALED) || qp->init.sq_sig_all;
  if (status == IBV_WC_SUCCESS && !signaled)
    return;
  struct sim_cqe cqe = {.wr_id = slot->wr_id,
                        .status = status,
                        .opcode = sim_run_completed_as(slot->opcode),
                        .vendor_err = sim_syndrome(status),
                        .byte_len = slot->length,
                        .qp_num = qp->number,
                        .is_send = 1,
                        .sq_count = sq->next,
                        .sq_at = at};
  struct fab_qp *entry = sim_fab_qp(qp);
  if (entry->send_cq)
    sim_complete(entry->send_cq - 1, &cqe);
}

void sim_sq_flush(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  memset(sq->flows, 0, sq->flow_count * sizeof(*sq->flows));
  for (uint32_t at = sq->next; at != sq->head; at++) {
    if (!sim_slot_at(sq, at)->done)
      sim_run_finish(qp, at, IBV_WC_WR_FLUSH_ERR);
  }
}

static bool sim_run_stream_failed(const struct sim_sq *sq, uint16_t stream)
{
  return sq->stream_errors && (sq->stream_errors[stream / 64] >> stream % 64 & 1);
}

/* An initiator with streams loses the stream alone, until too many are lost. */
static bool sim_run_contain(struct sim_qp *qp, uint16_t stream)
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

static void sim_run_fail(struct sim_qp *qp, uint32_t at, enum ibv_wc_status status)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  uint16_t stream = sim_slot_at(qp->sq, at)->stream;
  fab_log(2, "qp 0x%06x: a request ends with %d", qp->number, (int)status);
  if (sim_run_contain(qp, stream)) {
    sim_run_finish(qp, at, status);
    return;
  }
  bool reliable = qp->kind == SIM_RC || qp->kind == SIM_DCI;
  if (!reliable)
    atomic_store(&entry->state, IBV_QPS_SQE);
  sim_run_finish(qp, at, status);
  if (reliable) {
    sim_qp_lock(entry);
    sim_qp_fail(entry);
    fab_unlock(&entry->lock);
  }
  sim_sq_flush(qp);
}

/* The acknowledgement that does not come: 4.096 us x 2^timeout, 0 for never. */
static uint64_t sim_run_ack_timeout_ns(const struct sim_qp *qp)
{
  unsigned timeout = qp->attr.timeout & 31;
  return timeout ? UINT64_C(4096) << timeout : UINT64_C(1) << 62;
}

/* True: the request waits to be tried again. */
static bool sim_run_lost(struct sim_qp *qp, uint32_t at, struct sim_flow *flow)
{
  if (qp->kind == SIM_UC || qp->kind == SIM_UD) {
    sim_run_finish(qp, at, IBV_WC_SUCCESS);
    return false;
  }
  flow->timed = true;
  flow->wake_ns = fab_clock_ns(fab) + sim_run_ack_timeout_ns(qp);
  return true;
}

static bool sim_run_not_ready(struct sim_qp *qp, uint32_t at, struct sim_flow *flow,
                              uint64_t wait_ns)
{
  if (qp->attr.rnr_retry != 7 && flow->rnr_retries == qp->attr.rnr_retry) {
    sim_run_fail(qp, at, IBV_WC_RNR_RETRY_EXC_ERR);
    return false;
  }
  if (flow->rnr_retries < 7)
    flow->rnr_retries++;
  flow->wake_ns = fab_clock_ns(fab) + wait_ns;
  return true;
}

static bool sim_run_settle(struct sim_qp *qp, uint32_t at, struct sim_flow *flow,
                           const struct sim_outcome *outcome)
{
  switch (outcome->fate) {
  case SIM_DONE:
    sim_run_finish(qp, at, IBV_WC_SUCCESS);
    return false;
  case SIM_LOST:
    return sim_run_lost(qp, at, flow);
  case SIM_RNR:
    return sim_run_not_ready(qp, at, flow, outcome->wait_ns);
  case SIM_WAIT:
    flow->wake_ns = fab_clock_ns(fab) + outcome->wait_ns;
    return true;
  default:
    sim_run_fail(qp, at, outcome->status);
    return false;
  }
}

static bool sim_run_tries_for_ever(const struct sim_qp *qp)
{
  return qp->attr.retry_cnt == 7 && sim_fab_device(qp->qp.context)->caps.retries_for_ever;
}

/* How a request that is not over yet is to go on. */
enum turn { TURN_NOW, TURN_LATER, TURN_NEVER };

static enum turn sim_run_turn_of(struct sim_qp *qp, const struct sim_slot *slot,
                                 struct sim_flow *flow)
{
  uint64_t at = flow->wake_ns ? flow->wake_ns : slot->not_before_ns;
  if (at && fab_clock_ns(fab) < at) {
    flow->wake_ns = at;
    return TURN_LATER;
  }
  flow->wake_ns = 0;
  if (!flow->timed)
    return TURN_NOW;
  flow->timed = false;
  if (flow->retries >= qp->attr.retry_cnt && !sim_run_tries_for_ever(qp))
    return TURN_NEVER;
  flow->retries++;
  fab_counted(fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num), FAB_RETRIES);
  return TURN_NOW;
}

static void sim_run_drained(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  if (!sq->draining)
    return;
  sq->draining = false;
  if (qp->attr.en_sqd_async_notify)
    sim_qp_event(sim_fab_qp(qp), IBV_EVENT_SQ_DRAINED);
}

/* NULL: the device serves as many others already. */
static struct sim_flow *sim_run_flow_of(const struct sim_sq *sq, uint16_t stream)
{
  struct sim_flow *unused = NULL;
  if (sq->flow_count == 1)
    return sq->flows;
  for (uint32_t i = 0; i < sq->flow_count; i++) {
    if (sq->flows[i].is_used && sq->flows[i].stream == stream)
      return &sq->flows[i];
    if (!sq->flows[i].is_used)
      unused = &sq->flows[i];
  }
  return unused;
}

uint64_t sim_sq_wake(const struct sim_sq *sq)
{
  uint64_t wake = 0;
  for (uint32_t i = 0; i < sq->flow_count; i++) {
    uint64_t at = sq->flows[i].wake_ns;
    if (at && (!wake || at < wake))
      wake = at;
  }
  return wake;
}

/* True: it waits. */
static bool sim_run_go_on(struct sim_qp *qp, uint32_t at, struct sim_flow *flow)
{
  struct sim_sq *sq = qp->sq;
  struct sim_slot *slot = sim_slot_at(sq, at);
  *flow = flow->is_used ? *flow : (struct sim_flow){.is_used = true, .stream = slot->stream};
  enum turn turn = sim_run_turn_of(qp, slot, flow);
  bool waits = turn == TURN_LATER;
  if (turn == TURN_NEVER)
    sim_run_fail(qp, at, IBV_WC_RETRY_EXC_ERR);
  if (turn == TURN_NOW) {
    struct sim_outcome outcome = sim_attempt(qp, slot);
    waits = sim_run_settle(qp, at, flow, &outcome);
  }
  if (waits)
    atomic_store(&sq->attention, true); /* the NIC thread is to learn of the time */
  else
    flow->is_used = false;
  return waits;
}

static bool sim_run_has_begun(const struct sim_flow *flow)
{
  return flow->is_used && (flow->wake_ns || flow->retries || flow->rnr_retries);
}

/* Requests of one stream in their order; those of another pass one that waits. */
static void sim_run_go_through(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  const struct fab_qp *entry = sim_fab_qp(qp);
  bool any_waits = false;
  for (uint32_t i = 0; i < sq->flow_count; i++)
    sq->flows[i].was_seen = false;
  for (uint32_t at = sq->next; at != sq->head; at++) {
    enum ibv_qp_state state = atomic_load_explicit(&entry->state, memory_order_acquire);
    if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
      sim_sq_flush(qp);
      return;
    }
    const struct sim_slot *slot = sim_slot_at(sq, at);
    if (slot->done)
      continue;
    if (sim_run_stream_failed(sq, slot->stream)) {
      sim_run_finish(qp, at, IBV_WC_WR_FLUSH_ERR);
      continue;
    }
    struct sim_flow *flow = sim_run_flow_of(sq, slot->stream);
    if (!flow || (flow->is_used && flow->was_seen)) {
      any_waits = true;
      continue;
    }
    if (state != IBV_QPS_RTS && !(state == IBV_QPS_SQD && sim_run_has_begun(flow)))
      continue;
    flow->was_seen = sim_run_go_on(qp, at, flow);
    any_waits |= flow->was_seen;
    if (any_waits && sq->flow_count == 1)
      return;
  }
  if (!any_waits)
    sim_run_drained(qp);
}

void sim_sq_run(struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  sim_run_go_through(qp);
  atomic_store_explicit(&sq->waits, sq->next != sq->head || sq->delayed_write,
                        memory_order_relaxed);
}
