/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs to RTS by the peer's address, on the host's thread, which may block: the kernel
 * resolves a RoCE address. */
#include "../verbs/srq.h"
#include "cm.h"
#include "connection.h"
#include "last_wqe.h"
#include "multi_qp.h"
#include "qp.h"

static int rc_qp_to_rtr(struct pst_endpoint *endpoint, struct ibv_qp *qp,
                        const struct rc_qp_address *other)
{
  const struct pst_device *device = endpoint->device;
  const struct rc_blob *peer = &endpoint->rc->peer;
  struct vb_peer where = {.is_ethernet = peer->is_ethernet, .lid = peer->lid};
  const struct vb_local_port own = {device->open.port->number, device->open.port->needs_grh,
                                    &endpoint->rc->where.gid};
  const uint32_t mtu = vb_smaller(peer->mtu, endpoint->rc->own.mtu);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = (enum ibv_mtu)mtu,
                             .dest_qp_num = other->qpn,
                             .rq_psn = other->psn,
                             .max_dest_rd_atomic = endpoint->rc->own.rd_atomic,
                             .min_rnr_timer = (uint8_t)device->path.min_rnr_timer};

  /* The peer knows this end by its GID, and an index may be another's by now. */
  if (!vb_port_address_has_gid(&device->open, &endpoint->rc->where))
    return EADDRNOTAVAIL;
  memcpy(where.gid, peer->gid, sizeof(where.gid));
  vb_address_vector(&device->path, &where, &own, &attr.ah_attr);
  int rc = endpoint->rc->cm ? endpoint->device->cm->attributes(endpoint, &attr) : 0;
  if (rc == 0)
    rc = vb_ece_set(qp, vb_ece_common(endpoint->rc->own.ece, peer->ece));
  return rc ? rc
            : ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int rc_qp_to_rts(struct pst_endpoint *endpoint, struct ibv_qp *qp, uint32_t psn)
{
  const struct vb_path *path = &endpoint->device->path;
  uint32_t own = (uint32_t)endpoint->device->attr.max_qp_init_rd_atom;
  uint32_t peer = endpoint->rc->peer.rd_atomic;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)path->timeout,
                             .retry_cnt = (uint8_t)path->retry_cnt,
                             .rnr_retry = (uint8_t)path->rnr_retry,
                             .sq_psn = psn,
                             .max_rd_atomic = (uint8_t)(own < peer ? own : peer)};

  int rc = endpoint->rc->cm ? endpoint->device->cm->attributes(endpoint, &attr) : 0;
  return rc ? rc
            : ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int rc_qp_to_ready(struct pst_endpoint *endpoint, struct ibv_qp *qp, uint32_t psn,
                          const struct rc_qp_address *other)
{
  int rc = rc_qp_to_rtr(endpoint, qp, other);

  return rc ? rc : rc_qp_to_rts(endpoint, qp, psn);
}

static int rc_qp_set_up_lane(struct pst_endpoint *endpoint, uint32_t i)
{
  const struct rc_blob *peer = &endpoint->rc->peer;
  struct rc_lane *lane = &endpoint->rc->lanes[i];
  int rc = 0;

  /* The answering queue pair first: the peer may ask as soon as it is asked. */
  if (endpoint->rc->is_split)
    rc = rc_qp_to_ready(endpoint, lane->rq.qp, lane->responder_psn, &peer->qps[i]);
  return rc ? rc
            : rc_qp_to_ready(endpoint, lane->qp, lane->psn,
                             endpoint->rc->is_split ? &peer->responders[i] : &peer->qps[i]);
}

static void rc_qp_set_up(void *arg)
{
  struct pst_endpoint *endpoint = arg;
  struct pst_worker *worker = endpoint->worker;
  int rc = 0;

  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++)
    if (endpoint->rc->lanes[i].sets_up)
      rc = rc_qp_set_up_lane(endpoint, i);
  if (rc == 0 && endpoint->rc->cm)
    rc = endpoint->device->cm->settle(endpoint);
  endpoint->rc->setup_rc = rc;
  atomic_store_explicit(&endpoint->rc->setup, 2, memory_order_release);
  vb_notify(worker);
}

/* On the worker's thread: RESET takes a queue pair's completions out of the completion queue, which
 * nobody may poll meanwhile where the provider takes no locks (MLX5_SINGLE_THREADED=1). */
static int rc_qp_begin_anew(struct pst_endpoint *endpoint)
{
  int rc = 0;

  for (struct rc_lane *lane = endpoint->rc->lanes; rc == 0 && lane < rc_lanes_end(endpoint);
       lane++) {
    if (!lane->sets_up || !lane->is_erred)
      continue;
    rc = rc_lane_change_state(lane, IBV_QPS_RESET);
    if (rc == 0)
      rc = -rc_lane_init(endpoint, lane);
  }
  return rc;
}

int rc_set_up_soon(struct pst_endpoint *endpoint)
{
  rc_enter(endpoint, rc_is_reconnecting(endpoint) ? RC_SETTING_UP_AGAIN : RC_SETTING_UP);
  rc_last_wqe_begin(endpoint);
  endpoint->rc->setup_rc = rc_qp_begin_anew(endpoint);
  if (endpoint->rc->setup_rc != 0) { /* as if it had been found later */
    atomic_store_explicit(&endpoint->rc->setup, 2, memory_order_relaxed);
    vb_notify(endpoint->worker);
    return 0;
  }
  atomic_store_explicit(&endpoint->rc->setup, 1, memory_order_relaxed);
  int rc = endpoint->device->host->defer(endpoint->device->host, endpoint, rc_qp_set_up, endpoint);
  if (rc < 0)
    atomic_store_explicit(&endpoint->rc->setup, 0, memory_order_relaxed);
  return rc;
}

void rc_set_up_again(struct pst_endpoint *endpoint)
{
  int rc = rc_set_up_soon(endpoint);

  if (rc < 0)
    rc_fail(endpoint, rc, "no memory to connect with");
}
