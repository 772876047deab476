/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a peer's regions; engine/rma.c has the requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/rma_plain.h"
#include "peer_rma.h"

#define BATCH 16 /* operations that are checked at a time */

/* ---- Opening ----------------------------------------------------------------------- */

static struct pst_area **peer_rma_areas_of(const struct pst_peer *peer, uint32_t slot)
{
  return &peer->areas[(uint64_t)slot * peer->node->pieces];
}

static bool peer_rma_is_under_way(const struct rma *rma, uint32_t slot)
{
  return rma->slots[slot].parts > 0 || slot == rma->rest_slot;
}

static bool peer_rma_names_area(const struct pst_peer *peer, uint32_t slot,
                                const struct pst_area *area)
{
  struct pst_area **areas = peer_rma_areas_of(peer, slot);

  if (peer->uses[slot].area)
    return peer->uses[slot].area == area;
  for (uint32_t i = 0; i < peer->node->pieces && areas[i]; i++)
    if (areas[i] == area)
      return true;
  return false;
}

uint32_t peer_rma_names(const struct pst_peer *peer, const struct pst_area *area,
                        const struct node_remote *remote)
{
  const struct rma *rma = &peer->rma;
  uint32_t count = 0;

  if (rma->requests == 0 && rma->rest_slot == RMA_NO_SLOT)
    return 0;
  for (uint32_t i = 0; i < rma->depth; i++)
    if (peer_rma_is_under_way(rma, i) &&
        (area ? peer_rma_names_area(peer, i, area) : peer->uses[i].remote == remote))
      count++;
  return count;
}

/* To its device, what was read into an area. */
static int peer_rma_make_visible(const struct pst_peer *peer, uint32_t slot)
{
  const struct node_use *use = &peer->uses[slot];
  struct pst_area **areas = peer_rma_areas_of(peer, slot);
  int rc = use->area ? region_flush(&use->area->own.region) : 0;

  for (uint32_t i = 0; !use->area && i < peer->node->pieces && areas[i] && rc == 0; i++)
    rc = region_flush(&areas[i]->own.region);
  return rc < 0 ? -EIO : 0;
}

static inline void peer_rma_write_done(struct pst_peer *peer, uint32_t at, int32_t status,
                                       struct pst_node_event *event)
{
  const struct rma_slot *slot = &peer->rma.slots[at];

  events_write_done(event, peer, peer->context, slot->op, slot->cookie, slot->length);
  event->status = status;
}

/* The operation in this slot has ended. Where nothing that came before waits, that goes straight to
 * the application, and its slot is free: slots end in the order of their events. Returns whether.
 */
static inline bool peer_rma_operate_tell_done(struct pst_peer *peer, uint32_t at, int32_t status)
{
  struct node_events *events = &peer->node->events;
  const bool is_next = events->into != events->into_end;
  struct pst_node_event *event =
      is_next ? events->into++ : &events_at(events, events->tail++)->event;

  peer_rma_write_done(peer, at, status, event);
  return is_next;
}

/* Ends an operation that has failed, or has to be made visible, or may be the last in a region that
 * is withdrawn. */
static __attribute__((noinline)) bool peer_rma_end_other(struct pst_peer *peer, uint32_t at)
{
  const struct rma_slot *slot = &peer->rma.slots[at];
  const bool is_read = slot->op != PST_OP_WRITE && slot->op != PST_OP_FLUSH;
  const int status = slot->status || !is_read ? slot->status : peer_rma_make_visible(peer, at);
  const bool is_out = peer_rma_operate_tell_done(peer, at, status);
  struct node_remote *remote = peer->withdrawing ? peer->uses[at].remote : NULL;

  if (remote && remote->is_withdrawn)
    remote_unuse(peer, remote);
  return is_out;
}

static bool peer_rma_ended(void *context, uint32_t at)
{
  struct pst_peer *peer = context;
  const struct rma_slot *slot = &peer->rma.slots[at];

  if (!slot->status && !peer->withdrawing && !peer->node->has_flush)
    return peer_rma_operate_tell_done(peer, at, 0);
  return peer_rma_end_other(peer, at);
}

/* WRITEs that were done whole, while nothing waits and nothing is withdrawn. Returns how many of
 * the `count` oldest: the others are rma_done()'s. */
static uint64_t peer_rma_end_written(struct pst_peer *peer, uint64_t count)
{
  struct rma *rma = &peer->rma;
  struct node_events *events = &peer->node->events;
  struct pst_node_event *into = events->into;
  const uint64_t room = (uint64_t)(events->into_end - into);
  struct rma_slot *const slots = rma->slots;
  const uint32_t rest_slot = rma->rest_slot;
  uint32_t *const free_slots = rma->free_slots + rma->free_count;
  uint32_t at = rma->write_first;
  uint64_t n = 0;

  for (; n < count && n < room; n++) {
    struct rma_slot *slot = &slots[at];
    if (slot->parts != 1 || slot->status || at == rest_slot)
      break;
    slot->parts = 0;
    free_slots[n] = at;
    peer_rma_write_done(peer, at, 0, into++);
    at = slot->next;
  }
  events->into = into;
  rma->write_first = at;
  rma->write_head += n;
  rma->free_count += (uint32_t)n;
  rma->requests -= (uint32_t)n;
  rma_assert(rma);
  return n;
}

bool peer_rma_done(struct pst_peer *peer, const struct pst_completion *completion)
{
  struct pst_completion left = *completion;
  const bool is_short = completion->code == PST_OP_WRITE && !completion->status &&
                        !peer->withdrawing && !peer->node->has_flush;

  if (!is_short)
    return rma_done(&peer->rma, completion);
  if (!rma_are_oldest(&peer->rma, completion->u.done.cookie, completion->u.done.count))
    return false;
  left.u.done.count -= peer_rma_end_written(peer, left.u.done.count);
  return left.u.done.count == 0 || rma_done(&peer->rma, &left);
}

static int peer_rma_refused(void *context, int rc)
{
  struct pst_peer *peer = context;

  if (rc == -EINVAL || rc == -EMSGSIZE || rc == -EOPNOTSUPP || rc == -EACCES || rc == -E2BIG)
    return rc;
  peer_transport_over(peer, rc == -ENOTCONN ? -ECONNRESET : rc);
  return 0;
}

int peer_rma_open(struct pst_peer *peer)
{
  const struct pst_node *node = peer->node;
  const struct pst_limits *limits = &node->device->limits;

  peer->rma = (struct rma){.ops = node->worker.ops,
                           .refused = peer_rma_refused,
                           .end = peer_rma_ended,
                           .context = peer,
                           .max = limits->rma_max,
                           .operations = rma_operations(limits->capabilities),
                           .depth = node->depth,
                           .pieces = node->pieces,
                           .request_pieces = node->request_pieces};
  peer->uses = calloc(node->depth, sizeof(*peer->uses));
  peer->areas = calloc((uint64_t)node->depth * node->pieces, sizeof(struct pst_area *));
  return rma_open(&peer->rma) < 0 || !peer->uses || !peer->areas ? -ENOMEM : 0;
}

int peer_rma_open_batch(struct pst_node *node)
{
  node->batch = calloc((uint64_t)BATCH * node->pieces, sizeof(*node->batch));
  return node->batch ? 0 : -ENOMEM;
}

void peer_rma_close(struct pst_peer *peer)
{
  rma_close(&peer->rma);
  free(peer->uses);
  free(peer->areas);
}

bool peer_rma_has_room(const struct pst_peer *peer)
{
  return peer->is_connected && peer->rma.free_count > 0 && peer->rma.requests < peer->rma.depth &&
         peer->rma.rest_slot == RMA_NO_SLOT;
}

/* ---- Posting ----------------------------------------------------------------------- */

static int peer_rma_check_area(const struct pst_peer *peer, const struct pst_area *area,
                               uint64_t offset, uint64_t length)
{
  if (!area || area->node != peer->node)
    return -EINVAL;
  return region_has(area->own.region.length, offset, length) ? 0 : -ERANGE;
}

/* Empty ones are left out; of nothing but those there is one. */
static int peer_rma_check_pieces(const struct pst_peer *peer, const struct pst_operation *o,
                                 struct pst_piece *pieces, struct rma_work *work)
{
  uint64_t sum = 0;
  uint16_t n = 0;

  if (o->op != PST_OP_WRITE && o->op != PST_OP_READ)
    return -EINVAL;
  if (o->piece_count > peer->node->pieces)
    return -E2BIG;
  if (o->area || o->offset || !o->pieces)
    return -EINVAL;
  for (uint32_t i = 0; i < o->piece_count; i++) {
    const struct pst_area_piece *piece = &o->pieces[i];
    int rc = piece->reserved ? -EINVAL
                             : peer_rma_check_area(peer, piece->area, piece->offset, piece->length);
    if (rc < 0)
      return rc;
    pieces[n] = (struct pst_piece){
        .mr = piece->area->own.region.mr, .offset = piece->offset, .length = piece->length};
    n += piece->length > 0;
    if (__builtin_add_overflow(sum, piece->length, &sum))
      return -EINVAL;
  }
  work->piece_count = n ? n : 1;
  return sum == o->length ? 0 : -EINVAL;
}

static int peer_rma_check_remote(const struct pst_peer *peer, const struct pst_operation *o,
                                 struct node_remote **found)
{
  static const uint32_t rights[] = {[PST_OP_WRITE] = PST_ACCESS_REMOTE_WRITE,
                                    [PST_OP_READ] = PST_ACCESS_REMOTE_READ,
                                    [PST_OP_FETCH_ADD] = PST_ACCESS_REMOTE_ATOMIC,
                                    [PST_OP_COMPARE_SWAP] = PST_ACCESS_REMOTE_ATOMIC};
  struct node_remote *remote = remote_find(peer, o->id);

  *found = NULL;
  if (o->op == PST_OP_FLUSH)
    return o->id ? -EINVAL : 0;
  if (!remote || !remote->remote)
    return -ENOENT;
  if (remote->is_withdrawn || !(remote->access & rights[o->op]))
    return -EACCES;
  *found = remote;
  return region_has(remote->length, o->remote_offset, o->length) ? 0 : -ERANGE;
}

static int peer_rma_check(const struct pst_peer *peer, const struct pst_operation *o,
                          struct rma_work *work, struct pst_piece *pieces,
                          struct node_remote **remote)
{
  *work = (struct rma_work){.op = o->op,
                            .flags = o->flags,
                            .piece_count = o->piece_count,
                            .cookie = o->cookie,
                            .pieces = pieces,
                            .local_offset = o->offset,
                            .remote_offset = o->remote_offset,
                            .length = o->length,
                            .compare = o->compare,
                            .operand = o->operand};
  int rc = o->reserved ? -EINVAL : rma_check(&peer->rma, work);
  if (rc == 0)
    rc = peer_rma_check_remote(peer, o, remote);
  if (rc < 0)
    return rc;
  if (*remote)
    work->remote = (*remote)->remote;
  if (o->piece_count)
    return peer_rma_check_pieces(peer, o, pieces, work);
  if (o->op == PST_OP_FLUSH)
    return o->area ? -EINVAL : 0;
  rc = peer_rma_check_area(peer, o->area, o->offset, o->length);
  if (rc == 0)
    work->mr = o->area->own.region.mr;
  return rc;
}

static void peer_rma_use(struct pst_peer *peer, const struct pst_operation *o, uint32_t slot,
                         struct node_remote *remote)
{
  struct pst_area **areas = peer_rma_areas_of(peer, slot);

  peer->uses[slot] = (struct node_use){.remote = remote, .area = o->area};
  for (uint32_t i = 0; i < o->piece_count; i++)
    areas[i] = o->pieces[i].area;
  if (o->piece_count < peer->node->pieces)
    areas[o->piece_count] = NULL;
}

static inline uint64_t peer_rma_lesser(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static inline bool peer_rma_is_of_run(const struct plain_run *run, const struct pst_operation *o)
{
  return o->op == run->op && !o->flags && o->id == run->id && !o->piece_count &&
         o->area == run->area;
}

/* Returns whether an operation can be posted as part of the run; for another one, peer_rma_check()
 * says what is wrong. Compares field by field: one load over several fields that the caller has
 * just stored would wait for all of those stores. */
static inline bool peer_rma_is_plain(const struct plain_run *run, const struct pst_operation *o)
{
  return peer_rma_is_of_run(run, o) && o->length - 1 < run->length_max &&
         !(o->compare | o->operand | o->reserved) && o->offset <= run->local_length - o->length &&
         o->remote_offset <= run->remote_length - o->length;
}

/* May the first of n begin a run? Not where the next names another region: a post of operations on
 * several regions has all of them. */
static bool peer_rma_begins_run(const struct pst_peer *peer, const struct pst_operation *o,
                                uint32_t n)
{
  return (o->op == PST_OP_WRITE || o->op == PST_OP_READ) && !o->flags && !o->piece_count &&
         (n == 1 || o->id == peer->run.id || o->id == o[1].id);
}

/* Where the first of n begins a run, that is the peer's from now on. */
static void peer_rma_find_run(struct pst_peer *peer, const struct pst_operation *o, uint32_t n)
{
  struct node_remote *remote;
  struct rma_work work;

  if (peer_rma_is_of_run(&peer->run, o) || !peer_rma_begins_run(peer, o, n) ||
      peer_rma_check(peer, o, &work, NULL, &remote) < 0)
    return;
  const uint64_t local_length = o->area->own.region.length;
  peer->run = (struct plain_run){
      .op = o->op,
      .id = o->id,
      .area = o->area,
      .remote = remote,
      .common = {pst_request_head_of(o->op, 0), work.mr, work.remote},
      .local_length = local_length,
      .remote_length = remote->length,
      .length_max = peer_rma_lesser(peer->rma.max, peer_rma_lesser(local_length, remote->length))};
}

/* The requests of those at the front of n that go on with the peer's run. Returns how many. */
static inline uint32_t peer_rma_make_plain(const struct pst_peer *peer,
                                           const struct pst_operation *operations, uint32_t n,
                                           struct pst_request *requests)
{
  const struct plain_run *run = &peer->run;
  const uint32_t *slot = peer->rma.free_slots + peer->rma.free_count;
  uint32_t k = 0;

  for (; k < n && peer_rma_is_plain(run, &operations[k]); k++)
    rma_make_plain(&run->common, &operations[k], *--slot, &requests[k]);
  return k;
}

static inline void peer_rma_begin_plain(struct pst_peer *peer,
                                        const struct pst_operation *operations,
                                        const struct pst_request *requests, uint32_t count)
{
  uint32_t *link = &peer->rma.slots[peer->rma.write_last].next;

  for (uint32_t i = 0; i < count; i++) {
    const uint32_t at = (uint32_t)requests[i].cookie;
    struct node_use *use = &peer->uses[at];

    link = rma_begin_plain(&peer->rma, &operations[i], at, i, link);
    use->remote = peer->run.remote;
    use->area = operations[i].area;
  }
  rma_count_begun(&peer->rma, operations->op, (uint32_t)requests[0].cookie,
                  (uint32_t)requests[count - 1].cookie, count);
}

/* Completes operations that had ended when they were posted, and need no slots. */
static inline void peer_rma_complete_plain(struct pst_peer *peer,
                                           const struct pst_operation *operations, uint32_t count)
{
  struct node_events *events = &peer->node->events;
  struct node_completed *const completed = events->completed;
  const uint32_t tail = events->completed_tail, mask = events->mask;

  for (uint32_t i = 0; i < count; i++) {
    struct node_completed *one = &completed[(tail + i) & mask];
    one->cookie = operations[i].cookie;
    one->peer = peer;
    one->length = operations[i].length;
    one->op = operations[i].op;
  }
  events->completed_tail = tail + count;
  peer->rma.requests += count;
}

/* May the transport complete the requests of this post when it returns? Not if a memory must be
 * called for what was read, nor ahead of events that wait to be handed out. */
static inline uint32_t peer_rma_offer_completion(const struct pst_node *node)
{
  const bool must_wait = node->has_flush || node->events.head != node->events.tail;

  return must_wait ? PST_WAIT_NONE : PST_POST_MAY_COMPLETE;
}

/* As peer_rma_refused(); -EAGAIN: the peer is going. */
static int peer_rma_refused_or_gone(struct pst_peer *peer, int rc)
{
  const int why = peer_rma_refused(peer, rc);

  return why ? why : -EAGAIN;
}

/* Posts the operations at the front, at most RMA_BATCH, that go on with the peer's run. Returns how
 * many were taken; *rc: -EAGAIN: there is no more room; -errno: why the next is refused. */
static inline __attribute__((always_inline)) uint32_t
peer_rma_post_plain(struct pst_peer *peer, const struct pst_operation *operations, uint32_t n,
                    int *rc)
{
  struct rma *rma = &peer->rma;
  struct pst_request requests[RMA_BATCH];
  const uint32_t room = rma_plain_room(rma);
  const uint32_t k = peer_rma_make_plain(peer, operations, room < n ? room : n, requests);
  uint32_t wait = peer_rma_offer_completion(peer->node);

  if (k == 0)
    return 0;
  const int taken = rma->ops->post(rma->endpoint, requests, k, &wait);
  if (taken > 0 && wait == PST_POST_COMPLETED) {
    peer_rma_complete_plain(peer, operations, (uint32_t)taken);
    return (uint32_t)taken;
  }
  if (taken < (int)k)
    *rc = taken < 0 && taken != -EAGAIN ? peer_rma_refused_or_gone(peer, taken) : -EAGAIN;
  if (taken <= 0)
    return 0;
  peer_rma_begin_plain(peer, operations, requests, (uint32_t)taken);
  return (uint32_t)taken;
}

/* As peer_rma_post_plain(), of operations of any kind. */
static __attribute__((noinline)) uint32_t peer_rma_post_some(struct pst_peer *peer,
                                                             const struct pst_operation *operations,
                                                             uint32_t n, int *rc)
{
  struct rma_work works[BATCH];
  struct node_remote *remotes[BATCH];
  uint32_t slots[BATCH];
  uint32_t k = 0;
  int wrong = 0, refused_one = 0;

  for (; k < n && k < BATCH; k++) {
    struct pst_piece *pieces = peer->node->batch + (uint64_t)k * peer->node->pieces;
    wrong = peer_rma_check(peer, &operations[k], &works[k], pieces, &remotes[k]);
    if (wrong < 0)
      break;
  }
  uint32_t taken = k ? rma_post(&peer->rma, works, k, slots, &refused_one) : 0;
  for (uint32_t i = 0; i < taken; i++)
    peer_rma_use(peer, &operations[i], slots[i], remotes[i]);
  *rc = wrong;
  if (taken < k)
    *rc = refused_one ? refused_one : -EAGAIN;
  return taken;
}

/* Behind the first `taken`. */
static __attribute__((noinline)) int peer_rma_post_rest(struct pst_peer *peer,
                                                        const struct pst_operation *operations,
                                                        uint32_t n, uint32_t taken, int rc)
{
  while (taken < n && rc == 0 && peer->is_connected) {
    peer_rma_find_run(peer, operations + taken, n - taken);
    const uint32_t plain = peer_rma_post_plain(peer, operations + taken, n - taken, &rc);
    taken += plain;
    if (plain == 0 && rc == 0)
      taken += peer_rma_post_some(peer, operations + taken, n - taken, &rc);
  }
  if (rc == -EAGAIN)
    rc = 0;
  if (taken < n && rc == 0)
    peer->room_wanted |= PEER_ROOM_POST;
  return taken ? (int)taken : rc;
}

int pst_peer_post(struct pst_peer *peer, const struct pst_operation *operations, uint32_t n)
{
  uint32_t taken = 0;
  int rc = 0;

  if (peer->state != NODE_PEER_JOINED)
    return -ENOTCONN;
  if (peer->is_connected)
    taken = peer_rma_post_plain(peer, operations, n, &rc);
  return taken == n ? (int)n : peer_rma_post_rest(peer, operations, n, taken, rc);
}

int pst_peer_cancel(struct pst_peer *peer, uint64_t cookie)
{
  struct rma *rma = &peer->rma;
  int count = 0;

  for (uint32_t i = 0; i < rma->depth; i++)
    if (rma->slots[i].cookie == cookie && (rma->slots[i].parts || i == rma->rest_slot))
      count++;
  if (rma->rest_slot != RMA_NO_SLOT && rma->slots[rma->rest_slot].cookie == cookie)
    rma_end_rest(rma, -ECANCELED);
  return count;
}
