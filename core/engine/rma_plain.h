/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRITEs and READs without flags and pieces, one request each: the short way into the transport.
 */
#ifndef PST_ENGINE_RMA_PLAIN_H
#define PST_ENGINE_RMA_PLAIN_H

#include "rma.h"

/* What a request that is plain names. */
struct rma_plain {
  struct pst_mr *mr;
  uint64_t local_offset;
  struct pst_remote *remote;
  uint64_t remote_offset;
  uint64_t length;
  uint8_t op;
};

/* Each field is written once: the compiler would clear all of them first. */
static inline void rma_make_plain(const struct rma_plain *plain, uint32_t slot,
                                  struct pst_request *request)
{
  request->opcode = plain->op;
  request->flags = 0;
  request->piece_count = 0;
  request->reserved0 = 0;
  request->local.mr = plain->mr;
  request->offset = plain->local_offset;
  request->arg.length = plain->length;
  request->cookie = slot;
  request->u.rma.remote = plain->remote;
  request->u.rma.offset = plain->remote_offset;
  request->u.rma.reserved = 0;
}

/* How many can be posted at once: each takes one of the first free slots. */
static inline uint32_t rma_plain_room(const struct rma *rma)
{
  uint32_t room = rma->rest_slot == RMA_NO_SLOT ? rma->depth - rma->requests : 0;

  if (room > rma->free_count)
    room = rma->free_count;
  return room < RMA_BATCH ? room : RMA_BATCH;
}

/* The i-th of those. */
static inline uint32_t rma_plain_slot(const struct rma *rma, uint32_t i)
{
  return rma->free_slots[rma->free_count - 1 - i];
}

/* The request was taken. */
static inline struct rma_slot *rma_fill_plain(struct rma *rma, const struct pst_request *request,
                                              uint64_t cookie)
{
  struct rma_slot *slot = &rma->slots[request->cookie];

  slot->cookie = cookie;
  slot->length = request->arg.length;
  slot->status = 0;
  slot->op = request->opcode;
  return slot;
}

/* It is under way; rma_count_begun() counts all of the post. */
static inline void rma_begin_plain(struct rma *rma, const struct pst_request *request, uint32_t i,
                                   uint64_t cookie)
{
  struct rma_slot *slot = rma_fill_plain(rma, request, cookie);
  const uint64_t write = rma->write_tail + i;

  slot->parts = 1;
  slot->write = write + 1;
  rma->writes[write & rma->mask] = (uint32_t)request->cookie; /* free, where this is no WRITE */
}

static inline void rma_count_begun(struct rma *rma, uint8_t op, uint32_t count)
{
  rma->write_tail += op == PST_OP_WRITE ? count : 0;
  rma->requests += count;
  rma->free_count -= count;
}

/* It has ended already: its slot waits to be handed out, as `completed`. */
static inline void rma_complete_plain(struct rma *rma, const struct pst_request *request,
                                      uint64_t cookie)
{
  rma_fill_plain(rma, request, cookie);
  rma->completed[rma->completed_tail++ & rma->mask] = (uint32_t)request->cookie;
  rma->free_count--;
}

#endif
