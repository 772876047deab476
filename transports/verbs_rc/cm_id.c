/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's id of rdma_cm: what it says, and its end. */
#include "cm_inside.h"

const uint8_t rc_cm_magic[8] = {'p', 's', 't', 'r', 'c', 'c', 'm', 1};

bool rc_cm_connects(const struct pst_endpoint *endpoint)
{
  const struct rc_blob *own = &endpoint->own, *peer = &endpoint->peer;
  int order = memcmp(own->gid, peer->gid, sizeof(own->gid));

  if (own->is_sender != own->is_receiver)
    return own->is_sender;
  return order ? order < 0 : own->qpn < peer->qpn;
}

struct rdma_conn_param rc_cm_parameters(const struct pst_endpoint *endpoint,
                                        struct private_data *data)
{
  const struct pst_device *device = endpoint->device;
  uint32_t own = (uint32_t)device->attr.max_qp_init_rd_atom, peer = endpoint->peer.rd_atomic;

  memcpy(data->magic, rc_cm_magic, sizeof(rc_cm_magic));
  data->to = htobe64(endpoint->peer.cm_token);
  data->from = htobe64(endpoint->own.cm_token);
  return (struct rdma_conn_param){.private_data = data,
                                  .private_data_len = sizeof(*data),
                                  .responder_resources = endpoint->own.rd_atomic,
                                  .initiator_depth = (uint8_t)(own < peer ? own : peer),
                                  .retry_count = (uint8_t)device->path.retry_cnt,
                                  .rnr_retry_count = (uint8_t)device->path.rnr_retry,
                                  .srq = endpoint->shared != NULL,
                                  .qp_num = endpoint->qp->qp_num};
}

/* For each of several (`qps`) alike: the id's path is the endpoint's, and the first packet numbers,
 * which the kernel draws for each id, are as good for the others, since numbers are a queue pair's
 * own. Which of the peer's is meant, its address says. Of the others the kernel knows nothing, so
 * that it does not hold their numbers back for a while, once the connection is over, as it does the
 * first one's: a packet that comes late is not taken for the next connection's all the same, whose
 * packet numbers are others. */
int rc_cm_attributes(struct pst_endpoint *endpoint, struct ibv_qp_attr *attr)
{
  const struct vb_path *path = &endpoint->device->path;
  struct ibv_qp_attr given = {.qp_state = attr->qp_state};
  struct rc_cm *cm = endpoint->cm;
  int mask;

  if (rdma_init_qp_attr(cm->id, &given, &mask) != 0)
    return errno;
  if (attr->qp_state == IBV_QPS_RTS) {
    attr->sq_psn = given.sq_psn;
    return 0;
  }
  attr->ah_attr = given.ah_attr;
  attr->rq_psn = given.rq_psn;
  if (given.path_mtu < attr->path_mtu)
    attr->path_mtu = given.path_mtu;
  if (path->hop_limit_is_set)
    attr->ah_attr.grh.hop_limit = (uint8_t)path->hop_limit;
  if (path->service_level)
    attr->ah_attr.sl = (uint8_t)path->service_level;
  cm->gid_index = attr->ah_attr.grh.sgid_index;
  cm->hop_limit = attr->ah_attr.grh.hop_limit;
  return 0;
}

/* rdma_accept() is answered by a message of the peer's kernel, and data may come before that. It is
 * not for rdma_notify() to say so: what the kernel does then it does later, and an id that is
 * destroyed before holds rdma_destroy_id() up until the kernel gives up repeating its own message,
 * which takes it a minute. */
int rc_cm_settle(struct pst_endpoint *endpoint)
{
  struct private_data data;
  struct rdma_conn_param param = rc_cm_parameters(endpoint, &data);
  int rc = rc_cm_connects(endpoint) ? rdma_establish(endpoint->cm->id)
                                    : rdma_accept(endpoint->cm->id, &param);

  return rc == 0 ? 0 : errno ? errno : EIO;
}

void rc_cm_describe(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct rc_cm *cm = endpoint->cm;

  if (endpoint->state == RC_CONNECTED)
    snprintf(text, size, "by rdma_cm with GID %u and hop limit %u", cm->gid_index, cm->hop_limit);
  else
    snprintf(text, size, "by rdma_cm");
}

bool rc_cm_waits(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  static const int events[] = {[STAGE_ADDRESS] = RDMA_CM_EVENT_ADDR_ERROR,
                               [STAGE_ROUTE] = RDMA_CM_EVENT_ROUTE_ERROR,
                               [STAGE_REQUEST] = RDMA_CM_EVENT_UNREACHABLE};
  enum stage stage = endpoint->cm ? endpoint->cm->stage : STAGE_IDLE;

  if (stage == STAGE_IDLE || stage == STAGE_SETTLED)
    return false;
  vb_cm_text(events[stage], -ETIMEDOUT, text, size);
  return true;
}

void rc_cm_drop(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->cm;

  if (cm->has_left)
    endpoint->worker->cm->leavers--;
  cm->has_left = false;
  if (cm->id)
    rdma_destroy_id(cm->id);
  cm->id = NULL;
  cm->stage = STAGE_IDLE;
  cm->again_ns = RC_NEVER;
}
