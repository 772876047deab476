/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRITEs and READs with nothing special about them: the short way into the transport, for
 * rma.c, and for an initiator that posts one by itself, and somebody waits for it.
 */
#ifndef PST_STREAM_RMA_PLAIN_H
#define PST_STREAM_RMA_PLAIN_H

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "rma.h"

/* A WRITE or READ without flags, which is one request, within both ranges. Of all others,
 * rma_check() and who asks say what is wrong, if anything is. */
static inline bool rma_is_plain(const struct rma_ranges *ranges, const struct pst_transfer *t)
{
  uint64_t head; /* op, flags and what is reserved beside them */

  _Static_assert(offsetof(struct pst_transfer, cookie) == sizeof(head), "these and no more");
  _Static_assert((PST_OP_WRITE ^ PST_OP_READ) == 1, "they differ in the last bit");
  memcpy(&head, t, sizeof(head));
  return (le64toh(head) | 1) == (PST_OP_WRITE | PST_OP_READ) &&
         t->length - 1 < ranges->length_max && !(t->compare | t->operand | t->reserved2) &&
         t->local_offset <= ranges->local_length - t->length &&
         t->remote_offset <= ranges->remote_length - t->length;
}

/* Each field is written once: the compiler would clear all of them first. */
static inline void rma_make_plain(const struct rma_ranges *ranges, const struct pst_transfer *t,
                                  uint64_t cookie, struct pst_request *request)
{
  request->opcode = t->op;
  request->flags = 0;
  request->piece_count = 0;
  request->reserved0 = 0;
  request->local.mr = ranges->mr;
  request->offset = t->local_offset;
  request->arg.length = t->length;
  request->cookie = cookie;
  request->u.rma.remote = ranges->remote;
  request->u.rma.offset = t->remote_offset;
  request->u.rma.reserved = 0;
}

/* A plain one takes `slot`; a WRITE the number *write, too. */
static inline void rma_take_plain(struct rma *rma, const struct rma_ranges *ranges,
                                  const struct pst_transfer *t, uint32_t slot, uint64_t *write,
                                  struct pst_request *request)
{
  struct rma_slot *taken = &rma->slots[slot];
  uint64_t cookie = slot;

  taken->cookie = t->cookie;
  taken->length = t->length;
  taken->parts = 1;
  taken->status = 0;
  taken->op = t->op;
  if (t->op == PST_OP_WRITE) {
    rma->write_slots[*write & rma->mask] = slot;
    cookie = (*write)++;
  }
  rma_make_plain(ranges, t, cookie, request);
}

/* As rma_post_plain(), of one, while none is cut and a slot is free. False: it was not taken, and
 * rma_post_plain() or rma_post() say why. */
static inline bool rma_post_one(struct rma *rma, const struct rma_ranges *ranges,
                                const struct pst_transfer *t)
{
  struct pst_request request;
  uint64_t write = rma->writes;
  uint32_t wait;

  if (rma->requests >= rma->depth || !rma_is_plain(ranges, t))
    return false;
  const uint32_t slot = rma->free_slots[rma->free_count - 1];
  rma_take_plain(rma, ranges, t, slot, &write, &request);
  if (__builtin_expect(rma->ops->post(rma->endpoint, &request, 1, &wait) != 1, 0)) {
    rma->slots[slot].parts = 0;
    if (write != rma->writes)
      rma->write_slots[rma->writes & rma->mask] = RMA_NO_SLOT;
    return false;
  }
  rma->writes = write;
  rma->requests++;
  rma->free_count--;
  return true;
}

#endif
