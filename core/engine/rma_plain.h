/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRITEs and READs without flags and pieces, one request each: the short way into the transport.
 */
#ifndef PST_ENGINE_RMA_PLAIN_H
#define PST_ENGINE_RMA_PLAIN_H

#include <string.h>

#include <penstock/transport-util.h>

#include "rma.h"

/* Members that all requests of one post have in common. */
struct rma_plain {
  uint64_t head; /* pst_request_head_of() */
  struct pst_mr *mr;
  struct pst_remote *remote;
};

/* Each field is written once: the compiler would clear all of them first. The head is written as
 * the transport reads it, in one: of several stores a load that covers all of them has to wait. */
static inline void rma_make_plain(const struct rma_plain *plain, const struct pst_operation *o,
                                  uint32_t slot, struct pst_request *request)
{
  memcpy(request, &plain->head, sizeof(plain->head));
  request->local.mr = plain->mr;
  request->offset = o->offset;
  request->arg.length = o->length;
  request->cookie = slot;
  request->u.rma.remote = plain->remote;
  request->u.rma.offset = o->remote_offset;
  request->u.rma.reserved = 0;
}

/* How many can be posted at once: the i-th takes the i-th free slot from the top. */
static inline uint32_t rma_plain_room(const struct rma *rma)
{
  uint32_t room = rma->rest_slot == RMA_NO_SLOT ? rma->depth - rma->requests : 0;

  if (room > rma->free_count)
    room = rma->free_count;
  return room < RMA_BATCH ? room : RMA_BATCH;
}

/* The i-th request of a post is under way, in slot `at`. `link` is the `next` of the slot before
 * it, at first of write_last, which nobody reads until there is one. Returns the one for the next.
 * rma_count_begun() counts all. */
static inline uint32_t *rma_begin_plain(const struct rma *rma, const struct pst_operation *o,
                                        uint32_t at, uint32_t i, uint32_t *link)
{
  struct rma_slot *slot = &rma->slots[at];

  slot->cookie = o->cookie;
  slot->length = o->length;
  slot->status = 0;
  slot->op = o->op;
  slot->parts = 1;
  slot->write = rma->write_tail + i + 1;
  *link = at;
  return &slot->next;
}

static inline void rma_count_begun(struct rma *rma, uint8_t op, uint32_t first, uint32_t last,
                                   uint32_t count)
{
  if (op == PST_OP_WRITE) {
    rma_append_writes(rma, first, last);
    rma->write_tail += count;
  }
  rma->requests += count;
  rma->free_count -= count;
  rma_assert(rma);
}

#endif
