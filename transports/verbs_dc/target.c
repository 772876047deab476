/* SPDX-License-Identifier: Apache-2.0 */
/* Targets (DCT): what any initiator that has the key may send to. */
#include "target.h"
#include "../verbs/open.h"
#include "../verbs/worker.h"
#include "endpoint.h"

#define SEEN (-1) /* in place of a target's event */

static int dc_target_to_init(const struct pst_device *device, struct ibv_qp *qp)
{
  const uint64_t has = device->capabilities;
  const unsigned reached = IBV_ACCESS_REMOTE_WRITE |
                           (has & PST_CAP_READ ? IBV_ACCESS_REMOTE_READ : 0u) |
                           (has & PST_CAP_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0u);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)device->path.pkey_index,
                             .port_num = (uint8_t)device->open.port->number,
                             .qp_access_flags = reached};

  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int dc_target_to_rtr(const struct pst_device *device, struct ibv_qp *qp,
                            const struct vb_port_address *where)
{
  struct vb_peer itself = {.is_ethernet = device->open.port->is_ethernet, .lid = where->lid};
  const struct vb_local_port own = {device->open.port->number, device->open.port->needs_grh,
                                    &where->gid};
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = dc_mtu(device, where),
                             .min_rnr_timer = (uint8_t)device->path.min_rnr_timer};

  memcpy(itself.gid, where->gid.raw, sizeof(itself.gid));
  vb_address_vector(&device->path, &itself, &own, &attr.ah_attr);
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU);
}

struct ibv_qp *dc_target_create(struct dc_device *dc, struct ibv_cq *cq, struct ibv_srq *srq,
                                void *context, const struct vb_port_address *where,
                                const char **step)
{
  struct ibv_qp_init_attr_ex attr = {.qp_context = context,
                                     .send_cq = cq,
                                     .recv_cq = cq,
                                     .srq = srq,
                                     .qp_type = IBV_QPT_DRIVER,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = dc->device.own.pd};
  struct mlx5dv_qp_init_attr own = {
      .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
      .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
      .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = dc->key}};

  *step = "mlx5dv_create_qp of a target";
  struct ibv_qp *made = dc->mlx5.create_qp(dc->device.open.context, &attr, &own);
  if (!made)
    return NULL;
  *step = "ibv_modify_qp of a target to INIT";
  int rc = dc_target_to_init(&dc->device, made);
  if (rc == 0) {
    *step = "ibv_modify_qp of a target to RTR";
    rc = dc_target_to_rtr(&dc->device, made, where);
  }
  if (rc == 0)
    return made;
  ibv_destroy_qp(made);
  errno = rc;
  return NULL;
}

int dc_target_open(struct pst_worker *worker, struct vb_srq *shared, const char *label)
{
  struct dc_device *dc = dc_device_of(worker->device);
  struct vb_port_address where;
  const char *step;

  if (shared->target)
    return 0;
  int rc = vb_device_place(worker->device, &where);
  if (rc < 0)
    return rc;
  shared->queue.worker = worker;
  shared->target = dc_target_create(dc, worker->cq, shared->srq, &shared->queue, &where, &step);
  if (shared->target)
    return 0;
  const int code = errno;
  VB_LOG(worker->device, PST_LOG_ERROR, "%s: %s: %s; see `rdma resource` and the kernel's log",
         label, step, strerror(code));
  return vb_call_error(code);
}

static void dc_target_tell_address(struct pst_worker *worker, const struct vb_srq *shared)
{
  for (uint32_t i = 0; i < worker->endpoints.room; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (!endpoint || dc_is_over(dc_of(endpoint)))
      continue;
    struct dc_endpoint *dc = dc_of(endpoint);
    const bool has_words = endpoint->shared == shared;
    const bool has_messages = endpoint->rx && endpoint->rx->ring->shared == shared;
    if (has_words)
      dc->heard_before = (uint16_t)(dc->seen % DC_VALUES);
    if (has_messages)
      endpoint->rx->before = endpoint->rx->arrived;
    if (!has_words && !has_messages)
      continue;
    dc->tells_address = true;
    vb_pend(endpoint);
  }
}

/* The number before it is nobody's from now on. */
static void dc_target_replace(struct pst_worker *worker, struct vb_srq *shared)
{
  struct ibv_qp *lost = shared->target;
  const uint32_t number = lost->qp_num;

  shared->target = NULL;
  if (dc_target_open(worker, shared, "a target that has failed") < 0) {
    shared->target = lost;
    atomic_store_explicit(&dc_worker_of(worker)->queue.event, IBV_EVENT_QP_FATAL + 1,
                          memory_order_release);
    vb_notify(worker);
    return;
  }
  const int rc = ibv_destroy_qp(lost);
  if (rc)
    VB_LOG(worker->device, PST_LOG_WARN,
           "%s: ibv_destroy_qp of target %u: %s; it is left until the process ends, see `rdma "
           "resource`",
           worker->device->open.info->name, number, strerror(rc));
  dc_worker_of(worker)->targets_made++;
  VB_LOG(worker->device, PST_LOG_WARN,
         "%s: target %u has failed (IBV_EVENT_QP_FATAL), and is replaced by %u; its peers are "
         "informed. See the kernel's log (`dmesg`) for why",
         worker->device->open.info->name, number, shared->target->qp_num);
  dc_target_tell_address(worker, shared);
}

/* Completions of a target end with it. All that had come to it before its event is taken once the
 * completion queue was polled empty behind that: the second time that this looks at it. */
void dc_target_mend(struct pst_worker *worker)
{
  struct dc_worker *pool = dc_worker_of(worker);
  bool is_left = false;

  atomic_exchange(&pool->has_lost_target, false); /* and events that it was set for are seen */
  for (uint32_t i = 0; i < worker->shared.room; i++) {
    struct vb_srq *shared = worker->shared.all[i].at;
    if (!shared || !shared->target)
      continue;
    const int event = atomic_load_explicit(&shared->queue.event, memory_order_acquire);
    if (event && event != SEEN)
      is_left = true;
    if (event)
      atomic_store_explicit(&shared->queue.event, event == SEEN ? 0 : SEEN, memory_order_relaxed);
    if (event == SEEN)
      dc_target_replace(worker, shared);
  }
  if (!is_left)
    return;
  atomic_store_explicit(&pool->has_lost_target, true, memory_order_release);
  vb_notify(worker);
}
