/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: asked for, accepted, refused, ended. */
#include <string.h>

#include "cm.h"

static int cm_connect_check(const struct cm_id *id, const struct rdma_conn_param *param)
{
  if (!id->device || (!id->id.qp && !param))
    return EINVAL;
  if (!param)
    return 0;
  if ((param->responder_resources != RDMA_MAX_RESP_RES &&
       param->responder_resources > id->device->responder_resources) ||
      (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
       param->initiator_depth > id->device->initiator_depth))
    return EINVAL;
  return 0;
}

static bool cm_connect_add_data(struct cm_message *out, const void *first, size_t first_len,
                                const struct rdma_conn_param *param, size_t room)
{
  size_t more = param && param->private_data ? param->private_data_len : 0;
  if (first_len + more > room)
    return false;
  if (first_len)
    memcpy(out->data, first, first_len);
  if (more)
    memcpy(out->data + first_len, param->private_data, more);
  return true;
}

static void cm_connect_say(const struct cm_id *id, const struct rdma_conn_param *param,
                           struct cm_message *out)
{
  const struct ibv_qp *qp = id->id.qp;
  out->qp_num = qp ? qp->qp_num : param->qp_num;
  out->srq = qp ? qp->srq != NULL : param->srq;
  out->responder_resources = id->responder_resources;
  out->initiator_depth = id->initiator_depth;
  out->flow_control = param ? param->flow_control : 0;
  out->retry_count = param ? param->retry_count & 7 : 7;
  out->rnr_retry_count = param ? param->rnr_retry_count & 7 : 7;
}

static int cm_connect_ask(struct cm_id *id, const struct rdma_conn_param *param)
{
  if (id->state != CM_ROUTE_RESOLVED)
    return EINVAL;
  struct cm_message *out = cm_out(id, CM_REQ);
  if (!cm_connect_add_data(out, id->connect, id->connect_len, param, CM_DATA_REQ))
    return EINVAL;
  const struct cm_device *device = id->device;
  const bool has_depth = param && param->initiator_depth != RDMA_MAX_INIT_DEPTH;
  const bool has_resources = param && param->responder_resources != RDMA_MAX_RESP_RES;
  id->initiator_depth = has_depth ? param->initiator_depth : device->initiator_depth;
  id->responder_resources =
      has_resources ? param->responder_resources : device->responder_resources;
  cm_connect_say(id, param, out);
  id->retry_count = out->retry_count;
  id->state = CM_REQ_SENT;
  cm_send(id);
  return 0;
}

int rdma_connect(struct rdma_cm_id *p, struct rdma_conn_param *conn_param)
{
  struct cm_id *id = cm_id_of(p);
  int error = cm_connect_check(id, conn_param);
  if (error)
    return cm_fail(error);
  pthread_mutex_lock(&cm.lock);
  error = cm_connect_ask(id, conn_param);
  pthread_mutex_unlock(&cm.lock);
  return error ? cm_fail(error) : cm_complete(p);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **to)
{
  struct cm_id *listener = cm_id_of(listen);
  struct rdma_cm_event *event;
  int error = 0;
  if (!listener->is_sync)
    return cm_fail(EINVAL);
  if (listen->event)
    rdma_ack_cm_event(listen->event);
  listen->event = NULL;
  if (rdma_get_cm_event(listen->channel, &event))
    return -1;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
    error = EINVAL;
  struct ibv_qp_init_attr attr;
  if (!error && listener->qp_init_attr) {
    attr = *listener->qp_init_attr;
    if (rdma_create_qp(event->id, listen->pd, &attr))
      error = errno;
  }
  if (error) {
    listen->event = event;
    return cm_fail(error);
  }
  *to = event->id;
  (*to)->event = event;
  return 0;
}

static uint8_t cm_connect_lesser(uint8_t a, uint8_t b)
{
  return a < b ? a : b;
}

static int cm_connect_answer(struct cm_id *id, const struct rdma_conn_param *param)
{
  if (id->state != CM_REQ_RCVD)
    return EINVAL;
  struct cm_message *out = cm_out(id, CM_REP);
  if (!cm_connect_add_data(out, NULL, 0, param, CM_DATA_REP))
    return EINVAL;
  cm_connect_say(id, param, out);
  id->state = CM_REP_SENT;
  cm_send(id);
  return 0;
}

int rdma_accept(struct rdma_cm_id *p, struct rdma_conn_param *conn_param)
{
  struct cm_id *id = cm_id_of(p);
  int error = cm_connect_check(id, conn_param);
  if (error)
    return cm_fail(error);
  pthread_mutex_lock(&cm.lock);
  id->initiator_depth = conn_param && conn_param->initiator_depth != RDMA_MAX_INIT_DEPTH
                            ? conn_param->initiator_depth
                            : cm_connect_lesser(id->initiator_depth, id->device->initiator_depth);
  id->responder_resources =
      conn_param && conn_param->responder_resources != RDMA_MAX_RESP_RES
          ? conn_param->responder_resources
          : cm_connect_lesser(id->responder_resources, id->device->responder_resources);
  const uint8_t resources = id->responder_resources, depth = id->initiator_depth;
  pthread_mutex_unlock(&cm.lock);
  if (cm_qp_ready_to_receive(p, resources) || cm_qp_ready_to_send(p, depth))
    return -1;
  pthread_mutex_lock(&cm.lock);
  error = cm_connect_answer(id, conn_param);
  pthread_mutex_unlock(&cm.lock);
  if (error) {
    cm_qp_error(p);
    return cm_fail(error);
  }
  return cm_complete(p);
}

static int cm_connect_reject(struct rdma_cm_id *p, const void *data, uint8_t length,
                             uint32_t reason)
{
  struct cm_id *id = cm_id_of(p);
  const struct rdma_conn_param param = {.private_data = data, .private_data_len = length};
  int error = EINVAL;
  pthread_mutex_lock(&cm.lock);
  if (id->state == CM_REQ_RCVD || id->state == CM_REP_RCVD) {
    struct cm_message *out = cm_out(id, CM_REJ);
    out->reason = reason;
    if (cm_connect_add_data(out, NULL, 0, &param, CM_DATA_REJ)) {
      id->state = CM_OVER;
      cm_send(id);
      error = 0;
    }
  }
  pthread_mutex_unlock(&cm.lock);
  return error ? cm_fail(error) : 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
  return cm_connect_reject(id, private_data, private_data_len, CM_REJ_CONSUMER);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
  return cm_connect_reject(id, private_data, private_data_len, CM_REJ_VENDOR);
}

int rdma_notify(struct rdma_cm_id *p, enum ibv_event_type event)
{
  struct cm_id *id = cm_id_of(p);
  if (event != IBV_EVENT_COMM_EST)
    return cm_fail(EINVAL);
  pthread_mutex_lock(&cm.lock);
  int error = id->state == CM_REP_SENT ? 0 : id->state == CM_ESTABLISHED ? EISCONN : EINVAL;
  if (!error) {
    id->state = CM_ESTABLISHED;
    id->timer = CM_NO_TIMER;
    cm_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
  }
  pthread_mutex_unlock(&cm.lock);
  return error ? cm_fail(error) : 0;
}

int rdma_disconnect(struct rdma_cm_id *p)
{
  struct cm_id *id = cm_id_of(p);
  if (!p->verbs)
    return cm_fail(EINVAL);
  if (cm_qp_error(p))
    return -1;
  pthread_mutex_lock(&cm.lock);
  const enum cm_state state = id->state;
  if (state == CM_ESTABLISHED || state == CM_DREQ_RCVD) {
    cm_out(id, state == CM_ESTABLISHED ? CM_DREQ : CM_DREP);
    id->state = state == CM_ESTABLISHED ? CM_DREQ_SENT : CM_OVER;
    if (id->socket >= 0)
      cm_send(id);
  }
  pthread_mutex_unlock(&cm.lock);
  return cm_complete(p);
}
