/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs on ids, with what is made for them, and the way through their states. */
#include <string.h>

#include "cm.h"
#include "front/refused.h"

static int cm_qp_fail_if(int error)
{
  return error ? cm_fail(error) : 0;
}

/* ---- attributes ---- */

/* As the kernel's ib_cm_init_qp_attr() gives them (drivers/infiniband/core/cm.c). */
static int cm_qp_init_attributes(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
  const enum ibv_qp_state state = attr->qp_state;
  const bool is_asker = id->peer.kind == CM_REP;
  if (!id->path.device)
    return EINVAL;
  memset(attr, 0, sizeof(*attr));
  attr->qp_state = state;
  if (state == IBV_QPS_INIT) {
    attr->port_num = (uint8_t)id->path.port;
    attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id->responder_resources)
      attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    *mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return 0;
  }
  if (!id->has_peer || id->state < CM_REQ_RCVD || id->state == CM_OVER)
    return EINVAL;
  if (state == IBV_QPS_RTR) {
    sim_cm_ah(&id->path, &attr->ah_attr);
    attr->ah_attr.grh.traffic_class = id->tos;
    attr->path_mtu = is_asker ? id->path.mtu : id->peer.mtu;
    attr->dest_qp_num = id->peer.qp_num;
    attr->rq_psn = id->peer.psn;
    attr->max_dest_rd_atomic = id->responder_resources;
    *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return 0;
  }
  if (state != IBV_QPS_RTS)
    return EINVAL;
  attr->sq_psn = id->psn;
  attr->timeout = id->ack_timeout;
  attr->retry_cnt = id->retry_count;
  attr->rnr_retry = id->peer.rnr_retry_count;
  attr->max_rd_atomic = id->initiator_depth;
  *mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
          IBV_QP_MAX_QP_RD_ATOMIC;
  return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *p, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
  pthread_mutex_lock(&cm.lock);
  int error = cm_qp_init_attributes(cm_id_of(p), qp_attr, qp_attr_mask);
  pthread_mutex_unlock(&cm.lock);
  return cm_qp_fail_if(error);
}

static int cm_qp_enter(struct rdma_cm_id *id, struct ibv_qp *qp, struct ibv_qp_attr *attr,
                       enum ibv_qp_state state, int *mask)
{
  attr->qp_state = state;
  return rdma_init_qp_attr(id, attr, mask) ? -1 : cm_qp_fail_if(ibv_modify_qp(qp, attr, *mask));
}

int cm_qp_ready_to_receive(struct rdma_cm_id *id, uint8_t responder_resources)
{
  struct ibv_qp_attr attr;
  int mask;
  if (!id->qp)
    return 0;
  /* Once more: what the peer may do is known by now. */
  if (cm_qp_enter(id, id->qp, &attr, IBV_QPS_INIT, &mask))
    return -1;
  attr.qp_state = IBV_QPS_RTR;
  if (rdma_init_qp_attr(id, &attr, &mask))
    return -1;
  if (responder_resources != RDMA_MAX_RESP_RES)
    attr.max_dest_rd_atomic = responder_resources;
  return cm_qp_fail_if(ibv_modify_qp(id->qp, &attr, mask));
}

int cm_qp_ready_to_send(struct rdma_cm_id *id, uint8_t initiator_depth)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
  int mask;
  if (!id->qp)
    return 0;
  if (rdma_init_qp_attr(id, &attr, &mask))
    return -1;
  if (initiator_depth != RDMA_MAX_INIT_DEPTH)
    attr.max_rd_atomic = initiator_depth;
  return cm_qp_fail_if(ibv_modify_qp(id->qp, &attr, mask));
}

int cm_qp_error(struct rdma_cm_id *id)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  return id->qp ? cm_qp_fail_if(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE)) : 0;
}

/* ---- objects ---- */

static void cm_qp_destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
  if (*cq)
    ibv_destroy_cq(*cq);
  if (*channel)
    ibv_destroy_comp_channel(*channel);
  *cq = NULL;
  *channel = NULL;
}

static void cm_qp_destroy_cqs(struct rdma_cm_id *id)
{
  cm_qp_destroy_cq(&id->recv_cq, &id->recv_cq_channel);
  cm_qp_destroy_cq(&id->send_cq, &id->send_cq_channel);
}

static int cm_qp_create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
                           struct ibv_comp_channel **channel)
{
  if (!size)
    return 0;
  *channel = ibv_create_comp_channel(id->verbs);
  if (*channel)
    *cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
  return *cq ? 0 : -1;
}

static int cm_qp_create_cqs(struct rdma_cm_id *id, uint32_t sends, uint32_t receives)
{
  if (!cm_qp_create_cq(id, receives, &id->recv_cq, &id->recv_cq_channel) &&
      !cm_qp_create_cq(id, sends, &id->send_cq, &id->send_cq_channel))
    return 0;
  const int error = errno;
  cm_qp_destroy_cqs(id);
  return cm_fail(error);
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
  if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || !id->verbs)
    return cm_fail(EINVAL);
  if (attr->srq_type != IBV_SRQT_BASIC) {
    sim_refused("rdma_create_srq_ex but of IBV_SRQT_BASIC");
    return -1;
  }
  if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
    attr->pd = id->pd;
  attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  struct ibv_srq *srq = ibv_create_srq_ex(id->verbs, attr);
  if (!srq)
    return -1;
  id->srq = srq;
  return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
  struct ibv_srq_init_attr_ex ex = {
      .srq_context = attr->srq_context,
      .attr = attr->attr,
      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
      .srq_type = IBV_SRQT_BASIC,
      .pd = pd,
  };
  int rc = rdma_create_srq_ex(id, &ex);
  attr->attr = ex.attr;
  return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
  ibv_destroy_srq(id->srq);
  id->srq = NULL;
  cm_qp_destroy_cqs(id);
}

static bool cm_qp_is_mine(const void *mine, const void *given)
{
  return !mine || !given || mine == given;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
  struct ibv_qp_attr state;
  int mask;
  if (id->qp || !id->verbs)
    return cm_fail(EINVAL);
  if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
    attr->pd = id->pd;
  attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
  if (attr->pd->context != id->verbs || !cm_qp_is_mine(id->recv_cq, attr->recv_cq) ||
      !cm_qp_is_mine(id->send_cq, attr->send_cq))
    return cm_fail(EINVAL);
  if (cm_qp_create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
                       attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr))
    return -1;
  if (!attr->send_cq)
    attr->send_cq = id->send_cq;
  if (!attr->recv_cq)
    attr->recv_cq = id->recv_cq;
  if (id->srq && !attr->srq)
    attr->srq = id->srq;
  struct ibv_qp *qp = ibv_create_qp_ex(id->verbs, attr);
  if (!qp || cm_qp_enter(id, qp, &state, IBV_QPS_INIT, &mask)) {
    const int error = errno;
    if (qp)
      ibv_destroy_qp(qp);
    cm_qp_destroy_cqs(id);
    return cm_fail(error);
  }
  id->pd = qp->pd;
  id->qp = qp;
  return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
  struct ibv_qp_init_attr_ex ex = {
      .qp_context = qp_init_attr->qp_context,
      .send_cq = qp_init_attr->send_cq,
      .recv_cq = qp_init_attr->recv_cq,
      .srq = qp_init_attr->srq,
      .cap = qp_init_attr->cap,
      .qp_type = qp_init_attr->qp_type,
      .sq_sig_all = qp_init_attr->sq_sig_all,
      .comp_mask = IBV_QP_INIT_ATTR_PD,
      .pd = pd,
  };
  int rc = rdma_create_qp_ex(id, &ex);
  qp_init_attr->cap = ex.cap;
  qp_init_attr->send_cq = ex.send_cq;
  qp_init_attr->recv_cq = ex.recv_cq;
  qp_init_attr->srq = ex.srq;
  return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
  ibv_destroy_qp(id->qp);
  id->qp = NULL;
  cm_qp_destroy_cqs(id);
}
