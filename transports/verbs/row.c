/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain requests: SENDs and WRITEs of one piece, without flags, many alike in a row. They are
 * checked and built in one go; whatever is not as it mostly is, is left to post.c.
 */
#include <endian.h>

#include "request.h"

/* Of an endpoint, while a row is built; and the registration that its requests named last. */
struct row {
  const struct vb_domain *local;
  struct ibv_send_wr *wrs;
  struct vb_sent *sent;
  uint64_t mask, quarter;
  uint64_t id;
  const struct pst_mr *mr;
  uint64_t length, address; /* of mr */
  uint32_t lkey;            /* likewise */
  uint32_t max_inline;      /* 0: of memory that the CPU does not read */
};

static inline struct row row_of(const struct pst_endpoint *endpoint)
{
  return (struct row){.local = endpoint->local,
                      .wrs = endpoint->sq.wrs,
                      .sent = endpoint->sq.sent,
                      .mask = endpoint->sq.mask,
                      .quarter = endpoint->sq.mask >> 2,
                      .id = vb_wr_id(&endpoint->sq, 0)};
}

/* Whose bytes they are makes no difference here. */
static inline bool is_send(const struct pst_request *request)
{
  return (pst_request_head(request) & ~pst_request_head_of(0, PST_REQUEST_EXCLUSIVE)) ==
         pst_request_head_of(PST_OP_SEND, 0);
}

static inline __attribute__((always_inline)) bool take_mr(const struct pst_endpoint *endpoint,
                                                          struct row *row, const struct pst_mr *mr)
{
  if (!mr || mr->domain != row->local || !(mr->access & PST_ACCESS_LOCAL_READ))
    return false;
  row->mr = mr;
  row->length = mr->length;
  row->address = mr->verbs.address;
  row->lkey = mr->lkey;
  row->max_inline = mr->is_cpu_readable ? endpoint->sq.max_inline : 0;
  return true;
}

static inline bool is_within(const struct pst_endpoint *endpoint, struct row *row,
                             const struct pst_request *request)
{
  return (request->local.mr == row->mr || take_mr(endpoint, row, request->local.mr)) &&
         request->offset <= row->length && request->arg.length <= row->length - request->offset;
}

static inline struct ibv_send_wr *build(const struct row *row, uint64_t index,
                                        const struct pst_request *request)
{
  const uint64_t length = request->arg.length;
  struct ibv_send_wr *wr = &row->wrs[index & row->mask];
  struct vb_sent *sent = &row->sent[index & row->mask];
  struct ibv_sge *sge = wr->sg_list;

  wr->wr_id = row->id | (uint32_t)index;
  wr->num_sge = length != 0;
  wr->send_flags = length && length <= row->max_inline ? IBV_SEND_INLINE : 0;
  /* So that room comes back before all of a long list is done. */
  if ((index & row->quarter) == 0)
    wr->send_flags |= IBV_SEND_SIGNALED;
  sge->addr = row->address + request->offset;
  sge->length = (uint32_t)length;
  sge->lkey = row->lkey;
  sent->cookie = request->cookie;
  sent->opcode = request->opcode;
  return wr;
}

static uint32_t sends(struct pst_endpoint *endpoint, uint64_t index,
                      const struct pst_request *requests, uint32_t n)
{
  struct vb_tx *tx = endpoint->tx;
  struct row row = row_of(endpoint);
  uint64_t bytes = 0;
  uint32_t i = 0;

  if (!tx)
    return 0;
  const uint32_t initial = (uint32_t)tx->initial, rkey = tx->rkey;
  const uint32_t *slots = tx->credits.at, mask = tx->credits.mask, tail = tx->credits.tail;
  const uint64_t address = tx->address, stride = tx->stride, length_max = tx->message_max;
  const enum ibv_wr_opcode opcode = tx->opcode;
  n = n < vb_fifo_count(&tx->credits) ? n : vb_fifo_count(&tx->credits);
  for (; i < n; i++) {
    const struct pst_request *request = &requests[i];
    if (!is_send(request) || request->u.send.departure_ns || request->arg.length > length_max ||
        !is_within(endpoint, &row, request))
      break;
    struct ibv_send_wr *wr = build(&row, index + i, request);
    wr->opcode = opcode;
    wr->imm_data = htobe32((uint32_t)request->u.send.sequence + initial);
    wr->wr.rdma.remote_addr = address + slots[(tail + i) & mask] * stride;
    wr->wr.rdma.rkey = rkey;
    bytes += request->arg.length;
  }
  tx->credits.tail = tail + i;
  tx->messages += i;
  tx->bytes += bytes;
  return i;
}

static inline bool is_write(const struct pst_request *request, uint64_t room, uint64_t length_max)
{
  const uint64_t length = request->arg.length, offset = request->u.rma.offset;

  return !request->u.rma.reserved && offset <= room && length <= room - offset &&
         length <= length_max;
}

static inline void build_write(const struct row *row, uint64_t index,
                               const struct pst_request *request, uint64_t address, uint32_t rkey)
{
  struct ibv_send_wr *wr = build(row, index, request);

  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->wr.rdma.remote_addr = address + request->u.rma.offset;
  wr->wr.rdma.rkey = rkey;
}

static inline void written(struct pst_endpoint *endpoint, struct pst_remote *remote, uint64_t end)
{
  endpoint->rma_before = end;
  if (remote != endpoint->written)
    vb_written(endpoint, remote);
}

static uint32_t writes(struct pst_endpoint *endpoint, uint64_t index,
                       const struct pst_request *requests, uint32_t n)
{
  struct row row = row_of(endpoint);
  struct pst_remote *remote = requests[0].u.rma.remote;
  uint32_t i = 0;

  if (!vb_is_writable(endpoint, remote))
    return 0;
  const uint64_t address = remote->address, room = remote->length;
  const uint64_t length_max = endpoint->device->message_max;
  const uint32_t rkey = remote->rkey;
  for (; i < n; i++) {
    const struct pst_request *request = &requests[i];
    if (pst_request_head(request) != pst_request_head_of(PST_OP_WRITE, 0) ||
        request->u.rma.remote != remote || !is_write(request, room, length_max) ||
        !is_within(endpoint, &row, request))
      break;
    build_write(&row, index + i, request, address, rkey);
  }
  if (i)
    written(endpoint, remote, index + i);
  return i;
}

uint32_t vb_build_row(struct pst_endpoint *endpoint, uint64_t index,
                      const struct pst_request *requests, uint32_t n)
{
  uint32_t built = 0;

  if (pst_request_head(requests) == pst_request_head_of(PST_OP_WRITE, 0))
    built = writes(endpoint, index, requests, n);
  else if (is_send(requests))
    built = sends(endpoint, index, requests, n);
  if (built)
    vb_send_queue_alike(&endpoint->sq, index, requests[0].opcode);
  return built;
}
