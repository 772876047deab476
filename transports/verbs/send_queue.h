/* SPDX-License-Identifier: Apache-2.0 */
/* Send queues: what is posted, and how far it is done. */
#ifndef VERBS_SEND_QUEUE_H
#define VERBS_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* A work request in the send queue. It has one request of the host; or several messages, a run; or
 * none, the transport's own. */
struct vb_sent {
  uint64_t cookie; /* of the last */
  uint32_t upto;   /* requests of the host, ever, this one's among them: modulo */
  uint16_t count;  /* this one's */
  uint8_t opcode;  /* enum pst_opcode; 0: the transport's own */
  uint8_t lane;    /* which queue pair it went by, of several */
};

/* A send queue: a queue pair, its room, the requests that it has, and which of them failed. Indices
 * run freely; requests before `done` are complete, those before `told` are reported to the host. */
struct vb_send_queue {
  struct ibv_qp *qp; /* of several, the first */
  /* Several queue pairs share the requests: as vb_send_queue_ring(). NULL: one has them. */
  int (*spread)(struct vb_send_queue *sq, uint64_t from, uint64_t to);
  uint64_t wr_id;        /* what its work requests have in common: vb_wr_id() */
  uint32_t size, mask;   /* work requests at a time; of what is kept of them */
  uint32_t requests_max; /* the host's, at a time */
  uint32_t posted;       /* of them, ever, modulo; */
  uint32_t posted_max;   /* and what that may be, until more are reported */
  uint32_t max_inline;   /* bytes */
  uint64_t head, done, told;
  struct vb_sent *sent;
  uint64_t alike_from; /* from here on they have one opcode */
  struct ibv_send_wr *wrs;
  struct ibv_sge *sges;
  uint64_t failed_from; /* this one failed and those behind it, with `error` */
  uint64_t refused_at;  /* this one, with first_error */
  int first_error;
  int error;
};

/* wr_id: whose, and which: an index of the send queue, a control buffer. */
#define VB_RECEIVE (UINT64_C(1) << 63)
#define VB_SPARE 1u /* of SENDs: a receive without a slot */
static inline uint64_t vb_wr_id(const struct vb_send_queue *sq, uint32_t index)
{
  return sq->wr_id | index;
}

/* send_queue.c: opens the records of `size` work requests of `pieces` pieces each. 0 or -ENOMEM. */
int vb_send_queue_open(struct vb_send_queue *sq, uint32_t pieces);
void vb_send_queue_close(struct vb_send_queue *sq);

static inline uint32_t vb_send_queue_room(const struct vb_send_queue *sq)
{
  return sq->size - (uint32_t)(sq->head - sq->told);
}
/* How many requests of the host it may still have. */
static inline uint32_t vb_send_queue_free(const struct vb_send_queue *sq)
{
  return sq->posted_max - sq->posted;
}
/* The room, but for what the requests may have that are still to be posted: of several queue pairs
 * one may be slow, and all that goes by the others stays in the send queue until it is done. */
static inline uint32_t vb_send_queue_own_room(const struct vb_send_queue *sq)
{
  return vb_send_queue_room(sq) - vb_send_queue_free(sq);
}
/* The one at `index` follows the others of the send queue. */
static inline void vb_send_queue_alike(struct vb_send_queue *sq, uint64_t index, uint8_t opcode)
{
  if (sq->sent[(index - 1) & sq->mask].opcode != opcode)
    sq->alike_from = index;
}
/* As vb_send_queue_ring(), where ibv_post_send() said `rc`, and `bad`. */
int vb_send_queue_went(struct vb_send_queue *sq, uint64_t from, const struct ibv_send_wr *bad,
                       int rc);
/* Hand the requests [from, to) of the send queue over. How many went, or -errno for none. */
static inline int vb_send_queue_ring(struct vb_send_queue *sq, uint64_t from, uint64_t to)
{
  if (sq->spread)
    return sq->spread(sq, from, to);
  struct ibv_send_wr *last = &sq->wrs[(to - 1) & sq->mask], *next = last->next;
  struct ibv_send_wr *first = &sq->wrs[from & sq->mask], *bad = NULL;

  last->next = NULL;
  int rc = ibv_post_send(sq->qp, first, &bad);
  last->next = next;
  if (__builtin_expect(rc != 0, 0))
    return vb_send_queue_went(sq, from, bad, rc);
  sq->head = to;
  return (int)(to - from);
}
/* Posts a request of the transport's own, with these immediate data and perhaps bytes of registered
 * memory: 0, -EAGAIN without room, or -errno. */
int vb_send_queue_own(struct vb_send_queue *sq, enum ibv_wr_opcode opcode, uint32_t immediate,
                      const struct ibv_sge *bytes);
/* The work request at `head`, which is built. 0 or -errno. */
int vb_send_queue_push_own(struct vb_send_queue *sq);

#endif
