/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path: post copies into the peer's slot, poll tells of it. */
#include <errno.h>
#include <string.h>

#include "template.h"

/* The pieces of a request; 0, or why it cannot be taken. */
static int pieces_of(const struct pst_request *request, struct pst_piece *own,
                     const struct pst_piece **pieces, uint32_t *count)
{
  uint64_t sum = 0;
  *own = (struct pst_piece){request->local.mr, request->offset, request->arg.length, 0};
  *pieces = request->piece_count ? request->local.pieces : own;
  *count = request->piece_count ? request->piece_count : 1;
  if (*count > PIECES_MAX)
    return -E2BIG;
  if (request->piece_count && request->offset)
    return -EINVAL;
  for (uint32_t i = 0; i < *count; i++) {
    const struct pst_piece *piece = &(*pieces)[i];
    if (piece->reserved || !(piece->mr->access & PST_ACCESS_LOCAL_READ) ||
        piece->offset > piece->mr->length || piece->length > piece->mr->length - piece->offset)
      return -EINVAL;
    sum += piece->length;
  }
  return sum == request->arg.length ? 0 : -EINVAL;
}

static void owe(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  uint32_t room = endpoint->params.requests;
  struct owed *last = &endpoint->owed[(endpoint->first + endpoint->waiting + room - 1) % room];
  endpoint->outstanding++;
  if (endpoint->waiting && last->opcode == PST_OP_SEND && request->opcode == PST_OP_SEND) {
    last->cookie = request->cookie;
    last->count++;
    return;
  }
  endpoint->owed[(endpoint->first + endpoint->waiting++) % room] =
      (struct owed){request->opcode, request->cookie, 1};
}

/* 0: taken. */
static int post_send(struct pst_endpoint *endpoint, const struct pst_request *request,
                     uint32_t *wait)
{
  struct pst_ring *ring = endpoint->peer->params.ring;
  const struct pst_piece *pieces;
  struct pst_piece own;
  uint32_t count;
  if (request->u.send.reserved || !ring || !(endpoint->params.roles & PST_ROLE_SENDER))
    return -EINVAL;
  int rc = pieces_of(request, &own, &pieces, &count);
  if (rc < 0)
    return rc;
  if (request->arg.length > endpoint->params.message_max ||
      request->arg.length > ring->params.payload_max)
    return -EMSGSIZE;
  if (ring->free_count == 0) {
    *wait = PST_WAIT_CREDIT;
    return -EAGAIN;
  }
  uint32_t slot = ring->free[--ring->free_count];
  uint8_t *to =
      ring->params.mr->at + ring->params.base + slot * ring->params.stride + ring->params.headroom;
  for (uint32_t i = 0; i < count; i++) {
    memcpy(to, pieces[i].mr->at + pieces[i].offset, pieces[i].length);
    to += pieces[i].length;
  }
  ring->arrived[(ring->first + ring->waiting++) % ring->params.slots] = (struct arrival){
      slot, (uint32_t)request->arg.length, request->u.send.sequence, request->u.send.meta};
  return 0;
}

static int post_one(struct pst_endpoint *endpoint, const struct pst_request *request,
                    uint32_t *wait)
{
  if (request->flags & ~(PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE) || request->reserved0 ||
      (request->opcode != PST_OP_SEND && request->opcode != PST_OP_FLUSH))
    return -EINVAL;
  if (request->opcode == PST_OP_FLUSH && request->u.rma.remote)
    return -EINVAL;
  if (endpoint->outstanding == endpoint->params.requests) {
    *wait = PST_WAIT_QUEUE;
    return -EAGAIN;
  }
  int rc = request->opcode == PST_OP_SEND ? post_send(endpoint, request, wait) : 0;
  if (rc == 0)
    owe(endpoint, request);
  return rc;
}

int template_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                  uint32_t *wait)
{
  uint32_t taken = 0, why = PST_WAIT_NONE;
  int rc = 0;
  pthread_mutex_lock(&template_lock);
  if (endpoint->is_gone)
    rc = -ECONNRESET;
  else if (!endpoint->peer)
    rc = -ENOTCONN;
  while (rc == 0 && taken < n) {
    rc = post_one(endpoint, &requests[taken], &why);
    taken += rc == 0;
  }
  pthread_mutex_unlock(&template_lock);
  if (rc == -EAGAIN || (taken && taken < n))
    *wait = why;
  return taken ? (int)taken : rc;
}

static struct pst_completion event(const struct pst_endpoint *endpoint, uint8_t code,
                                   int32_t status)
{
  return (struct pst_completion){.kind = PST_COMPLETION_EVENT,
                                 .code = code,
                                 .status = status,
                                 .endpoint = endpoint->params.cookie};
}

static struct pst_completion message(const struct pst_endpoint *endpoint, struct pst_ring *ring)
{
  const struct arrival *arrival = &ring->arrived[ring->first];
  ring->first = (ring->first + 1) % ring->params.slots;
  ring->waiting--;
  ring->is_out[arrival->slot] = true;
  return (struct pst_completion){
      .kind = PST_COMPLETION_MESSAGE,
      .flags = PST_HAS_SEQUENCE | PST_HAS_META,
      .endpoint = endpoint->params.cookie,
      .u.message = {.token = (uint64_t)ring->number << 32 | arrival->slot,
                    .offset = ring->params.base + arrival->slot * ring->params.stride +
                              ring->params.headroom,
                    .length = arrival->length,
                    .sequence = arrival->sequence,
                    .meta = arrival->meta}};
}

static struct pst_completion done(struct pst_endpoint *endpoint)
{
  struct owed owed = endpoint->owed[endpoint->first];
  endpoint->first = (endpoint->first + 1) % endpoint->params.requests;
  endpoint->waiting--;
  endpoint->outstanding -= (uint32_t)owed.count;
  return (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                 .code = owed.opcode,
                                 .endpoint = endpoint->params.cookie,
                                 .u.done = {owed.cookie, owed.count}};
}

/* The next of an endpoint, in the order that transport.h asks for. False: none. */
static bool next(struct pst_endpoint *endpoint, struct pst_completion *completion)
{
  struct pst_ring *ring = endpoint->params.ring;
  if (endpoint->owes_connected) {
    endpoint->owes_connected = false;
    *completion = event(endpoint, PST_EVENT_CONNECTED, 0);
  } else if (endpoint->waiting) {
    *completion = done(endpoint);
  } else if (ring && ring->waiting && !endpoint->is_closing) {
    *completion = message(endpoint, ring);
  } else if (endpoint->owes_disconnected) {
    endpoint->owes_disconnected = false;
    *completion = event(endpoint, PST_EVENT_DISCONNECTED, endpoint->status);
  } else {
    return false;
  }
  return true;
}

int template_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t n = 0;
  pthread_mutex_lock(&template_lock);
  for (struct pst_endpoint *e = worker->endpoints, *after; e && n < max; e = after) {
    after = e->next;
    while (n < max && next(e, &completions[n]))
      n++;
    if (e->is_closing && n < max) {
      completions[n++] = event(e, PST_EVENT_CLOSED, 0);
      template_endpoint_free(e);
    }
  }
  pthread_mutex_unlock(&template_lock);
  return (int)n;
}
