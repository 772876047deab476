/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path: writes requests to the submission ring, and reads completions from the completion
 * ring. */
#include <unistd.h>

#include "worker.h"

#define LOOK_NS 10000000u /* how often an idle poll checks that the router is alive */

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
      pair[k] = (struct pst_share_one_piece){
          .offset = piece->offset,
          .length = piece->length,
          .mr = piece->mr ? atomic_load_explicit(&piece->mr->number, memory_order_relaxed) : 0};
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
          ? atomic_load_explicit(&request->local.mr->number, memory_order_relaxed)
          : 0;
  entry->u.request.offset = request->offset;
  entry->u.request.arg = request->arg.length;
  if (request->opcode == PST_OP_SEND) {
    entry->u.request.u.send.sequence = request->u.send.sequence;
    entry->u.request.u.send.meta = request->u.send.meta;
    entry->u.request.u.send.departure_ns = request->u.send.departure_ns;
    endpoint->sent++;
    endpoint->sent_bytes += request->arg.length;
    endpoint->next_sequence = request->u.send.sequence + 1;
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

/* Writes requests to the submission ring, as far as the endpoint and the ring have room. */
int share_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait)
{
  struct pst_worker *worker = endpoint->worker;
  uint32_t taken = 0, why = PST_WAIT_NONE;
  int rc = 0;

  if (endpoint->is_closing || !endpoint->was_connected)
    return -ENOTCONN;
  if (endpoint->is_disconnected || (!endpoint->returns && !share_is_up(worker)))
    return -ECONNRESET;
  if (!endpoint->is_connected || !share_is_up(worker))
    return pst_post_result(0, n, 0, PST_WAIT_QUEUE, wait); /* until it is connected again */
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
  endpoint->number = 0;
  if (endpoint->is_closing && !endpoint->outstanding)
    share_endpoint_free(endpoint);
}

/* The message's number follows those of the connections before, which the router does not know. */
static void share_poll_number(struct pst_endpoint *endpoint, struct pst_completion *message)
{
  const uint32_t bits = endpoint->worker->device->limits.sequence_bits;
  uint64_t *highest = &endpoint->highest_sequence;

  if (bits < 64 && endpoint->opened > 1)
    message->u.message.sequence = pst_sequence_nearest(*highest, message->u.message.sequence, bits);
  if (message->u.message.sequence > *highest)
    *highest = message->u.message.sequence;
}

/* False: the token is of no free slot of the endpoint's ring, or the payload lies elsewhere. */
static bool share_poll_message(struct pst_endpoint *endpoint, struct pst_completion *message)
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
  endpoint->received++;
  endpoint->received_bytes += message->u.message.length;
  if (message->flags & PST_HAS_SEQUENCE)
    share_poll_number(endpoint, message);
  return true;
}

/* Whether the host learns of a completion. */
enum share_poll_word { SHARE_WRONG, SHARE_KEEP, SHARE_TELL };

static enum share_poll_word share_poll_connected(struct pst_endpoint *endpoint)
{
  const struct pst_host *host = endpoint->worker->device->host;

  if (!endpoint->is_connected)
    endpoint->kept_flushes = share_outstanding(endpoint, PST_OP_FLUSH);
  endpoint->worker->is_unsettled |= endpoint->kept_flushes > 0;
  if (endpoint->away_ns)
    host->log(host, PST_LOG_INFO, "%s: the connection is back", endpoint->asked.label);
  endpoint->is_connecting = endpoint->has_left = false;
  endpoint->is_connected = endpoint->was_connected = true;
  endpoint->away_ns = 0;
  return SHARE_TELL;
}

/* An endpoint that returns is connected again, whatever the status: a router that is stopped closes
 * its endpoints in good order. The host knows by its own messages that a stream has ended. */
static enum share_poll_word share_poll_disconnected(struct pst_endpoint *endpoint, int status)
{
  endpoint->is_connecting = false;
  if (endpoint->is_renewing)
    return SHARE_KEEP;
  endpoint->has_left = status == 0;
  if (endpoint->returns && endpoint->was_connected && !endpoint->is_closing) {
    share_renew(endpoint, endpoint->epoch + 1);
    return SHARE_KEEP;
  }
  endpoint->is_disconnected = true;
  return SHARE_TELL;
}

static enum share_poll_word share_poll_last(struct pst_endpoint *endpoint)
{
  const bool is_closing = endpoint->is_closing;
  const uint32_t kept = endpoint->returns ? share_outstanding(endpoint, PST_OP_FLUSH) : 0;

  if ((!is_closing && !endpoint->is_renewing) || endpoint->outstanding != kept)
    return SHARE_WRONG;
  endpoint->is_renewing = false;
  endpoint->worker->is_unsettled = true;
  share_poll_closed(endpoint);
  return is_closing && !kept ? SHARE_TELL : SHARE_KEEP;
}

static enum share_poll_word share_poll_event(struct pst_endpoint *endpoint,
                                             const struct pst_completion *event)
{
  switch (event->code) {
  case PST_EVENT_CONNECTED:
    return endpoint->is_renewing ? SHARE_KEEP : share_poll_connected(endpoint);
  case PST_EVENT_DISCONNECTED:
    return share_poll_disconnected(endpoint, event->status);
  case PST_EVENT_READDRESS:
    return endpoint->is_renewing ? SHARE_KEEP : SHARE_TELL;
  case PST_EVENT_CLOSED:
    return share_poll_last(endpoint);
  default:
    return SHARE_WRONG;
  }
}

/* Requests that a lost connection has ended are no failures of an endpoint that returns: messages
 * are counted by what arrives. A FLUSH waits for the next connection. */
static enum share_poll_word share_poll_ended(struct pst_endpoint *endpoint,
                                             struct pst_completion *done)
{
  const bool is_lost =
      done->status == -ECONNRESET || done->status == -ETIMEDOUT || done->status == -ECANCELED;

  if (!endpoint->returns || !is_lost || endpoint->is_closing)
    return share_endpoint_done(endpoint, done) ? SHARE_TELL : SHARE_WRONG;
  if (!endpoint->is_renewing)
    share_renew(endpoint, endpoint->epoch + 1);
  done->status = 0;
  if (done->code == PST_OP_FLUSH)
    return done->u.done.count == 1 && share_outstanding(endpoint, PST_OP_FLUSH) ? SHARE_KEEP
                                                                                : SHARE_WRONG;
  return share_endpoint_done(endpoint, done) ? SHARE_TELL : SHARE_WRONG;
}

static enum share_poll_word share_poll_of_endpoint(struct pst_endpoint *endpoint,
                                                   struct pst_completion *completion)
{
  completion->endpoint = endpoint->cookie;
  switch (completion->kind) {
  case PST_COMPLETION_EVENT:
    return share_poll_event(endpoint, completion);
  case PST_COMPLETION_DONE:
    if (completion->status < 0)
      return share_poll_ended(endpoint, completion);
    return share_endpoint_done(endpoint, completion) ? SHARE_TELL : SHARE_WRONG;
  case PST_COMPLETION_MESSAGE:
    return share_poll_message(endpoint, completion) ? SHARE_TELL : SHARE_WRONG;
  default:
    return SHARE_WRONG;
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
  const enum share_poll_word word = share_poll_of_endpoint(endpoint, completion);
  if (word == SHARE_WRONG)
    share_distrust(worker->device);
  return word == SHARE_TELL;
}

/* Checks after an empty poll that the router is alive. */
static uint32_t share_poll_look(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  struct pst_device *device = worker->device;

  if (share_is_up(worker)) {
    const uint64_t now = device->host->clock_ns(device->host);
    if (now - worker->looked_ns < LOOK_NS && !worker->is_armed)
      return 0;
    worker->looked_ns = now;
    if (share_connection_is_up(device))
      return 0;
  }
  if (!share_worker_away(worker) || atomic_load(&device->state) != SHARE_ENDED ||
      worker->has_told || max == 0)
    return 0;
  worker->has_told = true;
  pst_event_write(out, 0, PST_EVENT_DEVICE, -ENODEV);
  return 1;
}

/* Takes what the router has completed, and what this side completes in its place. */
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
  if (worker->is_unsettled && n < max)
    n += share_renew_settle(worker, completions + n, max - n);
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
