/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint's queue pairs stand: states, what the device has given back, hellos, farewells.
 */
#include <endian.h>

#include "multi_qp.h"
#include "qp.h"

static int rc_qp_to_init(const struct pst_endpoint *endpoint, struct ibv_qp *qp, int access)
{
  const struct pst_device *device = endpoint->device;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)device->path.pkey_index,
                             .port_num = (uint8_t)device->open.port->number,
                             .qp_access_flags = (unsigned int)access};
  int rc = ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

  if (rc != 0)
    VB_LOG(device, PST_LOG_ERROR,
           "%s: the queue pair cannot be taken to INIT: %s; see `pkey_index`", endpoint->label,
           strerror(rc));
  return -rc;
}

int rc_lane_to_init(const struct pst_endpoint *endpoint, const struct rc_lane *lane)
{
  /* Remote writes at both ends: keepalives are empty ones. */
  int access = IBV_ACCESS_REMOTE_WRITE;

  if (endpoint->roles & PST_ROLE_RMA)
    access |= IBV_ACCESS_REMOTE_READ |
              (endpoint->device->capabilities & PST_CAP_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  int rc = rc_qp_to_init(endpoint, lane->rq.qp, access);
  return rc == 0 && endpoint->rc->is_split ? rc_qp_to_init(endpoint, lane->qp, 0) : rc;
}

int rc_lane_change_state(const struct rc_lane *lane, enum ibv_qp_state state)
{
  struct ibv_qp_attr attr = {.qp_state = state};
  int rc = ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE), responder_rc = 0;

  if (lane->rq.qp != lane->qp)
    responder_rc = ibv_modify_qp(lane->rq.qp, &attr, IBV_QP_STATE);
  return rc ? rc : responder_rc;
}

void rc_lane_error(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  if (lane->is_erred)
    return;
  lane->is_erred = true;
  if (endpoint->shared) {
    endpoint->rc->erred_ns = vb_now_ns(endpoint->device);
    vb_due(endpoint->worker, endpoint->rc->erred_ns + RC_FLUSH_NS);
  }
  rc_lane_change_state(lane, IBV_QPS_ERR);
}

void rc_queue_error(struct pst_endpoint *endpoint)
{
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    rc_lane_error(endpoint, lane);
}

bool rc_lane_is_empty(const struct rc_lane *lane)
{
  return lane->own == 0 && lane->rq.posted == 0;
}

bool rc_lanes_are_empty(const struct pst_endpoint *endpoint)
{
  for (const struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (!rc_lane_is_empty(lane))
      return false;
  return true;
}

bool rc_lanes_are_said(const struct pst_endpoint *endpoint)
{
  for (const struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->own)
      return false;
  return true;
}

void rc_lanes_cut(struct pst_endpoint *endpoint)
{
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    lane->own = lane->rq.posted = 0;
}

void rc_lanes_given_back(struct pst_endpoint *endpoint)
{
  uint64_t *flushed = &endpoint->rc->stage.again.flushed;

  for (; *flushed != endpoint->sq.head; (*flushed)++) {
    const uint64_t index = *flushed;
    const struct rc_lane *lane =
        &endpoint->rc->lanes[endpoint->sq.sent[index & endpoint->sq.mask].lane];
    if (index >= lane->done && index >= lane->flushed)
      return;
  }
}

uint64_t rc_lane_messages(const struct pst_endpoint *endpoint, uint32_t lane)
{
  if (endpoint->lane_count == 1)
    return endpoint->tx ? endpoint->tx->messages : 0;
  if (!endpoint->tx)
    return 0;
  const uint64_t turn = endpoint->tx->turn, round = turn * endpoint->lane_count;
  const uint64_t rest = endpoint->rc->striped % round, before = lane * turn;
  const uint64_t last = rest < before ? 0 : rest - before < turn ? rest - before : turn;
  return endpoint->rc->striped / round * turn + last;
}

int rc_lane_say(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said)
{
  struct ibv_send_wr wr = {.wr_id = vb_wr_id(&endpoint->sq, (uint32_t)endpoint->sq.head + RC_ASIDE),
                           .opcode = vb_control_opcode(endpoint),
                           .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = htobe32(said)};
  struct ibv_send_wr *bad;
  int rc = ibv_post_send(lane->qp, &wr, &bad);

  lane->own += rc == 0;
  return -rc;
}

bool rc_lane_left(struct pst_endpoint *endpoint, struct rc_lane *left)
{
  left->peer = RC_PEER_LEFT;
  for (const struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->peer != RC_PEER_LEFT)
      return false;
  return true;
}

bool rc_lanes_are_leaving(const struct pst_endpoint *endpoint)
{
  for (const struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->peer == RC_PEER_LEFT)
      return true;
  return false;
}
