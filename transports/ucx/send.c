/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs: several small ones in an active message, a long one in several, or fetched by the peer. */
#include "send.h"

#include <errno.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "am.h"
#include "endpoint.h"
#include "link.h"
#include "mr.h"
#include "remote.h"
#include "units.h"
#include "wire.h"

static const struct pst_mr *ucx_send_mr_of(const struct pst_request *request)
{
  return request->piece_count ? request->local.pieces[0].mr : request->local.mr;
}

int ucx_send_check(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  int rc =
      pst_cpu_request_check(&endpoint->cpu, request, endpoint->pieces_max, endpoint->tx.length_max);

  if (rc < 0)
    return rc;
  for (uint32_t i = 1; i < request->piece_count; i++) {
    const struct pst_mr *mr = request->local.pieces[i].mr;
    if (mr && ucx_send_mr_of(request) && mr->type != ucx_send_mr_of(request)->type)
      return -EOPNOTSUPP;
  }
  return 0;
}

/* Does the peer fetch it? */
static bool ucx_send_is_whole(const struct pst_endpoint *endpoint,
                              const struct pst_request *request)
{
  const struct pst_mr *mr = ucx_send_mr_of(request);

  if (request->arg.length == 0)
    return false;
  return endpoint->tx.must_fetch || (mr && !mr->by_cpu) ||
         request->arg.length >= endpoint->link->whole_from;
}

static bool ucx_send_is_small(const struct pst_endpoint *endpoint,
                              const struct pst_request *request)
{
  return request->arg.length <= endpoint->link->part_max && !ucx_send_is_whole(endpoint, request);
}

/* How many of n are alike but for their place and number, and fit into one active message. */
static uint32_t ucx_send_count_run(const struct pst_endpoint *endpoint,
                                   const struct pst_request *requests, uint32_t n)
{
  const uint64_t head = pst_request_head(requests), length = requests->arg.length;
  uint32_t i, most = UCX_BATCH_MAX;

  if (requests->piece_count || requests->u.send.meta)
    return 0;
  if (length && endpoint->link->part_max / length < most)
    most = (uint32_t)(endpoint->link->part_max / length);
  if (n > most)
    n = most;
  for (i = 1; i < n; i++) {
    const struct pst_request *request = &requests[i];
    if (pst_request_head(request) != head || request->arg.length != length ||
        request->local.mr != requests->local.mr || request->u.send.meta ||
        request->u.send.departure_ns || request->u.send.sequence != requests->u.send.sequence + i ||
        !pst_cpu_mr_holds(NULL, request->local.mr, request->offset, length, PST_ACCESS_LOCAL_READ))
      break;
  }
  return i;
}

static void ucx_send_fill_run(struct ucx_am *am, const struct pst_request *requests, uint32_t count)
{
  const uint64_t length = requests->arg.length;

  am->header.kind = UCX_RUN;
  am->header.length = (uint32_t)length;
  am->header.sequence = requests->u.send.sequence;
  if (length == 0)
    return;
  uint8_t *base = pst_cpu_mr_of(requests->local.mr)->base;
  for (uint32_t i = 0; i < count; i++)
    am->sources[i] = (ucp_dt_iov_t){base + requests[i].offset, length};
  am->source_count = count;
  am->bytes = count * length;
}

/* Messages of any kind that fit, the records first. Returns how many. */
static uint32_t ucx_send_fill_list(const struct pst_endpoint *endpoint, struct ucx_am *am,
                                   const struct pst_request *requests, uint32_t n)
{
  const uint64_t most = endpoint->link->part_max;
  uint32_t i, used = 1;
  uint64_t bytes = 0;

  for (i = 0; i < n && i < UCX_BATCH_MAX; i++) {
    const struct pst_request *request = &requests[i];
    const uint32_t pieces = request->piece_count ? request->piece_count : 1;
    const bool is_first = i == 0;
    if (!is_first && (request->opcode != PST_OP_SEND || (request->flags & PST_REQUEST_FENCE) ||
                      used + pieces > UCX_SOURCES_MAX || ucx_send_check(endpoint, request) < 0 ||
                      !ucx_send_is_small(endpoint, request) ||
                      bytes + request->arg.length + sizeof(struct ucx_record) > most))
      break;
    am->records[i] = (struct ucx_record){.sequence = request->u.send.sequence,
                                         .meta = request->u.send.meta,
                                         .length = (uint32_t)request->arg.length};
    used += ucx_am_sources(am->sources + used, request);
    bytes += request->arg.length + sizeof(struct ucx_record);
  }
  am->sources[0] = (ucp_dt_iov_t){am->records, i * sizeof(struct ucx_record)};
  am->source_count = used;
  am->bytes = bytes;
  am->header.kind = UCX_LIST;
  return i;
}

static void ucx_send_count_sent(struct pst_endpoint *endpoint, uint64_t messages, uint64_t bytes)
{
  endpoint->tx.messages += messages;
  endpoint->tx.bytes += bytes;
}

/* An active message of small ones: the first is small, and has been judged. */
static uint32_t ucx_send_start_batch(struct pst_endpoint *endpoint,
                                     const struct pst_request *requests, uint32_t n)
{
  struct ucx_tx *tx = &endpoint->tx;
  struct ucx_am *am = ucx_am_take(endpoint->link);
  uint32_t count = ucx_send_count_run(endpoint, requests, n);

  if (count)
    ucx_send_fill_run(am, requests, count);
  else
    count = ucx_send_fill_list(endpoint, am, requests, n);
  am->header.count = (uint16_t)count;
  am->header.position = tx->position;
  am->unit = ucx_unit_begin(&tx->sends, requests[count - 1].cookie, count);
  am->has_unit = true;
  tx->position += count;
  ucx_send_count_sent(endpoint, count,
                      am->bytes -
                          (am->header.kind == UCX_LIST ? count * sizeof(struct ucx_record) : 0));
  ucx_am_send(am);
  return count;
}

static void ucx_send_start_whole(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  struct ucx_tx *tx = &endpoint->tx;
  struct ucx_am *am = ucx_am_take(endpoint->link);

  am->source_count = ucx_am_sources(am->sources, request);
  am->header = (struct ucx_header){.kind = UCX_WHOLE,
                                   .length = (uint32_t)request->arg.length,
                                   .position = tx->position++,
                                   .sequence = request->u.send.sequence,
                                   .meta = request->u.send.meta};
  am->unit = ucx_unit_begin(&tx->sends, request->cookie, 1);
  am->has_unit = true;
  ucx_send_count_sent(endpoint, 1, request->arg.length);
  const struct pst_mr *mr = ucx_send_mr_of(request);
  ucx_am_offer(am, mr->type, request->piece_count > 1 ? NULL : mr->memh);
}

/* Parts are alike: a last one of a few bytes costs as much as the others. */
static uint64_t ucx_send_part_of(uint64_t most, uint64_t length)
{
  const uint64_t parts = (length + most - 1) / most;

  return (length + parts - 1) / parts;
}

static struct ucx_units *ucx_send_units_of(struct pst_endpoint *endpoint)
{
  struct ucx_tx *tx = &endpoint->tx;

  return tx->cut.header.kind == UCX_WRITE ? &tx->writes : &tx->sends;
}

static void ucx_send_begin_cut(struct pst_endpoint *endpoint, const struct pst_request *request,
                               const struct ucx_header *header)
{
  struct ucx_fragments *cut = &endpoint->tx.cut;

  cut->count = ucx_am_sources(cut->sources, request);
  cut->header = *header;
  cut->offset = cut->source_offset = 0;
  cut->part = ucx_send_part_of(endpoint->link->part_max, request->arg.length);
  cut->source = 0;
  cut->is_open = true;
  cut->unit = ucx_unit_begin(ucx_send_units_of(endpoint), request->cookie, 1);
  ucx_send_step(endpoint);
}

static void ucx_send_start_cut(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const struct ucx_header header = {.kind = UCX_PART,
                                    .length = (uint32_t)request->arg.length,
                                    .position = endpoint->tx.position++,
                                    .sequence = request->u.send.sequence,
                                    .meta = request->u.send.meta};

  ucx_send_count_sent(endpoint, 1, request->arg.length);
  ucx_send_begin_cut(endpoint, request, &header);
}

void ucx_send_write(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const uint64_t part = ucx_send_part_of(endpoint->link->part_max, request->arg.length);
  const struct ucx_header header = {
      .kind = UCX_WRITE, .sequence = request->u.rma.remote->address + request->u.rma.offset};

  endpoint->link->writes_begun += (request->arg.length + part - 1) / part;
  ucx_send_begin_cut(endpoint, request, &header);
}

void ucx_send_cancel(struct pst_endpoint *endpoint, int32_t status)
{
  struct ucx_fragments *cut = &endpoint->tx.cut;

  if (cut->is_open)
    ucx_unit_end(ucx_send_units_of(endpoint), cut->unit, status);
  cut->is_open = false;
}

/* The next part of the message. */
static void ucx_send_fill_part(struct ucx_fragments *cut, struct ucx_am *am, uint64_t most)
{
  am->header = cut->header;
  am->header.offset = cut->offset;
  while (am->bytes < most && cut->source < cut->count) {
    const ucp_dt_iov_t *source = &cut->sources[cut->source];
    uint64_t length = source->length - cut->source_offset;
    if (length > most - am->bytes)
      length = most - am->bytes;
    am->sources[am->source_count++] =
        (ucp_dt_iov_t){(uint8_t *)source->buffer + cut->source_offset, length};
    am->bytes += length;
    cut->source_offset += length;
    if (cut->source_offset == source->length) {
      cut->source++;
      cut->source_offset = 0;
    }
  }
  cut->offset += am->bytes;
}

void ucx_send_step(struct pst_endpoint *endpoint)
{
  struct ucx_fragments *cut = &endpoint->tx.cut;
  struct ucx_link *link = endpoint->link;

  while (cut->is_open && !ucx_link_is_lost(link)) {
    struct ucx_am *am = ucx_am_take(link);
    if (!am)
      return;
    ucx_send_fill_part(cut, am, cut->part);
    am->unit = cut->unit;
    am->has_unit = true;
    ucx_unit_at(ucx_send_units_of(endpoint), cut->unit)->left++;
    ucx_am_send(am);
    if (cut->source == cut->count) {
      cut->is_open = false;
      ucx_unit_end(ucx_send_units_of(endpoint), cut->unit, 0);
    }
  }
}

uint32_t ucx_send_start(struct pst_endpoint *endpoint, const struct pst_request *requests,
                        uint32_t n, uint32_t *why)
{
  const uint64_t credit = endpoint->tx.limit - endpoint->tx.position;

  if (credit == 0) {
    *why = PST_WAIT_CREDIT;
    return 0;
  }
  if (endpoint->tx.cut.is_open || !ucx_am_is_free(endpoint->link)) {
    *why = PST_WAIT_QUEUE;
    return 0;
  }
  if (n > credit)
    n = (uint32_t)credit;
  if (ucx_send_is_small(endpoint, requests))
    return ucx_send_start_batch(endpoint, requests, n);
  if (ucx_send_is_whole(endpoint, requests))
    ucx_send_start_whole(endpoint, requests);
  else
    ucx_send_start_cut(endpoint, requests);
  return 1;
}
