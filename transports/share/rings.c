/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path: writes requests to the submission ring, and reads completions from the completion
 * ring. If the router is gone, it makes the completions itself. */
#include <unistd.h>

#include "client.h"

#define LOOK_NS 10000000u /* how often an idle poll checks that the router is alive */

uint32_t share_submit_room(struct pst_worker *worker)
{
  if (worker->submit_tail - worker->submit_head > PST_SHARE_ENTRIES / 2)
    worker->submit_head = pst_share_load(&worker->page->submit_head);
  return PST_SHARE_ENTRIES - (worker->submit_tail - worker->submit_head);
}

void share_submit_publish(struct pst_worker *worker)
{
  pst_share_store(&worker->page->submit_tail, worker->submit_tail);
  if (pst_share_must_wake(&worker->page->router_sleeps))
    pst_share_wake(worker->router_event);
}

/* ---- Checks -------------------------------------------------------------------------------------
 */

/* A pst_mr_check. */
static bool share_post_holds(const void *context, struct pst_mr *mr, uint64_t offset,
                             uint64_t length, uint32_t right)
{
  (void)context;
  if (!mr)
    return length == 0;
  return (mr->access & right) && pst_range_holds(mr->length, offset, length);
}

static int share_post_check_send(const struct pst_endpoint *endpoint,
                                 const struct pst_request *request)
{
  const struct pst_limits *limits = &endpoint->worker->device->limits;

  if (!(endpoint->roles & PST_ROLE_SENDER))
    return -EINVAL;
  if (limits->capabilities & PST_CAP_DEPARTURE)
    return pst_timed_send_check(request, endpoint->pieces, endpoint->message_max, share_post_holds,
                                NULL);
  return pst_send_check(request, endpoint->pieces, endpoint->message_max, share_post_holds, NULL);
}

static int share_post_check_rma(const struct pst_endpoint *endpoint,
                                const struct pst_request *request)
{
  const struct pst_limits *limits = &endpoint->worker->device->limits;
  const bool is_read = request->opcode == PST_OP_READ;
  const struct pst_remote *remote = request->u.rma.remote;

  if (!(endpoint->roles & PST_ROLE_RMA) || request->u.rma.reserved || !remote ||
      remote->endpoint != endpoint)
    return -EINVAL;
  int rc = pst_request_check(request, endpoint->pieces,
                             is_read ? PST_ACCESS_LOCAL_WRITE : PST_ACCESS_LOCAL_READ,
                             share_post_holds, NULL);
  return rc == 0 && request->arg.length > limits->rma_max ? -EMSGSIZE : rc;
}

static int share_post_check_atomic(const struct pst_endpoint *endpoint,
                                   const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.atomic.remote;

  if (!(endpoint->roles & PST_ROLE_RMA) || !remote || remote->endpoint != endpoint ||
      request->piece_count || request->u.atomic.offset % 8 || request->reserved0 ||
      (request->flags & ~PST_REQUEST_FENCE) || !request->local.mr ||
      !share_post_holds(NULL, request->local.mr, request->offset, 8, PST_ACCESS_LOCAL_WRITE))
    return -EINVAL;
  return 0;
}

static int share_post_check(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const uint64_t can = endpoint->worker->device->limits.capabilities;
  const struct pst_remote *remote = request->u.rma.remote;

  switch (request->opcode) {
  case PST_OP_SEND:
    return can & PST_CAP_SEND ? share_post_check_send(endpoint, request) : -EINVAL;
  case PST_OP_WRITE:
    return can & PST_CAP_WRITE ? share_post_check_rma(endpoint, request) : -EINVAL;
  case PST_OP_READ:
    return can & PST_CAP_READ ? share_post_check_rma(endpoint, request) : -EINVAL;
  case PST_OP_FETCH_ADD:
  case PST_OP_COMPARE_SWAP:
    return can & PST_CAP_ATOMIC ? share_post_check_atomic(endpoint, request) : -EINVAL;
  case PST_OP_FLUSH:
    if (remote && remote->endpoint != endpoint)
      return -EINVAL;
    return pst_flush_check(request, can & (PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC));
  default:
    return -EINVAL;
  }
}

/* ---- Writing
 * ---------------------------------------------------------------------------------------- */

static struct pst_share_entry *share_post_next(struct pst_worker *worker)
{
  return &worker->submit[worker->submit_tail++ % PST_SHARE_ENTRIES];
}

static void share_post_write_pieces(struct pst_worker *worker, const struct pst_request *request)
{
  struct pst_share_one_piece pair[2];

  for (uint32_t i = 0; i < request->piece_count; i += 2) {
    memset(pair, 0, sizeof(pair));
    for (uint32_t k = 0; k < 2 && i + k < request->piece_count; k++) {
      const struct pst_piece *piece = &request->local.pieces[i + k];
      pair[k] = (struct pst_share_one_piece){.offset = piece->offset,
                                             .length = piece->length,
                                             .mr = piece->mr ? piece->mr->number : 0};
    }
    memcpy(share_post_next(worker), pair, sizeof(pair));
  }
}

/* Writes a checked request to the ring, which has room for it. */
static void share_post_write(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  struct pst_worker *worker = endpoint->worker;
  struct pst_share_entry *entry = share_post_next(worker);
  struct share_cookies *cookies = &endpoint->cookies[request->opcode];

  entry->kind = PST_SHARE_REQUEST;
  entry->opcode = request->opcode;
  entry->flags = request->flags;
  entry->piece_count = request->piece_count;
  entry->reserved = 0;
  entry->u.request.endpoint = endpoint->number;
  entry->u.request.mr =
      request->opcode != PST_OP_FLUSH && !request->piece_count && request->local.mr
          ? request->local.mr->number
          : 0;
  entry->u.request.offset = request->offset;
  entry->u.request.arg = request->arg.length;
  if (request->opcode == PST_OP_SEND) {
    entry->u.request.u.send.sequence = request->u.send.sequence;
    entry->u.request.u.send.meta = request->u.send.meta;
    entry->u.request.u.send.departure_ns = request->u.send.departure_ns;
  } else {
    const struct pst_remote *remote = request->u.atomic.remote; /* first, as in u.rma */
    entry->u.request.u.rma.remote = remote ? remote->number : 0;
    entry->u.request.u.rma.offset = request->u.atomic.offset;
    entry->u.request.u.rma.operand = request->u.atomic.operand;
  }
  share_post_write_pieces(worker, request);
  cookies->at[cookies->tail++ & endpoint->mask] = request->cookie;
  endpoint->outstanding++;
}

int share_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait)
{
  struct pst_worker *worker = endpoint->worker;
  uint32_t taken = 0, why = PST_WAIT_NONE;
  int rc = 0;

  if (endpoint->is_closing || !endpoint->is_connected)
    return -ENOTCONN;
  if (endpoint->is_disconnected ||
      atomic_load_explicit(&worker->device->is_gone, memory_order_relaxed))
    return -ECONNRESET;
  for (; taken < n; taken++) {
    rc = share_post_check(endpoint, &requests[taken]);
    if (rc < 0)
      break;
    if (endpoint->outstanding >= endpoint->requests ||
        share_submit_room(worker) < (requests[taken].piece_count + 1u) / 2 + 1) {
      why = endpoint->outstanding >= endpoint->requests
                ? __atomic_load_n(&worker->page->waits[(endpoint->number - 1) & PST_PLACE_MASK],
                                  __ATOMIC_RELAXED)
                : (uint32_t)PST_WAIT_QUEUE;
      worker->wants_room = true;
      break;
    }
    share_post_write(endpoint, &requests[taken]);
  }
  if (taken)
    share_submit_publish(worker);
  return pst_post_result(taken, n, rc, why, wait);
}

/* ---- Completions ------------------------------------------------------------------------ */

static struct pst_endpoint *share_poll_endpoint(const struct pst_worker *worker, uint64_t number)
{
  const uint32_t place = ((uint32_t)number - 1) & PST_PLACE_MASK;
  struct pst_endpoint *endpoint = place < PST_SHARE_ENDPOINTS ? worker->endpoints[place] : NULL;

  return endpoint && endpoint->number == number ? endpoint : NULL;
}

static void share_poll_closed(struct pst_endpoint *endpoint)
{
  endpoint->worker->endpoints[(endpoint->number - 1) & PST_PLACE_MASK] = NULL;
  share_endpoint_free(endpoint);
}

/* Removes `count` requests that are done, and returns the cookie of the last. False: there are
 * fewer. */
static bool share_poll_done(struct pst_endpoint *endpoint, struct pst_completion *done)
{
  if (done->code >= SHARE_OPCODES)
    return false;
  struct share_cookies *cookies = &endpoint->cookies[done->code];
  if (done->u.done.count == 0 || done->u.done.count > cookies->tail - cookies->head)
    return false;
  cookies->head += (uint32_t)done->u.done.count;
  endpoint->outstanding -= (uint32_t)done->u.done.count;
  done->u.done.cookie = cookies->at[(cookies->head - 1) & endpoint->mask];
  return true;
}

/* False: the token is of no free slot of the endpoint's ring, or the payload lies elsewhere. */
static bool share_poll_message(const struct pst_endpoint *endpoint,
                               const struct pst_completion *message)
{
  const uint64_t token = message->u.message.token;
  const uint32_t slot = pst_token_slot(token);
  struct pst_ring *ring = endpoint->ring;

  if (!ring || ring->number != pst_token_number(token) || slot >= ring->slots || ring->out[slot] ||
      message->u.message.buffer || message->u.message.length > ring->payload_max ||
      message->u.message.offset < ring->base ||
      !pst_range_holds(ring->length, message->u.message.offset - ring->base,
                       message->u.message.length))
    return false;
  ring->out[slot] = 1;
  return true;
}

/* False: no endpoint has such an event, or not now. */
static bool share_poll_event(struct pst_endpoint *endpoint, const struct pst_completion *event)
{
  switch (event->code) {
  case PST_EVENT_CONNECTED:
    endpoint->is_connecting = false;
    endpoint->is_connected = true;
    return true;
  case PST_EVENT_DISCONNECTED:
    endpoint->is_connecting = false;
    endpoint->is_disconnected = true;
    return true;
  case PST_EVENT_READDRESS:
    return true;
  case PST_EVENT_CLOSED:
    if (!endpoint->is_closing || endpoint->outstanding)
      return false;
    share_poll_closed(endpoint);
    return true;
  default:
    return false;
  }
}

/* False: against the protocol. */
static bool share_poll_of_endpoint(struct pst_endpoint *endpoint, struct pst_completion *completion)
{
  completion->endpoint = endpoint->cookie;
  switch (completion->kind) {
  case PST_COMPLETION_EVENT:
    return share_poll_event(endpoint, completion);
  case PST_COMPLETION_DONE:
    return share_poll_done(endpoint, completion);
  case PST_COMPLETION_MESSAGE:
    return share_poll_message(endpoint, completion);
  default:
    return false;
  }
}

/* Whether it is for the host: not what is against the protocol, or of an endpoint that is not
 * there. */
static bool share_poll_one(struct pst_worker *worker, struct pst_completion *completion)
{
  struct pst_endpoint *endpoint;

  if (completion->endpoint == 0)
    return completion->kind == PST_COMPLETION_EVENT && completion->code == PST_EVENT_DEVICE;
  endpoint = share_poll_endpoint(worker, completion->endpoint);
  if (!endpoint)
    return false;
  const bool holds = share_poll_of_endpoint(endpoint, completion);
  if (!holds)
    share_distrust(worker->device);
  return holds;
}

/* ---- Without the router -------------------------------------------------------------------------
 */

/* Ends requests of an endpoint, those of one opcode at a time. */
static uint32_t share_poll_lost_dones(struct pst_endpoint *endpoint, struct pst_completion *out,
                                      uint32_t max)
{
  uint32_t n = 0;

  for (uint32_t opcode = PST_OP_SEND; opcode < SHARE_OPCODES && n < max; opcode++) {
    struct share_cookies *cookies = &endpoint->cookies[opcode];
    const bool runs = opcode == PST_OP_SEND || opcode == PST_OP_WRITE;
    while (cookies->head != cookies->tail && n < max) {
      out[n] = (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                       .code = (uint8_t)opcode,
                                       .status = -ECONNRESET,
                                       .endpoint = endpoint->number};
      out[n].u.done.count = runs ? cookies->tail - cookies->head : 1;
      share_poll_done(endpoint, &out[n]);
      out[n++].endpoint = endpoint->cookie;
    }
  }
  return n;
}

static uint32_t share_poll_lost_one(struct pst_endpoint *endpoint, struct pst_completion *out,
                                    uint32_t max)
{
  uint32_t n = share_poll_lost_dones(endpoint, out, max);

  if (n < max && !endpoint->is_disconnected) {
    endpoint->is_disconnected = true;
    pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_DISCONNECTED, -ECONNRESET);
  }
  if (n < max && endpoint->is_closing && endpoint->outstanding == 0) {
    pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_CLOSED, 0);
    share_poll_closed(endpoint);
  }
  return n;
}

static uint32_t share_poll_lost(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;

  if (!worker->has_told && max > 0) {
    worker->has_told = true;
    pst_event_write(&out[n++], 0, PST_EVENT_DEVICE, -ENODEV);
  }
  for (uint32_t i = 0; i < worker->endpoint_room && n < max; i++)
    if (worker->endpoints[i])
      n += share_poll_lost_one(worker->endpoints[i], out + n, max - n);
  return n;
}

/* Checks after an empty poll that the router is alive. */
static uint32_t share_poll_look(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  struct pst_device *device = worker->device;
  const uint64_t now = device->host->clock_ns(device->host);

  if (!atomic_load_explicit(&device->is_gone, memory_order_relaxed)) {
    if (now - worker->looked_ns < LOOK_NS && !worker->is_armed)
      return 0;
    worker->looked_ns = now;
    if (share_connection_is_up(device))
      return 0;
    /* Completions that the router has left come first. */
    if (pst_share_load(&worker->page->complete_tail) != worker->complete_head)
      return 0;
  }
  return share_poll_lost(worker, out, max);
}

/* Takes what the router has completed; after the router is lost, makes completions in its place. */
int share_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  const uint32_t tail = pst_share_load(&worker->page->complete_tail);
  const atomic_bool *is_wrong = &worker->device->is_wrong;
  uint32_t head = worker->complete_head, n = 0;

  share_release_flush(worker);
  if (tail - head > PST_SHARE_ENTRIES)
    share_distrust(worker->device);
  while (head != tail && n < max && !atomic_load_explicit(is_wrong, memory_order_relaxed)) {
    completions[n] = worker->complete[head++ % PST_SHARE_ENTRIES];
    __asm__ volatile("" : : "r"(&completions[n]) : "memory"); /* the copy is checked and used */
    n += share_poll_one(worker, &completions[n]);
  }
  if (head != worker->complete_head) {
    worker->complete_head = head;
    pst_share_store(&worker->page->complete_head, head);
  } else
    n = share_poll_look(worker, completions, max);
  if (worker->is_armed) {
    uint64_t count;
    worker->is_armed = false;
    pst_share_store(&worker->page->client_sleeps, 0);
    if (read(worker->client_event, &count, sizeof(count)) < 0)
      count = 0; /* the timer has not expired */
  }
  worker->wants_room = false;
  return (int)n;
}
