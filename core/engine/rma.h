/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes and atomics of one endpoint. A transfer that was taken has a slot until it is
 * handed out; it is one request, or several when it is longer, or in more pieces, than the
 * transport moves at once. One transfer at most is partly posted: those behind it are not taken
 * before the rest of it is.
 *
 * The cookie of a request is its slot. A DONE of WRITEs may cover several, in post order: each slot
 * of a WRITE under way names the next. The requests of one are behind each other.
 */
#ifndef PST_ENGINE_RMA_H
#define PST_ENGINE_RMA_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/transport.h>

#define RMA_NO_SLOT UINT32_MAX
#define RMA_BATCH 32 /* requests of one post */

/* A transfer that was checked, and all that it names. */
struct rma_work {
  uint8_t op; /* enum pst_opcode */
  uint8_t flags;
  uint16_t piece_count; /* 0: mr and local_offset */
  uint64_t cookie;
  struct pst_mr *mr;
  /* Some may be empty, unless there are more than a request has and all are. */
  const struct pst_piece *pieces;
  uint64_t local_offset;
  struct pst_remote *remote;
  uint64_t remote_offset;
  uint64_t length;
  uint64_t compare;
  uint64_t operand;
};

struct rma_slot {
  uint64_t cookie;
  uint64_t length;
  uint64_t write; /* WRITE: the number behind that of its newest request */
  uint32_t parts; /* requests under way */
  uint32_t next;  /* WRITE under way: the one posted behind it, where there is one */
  int32_t status; /* the first that was not 0 */
  uint8_t op;
};

struct rma {
  const struct pst_transport_ops *ops;
  struct pst_endpoint *endpoint;
  /* post() has refused a request. Returns the errno for the owner of the request, or 0: the peer is
   * going, which ends all of them. */
  int (*refused)(void *context, int rc);
  /* A transfer has ended. True: it was handed out, its slot is free; else that stays until
   * rma_take_ended(). */
  bool (*end)(void *context, uint32_t slot);
  void *context;
  uint64_t max;            /* bytes of one request */
  uint64_t operations;     /* bit of each enum pst_opcode that there is */
  uint32_t depth;          /* slots, and requests under way */
  uint32_t pieces;         /* of one transfer, at most */
  uint32_t request_pieces; /* of one request, at most */
  struct rma_slot *slots;
  uint32_t *free_slots; /* stack */
  uint32_t free_count;
  uint32_t *ended; /* FIFO of slots whose transfers are to be handed out */
  uint32_t ended_head, ended_tail;
  uint32_t write_first, write_last; /* WRITEs under way, where write_head is not write_tail */
  uint64_t write_head, write_tail;  /* requests of WRITEs that have ended, and that were posted */
  uint32_t mask;                    /* of the ring of ended ones */
  uint32_t requests;                /* under way, or completed by post() and not handed out */
  struct rma_work rest;             /* what is not posted yet of a transfer that was cut */
  uint32_t rest_slot;               /* RMA_NO_SLOT: there is none */
  struct pst_piece *rest_pieces;
  struct pst_piece *cut; /* pieces of the requests of one batch, each of which may split one */
  int32_t cancelled;     /* what -ECANCELED of the transport stands for */
};

/* A slot is free, or has a transfer: one under way, or one that waits to be handed out. Requests
 * are as many as slots at most. */
static inline void rma_assert(const struct rma *rma)
{
  (void)rma; /* where there are no assertions */
  assert(rma->requests <= rma->depth);
  assert(rma->write_tail - rma->write_head <= rma->requests);
  assert(rma->free_count + (uint64_t)(rma->ended_tail - rma->ended_head) <= rma->depth);
}

/* These WRITEs, of which each names the next, are behind all that are under way. */
static inline void rma_append_writes(struct rma *rma, uint32_t first, uint32_t last)
{
  if (rma->write_head == rma->write_tail)
    rma->write_first = first;
  rma->write_last = last;
}

/* Operations that a device of these capabilities has. */
uint64_t rma_operations(uint64_t capabilities);
/* 0 or -ENOMEM; ops, max, operations, depth, pieces, request_pieces, refused, end and context are
 * set. */
int rma_open(struct rma *rma);
void rma_close(struct rma *rma);

/* Checks its fields alone: 0; -EINVAL; -EOPNOTSUPP. */
int rma_check_any(const struct rma *rma, const struct rma_work *work);
static inline int rma_check(const struct rma *rma, const struct rma_work *work)
{
  if (work->op == PST_OP_WRITE && !(work->flags | work->compare | work->operand) &&
      (rma->operations >> PST_OP_WRITE & 1))
    return 0;
  return rma_check_any(rma, work);
}
/* Take up to n; slots[i] is whose the i-th is. Returns how many; *rc: why the
 * next one was not, where it is to blame. */
uint32_t rma_post(struct rma *rma, const struct rma_work *works, uint32_t n, uint32_t *slots,
                  int *rc);
/* Post on with what was cut, where something was. Returns whether nothing of it is left. */
bool rma_push_rest(struct rma *rma);
/* Ends the unposted rest of a transfer that was cut, if there is one. */
void rma_end_rest(struct rma *rma, int status);
/* A DONE of an operation. False: of none that is under way. */
bool rma_done(struct rma *rma, const struct pst_completion *completion);
/* The endpoint is closed: what its transport has said nothing of ends so. */
void rma_abandon(struct rma *rma, int status);
static inline bool rma_push(struct rma *rma)
{
  return rma->rest_slot == RMA_NO_SLOT || rma_push_rest(rma);
}

/* The slot of a transfer that has ended, which is free when the next one is taken; RMA_NO_SLOT. */
static inline uint32_t rma_take_ended(struct rma *rma)
{
  if (rma->ended_head == rma->ended_tail)
    return RMA_NO_SLOT;
  uint32_t at = rma->ended[rma->ended_head++ & rma->mask];
  assert(rma->slots[at].parts == 0);
  rma->free_slots[rma->free_count++] = at;
  rma_assert(rma);
  return at;
}

/* Are the `count` oldest WRITEs under way those up to one of slot `last`? A transport that covers
 * one twice, or one that was never posted, is noticed by this. */
static inline bool rma_are_oldest(const struct rma *rma, uint64_t last, uint64_t count)
{
  return last < rma->depth && rma->slots[last].op == PST_OP_WRITE &&
         rma->slots[last].write - rma->write_head - count < rma->slots[last].parts;
}

static inline bool rma_is_cut(const struct rma *rma, const struct rma_work *work)
{
  return work->length > rma->max || work->piece_count > rma->request_pieces;
}

#endif
