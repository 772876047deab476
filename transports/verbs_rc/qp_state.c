/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs to INIT and to ERR. */

#include "queue.h"

static int to_init(const struct pst_endpoint *endpoint, struct ibv_qp *qp, int access)
{
  const struct pst_device *device = endpoint->device;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)device->path.pkey_index,
                             .port_num = (uint8_t)device->open.port->number,
                             .qp_access_flags = (unsigned int)access};
  int rc = ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

  if (rc != 0)
    RC_LOG(device, PST_LOG_ERROR,
           "%s: the queue pair cannot be taken to INIT: %s; see `pkey_index`", endpoint->label,
           strerror(rc));
  return -rc;
}

int rc_queue_to_init(const struct pst_endpoint *endpoint, struct ibv_qp *qp,
                     struct ibv_qp *responder)
{
  /* Remote writes at both ends: keepalives are empty ones. */
  int access = IBV_ACCESS_REMOTE_WRITE;

  if (endpoint->roles & PST_ROLE_RMA)
    access |= IBV_ACCESS_REMOTE_READ |
              (endpoint->device->capabilities & PST_CAP_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  int rc = to_init(endpoint, responder, access);
  return rc == 0 && qp != responder ? to_init(endpoint, qp, 0) : rc;
}

void rc_lane_error(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  bool *is_erred = lane == endpoint->lanes ? &endpoint->is_erred : &lane->is_erred;

  if (*is_erred)
    return;
  *is_erred = true;
  ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE);
  if (lane->responder != lane->qp)
    ibv_modify_qp(lane->responder, &attr, IBV_QP_STATE);
}

void rc_lanes_error(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 1; endpoint->lanes && i < endpoint->lane_count; i++)
    rc_lane_error(endpoint, &endpoint->lanes[i]);
}

void rc_queue_error(struct pst_endpoint *endpoint)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

  rc_lanes_error(endpoint);
  if (endpoint->is_erred)
    return;
  endpoint->is_erred = true;
  if (endpoint->shared) {
    endpoint->erred_ns = rc_now_ns(endpoint->device);
    rc_due(endpoint->worker, endpoint->erred_ns + RC_FLUSH_NS);
  }
  ibv_modify_qp(endpoint->qp, &attr, IBV_QP_STATE);
  if (endpoint->is_split)
    ibv_modify_qp(endpoint->responder, &attr, IBV_QP_STATE);
}
