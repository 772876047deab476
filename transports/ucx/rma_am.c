/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ and atomics by active messages: of ours, and of the peer's on our memory. */
#include "rma_am.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-cpu.h>

#include "am.h"
#include "device.h"
#include "endpoint.h"
#include "link.h"
#include "mr.h"
#include "receive.h"
#include "remote.h"
#include "rma.h"
#include "worker.h"

int ucx_rma_am_open(struct ucx_link *link)
{
  link->asked = calloc(UCX_ASKED_MAX, sizeof(*link->asked));
  return link->asked ? 0 : -ENOMEM;
}

void ucx_rma_am_close(struct ucx_link *link)
{
  free(link->asked);
}

/* ---- Requests of ours ----------------------------------------------------------------------- */

bool ucx_rma_am_serves(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const bool is_atomic =
      request->opcode == PST_OP_FETCH_ADD || request->opcode == PST_OP_COMPARE_SWAP;
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  if (!endpoint->link->by_messages || request->opcode == PST_OP_FLUSH)
    return false;
  if (is_atomic)
    return request->u.atomic.remote->by_cpu;
  for (uint32_t i = 0; i < count; i++)
    if (pieces[i].length && !pieces[i].mr->by_cpu)
      return false;
  return request->u.rma.remote->by_cpu;
}

bool ucx_rma_am_may_start(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const struct ucx_tx *tx = &endpoint->tx;

  if (!ucx_am_is_free(endpoint->link))
    return false;
  return request->opcode == PST_OP_WRITE ? !tx->cut.is_open : tx->fetching < UCX_ASKED_MAX;
}

static struct ucx_op *ucx_rma_am_op_of(const struct ucx_link *link, uint64_t number)
{
  const uint32_t at = (uint32_t)number;
  struct ucx_op *op = at < link->op_count ? &link->ops[at] : NULL;

  return op && op->is_taken && op->by_messages && op->number == number ? op : NULL;
}

static void ucx_rma_am_ask_for_read(struct ucx_op *op, struct ucx_header *header,
                                    const struct pst_request *request)
{
  header->kind = UCX_READ;
  header->sequence = request->u.rma.remote->address + request->u.rma.offset;
  header->length = (uint32_t)request->arg.length;
  op->piece_count = ucx_am_sources(op->pieces, request);
  op->length = request->arg.length;
}

static void ucx_rma_am_ask_for_atomic(struct ucx_op *op, struct ucx_header *header,
                                      const struct pst_request *request)
{
  const bool is_swap = request->opcode == PST_OP_COMPARE_SWAP;

  header->kind = UCX_ATOMIC;
  header->flags = is_swap ? UCX_HEADER_SWAP : 0;
  header->sequence = request->u.atomic.remote->address + request->u.atomic.offset;
  header->meta = request->u.atomic.operand;
  header->offset = is_swap ? request->arg.compare : 0;
  op->pieces[0] =
      (ucp_dt_iov_t){pst_cpu_mr_of(request->local.mr)->base + request->offset, sizeof(uint64_t)};
  op->piece_count = 1;
  op->length = sizeof(uint64_t);
}

void ucx_rma_am_ask(struct pst_endpoint *endpoint, struct ucx_op *op,
                    const struct pst_request *request)
{
  struct ucx_link *link = endpoint->link;
  struct ucx_am *am = ucx_am_take(link);

  op->by_messages = true;
  op->number = (uint64_t)++link->ask_number << 32 | (uint64_t)(op - link->ops);
  if (request->opcode == PST_OP_READ)
    ucx_rma_am_ask_for_read(op, &am->header, request);
  else
    ucx_rma_am_ask_for_atomic(op, &am->header, request);
  op->bytes_left = op->length;
  am->header.position = op->number;
  ucx_am_send(am);
}

static void ucx_rma_am_scatter(const struct ucx_op *op, uint64_t offset, const uint8_t *from,
                               size_t bytes)
{
  for (uint32_t i = 0; i < op->piece_count && bytes; i++) {
    size_t length = op->pieces[i].length;
    if (offset >= length) {
      offset -= length;
      continue;
    }
    length -= offset;
    if (length > bytes)
      length = bytes;
    memcpy((uint8_t *)op->pieces[i].buffer + offset, from, length);
    from += length;
    bytes -= length;
    offset = 0;
  }
}

/* A request that was cut off is not found: its memory is the host's again. */
static const char *ucx_rma_am_take_answer(struct ucx_link *link, const struct ucx_header *header,
                                          const void *data, size_t bytes)
{
  struct ucx_op *op = ucx_rma_am_op_of(link, header->position);

  if (!op)
    return NULL;
  if (header->kind == UCX_FOUND) {
    data = &header->meta;
    bytes = sizeof(header->meta);
  }
  if ((header->kind == UCX_DATA) != (op->opcode == PST_OP_READ) || bytes > op->bytes_left ||
      !pst_range_holds(op->length, header->offset, bytes))
    return "an answer that is longer than what was asked for";
  ucx_rma_am_scatter(op, header->offset, data, bytes);
  op->bytes_left -= bytes;
  if (!op->bytes_left)
    ucx_rma_end(op, 0);
  return NULL;
}

/* ---- Requests of the peer's ------------------------------------------------------------------ */

static const char *ucx_rma_am_write_bytes(struct ucx_link *link, const struct ucx_header *header,
                                          const void *data, size_t bytes)
{
  struct pst_device *device = link->worker->device;
  void *to =
      ucx_mr_enter(device, header->sequence + header->offset, bytes, PST_ACCESS_REMOTE_WRITE);

  if (!to)
    return "a WRITE to memory that is not registered for it";
  memcpy(to, data, bytes);
  ucx_mr_leave(device);
  link->writes_come++;
  return NULL;
}

static const char *ucx_rma_am_keep(struct ucx_link *link, const struct ucx_header *header)
{
  if (link->asked_head - link->asked_tail == UCX_ASKED_MAX)
    return "more READs and atomics than may be under way";
  link->asked[link->asked_head++ % UCX_ASKED_MAX] = (struct ucx_asked){.header = *header};
  return NULL;
}

const char *ucx_rma_am_receive(struct ucx_link *link, const struct ucx_header *header,
                               const void *data, size_t bytes)
{
  if (!link->asked)
    return "one-sided access where there is none";
  if (header->kind == UCX_WRITE)
    return ucx_rma_am_write_bytes(link, header, data, bytes);
  if (header->kind == UCX_READ || header->kind == UCX_ATOMIC)
    return ucx_rma_am_keep(link, header);
  return ucx_rma_am_take_answer(link, header, data, bytes);
}

bool ucx_rma_am_owes(const struct ucx_link *link)
{
  return link->asked_tail != link->asked_head && ucx_am_is_free(link);
}

/* Copied at once: the memory may go when ucx_mr_leave() has returned. */
static const char *ucx_rma_am_answer_read(struct pst_device *device, struct ucx_asked *asked,
                                          struct ucx_am *am, uint64_t most)
{
  const uint64_t left = asked->header.length - asked->offset;
  const uint64_t bytes = left < most ? left : most;
  const void *from =
      ucx_mr_enter(device, asked->header.sequence + asked->offset, bytes, PST_ACCESS_REMOTE_READ);

  if (!from)
    return "a READ of memory that is not registered for it";
  memcpy(am->gathered, from, bytes);
  ucx_mr_leave(device);
  am->header.kind = UCX_DATA;
  am->header.offset = asked->offset;
  am->bytes = bytes;
  asked->offset += bytes;
  return NULL;
}

static const char *ucx_rma_am_answer_atomic(struct pst_device *device, struct ucx_asked *asked,
                                            struct ucx_am *am)
{
  const struct ucx_header *header = &asked->header;
  uint64_t found = header->offset, *at;

  at = header->sequence & 7
           ? NULL
           : ucx_mr_enter(device, header->sequence, sizeof(*at), PST_ACCESS_REMOTE_ATOMIC);
  if (!at)
    return "an atomic on memory that is not registered for it";
  if (header->flags & UCX_HEADER_SWAP)
    __atomic_compare_exchange_n(at, &found, header->meta, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
  else
    found = __atomic_fetch_add(at, header->meta, __ATOMIC_SEQ_CST);
  ucx_mr_leave(device);
  am->header.kind = UCX_FOUND;
  am->header.meta = found;
  asked->offset = header->length;
  return NULL;
}

void ucx_rma_am_step(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;
  struct pst_device *device = endpoint->worker->device;

  if (ucx_rma_am_owes(link) && !link->by_messages) {
    ucx_receive_refuse(link, "one-sided access by messages where UCX has its own");
    return;
  }
  while (ucx_rma_am_owes(link) && !ucx_link_is_lost(link)) {
    struct ucx_asked *asked = &link->asked[link->asked_tail % UCX_ASKED_MAX];
    if (asked->header.writes > link->writes_come)
      return;
    struct ucx_am *am = ucx_am_take(link);
    const char *wrong = asked->header.kind == UCX_READ
                            ? ucx_rma_am_answer_read(device, asked, am, link->part_max)
                            : ucx_rma_am_answer_atomic(device, asked, am);
    if (wrong) {
      ucx_am_give(am);
      ucx_receive_refuse(link, wrong);
      return;
    }
    am->header.position = asked->header.position;
    if (asked->offset == asked->header.length)
      link->asked_tail++;
    ucx_am_send_gathered(am);
  }
}
