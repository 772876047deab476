/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers that transport plugins compile in: checks of what the host hands over, tokens, slots,
 * runs of DONE, closing, counters.
 *
 * All of it is static inline and no part of the ABI. A plugin takes what fits, and writes the rest
 * itself; the host cannot tell. All transports here are built with it.
 *
 * Threads: what belongs to a worker (places, slots, dones) is for that worker's thread. Nothing
 * here locks, and what post, poll and release need neither allocates nor logs, but for the token
 * that is not out.
 */
#ifndef PENSTOCK_TRANSPORT_UTIL_H
#define PENSTOCK_TRANSPORT_UTIL_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Checks of parameters ----------------------------------------------------------------
 *
 * Each takes parameters that pst_struct_read() gave, and `wrong`: what the transport itself has
 * found wrong with them, or NULL. 0, or -EINVAL, logged.
 */

/* Is [offset, offset + bytes) within `length` bytes? No sum overflows. */
PST_INLINE bool pst_range_holds(uint64_t length, uint64_t offset, uint64_t bytes)
{
  return offset <= length && bytes <= length - offset;
}

PST_INLINE int pst_mr_params_check(const struct pst_host *host, const struct pst_mr_params *params,
                                   const struct pst_region *region, const char *wrong)
{
  if (wrong) {
    /* the transport's own word comes first */
  } else if (!pst_range_holds(region->length, params->offset, params->length))
    wrong = "it lies outside its region";
  else if (params->access & ~(uint32_t)(PST_ACCESS_RING * 2 - 1))
    wrong = "it asks for rights that are not known";
  if (!wrong)
    return 0;
  return PST_REFUSE(host, -EINVAL, "registration of [%llu, +%llu) of %llu bytes refused: %s",
                    (unsigned long long)params->offset, (unsigned long long)params->length,
                    (unsigned long long)region->length, wrong);
}

/* Do all slots lie within `length` bytes, none over another? The last need not be a whole stride
 * long. */
PST_INLINE bool pst_ring_fits(const struct pst_ring_params *params, uint64_t length)
{
  const uint64_t around = (uint64_t)params->headroom + params->tailroom;

  if (params->stride < around || params->payload_max > params->stride - around ||
      !pst_range_holds(length, params->base, around + params->payload_max))
    return false;
  length -= params->base + around + params->payload_max;
  return params->slots == 1 || params->stride <= length / (params->slots - 1);
}

/* `access` and `length` are of params->mr; of a ring without memory LOCAL_WRITE | RING, and
 * UINT64_MAX. That a ring has more endpoints than slots is for the transport to refuse. */
PST_INLINE int pst_ring_params_check(const struct pst_host *host,
                                     const struct pst_ring_params *params, uint32_t access,
                                     uint64_t length, const struct pst_limits *limits,
                                     const char *wrong)
{
  const bool is_shared = limits->capabilities & PST_CAP_SHARED_RING;

  if (wrong) {
    /* the transport's own word comes first */
  } else if (!(access & PST_ACCESS_LOCAL_WRITE) || !(access & PST_ACCESS_RING))
    wrong = "its registration lacks the access LOCAL_WRITE or RING";
  else if (params->slots < limits->slots_min || params->slots > limits->slots_max)
    wrong = "its number of slots is out of range";
  else if (params->endpoints < 1 || (params->endpoints > 1 && !is_shared))
    wrong = "it has no endpoint, or several, and this transport shares no ring";
  else if (params->payload_max > limits->message_max)
    wrong = "its slots are longer than the longest message";
  else if (params->headroom < limits->headroom || params->tailroom < limits->tailroom)
    wrong = "its slots lack the headroom or tailroom that limits asks for";
  else if (params->base % limits->slot_alignment || params->stride % limits->slot_alignment)
    wrong = "its slots are not aligned as limits asks for";
  else if (!pst_ring_fits(params, length))
    wrong = "its slots overlap, or reach beyond the registration";
  return wrong ? PST_REFUSE(host, -EINVAL, "ring of %u slots, %llu bytes apart, refused: %s",
                            params->slots, (unsigned long long)params->stride, wrong)
               : 0;
}

/* `payload_max` is that of params->ring; without a ring it means nothing. -EOPNOTSUPP besides: RMA
 * of a transport that has none. */
PST_INLINE int pst_endpoint_params_check(const struct pst_host *host,
                                         const struct pst_endpoint_params *params,
                                         uint64_t payload_max, const struct pst_limits *limits,
                                         const char *wrong)
{
  const uint32_t known = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA;

  if (wrong) {
    /* the transport's own word comes first */
  } else if (!params->cookie)
    wrong = "its cookie is 0";
  else if (!params->roles || (params->roles & ~known))
    wrong = "it has no role, or an unknown one";
  else if (!(params->roles & PST_ROLE_RECEIVER) != !params->ring)
    wrong = "a receiver needs a ring, and only a receiver";
  else if (params->requests > limits->requests_max ||
           ((params->roles & PST_ROLE_SENDER) && !params->requests))
    wrong = "its number of outstanding requests is out of range";
  else if (params->pieces > limits->pieces_max)
    wrong = "its pieces a request are more than the limit";
  else if (params->message_max > limits->message_max ||
           (params->ring && params->message_max > payload_max))
    wrong = "its messages are longer than the limit, or than the slots";
  if (wrong)
    return PST_REFUSE(host, -EINVAL, "%s: endpoint refused: %s", params->label ? params->label : "",
                      wrong);
  return (params->roles & PST_ROLE_RMA) &&
                 !(limits->capabilities & (PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC))
             ? -EOPNOTSUPP
             : 0;
}

/* ---- Requests ---------------------------------------------------------------------------- */

/* Opcode, flags, number of pieces and what is reserved, in one load: compare with
 * pst_request_head_of(). */
PST_INLINE uint64_t pst_request_head(const struct pst_request *request)
{
  uint64_t head;

  memcpy(&head, request, sizeof(head));
  return head;
}

/* The first bytes of a request with one piece or none. */
PST_INLINE uint64_t pst_request_head_of(uint8_t opcode, uint8_t flags)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return (uint64_t)opcode | (uint64_t)flags << 8;
#else
  return (uint64_t)opcode << 56 | (uint64_t)flags << 48;
#endif
}

/* The pieces of a SEND, WRITE or READ that was checked, one at least; `one` has the memory for a
 * lone piece, which may have no bytes and no mr. */
PST_INLINE const struct pst_piece *pst_request_pieces(const struct pst_request *request,
                                                      struct pst_piece *one, uint32_t *count)
{
  if (request->piece_count) {
    *count = request->piece_count;
    return request->local.pieces;
  }
  one->mr = request->local.mr;
  one->offset = request->offset;
  one->length = request->arg.length;
  one->reserved = 0;
  *count = 1;
  return one;
}

/* Is [offset, offset + length) of a registration, with that right (enum pst_access)? */
typedef bool pst_mr_check(const void *context, struct pst_mr *mr, uint64_t offset, uint64_t length,
                          uint32_t right);

/* Flags, and the local memory of a SEND, WRITE or READ, as post() has to judge them. `holds` is
 * inlined where it is known. 0; -E2BIG: more than pieces_max; -EINVAL. Opcode, roles,
 * u.send.departure_ns and the remote side are the caller's to check, message_max after this. */
PST_INLINE int pst_request_check(const struct pst_request *request, uint32_t pieces_max,
                                 uint32_t right, pst_mr_check *holds, const void *context)
{
  const uint32_t known = PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE;
  uint64_t left = request->arg.length;
  uint32_t i;

  if ((request->flags & ~known) || request->reserved0)
    return -EINVAL;
  if (request->piece_count == 0)
    return holds(context, request->local.mr, request->offset, left, right) ? 0 : -EINVAL;
  if (request->piece_count > pieces_max)
    return -E2BIG;
  if (request->offset || !request->local.pieces)
    return -EINVAL;
  for (i = 0; i < request->piece_count; i++) {
    const struct pst_piece *piece = &request->local.pieces[i];
    if (piece->reserved || piece->length > left ||
        !holds(context, piece->mr, piece->offset, piece->length, right))
      return -EINVAL;
    left -= piece->length;
  }
  return left ? -EINVAL : 0;
}

/* All of a SEND, of a transport with DEPARTURE: 0, -EINVAL, -E2BIG, -EMSGSIZE. */
PST_INLINE int pst_timed_send_check(const struct pst_request *request, uint32_t pieces_max,
                                    uint64_t message_max, pst_mr_check *holds, const void *context)
{
  int rc = pst_request_check(request, pieces_max, PST_ACCESS_LOCAL_READ, holds, context);

  return rc == 0 && request->arg.length > message_max ? -EMSGSIZE : rc;
}

/* All of a SEND, of a transport without DEPARTURE: 0, -EINVAL, -E2BIG, -EMSGSIZE. */
PST_INLINE int pst_send_check(const struct pst_request *request, uint32_t pieces_max,
                              uint64_t message_max, pst_mr_check *holds, const void *context)
{
  return request->u.send.departure_ns
             ? -EINVAL
             : pst_timed_send_check(request, pieces_max, message_max, holds, context);
}

/* All of a FLUSH, of a transport without remotes: 0, -EINVAL. One with remotes checks that
 * u.rma.remote is the endpoint's own, and calls this for the rest. */
PST_INLINE int pst_flush_check(const struct pst_request *request, bool has_remotes)
{
  return (request->flags & ~PST_REQUEST_FENCE) || request->reserved0 || request->piece_count ||
                 request->u.rma.reserved || (request->u.rma.remote && !has_remotes)
             ? -EINVAL
             : 0;
}

/* Returns post()'s result after it took `taken` of n: `rc` is the errno of the first that cannot be
 * taken, or 0; `why` (enum pst_wait) is what was short. *wait is written where it has to be. */
PST_INLINE int pst_post_result(uint32_t taken, uint32_t n, int rc, uint32_t why, uint32_t *wait)
{
  if (taken == 0 && rc < 0 && rc != -EAGAIN)
    return rc;
  *wait = why;
  return taken || n == 0 ? (int)taken : -EAGAIN;
}

/* ---- Completions ------------------------------------------------------------------------- */

PST_INLINE void pst_event_write(struct pst_completion *out, uint64_t endpoint, uint8_t code,
                                int32_t status)
{
  memset(out, 0, sizeof(*out));
  out->kind = PST_COMPLETION_EVENT;
  out->code = code;
  out->status = status;
  out->endpoint = endpoint;
}

/* ---- Runs of DONE ------------------------------------------------------------------------ */

/* A DONE that is owed: of `count` requests of one opcode, the last of which has `cookie`. */
struct pst_done {
  uint64_t cookie;
  uint64_t count;
  uint32_t opcode; /* enum pst_opcode */
  int32_t status;
};

/* DONE completions that an endpoint owes its host. An entry covers a request that is outstanding,
 * so that there is always room for one more. All 0: no requests. */
struct pst_dones {
  struct pst_done *at;  /* a ring of mask + 1 */
  uint64_t mask;        /* entries, a power of two, less 1 */
  uint64_t head, tail;  /* free-running */
  uint32_t requests;    /* of the endpoint, at most */
  uint32_t outstanding; /* taken by post(), and not given by poll(): the caller adds */
};

/* 0 or -ENOMEM. `requests` is pst_endpoint_params.requests. */
PST_INLINE int pst_dones_open(struct pst_dones *dones, uint32_t requests)
{
  uint64_t size = 1;

  while (size < requests)
    size <<= 1;
  memset(dones, 0, sizeof(*dones));
  dones->at = (struct pst_done *)calloc(size, sizeof(*dones->at));
  dones->mask = size - 1;
  dones->requests = requests;
  return dones->at ? 0 : -ENOMEM;
}

PST_INLINE void pst_dones_close(struct pst_dones *dones)
{
  free(dones->at);
  dones->at = NULL;
}

PST_INLINE bool pst_dones_is_empty(const struct pst_dones *dones)
{
  return dones->head == dones->tail;
}

/* How many of `n` requests post() may still take: for the others PST_WAIT_QUEUE. */
PST_INLINE uint32_t pst_dones_room(const struct pst_dones *dones, uint32_t n)
{
  const uint32_t room = dones->requests - dones->outstanding;

  assert(dones->outstanding <= dones->requests);
  return n < room ? n : room;
}

/* `count` requests of one opcode are done, with the same status: they join the last DONE where one
 * may cover several, which is so for SEND and WRITE. */
PST_INLINE void pst_dones_push(struct pst_dones *dones, uint32_t opcode, int32_t status,
                               uint64_t cookie, uint64_t count)
{
  struct pst_done *last = &dones->at[(dones->head - 1) & dones->mask];

  if (dones->head != dones->tail && last->opcode == opcode && last->status == status &&
      (opcode == PST_OP_SEND || opcode == PST_OP_WRITE)) {
    last->cookie = cookie;
    last->count += count;
    return;
  }
  assert(dones->head - dones->tail <=
         dones->mask); /* it covers an outstanding one: there is room */
  last = &dones->at[dones->head++ & dones->mask];
  last->cookie = cookie;
  last->count = count;
  last->opcode = opcode;
  last->status = status;
}

/* post() took one, and it is done. */
PST_INLINE void pst_dones_add(struct pst_dones *dones, const struct pst_request *request)
{
  dones->outstanding++;
  pst_dones_push(dones, request->opcode, 0, request->cookie, 1);
}

/* Give up to max of them. Returns how many completions were written. */
PST_INLINE uint32_t pst_dones_take(struct pst_dones *dones, uint64_t endpoint,
                                   struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;

  for (; n < max && dones->tail != dones->head; n++, out++) {
    const struct pst_done *done = &dones->at[dones->tail++ & dones->mask];
    assert(done->count <= dones->outstanding);
    memset(out, 0, sizeof(*out));
    out->kind = PST_COMPLETION_DONE;
    out->code = (uint8_t)done->opcode;
    out->status = done->status;
    out->endpoint = endpoint;
    out->u.done.cookie = done->cookie;
    out->u.done.count = done->count;
    dones->outstanding -= (uint32_t)done->count;
  }
  return n;
}

/* ---- Closing ----------------------------------------------------------------------------- */

/* An endpoint that closes. All 0: it is open. */
struct pst_closing {
  uint32_t mode; /* enum pst_close_mode; 0: open */
  uint64_t deadline_ns;
};

enum pst_closing_step {
  PST_CLOSING_OPEN = 0,  /* it does not close */
  PST_CLOSING_DRAIN = 1, /* what is under way goes on */
  PST_CLOSING_ABORT = 2, /* end with -ECANCELED what can be ended without harm */
  PST_CLOSING_OVER = 3,  /* the deadline is over: end all that is left */
};

/* endpoint_close: 0; -EINVAL: unknown mode; -EALREADY. */
PST_INLINE int pst_closing_begin(struct pst_closing *closing, uint32_t mode, uint64_t deadline_ns)
{
  if (mode != PST_CLOSE_DRAIN && mode != PST_CLOSE_ABORT)
    return -EINVAL;
  if (closing->mode)
    return -EALREADY;
  closing->mode = mode;
  closing->deadline_ns = deadline_ns;
  return 0;
}

/* Returns how far the closing of an endpoint has come. Once nothing is outstanding and no DONE is
 * owed, poll() reports CLOSED and frees the endpoint; a worker that sleeps is to be woken by
 * deadline_ns. */
PST_INLINE enum pst_closing_step pst_closing_look(const struct pst_closing *closing,
                                                  uint64_t now_ns)
{
  if (!closing->mode)
    return PST_CLOSING_OPEN;
  if (now_ns >= closing->deadline_ns)
    return PST_CLOSING_OVER;
  return closing->mode == PST_CLOSE_ABORT ? PST_CLOSING_ABORT : PST_CLOSING_DRAIN;
}

/* ---- Paths ------------------------------------------------------------------------------- */

/* A text into an array of `size` bytes, cut where it is longer. */
PST_INLINE void pst_text_write(char *to, size_t size, const char *text)
{
  const size_t length = strlen(text) < size ? strlen(text) : size - 1;

  memcpy(to, text, length);
  to[length] = 0;
}

/* `path` as ring_open and endpoint_path fill it in; NULL is legal. */
PST_INLINE void pst_path_write(struct pst_path_info *path, uint32_t kind, const char *via,
                               const char *carrier, const char *reason)
{
  struct pst_path_info made;

  if (!path)
    return;
  memset(&made, 0, sizeof(made));
  made.path = kind;
  pst_text_write(made.via, sizeof(made.via), via);
  pst_text_write(made.carrier, sizeof(made.carrier), carrier);
  pst_text_write(made.reason, sizeof(made.reason), reason);
  pst_struct_write(path, &made, sizeof(made));
}

/* ---- Blobs -------------------------------------------------------------------------------- */

/* A blob of `length` bytes, without descriptors. 0 or -ENOSPC. */
PST_INLINE int pst_blob_write(struct pst_blob *blob, const void *bytes, uint32_t length)
{
  if (blob->capacity < length)
    return -ENOSPC;
  memcpy(blob->bytes, bytes, length);
  blob->length = length;
  blob->fd_count = 0;
  return 0;
}

/* Exactly `length` bytes into *to. False: it has another length. */
PST_INLINE bool pst_blob_read(const struct pst_blob *blob, void *to, uint32_t length)
{
  if (blob->length != length)
    return false;
  memcpy(to, blob->bytes, length);
  return true;
}

/* ---- Places ------------------------------------------------------------------------------
 *
 * Numbers for objects of a worker, which tokens and work requests carry. A number has 31 bits: the
 * object's place below, and above it a generation, so that an old number is not taken for that of
 * the next object in its place.
 */

#define PST_PLACE_BITS 16u
#define PST_PLACE_MASK ((UINT32_C(1) << PST_PLACE_BITS) - 1)
#define PST_PLACE_NUMBERS UINT32_C(0x7fffffff)
#define PST_PLACE_NONE UINT32_MAX /* the number of nothing */

struct pst_place {
  void *at;        /* NULL: free */
  uint32_t number; /* of the object, or of the next one */
};

/* All 0: empty. all[i].at for each i below `room` is an object or NULL. free(all) ends it. */
struct pst_places {
  struct pst_place *all;
  uint32_t room;
  uint32_t next; /* where to look for a free one */
};

/* A place for `at`, of `most` (2^16 or less). 0; -ENOSPC: there is none; -ENOMEM. */
PST_INLINE int pst_places_take(struct pst_places *places, void *at, uint32_t most, uint32_t *number)
{
  uint32_t i, place = places->room, room = places->room ? 2 * places->room : 16;
  struct pst_place *grown;

  for (i = 0; i < places->room && place == places->room; i++)
    if (!places->all[(places->next + i) % places->room].at)
      place = (places->next + i) % places->room;
  if (place == places->room) {
    if (room > most)
      room = most;
    if (place >= room)
      return -ENOSPC;
    grown = (struct pst_place *)realloc(places->all, room * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    for (i = place; i < room; i++) {
      grown[i].at = NULL;
      grown[i].number = i;
    }
    places->all = grown;
    places->room = room;
  }
  places->all[place].at = at;
  places->next = place + 1;
  *number = places->all[place].number;
  return 0;
}

/* The number is not found any more. */
PST_INLINE void pst_places_give(struct pst_places *places, uint32_t number)
{
  struct pst_place *place = &places->all[number & PST_PLACE_MASK];

  place->at = NULL;
  place->number = (place->number + (UINT32_C(1) << PST_PLACE_BITS)) & PST_PLACE_NUMBERS;
}

/* The object of that number; NULL: there is none. */
PST_INLINE void *pst_places_find(const struct pst_places *places, uint32_t number)
{
  const uint32_t place = number & PST_PLACE_MASK;

  if (place >= places->room || places->all[place].number != number)
    return NULL;
  return places->all[place].at;
}

/* ---- Tokens and slots -------------------------------------------------------------------- */

/* The token of a slot in the ring of that number. */
PST_INLINE uint64_t pst_token(uint32_t number, uint32_t slot)
{
  return (uint64_t)number << 32 | slot;
}

PST_INLINE uint32_t pst_token_number(uint64_t token)
{
  return (uint32_t)(token >> 32);
}

PST_INLINE uint32_t pst_token_slot(uint64_t token)
{
  return (uint32_t)token;
}

/* Offset in the mr of a slot's payload behind its headroom. */
PST_INLINE uint64_t pst_slot_offset(const struct pst_ring_params *params, uint32_t slot)
{
  return params->base + slot * params->stride + params->headroom;
}

/* The slots of a ring: free, out with the host by a token, or neither: about to be filled. */
struct pst_slots {
  uint32_t *free; /* a stack: the first slot first, later the one that was last back */
  uint8_t *out;   /* 1: the host has its token */
  uint32_t count;
  uint32_t free_count;
};

PST_INLINE void pst_slots_close(struct pst_slots *slots)
{
  free(slots->free);
  free(slots->out);
  slots->free = NULL;
  slots->out = NULL;
  slots->count = 0;
  slots->free_count = 0;
}

/* All free. 0 or -ENOMEM. */
PST_INLINE int pst_slots_open(struct pst_slots *slots, uint32_t count)
{
  slots->free = (uint32_t *)malloc(count * sizeof(*slots->free));
  slots->out = (uint8_t *)calloc(count, 1);
  slots->count = count;
  if (!slots->free || !slots->out) {
    pst_slots_close(slots);
    return -ENOMEM;
  }
  for (slots->free_count = 0; slots->free_count < count; slots->free_count++)
    slots->free[slots->free_count] = count - 1 - slots->free_count;
  return 0;
}

/* Takes a free slot. There must be one. */
PST_INLINE uint32_t pst_slots_take(struct pst_slots *slots)
{
  return slots->free[--slots->free_count];
}

/* Frees a slot that was taken and not handed to the host. */
PST_INLINE void pst_slots_give(struct pst_slots *slots, uint32_t slot)
{
  slots->free[slots->free_count++] = slot;
}

/* Frees a slot that was handed to the host. False: the host does not have it. */
PST_INLINE bool pst_slots_release(struct pst_slots *slots, uint32_t slot)
{
  if (slot >= slots->count || !slots->out[slot])
    return false;
  slots->out[slot] = 0;
  pst_slots_give(slots, slot);
  return true;
}

/* How many of `left` slots the next of `come` endpoints has, all of which are to have equal
 * shares. */
PST_INLINE uint32_t pst_slots_share(uint32_t left, uint32_t come)
{
  return (left + come - 1) / come;
}

/* ---- Sequence numbers -------------------------------------------------------------------- */

/* The number nearest to `highest` of which the low `bits` (1 to 64) are those of `carried`. */
PST_INLINE uint64_t pst_sequence_nearest(uint64_t highest, uint64_t carried, uint32_t bits)
{
  const uint32_t drop = 64 - bits;

  return highest + (uint64_t)((int64_t)((carried - highest) << drop) >> drop);
}

/* ---- Counters ---------------------------------------------------------------------------- */

/* Where counters() writes: {counters, max, 0}; it returns `count`. */
struct pst_counter_list {
  struct pst_counter *at;
  uint32_t room;
  uint32_t count;
};

/* `cause` is NULL unless flags have PST_COUNTER_DROP. */
PST_INLINE void pst_counter_add(struct pst_counter_list *list, const char *name, const char *cause,
                                uint64_t value, uint64_t flags)
{
  if (list->at && list->count < list->room) {
    list->at[list->count].name = name;
    list->at[list->count].cause = cause;
    list->at[list->count].value = value;
    list->at[list->count].flags = flags;
  }
  list->count++;
}

#ifdef __cplusplus
}
#endif
#endif
