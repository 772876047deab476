/* SPDX-License-Identifier: Apache-2.0 */
/* Making and unmaking queue pairs. */
#include "engine/engine.h"
#include "front/refused.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int sim_qp_kind_of(const struct ibv_qp_init_attr_ex *attr, const struct sim_qp_dv *dv,
                          enum sim_qp_kind *kind)
{
  if (dv && (dv->kind == SIM_DCI || dv->kind == SIM_DCT)) {
    *kind = dv->kind;
    return attr->qp_type == IBV_QPT_DRIVER ? 0 : EINVAL;
  }
  switch (attr->qp_type) {
  case IBV_QPT_RC:
    *kind = SIM_RC;
    return 0;
  case IBV_QPT_UC:
    *kind = SIM_UC;
    return 0;
  case IBV_QPT_UD:
    *kind = SIM_UD;
    return 0;
  default:
    sim_refused("a queue pair that is not RC, UC, UD or DC");
    return EOPNOTSUPP;
  }
}

static int sim_qp_check_dct(const struct ibv_qp_init_attr_ex *attr)
{
  if (attr->comp_mask != IBV_QP_INIT_ATTR_PD || !attr->srq || !attr->recv_cq)
    return EINVAL;
  return 0;
}

static int sim_qp_check_dci(const struct ibv_qp_init_attr_ex *attr, const struct sim_qp_dv *dv,
                            const struct fab_caps *caps)
{
  if (attr->cap.max_recv_wr || attr->cap.max_recv_sge || !attr->send_cq)
    return EINVAL;
  if (dv->log_num_concurrent > caps->log_max_streams || dv->log_num_errored > caps->log_max_errored)
    return EINVAL;
  return 0;
}

static int sim_qp_check_create(const struct ibv_qp_init_attr_ex *attr, const struct sim_qp_dv *dv,
                               enum sim_qp_kind kind, const struct fab_caps *caps)
{
  if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
    return EINVAL;
  if (dv && dv->kind && !caps->dc)
    return EOPNOTSUPP;
  if (sim_context_of(attr->pd->context)->device->dev.transport_type == IBV_TRANSPORT_UNSPECIFIED &&
      kind != SIM_UD)
    return EOPNOTSUPP;
  if (kind == SIM_DCT)
    return sim_qp_check_dct(attr);
  const struct ibv_qp_cap *cap = &attr->cap;
  if (cap->max_send_wr > caps->max_qp_wr || cap->max_send_sge > caps->max_sge ||
      cap->max_inline_data > caps->max_inline)
    return EINVAL;
  if (!attr->srq && (cap->max_recv_wr > caps->max_qp_wr || cap->max_recv_sge > caps->max_sge))
    return EINVAL;
  if (kind == SIM_DCI)
    return sim_qp_check_dci(attr, dv, caps);
  return attr->send_cq && attr->recv_cq ? 0 : EINVAL;
}

static uint32_t sim_qp_index_of(const struct ibv_cq *cq)
{
  return cq ? sim_container_of(cq, const struct sim_cq, cq)->index + 1 : 0;
}

/* As the kernel's configure_responder_scat_cqe: of RC and UC, unless the program wants none. */
static uint8_t sim_qp_scatter_of(const struct sim_qp *qp, const struct fab_caps *caps)
{
  const char *env = getenv("MLX5_SCATTER_TO_CQE");
  const bool has = qp->kind == SIM_RC || qp->kind == SIM_UC;

  return has && !qp->dc.no_scatter && !(env && !strcmp(env, "0")) ? caps->scatter_to_cqe : 0;
}

static int sim_qp_take(struct sim_qp *qp, const struct ibv_qp_init_attr_ex *attr,
                       const struct fab_ring *rq)
{
  struct fab_device *device = sim_fab_device(attr->pd->context);
  if (!fab_count(device, FAB_KIND_QP, device->caps.max_qp))
    return ENOMEM;
  fab_lock(&fab->lock);
  int64_t i = fab_entry(FAB_KIND_QP);
  if (i < 0) {
    fab_unlock(&fab->lock);
    fab_uncount(device, FAB_KIND_QP);
    return ENOMEM;
  }
  struct fab_qp *entry = &fab->qp[i];
  uint32_t generation = (entry->last_number >> FAB_QP_BITS) + 1;
  memset((char *)entry + offsetof(struct fab_qp, owner), 0,
         sizeof(*entry) - offsetof(struct fab_qp, owner));
  entry->owner = (uint16_t)fab_slot;
  entry->device = (uint16_t)sim_device_number(attr->pd->context);
  entry->kind = (uint8_t)qp->kind;
  entry->pd = sim_pd_of(attr->pd)->id;
  entry->dct_key = qp->dc.dct_access_key;
  entry->scatter = sim_qp_scatter_of(qp, &device->caps);
  entry->srq = attr->srq && qp->kind != SIM_DCI ? sim_srq_of(attr->srq)->index + 1 : 0;
  entry->send_cq = sim_qp_index_of(attr->send_cq);
  entry->recv_cq = sim_qp_index_of(attr->recv_cq);
  entry->rq = *rq;
  entry->ece = 0;
  entry->last_number = (generation << FAB_QP_BITS | (uint32_t)i) & 0xffffff;
  qp->index = (uint32_t)i;
  qp->number = entry->last_number;
  atomic_store(&sim_qp_at[i], qp);
  atomic_store_explicit(&entry->number, qp->number, memory_order_release);
  fab_unlock(&fab->lock);
  return 0;
}

static int sim_qp_make_queues(struct sim_qp *qp, const struct ibv_qp_init_attr_ex *attr,
                              struct fab_ring *rq)
{
  *rq = (struct fab_ring){.size = 1};
  if (qp->kind != SIM_DCT) {
    qp->sq = sim_sq_alloc(&attr->cap, qp->dc.log_num_concurrent);
    if (!qp->sq)
      return ENOMEM;
  }
  if (attr->srq || qp->kind == SIM_DCT || qp->kind == SIM_DCI || !attr->cap.max_recv_wr)
    return 0;
  uint32_t sges = attr->cap.max_recv_sge ? attr->cap.max_recv_sge : 1;
  int error = sim_ring_alloc(rq, attr->cap.max_recv_wr,
                             (uint32_t)(sizeof(struct fab_recv) + sges * sizeof(struct ibv_sge)));
  rq->max_sge = sges;
  rq->room = attr->cap.max_recv_wr;
  return error;
}

/* Everything that the queue pair keeps from being destroyed. */
static void sim_qp_hold(struct sim_qp *qp, int by)
{
  struct ibv_qp *v = &qp->qp;
  struct sim_context *context = sim_context_of(v->context);
  pthread_mutex_lock(&sim_self.lock);
  context->qps += (unsigned)by;
  sim_pd_of(v->pd)->users += (unsigned)by;
  if (v->send_cq)
    sim_fab_cq(sim_cq_of(v->send_cq))->users += (unsigned)by;
  if (v->recv_cq)
    sim_fab_cq(sim_cq_of(v->recv_cq))->users += (unsigned)by;
  if (v->srq)
    sim_fab_srq(sim_srq_of(v->srq))->users += (unsigned)by;
  if (by > 0)
    sim_list_add(&sim_self.qps, &qp->link);
  else
    sim_list_del(&qp->link);
  pthread_mutex_unlock(&sim_self.lock);
}

static void sim_qp_fill(struct sim_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
  if (attr->srq)
    attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
  qp->init = (struct ibv_qp_init_attr){.qp_context = attr->qp_context,
                                       .send_cq = attr->send_cq,
                                       .recv_cq = attr->recv_cq,
                                       .srq = attr->srq,
                                       .cap = attr->cap,
                                       .qp_type = attr->qp_type,
                                       .sq_sig_all = attr->sq_sig_all};
  qp->attr.cap = attr->cap;
  qp->attr.path_mig_state = IBV_MIG_MIGRATED;
  struct ibv_qp *v = &qp->qp;
  v->context = attr->pd->context;
  v->qp_context = attr->qp_context;
  v->pd = attr->pd;
  v->send_cq = attr->send_cq;
  v->recv_cq = attr->recv_cq;
  v->srq = attr->srq;
  v->handle = qp->index;
  /* A DCT is made on the way to RTR; a number before that is nobody's. */
  v->qp_num = qp->kind == SIM_DCT ? 0 : qp->number;
  v->state = IBV_QPS_RESET;
  v->qp_type = attr->qp_type;
  pthread_mutex_init(&v->mutex, NULL);
  pthread_cond_init(&v->cond, NULL);
}

struct sim_qp *sim_qp_create(struct sim_context *context, struct ibv_qp_init_attr_ex *attr,
                             const struct sim_qp_dv *dv)
{
  enum sim_qp_kind kind;
  int error = sim_qp_kind_of(attr, dv, &kind);
  if (!error)
    error = sim_qp_check_create(attr, dv, kind, &fab->device[context->device->number].caps);
  if (error)
    return sim_fail(error);
  struct sim_qp *qp = calloc(1, sizeof(*qp));
  if (!qp)
    return sim_fail(ENOMEM);
  qp->kind = kind;
  if (dv)
    qp->dc = *dv;
  if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
    qp->send_ops = attr->send_ops_flags;
  struct fab_ring rq = {0};
  const struct ibv_qp_cap asked = attr->cap;
  const struct fab_caps *caps = &fab->device[context->device->number].caps;
  qp->ece_given = caps->ece;
  error = sim_wqe_size(caps, kind, qp->send_ops, &attr->cap);
  if (!error) {
    sim_grant_qp(caps, &attr->cap);
    error = sim_qp_make_queues(qp, attr, &rq);
  }
  if (!error)
    error = sim_qp_take(qp, attr, &rq);
  if (error) {
    sim_ring_free(&rq);
    sim_sq_free(qp->sq);
    free(qp);
    attr->cap = asked;
    return sim_fail(error);
  }
  sim_qp_fill(qp, attr);
  sim_qp_hold(qp, 1);
  return qp;
}

int sim_qp_destroy(struct sim_qp *qp)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  sim_qp_hold(qp, -1);
  if (qp->sq) {
    pthread_mutex_lock(&qp->sq->lock);
    sim_delayed_write_place(qp);
    pthread_mutex_unlock(&qp->sq->lock);
  }
  sim_qp_lock(entry);
  atomic_store(&entry->state, IBV_QPS_RESET);
  atomic_store(&entry->number, 0);
  struct fab_ring rq = entry->rq;
  fab_unlock(&entry->lock);
  atomic_store(&sim_qp_at[qp->index], NULL);
  if (qp->qp.send_cq)
    sim_cq_purge(qp->qp.send_cq, qp->number);
  if (qp->qp.recv_cq && qp->qp.recv_cq != qp->qp.send_cq)
    sim_cq_purge(qp->qp.recv_cq, qp->number);
  sim_ring_free(&rq);
  fab_uncount(sim_fab_device(qp->qp.context), FAB_KIND_QP);
  sim_events_forget(&sim_context_of(qp->qp.context)->async, qp);
  sim_await_acks(&qp->qp.mutex, &qp->qp.cond, &qp->qp.events_completed, qp->async_given);
  sim_sq_free(qp->sq);
  free(qp);
  return 0;
}

int sim_qp_post_recv(struct sim_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  int error = 0;
  sim_qp_lock(entry);
  enum ibv_qp_state state = entry->state;
  if (state == IBV_QPS_RESET || entry->srq || !entry->rq.offset)
    error = EINVAL;
  for (; wr && !error; wr = error ? wr : wr->next)
    error = sim_ring_post(entry, &entry->rq, wr);
  if (state == IBV_QPS_ERR)
    sim_qp_fail(entry);
  fab_unlock(&entry->lock);
  if (error && bad)
    *bad = wr;
  return error;
}

int sim_qp_attach_mcast(struct sim_qp *qp, const union ibv_gid *gid, uint16_t lid, bool attach)
{
  (void)lid;
  if (qp->kind != SIM_UD || gid->raw[0] != 0xff)
    return EINVAL;
  int error = attach ? ENOMEM : EINVAL;
  fab_lock(&fab->lock);
  for (unsigned i = 0; i < FAB_MCAST && error; i++) {
    struct fab_mcast *at = &fab->mcast[i];
    if (attach && fab_qp_of(at->qpn))
      continue;
    if (!attach && (at->qpn != qp->number || memcmp(&at->gid, gid, sizeof(*gid))))
      continue;
    at->gid = *gid;
    at->device = sim_device_number(qp->qp.context);
    at->qpn = attach ? qp->number : 0;
    error = 0;
  }
  fab_unlock(&fab->lock);
  return error;
}
