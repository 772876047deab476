/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a queue pair. */
#ifndef RC_QUEUE_H
#define RC_QUEUE_H

#include <endian.h>

#include "qp.h"

/* wr_id: whose, and which: an index of the send queue, a control buffer. */
#define RC_RECEIVE (UINT64_C(1) << 63)
#define RC_SPARE 1u /* of SENDs: a receive without a slot */
/* Beyond whatever the send queue can have: not of it. */
#define RC_ASIDE UINT32_C(0x40000000)
#define RC_LAST UINT32_C(0x60000000) /* posted in ERR, to know when all is flushed */
static inline uint64_t rc_wr_id(const struct pst_endpoint *endpoint, uint32_t index)
{
  return endpoint->wr_id | index;
}

/* queue.c: the queue pairs and their send queue; first how long their queues are. */
void rc_queue_sizes(struct pst_endpoint *endpoint);
int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces);
void rc_queue_close(struct pst_endpoint *endpoint);
/* To INIT, with all receives posted: the peer may send as soon as it knows us. 0 or -errno. */
int rc_lane_init(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* Receives without buffers, those that are missing; or, of who sends and is sent credit, the one
 * with that buffer. 0 or -errno. */
int rc_receives_restore(struct pst_endpoint *endpoint);
int rc_receive_again(struct pst_endpoint *endpoint, uint32_t buffer);
/* Of SENDs: for the last `n` slots that are granted; what was released, into receives; the next
 * one to be filled, whose receive took another's place. */
int rc_slots_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_slots_post_back(struct pst_endpoint *endpoint);
int rc_slot_again(struct pst_endpoint *endpoint);
/* A receive for the hello that confirms, where SENDs have none left: the host has all slots. 0 or
 * -errno. */
int rc_receive_confirmation(struct pst_endpoint *endpoint);
static inline uint32_t rc_queue_room(const struct pst_endpoint *endpoint)
{
  return endpoint->sq_size - (uint32_t)(endpoint->sq_head - endpoint->sq_told);
}
/* Likewise, but for what the requests may have that are still to be posted: of several queue pairs
 * one may be slow, and all that goes by the others stays in the send queue until it is done. */
static inline uint32_t rc_queue_own_room(const struct pst_endpoint *endpoint)
{
  return rc_queue_room(endpoint) - (endpoint->requests_max - endpoint->outstanding);
}
/* The one at `index` follows the others of the send queue. */
static inline void rc_queue_alike(struct pst_endpoint *endpoint, uint64_t index, uint8_t opcode)
{
  if (endpoint->sent[(index - 1) & endpoint->sq_mask].opcode != opcode)
    endpoint->alike_from = index;
}
/* As rc_queue_ring(): of several queue pairs; where ibv_post_send() said `rc`, and `bad`. */
int rc_lanes_ring(struct pst_endpoint *endpoint, uint64_t from, uint64_t to);
int rc_queue_went(struct pst_endpoint *endpoint, uint64_t from, const struct ibv_send_wr *bad,
                  int rc);
/* Hand the requests [from, to) of the send queue over. How many went, or -errno for none. */
static inline int rc_queue_ring(struct pst_endpoint *endpoint, uint64_t from, uint64_t to)
{
  if (endpoint->lane_count > 1)
    return rc_lanes_ring(endpoint, from, to);
  struct ibv_send_wr *last = &endpoint->wrs[(to - 1) & endpoint->sq_mask], *next = last->next;
  struct ibv_send_wr *first = &endpoint->wrs[from & endpoint->sq_mask], *bad = NULL;

  last->next = NULL;
  int rc = ibv_post_send(endpoint->lanes[0].qp, first, &bad);
  last->next = next;
  if (__builtin_expect(rc != 0, 0))
    return rc_queue_went(endpoint, from, bad, rc);
  endpoint->sq_head = to;
  return (int)(to - from);
}
/* One of the transport's own: a SEND with `control` and perhaps bytes of `control` memory, or,
 * with 0, an empty RDMA WRITE. */
int rc_queue_own(struct pst_endpoint *endpoint, uint32_t control, const struct ibv_sge *bytes);
/* The work request at sq_head, which is built. 0 or -errno. */
int rc_queue_push_own(struct pst_endpoint *endpoint);
/* What hellos and farewells travel by: a receive that names a slot is for messages' SENDs. */
static inline enum ibv_wr_opcode rc_control_opcode(const struct pst_endpoint *endpoint)
{
  return endpoint->own.sends && endpoint->tx ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
}

static inline uint8_t *rc_send_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return endpoint->control + (size_t)buffer * endpoint->credit_bytes;
}
static inline uint8_t *rc_receive_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return rc_send_buffer(endpoint, (endpoint->rx ? endpoint->credit_depth : 0) + buffer);
}

#endif
