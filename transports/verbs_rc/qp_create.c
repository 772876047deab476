/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs, as the device makes them: what it gives is read back, and is not always what it was
 * asked for (ibv_create_qp(3)). More is left unused, fewer inline bytes are made do with, and less
 * of anything else than is needed is refused here, where the cause is known, instead of by a post
 * that has no room.
 */
#include <stdio.h>
#include <sys/random.h>

#include "../verbs/mlx5.h"
#include "../verbs/srq.h"
#include "qp.h"

#define INLINE_LEAST 16u /* bytes; fewer are not worth another try */

/* "stream", or "stream, queue pair 3 of `qps: 4`" */
static void rc_qp_name(const struct pst_endpoint *endpoint, uint32_t which, char text[128])
{
  if (endpoint->lane_count > 1)
    snprintf(text, 128, "%s, queue pair %u of `qps: %u`", endpoint->label, which + 1,
             endpoint->lane_count);
  else
    snprintf(text, 128, "%s", endpoint->label);
}

/* Lists the capacities that are less than needed: "16 of 264 sends". Empty: none is. */
static void rc_qp_list_missing(const struct pst_endpoint *endpoint, const struct ibv_qp_cap *want,
                               const struct ibv_qp_cap *given, char *text, size_t size)
{
  const bool own = !endpoint->shared;
  const struct {
    uint32_t want, given;
    const char *what;
  } all[] = {{want->max_send_wr, given->max_send_wr, "sends"},
             {own ? want->max_recv_wr : 0, given->max_recv_wr, "receives"},
             {want->max_send_sge, given->max_send_sge, "pieces of a send"},
             {own ? want->max_recv_sge : 0, given->max_recv_sge, "pieces of a receive"}};

  text[0] = '\0';
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    if (all[i].given < all[i].want)
      vb_text_add(text, size, "%s%u of %u %s", text[0] ? ", " : "", all[i].given, all[i].want,
                  all[i].what);
}

/* Returns the operations that are posted on the queue pair. Without memory windows and
 * invalidation, which a plain ibv_create_qp counts in, mlx5 has room for up to four times as many
 * requests. */
static uint64_t rc_qp_send_ops(const struct pst_endpoint *endpoint)
{
  const uint64_t atomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  const bool has_atomics =
      (endpoint->roles & PST_ROLE_RMA) && (endpoint->device->capabilities & PST_CAP_ATOMIC);

  return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
         IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
         (has_atomics ? atomics : 0);
}

/* SENDs come into memory that only the device writes. */
static bool rc_qp_needs_device_writes(const struct pst_endpoint *endpoint)
{
  const struct vb_rx *rx = endpoint->rx;

  return rx && rx->sends && !rx->ring->params.mr->is_cpu_readable;
}

/* By its operations, or, where the provider cannot be told them, plainly. NULL: errno. */
static struct ibv_qp *rc_qp_make_as(const struct pst_endpoint *endpoint,
                                    struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
  errno = 0;
  return rc_qp_needs_device_writes(endpoint) ? vb_mlx5_create_qp(endpoint->device, context, attr)
                                             : ibv_create_qp_ex(context, attr);
}

static struct ibv_qp *rc_qp_make_of(const struct pst_endpoint *endpoint,
                                    struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
  const struct ibv_qp_cap cap = attr->cap;
  struct ibv_qp *qp = rc_qp_make_as(endpoint, context, attr);

  if (qp || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
    return qp;
  attr->comp_mask = IBV_QP_INIT_ATTR_PD;
  attr->cap = cap;
  return rc_qp_make_as(endpoint, context, attr);
}

/* With as many inline bytes as it has, up to the number requested. NULL: errno. */
static struct ibv_qp *rc_qp_make(struct pst_endpoint *endpoint, const struct ibv_qp_cap *want,
                                 bool only_asks, struct ibv_pd *pd, struct ibv_qp_cap *given)
{
  struct ibv_qp *qp = NULL;

  for (uint32_t inline_bytes = want->max_inline_data;;
       inline_bytes = inline_bytes > INLINE_LEAST ? inline_bytes / 2 : 0) {
    struct ibv_qp_init_attr_ex attr = {.qp_context = endpoint,
                                       .send_cq = endpoint->worker->cq,
                                       .recv_cq = endpoint->worker->cq,
                                       .cap = *want,
                                       .qp_type = IBV_QPT_RC,
                                       .comp_mask =
                                           IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = pd,
                                       .send_ops_flags = rc_qp_send_ops(endpoint)};
    attr.cap.max_inline_data = inline_bytes;
    if (endpoint->shared && !only_asks) {
      attr.srq = endpoint->shared->srq;
      attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
    qp = rc_qp_make_of(endpoint, pd->context, &attr);
    *given = attr.cap;
    if (qp || inline_bytes == 0)
      return qp;
  }
}

/* Creates a queue pair with at least the capabilities in `want`. The caller owns *qp and *pd.
 * -errno after a log with the remedy. */
static int rc_qp_create_lane(struct pst_endpoint *endpoint, const struct ibv_qp_cap *want,
                             uint32_t which, bool only_asks, struct ibv_qp_cap *given,
                             struct ibv_qp **qp, struct ibv_pd **pd)
{
  const struct pst_device *device = endpoint->device;
  *pd = vb_thread_domain_take(endpoint->worker, only_asks ? endpoint->local : endpoint->domain);
  struct ibv_qp *made = rc_qp_make(endpoint, want, only_asks, *pd, given);
  char label[128], missing[160], memlock[160];

  rc_qp_name(endpoint, which, label);
  if (!made && errno == EOPNOTSUPP && rc_qp_needs_device_writes(endpoint)) {
    VB_LOG(
        device, PST_LOG_ERROR,
        "%s: %s cannot be kept from writing small SENDs by the CPU: libmlx5.so.1 has no "
        "mlx5dv_create_qp (rdma-core 19); install it, take `operation: write`, or `path: staged`",
        label, device->open.info->name);
    return -EOPNOTSUPP;
  }
  if (!made) {
    const int code = errno;
    VB_LOG(device, PST_LOG_ERROR,
           "%s: ibv_create_qp on %s (%u sends of %u pieces, %u receives): %s; the device has at "
           "most %d queue pairs for all processes, of %d requests each (`ibv_devinfo -v`: max_qp, "
           "max_qp_wr; in use: `rdma resource`): fewer endpoints, pieces or slots (a "
           "smaller `ring`; of a node `depth`, `messages`)%s%s",
           label, device->open.info->name, want->max_send_wr, want->max_send_sge,
           endpoint->shared ? 0 : want->max_recv_wr, strerror(code), device->attr.max_qp,
           device->attr.max_qp_wr, endpoint->lane_count > 1 ? ", fewer `qps`" : "",
           vb_memlock_hint(code, memlock));
    return vb_call_error(code);
  }
  rc_qp_list_missing(endpoint, want, given, missing, sizeof(missing));
  if (missing[0]) {
    ibv_destroy_qp(made);
    VB_LOG(
        device, PST_LOG_ERROR,
        "%s: ibv_create_qp on %s granted less than was requested: %s; use a smaller `ring`, fewer "
        "`requests` (of a node: `depth`, `messages`) or `pieces`, so that it is enough; its "
        "driver should refuse instead: a newer rdma-core, driver or firmware may",
        label, device->open.info->name, missing);
    return -ENOSPC;
  }
  *qp = made;
  return 0;
}

int rc_qp_create(struct pst_endpoint *endpoint, uint32_t which, const struct ibv_qp_cap *want,
                 struct ibv_qp_cap *given)
{
  struct rc_lane *lane = &endpoint->rc->lanes[which];
  struct ibv_qp_cap asks = *want, answers = *want, answering;
  int rc;

  if (!endpoint->rc->is_split) {
    rc = rc_qp_create_lane(endpoint, want, which, false, given, &lane->qp, &lane->pds[0]);
    lane->rq.qp = lane->qp;
    return rc;
  }
  asks.max_recv_wr = asks.max_recv_sge = 0;
  answers.max_send_wr = answers.max_send_sge = 1; /* the last, in ERR: last_wqe.c */
  answers.max_inline_data = 0;
  rc = rc_qp_create_lane(endpoint, &asks, which, true, given, &lane->qp, &lane->pds[0]);
  if (rc == 0)
    rc = rc_qp_create_lane(endpoint, &answers, which, false, &answering, &lane->rq.qp,
                           &lane->pds[1]);
  if (rc < 0)
    return rc;
  given->max_recv_wr = answering.max_recv_wr;
  given->max_recv_sge = answering.max_recv_sge;
  return 0;
}

uint32_t rc_random_psn(void)
{
  uint32_t psn = 1;

  if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) != sizeof(psn))
    psn = (uint32_t)(uintptr_t)&psn;
  return psn & 0xffffff;
}
