/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of initiators (DCI) of a worker. An endpoint that has requests to post takes one, and
 * holds it until all of them are done. Endpoints that find none wait, and are served in their
 * order. */
#include <endian.h>
#include <stdio.h>

#include "../verbs/domain.h"
#include "../verbs/numa.h"
#include "../verbs/open.h"
#include "../verbs/request.h"
#include "connection.h"
#include "ops.h"
#include "probe.h"

#define HANDED_FOR 4u /* calls of work(): two polls, between which the host can post */

/* ---- Made, and made anew ----------------------------------------------------------------- */

static int dc_pool_to_init(const struct pst_device *device, struct ibv_qp *qp)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)device->path.pkey_index,
                             .port_num = (uint8_t)device->open.port->number};

  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
}

/* Kernels differ in whether they want an address vector here, which each request has anyway. */
static int dc_pool_to_rtr(struct pst_device *device, struct ibv_qp *qp)
{
  struct vb_port_address where;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

  pthread_mutex_lock(&device->place_lock);
  where = device->place;
  pthread_mutex_unlock(&device->place_lock);
  attr.path_mtu = dc_mtu(device, &where);
  int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU);
  if (rc != EINVAL)
    return rc;
  struct vb_peer itself = {.is_ethernet = device->open.port->is_ethernet, .lid = where.lid};
  const struct vb_local_port own = {device->open.port->number, device->open.port->needs_grh,
                                    &where.gid};
  memcpy(itself.gid, where.gid.raw, sizeof(itself.gid));
  vb_address_vector(&device->path, &itself, &own, &attr.ah_attr);
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV);
}

static int dc_pool_to_rts(struct dc_worker *pool, struct dc_initiator *initiator)
{
  const struct vb_path *path = &pool->worker->device->path;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)path->timeout,
                             .retry_cnt = (uint8_t)path->retry_cnt,
                             .rnr_retry = (uint8_t)path->rnr_retry,
                             .max_rd_atomic = pool->rd_atomic};

  initiator->rd_atomic = pool->rd_atomic;
  return ibv_modify_qp(initiator->qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int dc_pool_set_up(struct dc_worker *pool, struct dc_initiator *initiator)
{
  struct pst_device *device = pool->worker->device;
  int rc = dc_pool_to_init(device, initiator->qp);

  if (rc == 0)
    rc = dc_pool_to_rtr(device, initiator->qp);
  return rc ? rc : dc_pool_to_rts(pool, initiator);
}

int dc_reset(struct dc_worker *pool, struct dc_initiator *initiator)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  int rc = ibv_modify_qp(initiator->qp, &attr, IBV_QP_STATE);

  pool->resets++;
  initiator->stream = 0;
  initiator->is_flushing = false;
  if (rc == 0)
    rc = dc_pool_set_up(pool, initiator);
  initiator->is_broken = rc != 0;
  return rc;
}

/* If as many streams have failed as the device allows (2^log_num_errored), the initiator has, too.
 */
static int dc_pool_reset_stream(struct dc_worker *pool, struct dc_initiator *initiator)
{
  const struct dc_device *dc = dc_device_of(pool->worker->device);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  struct ibv_qp_init_attr init;

  if (ibv_query_qp(initiator->qp, &attr, IBV_QP_STATE, &init) != 0 ||
      attr.qp_state != IBV_QPS_RTS || dc->mlx5.stream_reset(initiator->qp, initiator->stream) != 0)
    return dc_reset(pool, initiator);
  pool->stream_resets++;
  initiator->stream = (uint16_t)((initiator->stream + 1u) % (1u << dc->log_streams));
  initiator->is_flushing = false;
  return 0;
}

/* Creates an initiator (DCI). A device that has DCI streams gets as many as planned. NULL with
 * errno. */
static struct ibv_qp *dc_pool_create(struct dc_worker *pool, uint32_t max_inline,
                                     struct ibv_qp_init_attr_ex *attr)
{
  struct pst_worker *worker = pool->worker;
  struct dc_device *dc = dc_device_of(worker->device);
  const bool has_atomics = dc->device.capabilities & PST_CAP_ATOMIC;
  struct mlx5dv_qp_init_attr own = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC |
                                                 MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
                                    .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
                                    .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};

  if (dc->log_streams) {
    own.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
    own.dc_init_attr.dci_streams.log_num_concurent = dc->log_streams;
    own.dc_init_attr.dci_streams.log_num_errored = dc->log_errored;
  }
  *attr = (struct ibv_qp_init_attr_ex){
      .qp_context = &pool->queue,
      .send_cq = worker->cq,
      .recv_cq = worker->cq,
      .cap = {.max_send_wr = pool->shape.size,
              .max_send_sge = dc->device.pieces_max,
              .max_inline_data = max_inline},
      .qp_type = IBV_QPT_DRIVER,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = pool->pd,
      .send_ops_flags =
          IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
          (has_atomics ? IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
                       : 0u)};
  return dc->mlx5.create_qp(dc->device.open.context, attr, &own);
}

static int dc_pool_refuse(const struct pst_worker *worker, const char *call, int code)
{
  char memlock[160];

  VB_LOG(worker->device, PST_LOG_ERROR,
         "%s: %s of an initiator: %s; fewer `initiators`, or see `rdma resource` and the kernel's "
         "log (`dmesg`)%s",
         worker->device->open.info->name, call, strerror(code), vb_memlock_hint(code, memlock));
  return vb_call_error(code);
}

/* Opens an initiator. Asks for less inline data until the device agrees. */
static int dc_pool_open_one(struct dc_worker *pool, struct dc_initiator *initiator)
{
  struct pst_worker *worker = pool->worker;
  struct dc_device *dc = dc_device_of(worker->device);
  struct ibv_qp_init_attr_ex attr;
  uint32_t inline_bytes = DC_INLINE_REQUESTED;

  initiator->kept.size = pool->shape.size;
  if (vb_send_queue_open(&initiator->kept, dc->device.pieces_max) < 0)
    return -ENOMEM;
  pool->shape.mask = initiator->kept.mask;
  for (; !(initiator->qp = dc_pool_create(pool, inline_bytes, &attr)) && inline_bytes;
       inline_bytes /= 2)
    ;
  if (!initiator->qp)
    return dc_pool_refuse(worker, "mlx5dv_create_qp", errno);
  if (attr.cap.max_send_wr < pool->shape.size || attr.cap.max_send_sge < dc->device.pieces_max) {
    VB_LOG(worker->device, PST_LOG_ERROR,
           "%s: mlx5dv_create_qp gave an initiator %u requests of %u pieces, where %u of %u are "
           "needed: fewer requests",
           worker->device->open.info->name, attr.cap.max_send_wr, attr.cap.max_send_sge,
           pool->shape.size, dc->device.pieces_max);
    return -ENOSPC;
  }
  if (attr.cap.max_inline_data < pool->shape.max_inline)
    pool->shape.max_inline = attr.cap.max_inline_data;
  initiator->ex = ibv_qp_to_qp_ex(initiator->qp);
  initiator->dv = initiator->ex ? dc->mlx5.qp_ex(initiator->ex) : NULL;
  if (!initiator->dv)
    return dc_pool_refuse(worker, "ibv_qp_to_qp_ex", EOPNOTSUPP);
  const int rc = dc_pool_set_up(pool, initiator);
  return rc ? dc_pool_refuse(worker, "ibv_modify_qp", rc) : 0;
}

static void dc_pool_put(struct dc_worker *pool, struct dc_initiator *initiator)
{
  struct dc_initiator **to = initiator->is_reserve ? &pool->reserve : &pool->free;

  initiator->next_free = *to;
  *to = initiator;
}

static int dc_pool_open_all(struct dc_worker *pool)
{
  struct pst_worker *worker = pool->worker;
  const struct dc_device *dc = dc_device_of(worker->device);

  pool->all = calloc(dc_initiators(dc), sizeof(*pool->all));
  pool->numbers = calloc(DC_NUMBERS, sizeof(*pool->numbers));
  if (!pool->all || !pool->numbers)
    return -ENOMEM;
  pool->shape.size = dc->requests + VB_SPARE_SENDS;
  pool->shape.max_inline = UINT32_MAX;
  pool->pd = vb_thread_domain_take(worker, &worker->device->own);
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < dc_initiators(dc); i++) {
    struct dc_initiator *made = &pool->all[i];
    rc = dc_pool_open_one(pool, made);
    pool->count = i + 1;
    made->is_reserve = i >= dc->initiators;
    if (pool->count == dc_initiators(dc))
      pool->prober = made;
    else
      dc_pool_put(pool, made);
  }
  worker->cq_used += pool->count * pool->shape.size;
  return rc;
}

int dc_worker_open(struct pst_worker *worker)
{
  struct dc_worker *pool = calloc(1, sizeof(*pool));
  struct vb_numa_policy policy;

  if (!pool)
    return -ENOMEM;
  worker->own = pool;
  pool->worker = pool->queue.worker = worker;
  pool->rd_atomic = dc_device_of(worker->device)->rd_atomic;
  vb_numa_prefer(worker->device->numa_node, &policy);
  const int rc = dc_pool_open_all(pool);
  vb_numa_restore(&policy);
  return rc;
}

void dc_worker_close(struct pst_worker *worker)
{
  struct dc_worker *pool = worker->own;

  for (uint32_t i = 0; i < pool->count; i++) {
    if (pool->all[i].qp)
      ibv_destroy_qp(pool->all[i].qp);
    vb_send_queue_close(&pool->all[i].kept);
  }
  dc_probe_close(pool);
  if (pool->pd)
    vb_thread_domain_give(worker, pool->pd);
  free(pool->numbers);
  free(pool->all);
  free(pool);
  worker->own = NULL;
}

/* ---- Held -------------------------------------------------------------------------------- */

static void dc_pool_hold(struct dc_worker *pool, struct dc_endpoint *dc, struct dc_initiator **from)
{
  struct dc_initiator *initiator = *from;

  *from = initiator->next_free;
  dc->initiator = initiator;
  dc->held_from = dc->endpoint.sq.head;
  dc->endpoint.sq.sent = initiator->kept.sent;
  dc->endpoint.sq.wrs = initiator->kept.wrs;
  dc->endpoint.sq.sges = initiator->kept.sges;
  /* A peer with a smaller READ depth may have been met since. */
  if ((initiator->is_broken || initiator->rd_atomic > pool->rd_atomic) &&
      dc_reset(pool, initiator) != 0)
    dc_fail(&dc->endpoint, -EIO, "its initiator cannot be set up again");
}

static void dc_pool_leave_line(struct dc_worker *pool, struct dc_endpoint *dc)
{
  struct dc_queue *line = &pool->lines[dc->line];

  *(dc->before ? &dc->before->behind : &line->first) = dc->behind;
  *(dc->behind ? &dc->behind->before : &line->last) = dc->before;
  dc->before = dc->behind = NULL;
  pool->waiting--;
  pool->silent -= dc->line >= DC_SILENT;
}

static void dc_pool_join_line(struct dc_worker *pool, struct dc_endpoint *dc, uint32_t which)
{
  struct dc_queue *line = &pool->lines[which];

  if (pool->waiting == 0)
    pool->stuck_ns = 0;
  dc->line = (uint8_t)which;
  dc->before = line->last;
  *(line->last ? &line->last->behind : &line->first) = dc;
  line->last = dc;
  pool->waiting++;
  pool->silent += which >= DC_SILENT;
}

void dc_wait_no_more(struct dc_endpoint *dc)
{
  if (!dc->is_waiting)
    return;
  dc->is_waiting = false;
  dc->silent_ns = dc->probe_at_ns = 0;
  dc->tries = 0;
  dc_pool_leave_line(dc_worker_of(dc->endpoint.worker), dc);
}

void dc_wait_in(struct dc_endpoint *dc, uint32_t line)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  dc_pool_leave_line(pool, dc);
  dc_pool_join_line(pool, dc, line);
}

/* Hands an initiator to the first endpoint that waits and may have it. */
static void dc_pool_hand(struct dc_worker *pool, struct dc_initiator **from)
{
  struct dc_endpoint *next = pool->lines[DC_ANSWERED].first;

  if (!next && from == &pool->free)
    next = pool->lines[DC_ASKING].first;
  if (!next || !*from)
    return;
  dc_wait_no_more(next);
  dc_pool_hold(pool, next, from);
  next->was_handed = true;
  next->handed_for = 0;
  vb_pend(&next->endpoint);
}

void dc_has_answered(struct dc_endpoint *dc)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  dc_wait_in(dc, DC_ANSWERED);
  dc->silent_ns = 0;
  dc_pool_hand(pool, pool->free ? &pool->free : &pool->reserve);
}

bool dc_take(struct dc_endpoint *dc)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  if (dc->initiator)
    return true;
  if (!pool->free || dc->silent_ns) { /* dc_give() hands it on */
    if (!dc->is_waiting)
      dc_pool_join_line(pool, dc, DC_ASKING);
    dc->is_waiting = true;
    if (dc->is_heard && !dc->is_answered && dc->line != DC_ANSWERED) /* it has just said hello */
      dc_has_answered(dc);
    return dc->initiator != NULL;
  }
  dc_wait_no_more(dc);
  dc_pool_hold(pool, dc, &pool->free);
  dc->was_handed = false;
  return true;
}

void dc_give(struct dc_endpoint *dc)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);
  struct dc_initiator *given = dc->initiator;

  if (!given)
    return;
  if (dc->was_handed && dc->held_from == dc->endpoint.sq.head && dc->endpoint.is_connected &&
      !dc->endpoint.closing.mode && dc->handed_for < HANDED_FOR) {
    dc->handed_for++;
    vb_pend(&dc->endpoint);
    return;
  }
  dc_pool_put(pool, given);
  pool->gives += !given->is_reserve;
  dc->initiator = NULL;
  dc->endpoint.sq.sent = NULL;
  dc_pool_hand(pool, given->is_reserve ? &pool->reserve : &pool->free);
}

bool dc_is_spent(const struct dc_endpoint *dc)
{
  const struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  return (pool->lines[DC_ANSWERED].first || pool->lines[DC_ASKING].first) &&
         dc->endpoint.sq.head - dc->held_from >= dc_device_of(dc->endpoint.device)->quota;
}

static void dc_pool_say_lost(const struct dc_endpoint *dc, int rc)
{
  if (rc)
    VB_LOG(dc->endpoint.device, PST_LOG_ERROR,
           "%s: an initiator that has failed cannot be set up again: %s; see the kernel's log "
           "(`dmesg`)",
           dc->endpoint.label, strerror(rc));
}

void dc_flushed(struct dc_endpoint *dc)
{
  if (dc->endpoint.sq.done == dc->endpoint.sq.head)
    dc_pool_say_lost(dc, dc_pool_reset_stream(dc_worker_of(dc->endpoint.worker), dc->initiator));
}

void dc_stop(struct dc_endpoint *dc)
{
  if (!dc->initiator || !dc->initiator->is_flushing) {
    dc_abandon(dc);
    return;
  }
  dc_wait_no_more(dc);
  dc->says = 0;
}

void dc_abandon(struct dc_endpoint *dc)
{
  struct vb_send_queue *sq = &dc->endpoint.sq;
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  dc_wait_no_more(dc);
  dc->says = 0;
  if (!dc->initiator || sq->done == sq->head)
    return;
  if (sq->failed_from == VB_NEVER)
    sq->failed_from = sq->done;
  dc_pool_say_lost(dc, dc_reset(pool, dc->initiator));
  sq->done = sq->head;
}

/* ---- Posted again ------------------------------------------------------------------------ */

static bool dc_pool_may_be_repeated(const struct vb_send_queue *sq)
{
  for (uint64_t i = sq->done; i != sq->head; i++) {
    const uint8_t opcode = sq->sent[i & sq->mask].opcode;
    if (opcode == PST_OP_FETCH_ADD || opcode == PST_OP_COMPARE_SWAP)
      return false;
  }
  return true;
}

/* A request that has been carried out keeps its place, and a completion. */
static void dc_pool_make_empty(struct ibv_send_wr *wr)
{
  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->num_sge = 0;
  wr->send_flags &= ~(unsigned)IBV_SEND_INLINE;
  wr->wr.rdma.remote_addr = 0;
  wr->wr.rdma.rkey = 0;
}

/* WRITEs before the last SEND that has arrived are placed, and READs before the last request with a
 * fence of those are done (IBA 10.8.3.3). The peer may use these bytes otherwise since. */
static void dc_pool_drop_what_arrived(struct vb_send_queue *sq, uint64_t arrived)
{
  uint64_t end = sq->done, fence = sq->done;

  for (; arrived && end != sq->head; end++) {
    arrived -= sq->sent[end & sq->mask].opcode == PST_OP_SEND;
    if (sq->wrs[end & sq->mask].send_flags & IBV_SEND_FENCE)
      fence = end;
  }
  for (uint64_t i = sq->done; i != end; i++) {
    struct ibv_send_wr *wr = &sq->wrs[i & sq->mask];
    if (sq->sent[i & sq->mask].opcode == PST_OP_SEND || wr->opcode == IBV_WR_RDMA_WRITE ||
        (wr->opcode == IBV_WR_RDMA_READ && i < fence))
      dc_pool_make_empty(wr);
  }
}

void dc_take_sent(struct dc_endpoint *dc)
{
  struct pst_worker *worker = dc->endpoint.worker;
  const struct vb_send_queue *sq = &dc->endpoint.sq;
  uint32_t kept = worker->wc_at;

  for (uint32_t i = worker->wc_at; i != worker->wc_count; i++) {
    const struct ibv_wc *wc = &worker->wc[i];
    const bool is_its = !(wc->wr_id & VB_RECEIVE) && wc->wr_id >> 32 == sq->wr_id >> 32 &&
                        dc->initiator && wc->qp_num == dc->initiator->qp->qp_num;
    if (!is_its)
      worker->wc[kept++] = *wc;
    else if (wc->status == IBV_WC_SUCCESS && dc_index_of(sq, wc) < sq->head)
      dc_answered(dc, dc_index_of(sq, wc));
  }
  worker->wc_count = kept;
}

void dc_post_again(struct dc_endpoint *dc, uint64_t arrived)
{
  struct vb_send_queue *sq = &dc->endpoint.sq;
  bool says_credit = false;

  dc->again_at = VB_NEVER;
  dc->moved_at = 0;
  if (dc_is_over(dc))
    return;
  dc_take_sent(dc);
  if (!dc->initiator || sq->done == sq->head)
    return;
  if (!dc_pool_may_be_repeated(sq)) {
    dc_fail(&dc->endpoint, -ECONNRESET,
            "the peer's target was lost during an atomic operation, which may or may not have "
            "taken place");
    return;
  }
  int rc = -dc_reset(dc_worker_of(dc->endpoint.worker), dc->initiator);
  dc_pool_drop_what_arrived(sq, arrived);
  for (uint64_t i = sq->done; i != sq->head; i++) {
    struct ibv_send_wr *wr = &sq->wrs[i & sq->mask];
    if (dc_is_credit(wr) && says_credit)
      dc_pool_make_empty(wr);
    else if (dc_is_credit(wr)) {
      wr->imm_data = htobe32((uint32_t)DC_CREDIT << DC_VALUE_BITS | dc->granted % DC_VALUES);
      says_credit = true;
    }
  }
  if (rc == 0)
    rc = dc_spread(sq, sq->done, sq->head);
  if (rc < 0)
    dc_fail(&dc->endpoint, rc, "requests cannot be posted again to the peer's new target");
}

/* ---- Posted ------------------------------------------------------------------------------ */

static void dc_pool_set_bytes(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
  struct ibv_data_buf pieces[VB_PIECES_MAX];

  if (!(wr->send_flags & IBV_SEND_INLINE)) {
    ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
    return;
  }
  for (int i = 0; i < wr->num_sge; i++)
    pieces[i] =
        (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length};
  ibv_wr_set_inline_data_list(ex, (size_t)wr->num_sge, pieces);
}

static void dc_pool_set_operation(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr,
                                  uint32_t number)
{
  const __be32 immediate = htobe32(number << 16 | (be32toh(wr->imm_data) & 0xffff));

  switch (wr->opcode) {
  case IBV_WR_SEND_WITH_IMM:
    ibv_wr_send_imm(ex, immediate);
    break;
  case IBV_WR_RDMA_WRITE_WITH_IMM:
    ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, immediate);
    break;
  case IBV_WR_RDMA_READ:
    ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    break;
  case IBV_WR_ATOMIC_CMP_AND_SWP:
    ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                          wr->wr.atomic.compare_add, wr->wr.atomic.swap);
    break;
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                            wr->wr.atomic.compare_add);
    break;
  default:
    ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    break;
  }
}

void dc_set_peer(const struct dc_endpoint *dc, const struct dc_initiator *initiator,
                 uint32_t target, uint16_t stream)
{
  if (dc_device_of(dc->endpoint.device)->log_streams)
    mlx5dv_wr_set_dc_addr_stream(initiator->dv, dc->handle->ah, target, dc->peer.key, stream);
  else
    mlx5dv_wr_set_dc_addr(initiator->dv, dc->handle->ah, target, dc->peer.key);
}

int dc_spread(struct vb_send_queue *sq, uint64_t from, uint64_t to)
{
  const struct dc_endpoint *dc = dc_of(vb_endpoint_of(sq));
  const struct dc_peer *peer = &dc->peer;
  struct dc_initiator *initiator = dc->initiator;
  struct ibv_qp_ex *ex = initiator->ex;

  ibv_wr_start(ex);
  for (uint64_t at = from; at != to; at++) {
    const struct ibv_send_wr *wr = &sq->wrs[at & sq->mask];
    const bool is_word = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    ex->wr_id = wr->wr_id;
    ex->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
    dc_pool_set_operation(ex, wr, peer->number);
    dc_pool_set_bytes(ex, wr);
    dc_set_peer(dc, initiator, is_word ? peer->control : peer->data, initiator->stream);
  }
  const int rc = ibv_wr_complete(ex); /* all, or none */
  if (rc)
    return -rc;
  sq->head = to;
  return (int)(to - from);
}
