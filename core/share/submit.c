/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the client's requests out of its ring, checks them, and posts them to the transport. */
#include <errno.h>
#include <string.h>

#include "util/clock.h"
#include "worker.h"

#define RUN_MAX 64u /* requests of one post() */

/* ---- Out of the ring ----------------------------------------------------------------- */

static uint32_t share_submit_right(uint32_t opcode)
{
  return opcode == PST_OP_SEND || opcode == PST_OP_WRITE ? PST_ACCESS_LOCAL_READ
                                                         : PST_ACCESS_LOCAL_WRITE;
}

/* Takes a use of the region that a piece lies in; NULL: there is none, and *wrong is set. */
static struct share_mr *share_submit_piece(struct share_worker *worker, uint32_t number,
                                           uint64_t offset, uint64_t length, uint32_t right,
                                           bool *wrong)
{
  if (number == 0) {
    *wrong |= length != 0;
    return NULL;
  }
  struct share_mr *mr = share_mr_use(worker->client, number);
  if (!mr || !(mr->access & right) || !pst_range_holds(mr->length, offset, length)) {
    share_mr_unuse(mr);
    *wrong = true;
    return NULL;
  }
  return mr;
}

/* Reads the pieces that follow `entry` in the ring, at *head. */
static void share_submit_pieces(struct share_endpoint *endpoint,
                                const struct pst_share_entry *entry, uint32_t at, uint32_t *head,
                                bool *wrong)
{
  struct share_worker *worker = endpoint->worker;
  struct share_pending *pending = &endpoint->pending[at];
  struct pst_piece *pieces = &endpoint->pieces[(size_t)at * endpoint->pieces_max];
  const uint32_t right = share_submit_right(entry->opcode);
  struct pst_share_one_piece pair[2];
  uint64_t sum = 0;

  for (uint32_t i = 0; i < entry->piece_count && !*wrong; i++) {
    if (i % 2 == 0) {
      memcpy(pair, &worker->submit[(*head)++ % PST_SHARE_ENTRIES], sizeof(pair));
      __asm__ volatile("" : : "r"(pair) : "memory"); /* the client may change it meanwhile */
    }
    const struct pst_share_one_piece *piece = &pair[i % 2];
    struct share_mr *mr =
        share_submit_piece(worker, piece->mr, piece->offset, piece->length, right, wrong);
    endpoint->piece_mrs[(size_t)at * endpoint->pieces_max + i] = mr;
    pending->pieces = i + 1;
    pieces[i] = (struct pst_piece){mr ? mr->mr : NULL, piece->offset, piece->length, 0};
    *wrong |= piece->length > entry->u.request.arg - sum;
    sum += piece->length;
  }
  *wrong |= sum != entry->u.request.arg;
  endpoint->requests[at].local.pieces = pieces;
}

static void share_submit_remote(struct share_endpoint *endpoint,
                                const struct pst_share_entry *entry, uint32_t at, bool *wrong)
{
  struct pst_request *request = &endpoint->requests[at];
  struct share_remote *remote = NULL;

  if (entry->u.request.u.rma.remote) {
    remote = pst_places_find(&endpoint->worker->remotes, entry->u.request.u.rma.remote - 1);
    if (!remote || remote->endpoint != endpoint) {
      *wrong = true;
      return;
    }
    remote->uses++;
    endpoint->pending[at].remote = remote;
  } else if (entry->opcode != PST_OP_FLUSH)
    *wrong = true;
  struct pst_remote *const inner = remote ? remote->remote : NULL;
  if (entry->opcode == PST_OP_FETCH_ADD || entry->opcode == PST_OP_COMPARE_SWAP)
    request->u.atomic = (struct pst_atomic_target){inner, entry->u.request.u.rma.offset,
                                                   entry->u.request.u.rma.operand};
  else
    request->u.rma = (struct pst_rma_target){inner, entry->u.request.u.rma.offset, 0};
}

/* Queues a request. False: it breaks a rule. */
static bool share_submit_request(struct share_worker *worker, const struct pst_share_entry *entry,
                                 uint32_t *head)
{
  struct share_endpoint *endpoint =
      pst_places_find(&worker->endpoints, entry->u.request.endpoint - 1);
  const bool is_atomic = entry->opcode == PST_OP_FETCH_ADD || entry->opcode == PST_OP_COMPARE_SWAP;
  bool wrong = false;

  if (!endpoint || endpoint->close_mode || entry->opcode < PST_OP_SEND ||
      entry->opcode > PST_OP_FLUSH || entry->piece_count > endpoint->pieces_max ||
      endpoint->tail - endpoint->head >= endpoint->requests_max || entry->reserved ||
      (entry->flags & ~(PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE)))
    return false;
  const uint32_t at = endpoint->tail & endpoint->mask;
  struct pst_request *request = &endpoint->requests[at];
  endpoint->pending[at] = (struct share_pending){0};
  *request = (struct pst_request){.opcode = entry->opcode,
                                  .flags = entry->flags,
                                  .piece_count = entry->piece_count,
                                  .offset = entry->u.request.offset,
                                  .arg.length = entry->u.request.arg};
  if (entry->piece_count) {
    share_submit_pieces(endpoint, entry, at, head, &wrong);
  } else if (entry->opcode != PST_OP_FLUSH) {
    struct share_mr *mr = share_submit_piece(worker, entry->u.request.mr, entry->u.request.offset,
                                             is_atomic ? 8 : entry->u.request.arg,
                                             share_submit_right(entry->opcode), &wrong);
    endpoint->pending[at].mr = mr;
    request->local.mr = mr ? mr->mr : NULL;
  }
  if (entry->opcode == PST_OP_SEND) {
    request->u.send.sequence = entry->u.request.u.send.sequence;
    request->u.send.meta = entry->u.request.u.send.meta;
    request->u.send.departure_ns = entry->u.request.u.send.departure_ns;
  } else
    share_submit_remote(endpoint, entry, at, &wrong);
  if (wrong) {
    share_endpoint_forget(endpoint, at);
    return false;
  }
  endpoint->tail++;
  share_endpoint_activate(endpoint);
  return true;
}

/* Releases tokens. False: the client does not have one of them. */
static bool share_submit_release(struct share_worker *worker, const struct pst_share_entry *entry)
{
  uint64_t tokens[7];

  if (entry->tokens == 0 || entry->tokens > 7)
    return false;
  for (uint32_t i = 0; i < entry->tokens; i++) {
    struct share_ring *ring = pst_places_find(&worker->rings, pst_token_number(entry->u.tokens[i]));
    const uint32_t slot = pst_token_slot(entry->u.tokens[i]);
    if (!ring || !pst_slots_release(&ring->slots, slot))
      return false;
    tokens[i] = ring->tokens[slot];
  }
  worker->ops->release(worker->inner, tokens, entry->tokens);
  return true;
}

uint32_t share_submit_take(struct share_worker *worker)
{
  const uint32_t tail = pst_share_load(&worker->page->submit_tail);
  uint32_t head = worker->submit_head, taken = tail - head;
  bool right = taken <= PST_SHARE_ENTRIES;

  if (taken == 0 || atomic_load_explicit(&worker->client->is_broken, memory_order_relaxed))
    return 0;
  while (right && head != tail) {
    /* The client may change it meanwhile. */
    struct pst_share_entry entry;
    memcpy(&entry, &worker->submit[head++ % PST_SHARE_ENTRIES], sizeof(entry));
    __asm__ volatile("" : : "r"(&entry) : "memory");
    if (entry.kind == PST_SHARE_REQUEST)
      right = (entry.piece_count + 1u) / 2 <= tail - head &&
              share_submit_request(worker, &entry, &head);
    else
      right = entry.kind == PST_SHARE_RELEASE && share_submit_release(worker, &entry);
  }
  if (!right) {
    share_client_expel(worker->client, "an entry of its submission ring breaks a rule");
    return 0;
  }
  worker->submit_head = head;
  pst_share_store(&worker->page->submit_head, head);
  return taken;
}

/* ---- Into the transport -------------------------------------------------------------- */

/* Ends the next request to be posted with this status, once those under way are done. False: they
 * are not. */
static bool share_submit_fail(struct share_endpoint *endpoint, int32_t status)
{
  const uint32_t at = endpoint->posted & endpoint->mask;

  if (endpoint->under_way || !share_complete_has_room(endpoint->worker, 1))
    return false;
  share_complete_push_done(endpoint, endpoint->requests[at].opcode, status, 1);
  share_endpoint_forget(endpoint, at);
  endpoint->head = ++endpoint->posted;
  return true;
}

/* Returns the bytes that a request takes of the rate's budget. */
static double share_submit_cost(const struct pst_request *request)
{
  return request->opcode <= PST_OP_READ ? (double)request->arg.length : 8;
}

/* Returns how many of `n` requests the rate allows now, and takes their bytes off the budget. */
static uint32_t share_submit_allowed(struct share_client *client,
                                     const struct pst_request *requests, uint32_t n)
{
  const double rate = (double)client->class->rate, most = rate / 100; /* what 10 ms bring */
  uint32_t i = 0;

  if (client->class->rate == 0)
    return n;
  pthread_mutex_lock(&client->rate_lock);
  const uint64_t now = clock_now_ns();
  client->budget += (double)(now - client->budget_at_ns) * rate / (double)PST_NS_PER_S;
  if (client->budget > most)
    client->budget = most;
  client->budget_at_ns = now;
  for (; i < n && client->budget > 0; i++)
    client->budget -= share_submit_cost(&requests[i]);
  pthread_mutex_unlock(&client->rate_lock);
  return i;
}

/* Adds to the budget the bytes of requests that post() did not take. */
static void share_submit_refund(struct share_client *client, const struct pst_request *requests,
                                uint32_t n)
{
  if (client->class->rate == 0 || n == 0)
    return;
  pthread_mutex_lock(&client->rate_lock);
  for (uint32_t i = 0; i < n; i++)
    client->budget += share_submit_cost(&requests[i]);
  pthread_mutex_unlock(&client->rate_lock);
}

/* Posts an endpoint's requests. Returns how many were posted, or ended. */
static uint32_t share_submit_post_one(struct share_endpoint *endpoint)
{
  struct share_worker *worker = endpoint->worker;
  uint8_t *waits = &worker->page->waits[(endpoint->number - 1) & PST_PLACE_MASK];
  uint32_t done = 0;

  while (endpoint->posted != endpoint->tail) {
    const uint32_t at = endpoint->posted & endpoint->mask;
    uint32_t n = endpoint->tail - endpoint->posted, wait = PST_WAIT_NONE;
    if (n > endpoint->mask + 1 - at)
      n = endpoint->mask + 1 - at;
    n = share_submit_allowed(worker->client, &endpoint->requests[at], n < RUN_MAX ? n : RUN_MAX);
    if (n == 0)
      break;
    const int taken = worker->ops->post(endpoint->inner, &endpoint->requests[at], n, &wait);
    const uint32_t went = taken > 0 ? (uint32_t)taken : 0;
    share_submit_refund(worker->client, &endpoint->requests[at] + went, n - went);
    if (taken > 0) {
      endpoint->posted += (uint32_t)taken;
      endpoint->under_way += (uint32_t)taken;
      done += (uint32_t)taken;
    } else if (taken != -EAGAIN) {
      if (!share_submit_fail(endpoint, taken))
        break;
      done++;
      continue;
    }
    if (taken < (int)n && wait != PST_WAIT_NONE) {
      __atomic_store_n(waits, (uint8_t)wait, __ATOMIC_RELAXED);
      break;
    }
  }
  atomic_fetch_add_explicit(&worker->client->share->requests, done, memory_order_relaxed);
  return done;
}

/* Begins to close the transport's endpoint once all requests are done, or have no time left. It is
 * closed only once, and the client may leave meanwhile: so the transport never waits for longer
 * than it may then. */
static void share_submit_close(struct share_endpoint *endpoint)
{
  const uint64_t now = clock_now_ns(), by = now + SHARE_CLOSING_NS;
  const bool is_drained = endpoint->posted == endpoint->tail && !endpoint->under_way;
  const bool is_late = endpoint->close_mode == PST_CLOSE_ABORT || now >= endpoint->deadline_ns;

  if (endpoint->is_closing || !(is_drained || is_late))
    return;
  endpoint->is_closing = true;
  endpoint->worker->ops->endpoint_close(endpoint->inner,
                                        is_late ? PST_CLOSE_ABORT : PST_CLOSE_DRAIN,
                                        endpoint->deadline_ns < by ? endpoint->deadline_ns : by);
}

/* After the transport's endpoint is closed: cancels the requests that it did not take, and reports
 * CLOSED. */
static bool share_submit_finish(struct share_endpoint *endpoint)
{
  endpoint->under_way = 0;
  while (endpoint->posted != endpoint->tail)
    if (!share_submit_fail(endpoint, -ECANCELED))
      return false;
  if (!share_complete_has_room(endpoint->worker, 1))
    return false;
  share_complete_push_event(endpoint, PST_EVENT_CLOSED, 0);
  share_endpoint_free(endpoint);
  return true;
}

/* Serves an active endpoint. False: it has nothing more to do, or is freed. */
static bool share_submit_step(struct share_endpoint *endpoint, uint32_t *done)
{
  if (!endpoint->inner) {
    if (!share_submit_finish(endpoint))
      return true;
    ++*done;
    return false;
  }
  if (!endpoint->is_closing)
    *done += share_submit_post_one(endpoint);
  if (endpoint->close_mode)
    share_submit_close(endpoint);
  endpoint->is_active =
      (endpoint->posted != endpoint->tail || endpoint->close_mode) && !endpoint->is_closing;
  return endpoint->is_active;
}

uint32_t share_submit_post(struct share_worker *worker)
{
  uint32_t done = 0, i = 0;

  while (i < worker->active_count) {
    if (share_submit_step(worker->active[i], &done))
      i++;
    else
      worker->active[i] = worker->active[--worker->active_count];
  }
  return done;
}
