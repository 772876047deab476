/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a queue pair from state to state. */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

/* Keeps what the mask brings, for ibv_query_qp and for the responder. */
static void sim_qp_modify_keep(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
  struct ibv_qp_attr *to = &qp->attr;
#define KEEP(bit, field)                                                                           \
  if (mask & (bit))                                                                                \
  to->field = attr->field
  KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags);
  KEEP(IBV_QP_PKEY_INDEX, pkey_index);
  KEEP(IBV_QP_PORT, port_num);
  KEEP(IBV_QP_QKEY, qkey);
  KEEP(IBV_QP_AV, ah_attr);
  KEEP(IBV_QP_PATH_MTU, path_mtu);
  KEEP(IBV_QP_TIMEOUT, timeout);
  KEEP(IBV_QP_RETRY_CNT, retry_cnt);
  KEEP(IBV_QP_RNR_RETRY, rnr_retry);
  KEEP(IBV_QP_RQ_PSN, rq_psn);
  KEEP(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
  KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
  KEEP(IBV_QP_SQ_PSN, sq_psn);
  KEEP(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
  KEEP(IBV_QP_DEST_QPN, dest_qp_num);
  KEEP(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef KEEP
}

static void sim_qp_modify_publish(struct fab_qp *entry, const struct ibv_qp_attr *attr, int mask)
{
  entry->port = attr->port_num;
  entry->pkey = attr->pkey_index;
  entry->access = attr->qp_access_flags;
  entry->qkey = attr->qkey;
  entry->ah = attr->ah_attr;
  entry->path_mtu = (uint8_t)attr->path_mtu;
  entry->dest_qpn = attr->dest_qp_num;
  entry->min_rnr_timer = attr->min_rnr_timer;
  entry->max_dest_rd_atomic = attr->max_dest_rd_atomic;
  if (mask & (IBV_QP_AV | IBV_QP_PORT))
    atomic_fetch_add(&fab->topology, 1);
  if (mask & IBV_QP_RQ_PSN)
    entry->rq_psn = attr->rq_psn & 0xffffff;
}

static void sim_qp_modify_reset(struct sim_qp *qp, struct fab_qp *entry)
{
  entry->ece = 0;
  entry->rq.tail = entry->rq.head;
  entry->rq.freed = entry->rq.head;
  entry->taken = 0;
  entry->communicated = 0;
  entry->flushed = 0;
  entry->async_bits = 0;
  if (qp->qp.send_cq)
    sim_cq_purge(qp->qp.send_cq, qp->number);
  if (qp->qp.recv_cq && qp->qp.recv_cq != qp->qp.send_cq)
    sim_cq_purge(qp->qp.recv_cq, qp->number);
  entry->rq.freed = entry->rq.head;
  struct sim_sq *sq = qp->sq;
  if (!sq)
    return;
  sq->next = sq->pending = sq->head;
  sq->checked = sq->head;
  memset(sq->flows, 0, sq->flow_count * sizeof(*sq->flows));
  atomic_store(&entry->sq_freed, sq->head);
  if (sq->stream_errors)
    memset(sq->stream_errors, 0, sq->stream_words * sizeof(*sq->stream_errors));
}

static void sim_qp_modify_enter(struct sim_qp *qp, struct fab_qp *entry, enum ibv_qp_state from,
                                enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
  struct sim_sq *sq = qp->sq;
  if (to == IBV_QPS_RESET) {
    sim_qp_modify_reset(qp, entry);
    memset((char *)&qp->attr, 0, offsetof(struct ibv_qp_attr, cap));
  } else {
    sim_qp_modify_keep(qp, attr, mask);
    sim_qp_modify_publish(entry, &qp->attr, mask);
  }
  if (sq && (mask & IBV_QP_SQ_PSN))
    sq->psn = attr->sq_psn & 0xffffff;
  if (sq)
    sq->draining = to == IBV_QPS_SQD && from == IBV_QPS_RTS;
  if (to == IBV_QPS_RTR && qp->ece_set) {
    entry->ece = qp->ece_given = qp->ece_set & sim_fab_device(qp->qp.context)->caps.ece;
    qp->ece_set = 0;
  }
  if (qp->kind == SIM_DCT && to == IBV_QPS_RTR)
    qp->qp.qp_num = qp->number;
  atomic_store_explicit(&entry->state, to, memory_order_release);
  if (to == IBV_QPS_ERR)
    sim_qp_fail(entry);
  qp->qp.state = to;
  fab_log(3, "qp 0x%06x goes from state %d to %d", qp->number, from, to);
}

int sim_qp_modify(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  if (sim_fab_device(qp->qp.context)->removed)
    return EIO;
  if (qp->sq)
    pthread_mutex_lock(&qp->sq->lock);
  sim_qp_lock(entry);
  enum ibv_qp_state from = entry->state;
  enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
  int error = sim_modify_check(qp, from, to, attr, mask);
  if (!error)
    sim_qp_modify_enter(qp, entry, from, to, attr, mask);
  fab_unlock(&entry->lock);
  if (!error && qp->sq) {
    if (to == IBV_QPS_ERR)
      sim_sq_flush(qp);
    else if (to == IBV_QPS_RTS || to == IBV_QPS_SQD)
      sim_sq_run(qp);
  }
  if (qp->sq)
    sim_sq_unlock(qp);
  return error;
}

int sim_qp_query(struct sim_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  sim_qp_lock(entry);
  *attr = qp->attr;
  attr->qp_state = attr->cur_qp_state = entry->state;
  attr->rq_psn = entry->rq_psn;
  if (qp->sq && entry->state >= IBV_QPS_RTS)
    attr->sq_psn = qp->sq->psn;
  attr->sq_draining = qp->sq && qp->sq->draining;
  fab_unlock(&entry->lock);
  qp->qp.state = attr->qp_state;
  *init = qp->init;
  return 0;
}

int sim_dci_stream_reset(struct sim_qp *qp, uint16_t stream)
{
  if (qp->kind != SIM_DCI || !qp->sq->stream_errors)
    return EINVAL;
  uint64_t bit = UINT64_C(1) << stream % 64;
  pthread_mutex_lock(&qp->sq->lock);
  uint64_t *word = &qp->sq->stream_errors[stream / 64];
  /* A stream that has not failed has nothing to be reset. */
  int error = sim_fab_qp(qp)->state == IBV_QPS_RTS && (*word & bit) ? 0 : EINVAL;
  if (!error)
    *word &= ~bit;
  sim_sq_unlock(qp);
  return error;
}

enum { PCI_VENDOR_MELLANOX = 0x15b3 };

int sim_ece_query(struct sim_qp *qp, struct ibv_ece *ece)
{
  if (!sim_fab_device(qp->qp.context)->caps.ece)
    return EOPNOTSUPP;
  *ece = (struct ibv_ece){.vendor_id = PCI_VENDOR_MELLANOX, .options = qp->ece_given};
  return 0;
}

int sim_ece_set(struct sim_qp *qp, const struct ibv_ece *ece)
{
  if (!sim_fab_device(qp->qp.context)->caps.ece)
    return EOPNOTSUPP;
  if (ece->comp_mask || ece->vendor_id != PCI_VENDOR_MELLANOX)
    return EINVAL;
  qp->ece_set = ece->options;
  qp->ece_given = 0; /* until the device has accepted some */
  return 0;
}
