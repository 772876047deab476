/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs to RTS by the peer's address, on the host's thread. */
#include "cm.h"
#include "rc.h"
#include "shared.h"

struct pair {
  struct ibv_qp *qp;
  uint32_t psn;
  uint32_t peer_qpn, peer_psn;
};

static int to_rtr(struct pst_endpoint *endpoint, const struct pair *pair)
{
  const struct pst_device *device = endpoint->device;
  const struct rc_blob *peer = &endpoint->peer;
  struct vb_peer where = {.is_ethernet = peer->is_ethernet, .lid = peer->lid};
  uint32_t mtu = peer->mtu < device->mtu ? peer->mtu : (uint32_t)device->mtu;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = (enum ibv_mtu)mtu,
                             .dest_qp_num = pair->peer_qpn,
                             .rq_psn = pair->peer_psn,
                             .max_dest_rd_atomic = endpoint->own.rd_atomic,
                             .min_rnr_timer = (uint8_t)device->path.min_rnr_timer};

  memcpy(where.gid, peer->gid, sizeof(where.gid));
  vb_address_vector(&device->path, &where, device->open.port->number, device->open.gid.index,
                    &attr.ah_attr);
  int rc = endpoint->cm ? rc_cm_attributes(endpoint, &attr) : 0;
  return rc ? rc
            : ibv_modify_qp(pair->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct pst_endpoint *endpoint, const struct pair *pair)
{
  const struct vb_path *path = &endpoint->device->path;
  uint32_t own = (uint32_t)endpoint->device->attr.max_qp_init_rd_atom;
  uint32_t peer = endpoint->peer.rd_atomic;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)path->timeout,
                             .retry_cnt = (uint8_t)path->retry_cnt,
                             .rnr_retry = (uint8_t)path->rnr_retry,
                             .sq_psn = pair->psn,
                             .max_rd_atomic = (uint8_t)(own < peer ? own : peer)};

  int rc = endpoint->cm ? rc_cm_attributes(endpoint, &attr) : 0;
  return rc ? rc
            : ibv_modify_qp(pair->qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_reset(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int to_ready(struct pst_endpoint *endpoint, const struct pair *pair)
{
  int rc = to_rtr(endpoint, pair);

  return rc ? rc : to_rts(endpoint, pair);
}

/* Of an endpoint that is split what asks meets what answers, `i` of the peer's. It answers before
 * it asks: the peer may do so as soon as it is asked. */
static int to_ready_both(struct pst_endpoint *endpoint, const struct pair *pair,
                         struct ibv_qp *responder, uint32_t psn, uint32_t i)
{
  const struct rc_blob *peer = &endpoint->peer;
  const struct pair asks = {pair->qp, pair->psn, peer->responders[i].qpn, peer->responders[i].psn};
  const struct pair answers = {responder, psn, pair->peer_qpn, pair->peer_psn};

  if (!endpoint->is_split)
    return to_ready(endpoint, pair);
  int rc = to_ready(endpoint, &answers);
  return rc ? rc : to_ready(endpoint, &asks);
}

static int to_reset_both(struct ibv_qp *qp, struct ibv_qp *responder)
{
  int rc = to_reset(qp);

  return rc == 0 && responder != qp ? to_reset(responder) : rc;
}

static int set_up_first(struct pst_endpoint *endpoint)
{
  const struct pair pair = {endpoint->qp, endpoint->psn, endpoint->peer.qpn, endpoint->peer.psn};
  int rc = 0;

  if (endpoint->is_erred) { /* once more */
    rc = to_reset_both(endpoint->qp, endpoint->responder);
    if (rc == 0)
      rc = -rc_queue_init(endpoint);
  }
  return rc ? rc : to_ready_both(endpoint, &pair, endpoint->responder, endpoint->responder_psn, 0);
}

static int set_up_lane(struct pst_endpoint *endpoint, uint32_t i)
{
  struct rc_lane *lane = &endpoint->lanes[i];
  const struct pair pair = {lane->qp, lane->psn, endpoint->peer.more[i - 1].qpn,
                            endpoint->peer.more[i - 1].psn};
  int rc = 0;

  if (lane->is_erred) {
    rc = to_reset_both(lane->qp, lane->responder);
    if (rc == 0)
      rc = -rc_lane_init(endpoint, lane);
  }
  return rc ? rc : to_ready_both(endpoint, &pair, lane->responder, lane->responder_psn, i);
}

static void set_up(void *arg)
{
  struct pst_endpoint *endpoint = arg;
  struct pst_worker *worker = endpoint->worker;
  int rc = !endpoint->lanes || endpoint->lanes[0].sets_up ? set_up_first(endpoint) : 0;

  for (uint32_t i = 1; rc == 0 && i < endpoint->lane_count; i++)
    if (endpoint->lanes[i].sets_up)
      rc = set_up_lane(endpoint, i);
  if (rc == 0 && endpoint->cm)
    rc = rc_cm_settle(endpoint);
  endpoint->setup_rc = rc;
  atomic_store_explicit(&endpoint->setup, 2, memory_order_release);
  rc_notify(worker);
}

int rc_set_up_soon(struct pst_endpoint *endpoint)
{
  endpoint->state = RC_SETTING_UP;
  endpoint->flushed_ns = 0;
  rc_shared_begin(endpoint);
  atomic_store_explicit(&endpoint->setup, 1, memory_order_relaxed);
  int rc = endpoint->device->host->defer(endpoint->device->host, endpoint, set_up, endpoint);
  if (rc < 0)
    atomic_store_explicit(&endpoint->setup, 0, memory_order_relaxed);
  return rc;
}
