/* SPDX-License-Identifier: Apache-2.0 */
/* READs, WRITEs and atomics of one endpoint: slots, cutting and what has ended. */
#include "rma_plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t rma_operations(uint64_t capabilities)
{
  uint64_t operations = UINT64_C(1) << PST_OP_FLUSH;

  if (capabilities & PST_CAP_WRITE)
    operations |= UINT64_C(1) << PST_OP_WRITE;
  if (capabilities & PST_CAP_READ)
    operations |= UINT64_C(1) << PST_OP_READ;
  if (capabilities & PST_CAP_ATOMIC)
    operations |= UINT64_C(1) << PST_OP_FETCH_ADD | UINT64_C(1) << PST_OP_COMPARE_SWAP;
  return operations;
}

int rma_open(struct rma *rma)
{
  uint32_t size = 1;

  while (size < rma->depth)
    size <<= 1;
  rma->mask = size - 1;
  rma->rest_slot = RMA_NO_SLOT;
  rma->cancelled = -ECANCELED;
  rma->slots = calloc(rma->depth, sizeof(*rma->slots));
  rma->free_slots = calloc(rma->depth, sizeof(*rma->free_slots));
  rma->ended = calloc(size, sizeof(*rma->ended));
  rma->rest_pieces = calloc(rma->pieces ? rma->pieces : 1, sizeof(*rma->rest_pieces));
  rma->cut = calloc(rma->pieces + RMA_BATCH, sizeof(*rma->cut));
  if (!rma->slots || !rma->free_slots || !rma->ended || !rma->rest_pieces || !rma->cut)
    return -ENOMEM;
  for (uint32_t i = 0; i < rma->depth; i++)
    rma->free_slots[rma->free_count++] = rma->depth - 1 - i;
  return 0;
}

void rma_close(struct rma *rma)
{
  free(rma->slots);
  free(rma->free_slots);
  free(rma->ended);
  free(rma->rest_pieces);
  free(rma->cut);
}

/* ---- Completions ------------------------------------------------------------------ */

static inline void rma_end_transfer(struct rma *rma, uint32_t at)
{
  if (rma->end(rma->context, at))
    rma->free_slots[rma->free_count++] = at;
  else
    rma->ended[rma->ended_tail++ & rma->mask] = at;
  rma_assert(rma);
}

static inline void rma_end_part(struct rma *rma, uint32_t at, int32_t status)
{
  struct rma_slot *slot = &rma->slots[at];

  assert(slot->parts > 0 && rma->requests > 0);
  if (status == -ECANCELED)
    status = rma->cancelled;
  if (slot->status == 0)
    slot->status = status;
  slot->parts--;
  rma->requests--;
  if (slot->parts == 0 && at != rma->rest_slot)
    rma_end_transfer(rma, at);
}

static inline bool rma_end_writes(struct rma *rma, const struct pst_completion *completion)
{
  if (!rma_are_oldest(rma, completion->u.done.cookie, completion->u.done.count))
    return false;
  for (uint64_t left = completion->u.done.count; left; left--) {
    const uint32_t at = rma->write_first;
    rma->write_head++;
    if (rma->slots[at].parts == 1)
      rma->write_first = rma->slots[at].next;
    rma_end_part(rma, at, completion->status);
  }
  return true;
}

bool rma_done(struct rma *rma, const struct pst_completion *completion)
{
  uint64_t at = completion->u.done.cookie;
  uint64_t count = completion->u.done.count;

  if (completion->code == PST_OP_WRITE)
    return rma_end_writes(rma, completion);
  if (at >= rma->depth || rma->slots[at].op != completion->code || count > rma->slots[at].parts)
    return false;
  while (count--)
    rma_end_part(rma, (uint32_t)at, completion->status);
  return true;
}

void rma_abandon(struct rma *rma, int status)
{
  if (rma->rest_slot != RMA_NO_SLOT)
    rma_end_rest(rma, status);
  rma->write_head = rma->write_tail;
  for (uint32_t i = 0; rma->slots && i < rma->depth && rma->requests; i++)
    while (rma->slots[i].parts)
      rma_end_part(rma, i, status);
}

/* ---- Posting ------------------------------------------------------------------------ */

int rma_check_any(const struct rma *rma, const struct rma_work *w)
{
  bool atomic = w->op == PST_OP_FETCH_ADD || w->op == PST_OP_COMPARE_SWAP;

  if (w->op < PST_OP_WRITE || w->op > PST_OP_FLUSH || (w->flags & ~PST_REQUEST_FENCE))
    return -EINVAL;
  if (!(rma->operations >> w->op & 1))
    return -EOPNOTSUPP;
  if (w->op == PST_OP_FLUSH && (w->length | w->local_offset | w->remote_offset))
    return -EINVAL;
  if (w->op == PST_OP_READ && w->length == 0)
    return -EINVAL;
  if (atomic && (w->length != 8 || ((w->local_offset | w->remote_offset) & 7)))
    return -EINVAL;
  if ((w->op != PST_OP_COMPARE_SWAP && w->compare) || (!atomic && w->operand))
    return -EINVAL;
  return 0;
}

/* A request for the first `length` bytes of a transfer. */
static inline void rma_make_request(const struct rma_work *w, uint64_t length, uint32_t slot,
                                    struct pst_request *request)
{
  const uint64_t head = pst_request_head_of(w->op, w->flags);

  memcpy(request, &head, sizeof(head));
  request->local.mr = w->mr;
  request->offset = w->local_offset;
  request->arg.length = length;
  request->cookie = slot;
  request->u.rma.remote = w->remote;
  request->u.rma.offset = w->remote_offset;
  request->u.rma.reserved = 0;
  switch (w->op) {
  case PST_OP_WRITE:
  case PST_OP_READ:
    break;
  case PST_OP_FLUSH:
    request->local.mr = NULL;
    request->offset = request->u.rma.offset = 0;
    break;
  default:
    request->arg.compare = w->compare;
    request->u.atomic.operand = w->operand;
    break;
  }
  if (w->piece_count) {
    request->piece_count = w->piece_count;
    request->local.pieces = w->pieces;
    request->offset = 0;
  }
}

/* Returns how many were taken, 0 also when the peer is going; -errno: the transport refuses the
 * first. */
static int rma_post_requests(struct rma *rma, const struct pst_request *requests, uint32_t n)
{
  uint32_t wait = PST_WAIT_NONE;
  int rc = rma->ops->post(rma->endpoint, requests, n, &wait);

  if (rc >= 0) {
    rma->requests += (uint32_t)rc;
    return rc;
  }
  return rc == -EAGAIN ? 0 : rma->refused(rma->context, rc);
}

static void rma_take_slot(struct rma *rma, const struct rma_work *w, uint32_t slot)
{
  assert(slot < rma->depth && rma->slots[slot].parts == 0);
  rma->slots[slot] = (struct rma_slot){.cookie = w->cookie, .length = w->length, .op = w->op};
}

/* `parts` more requests of this slot, which are the newest, are under way. */
static void rma_add_parts(struct rma *rma, uint32_t slot, uint32_t parts)
{
  const bool is_new = rma->slots[slot].parts == 0;

  if (parts == 0)
    return;
  rma->slots[slot].parts += parts;
  if (rma->slots[slot].op != PST_OP_WRITE)
    return;
  if (is_new) {
    rma->slots[rma->write_last].next = slot;
    rma_append_writes(rma, slot, slot);
  }
  assert(rma->write_last == slot);
  rma->write_tail += parts;
  rma->slots[slot].write = rma->write_tail;
  rma_assert(rma);
}

/* k requests, one for each of the first free slots. Returns how many were taken; *stop: go on to no
 * more, *rc says when the next is to blame. */
static uint32_t rma_post_made(struct rma *rma, const struct pst_request *requests, uint32_t k,
                              int *rc, bool *stop)
{
  const int posted = rma_post_requests(rma, requests, k);
  const uint32_t taken = posted > 0 ? (uint32_t)posted : 0;

  *stop |= taken < k;
  if (posted < 0)
    *rc = posted;
  for (uint32_t i = 0; i < taken; i++)
    rma_add_parts(rma, (uint32_t)requests[i].cookie, 1);
  rma->free_count -= taken;
  return taken;
}

/* Posts the works at the front that are one request each. As rma_post_made(). */
static uint32_t rma_post_whole(struct rma *rma, const struct rma_work *works, uint32_t n,
                               uint32_t *slots, int *rc, bool *stop)
{
  struct pst_request requests[RMA_BATCH];
  uint32_t room = rma_plain_room(rma), k = 0;

  *stop = room == 0;
  for (; k < n && k < room && !rma_is_cut(rma, &works[k]); k++) {
    const struct rma_work *w = &works[k];
    uint32_t slot = rma->free_slots[rma->free_count - 1 - k];
    rma_take_slot(rma, w, slot);
    rma_make_request(w, w->length, slot, &requests[k]);
    slots[k] = slot;
  }
  return k ? rma_post_made(rma, requests, k, rc, stop) : 0;
}

void rma_end_rest(struct rma *rma, int status)
{
  uint32_t at = rma->rest_slot;
  struct rma_slot *slot = &rma->slots[at];

  rma->rest_slot = RMA_NO_SLOT;
  if (slot->status == 0)
    slot->status = status;
  if (slot->parts == 0)
    rma_end_transfer(rma, at);
}

static void rma_advance(struct rma_work *rest, uint64_t length)
{
  rest->remote_offset += length;
  rest->length -= length;
  if (!rest->piece_count) {
    rest->local_offset += length;
    return;
  }
  while (length) {
    struct pst_piece *piece = (struct pst_piece *)(uintptr_t)rest->pieces;
    uint64_t part = length < piece->length ? length : piece->length;
    piece->offset += part;
    piece->length -= part;
    length -= part;
    if (piece->length == 0 && rest->piece_count > 1) {
      rest->pieces++;
      rest->piece_count--;
    }
  }
}

/* A list of pieces, as far as it is cut, and where the pieces of the next request are put. */
struct piece_list {
  const struct pst_piece *at;
  uint64_t skip; /* bytes of it that are in requests already */
  struct pst_piece *into;
};

/* With pieces: at most `length` of its bytes, in as many pieces as a request has. */
static void rma_cut_pieces(const struct rma *rma, struct piece_list *list, uint64_t length,
                           struct pst_request *request)
{
  uint64_t left = length;
  uint32_t n = 0;

  while (left && n < rma->request_pieces) {
    const uint64_t rest = list->at->length - list->skip, bytes = rest < left ? rest : left;
    if (bytes)
      list->into[n++] = (struct pst_piece){
          .mr = list->at->mr, .offset = list->at->offset + list->skip, .length = bytes};
    left -= bytes;
    list->skip += bytes;
    if (bytes == rest) {
      list->at++;
      list->skip = 0;
    }
  }
  request->local.pieces = list->into;
  request->piece_count = (uint16_t)n;
  request->arg.length = length - left;
  list->into += n;
}

/* As many requests as there is room for. Returns how many, at the front of what is left. */
static uint32_t rma_make_rest(struct rma *rma, struct pst_request *requests)
{
  struct rma_work ahead = rma->rest;
  struct piece_list list = {ahead.pieces, 0, rma->cut};
  uint32_t room = rma->depth - rma->requests;
  uint32_t k = 0;

  if (room > RMA_BATCH)
    room = RMA_BATCH;
  for (; k < room && ahead.length; k++) {
    uint64_t length = ahead.length < rma->max ? ahead.length : rma->max;
    rma_make_request(&ahead, length, rma->rest_slot, &requests[k]);
    if (ahead.piece_count)
      rma_cut_pieces(rma, &list, length, &requests[k]);
    length = requests[k].arg.length;
    ahead.local_offset += length;
    ahead.remote_offset += length;
    ahead.length -= length;
  }
  return k;
}

/* Post on what is left of a transfer that is cut. Returns how many requests were
 * taken, or why the transport refuses it. */
static int rma_post_rest(struct rma *rma)
{
  struct pst_request requests[RMA_BATCH];
  int all = 0;

  while (rma->rest.length && rma->requests < rma->depth) {
    uint32_t k = rma_make_rest(rma, requests);
    int taken = rma_post_requests(rma, requests, k);
    if (taken < 0)
      return taken;
    for (int i = 0; i < taken; i++)
      rma_advance(&rma->rest, requests[i].arg.length);
    rma_add_parts(rma, rma->rest_slot, (uint32_t)taken);
    all += taken;
    if (taken < (int)k)
      break;
  }
  return all;
}

bool rma_push_rest(struct rma *rma)
{
  int rc = rma_post_rest(rma);
  if (rc < 0)
    rma_end_rest(rma, rc);
  else if (rma->rest.length == 0)
    rma_end_rest(rma, 0);
  return rma->rest_slot == RMA_NO_SLOT;
}

/* Posts a transfer that takes more than one request. Returns 1 when it was taken. */
static uint32_t rma_post_cut(struct rma *rma, const struct rma_work *w, uint32_t *slots, int *rc)
{
  if (rma->free_count == 0)
    return 0;
  uint32_t slot = rma->free_slots[rma->free_count - 1];
  rma_take_slot(rma, w, slot);
  rma->rest = *w;
  rma->rest_slot = slot;
  if (w->piece_count) {
    memcpy(rma->rest_pieces, w->pieces, w->piece_count * sizeof(*w->pieces));
    rma->rest.pieces = rma->rest_pieces;
  }
  int taken = rma_post_rest(rma);
  if (rma->slots[slot].parts == 0) {
    if (taken < 0)
      *rc = taken;
    rma->rest_slot = RMA_NO_SLOT;
    return 0;
  }
  rma->free_count--;
  *slots = slot;
  if (taken < 0 || rma->rest.length == 0)
    rma_end_rest(rma, taken < 0 ? taken : 0);
  return 1;
}

uint32_t rma_post(struct rma *rma, const struct rma_work *works, uint32_t n, uint32_t *slots,
                  int *rc)
{
  uint32_t taken = 0;
  bool stop = false;

  while (taken < n && !stop && rma->rest_slot == RMA_NO_SLOT) {
    if (rma_is_cut(rma, &works[taken])) {
      uint32_t one = rma_post_cut(rma, &works[taken], slots + taken, rc);
      taken += one;
      stop = one == 0;
    } else {
      taken += rma_post_whole(rma, works + taken, n - taken, slots + taken, rc, &stop);
    }
  }
  return taken;
}
