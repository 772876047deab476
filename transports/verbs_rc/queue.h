/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a queue pair. */
#ifndef RC_QUEUE_H
#define RC_QUEUE_H

#include <endian.h>

#include "endpoint.h"

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

/* What a queue pair is for. */
enum rc_side {
  RC_BOTH,
  RC_ASKS,
  RC_ANSWERS,
};

/* qp_create.c: queues as the device makes them. 0 or -errno, which is told, and nothing was made:
 * also where the device gives less than is needed. Of a queue pair max_inline_data is a wish, and
 * receives are of no matter where they are shared; `which` of the endpoint's it is, from 0. Of a
 * shared receive queue *size is what is wished for and then what there is, at least `least`. A
 * completion queue has room for `wanted` then. */
int rc_qp_create(struct pst_endpoint *endpoint, const struct ibv_qp_cap *want, uint32_t which,
                 struct ibv_qp_cap *given, struct ibv_qp **qp, struct ibv_qp **responder);
/* Both may be one, or NULL. */
void rc_qp_destroy(struct ibv_qp *qp, struct ibv_qp *responder);
int rc_srq_create(const struct rc_domain *domain, void *context, uint32_t *size, uint32_t least,
                  struct ibv_srq **srq);
int rc_cq_grow(struct pst_worker *worker, uint32_t wanted, const char *label);
uint32_t rc_random_psn(void);

/* qp_state.c: to INIT, and to ERR. */
int rc_queue_to_init(const struct pst_endpoint *endpoint, struct ibv_qp *qp,
                     struct ibv_qp *responder);
void rc_queue_error(struct pst_endpoint *endpoint);
void rc_lane_error(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* All but the first. */
void rc_lanes_error(struct pst_endpoint *endpoint);

/* queue.c: the queue pair and its send queue; first how long its queues are, in its place. */
void rc_queue_sizes(struct pst_endpoint *endpoint);
/* Completions that there may be of it at a time. */
static inline uint32_t rc_queue_completions(const struct pst_endpoint *endpoint)
{
  return endpoint->sq_size + endpoint->rq_size + endpoint->lane_room;
}
int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces);
void rc_queue_close(struct pst_endpoint *endpoint);
int rc_queue_init(struct pst_endpoint *endpoint);
/* Receives: `n` without buffers; or, of who sends and is sent credit, the one with that buffer.
 * 0 or -errno. */
int rc_receives_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_receive_again(struct pst_endpoint *endpoint, uint32_t buffer);
/* Of SENDs: for the last `n` slots that are granted; what was released, into receives; the next
 * one to be filled, whose receive took another's place. */
int rc_slots_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_slots_post_back(struct pst_endpoint *endpoint);
int rc_slot_again(struct pst_endpoint *endpoint);
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
  if (endpoint->lanes)
    return rc_lanes_ring(endpoint, from, to);
  struct ibv_send_wr *last = &endpoint->wrs[(to - 1) & endpoint->sq_mask], *next = last->next;
  struct ibv_send_wr *first = &endpoint->wrs[from & endpoint->sq_mask], *bad = NULL;

  last->next = NULL;
  int rc = ibv_post_send(endpoint->qp, first, &bad);
  last->next = next;
  if (__builtin_expect(rc != 0, 0))
    return rc_queue_went(endpoint, from, bad, rc);
  endpoint->sq_head = to;
  return (int)(to - from);
}
/* One of the transport's own: a SEND with `control` and perhaps bytes of `control` memory, or,
 * with 0, an empty RDMA WRITE. `cookie`, `opcode`: of what it ends, 0 for nothing. */
int rc_queue_own(struct pst_endpoint *endpoint, uint32_t control, const struct ibv_sge *bytes,
                 unsigned int flags, uint8_t opcode, uint64_t cookie);
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
static inline uint8_t *rc_scratch(const struct pst_endpoint *endpoint)
{
  return rc_receive_buffer(endpoint, endpoint->receive_buffers);
}

/* multi_qp*.c: several queue pairs. Those that begin with rc_lanes_ may be called of one, too, and
 * do nothing, unless it says otherwise. */
uint32_t rc_lanes_room(const struct pst_endpoint *endpoint);
int rc_lanes_open(struct pst_endpoint *endpoint);
void rc_lanes_close(struct pst_endpoint *endpoint);
int rc_lane_init(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* Post the receives that are missing. */
int rc_lanes_restore(struct pst_endpoint *endpoint);
/* As rc_lanes_ring(), once more, each by the one that it went by. */
int rc_lanes_ring_again(struct pst_endpoint *endpoint, uint64_t from, uint64_t to);
/* How many messages went by one of them. */
uint64_t rc_lane_messages(const struct pst_endpoint *endpoint, uint32_t lane);
/* Beside the send queue. 0 or -errno. */
int rc_lane_say(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said);
/* By all but the first. */
int rc_lanes_say(struct pst_endpoint *endpoint, enum rc_control control);
/* Whose completion it is. */
static inline struct rc_lane *rc_lane_of(const struct pst_endpoint *endpoint,
                                         const struct ibv_wc *wc)
{
  struct rc_lane *lane = endpoint->lanes;

  /* Of a completion in error the number is there, too. */
  while (lane->qp->qp_num != wc->qp_num && lane->responder->qp_num != wc->qp_num &&
         lane < &endpoint->lanes[endpoint->lane_count - 1])
    lane++;
  return lane;
}
/* The peer has been, on it. */
void rc_lane_heard(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* A completion of the send queue. True: the connection has failed by it. */
bool rc_lane_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
/* One of a receive is there: what it says of the peer; then it is taken, by which queue pair. */
void rc_lanes_hear(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
struct rc_lane *rc_lane_received(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
/* A message, which waits for its turn. False: it is one too many. */
bool rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc);
/* Tell those whose turn it is. False: there are more than there was room for. */
bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct rc_out *out);
/* The peer's farewell. True: it has left by all of them. */
bool rc_lane_left(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* By one of them at least. */
bool rc_lanes_are_leaving(const struct pst_endpoint *endpoint);
/* Has the device given back what was posted; has it sent what was said: all but the first.
 * Then none of it will come. */
bool rc_lanes_are_empty(const struct pst_endpoint *endpoint);
bool rc_lanes_are_said(const struct pst_endpoint *endpoint);
void rc_lanes_cut(struct pst_endpoint *endpoint);
/* All but the first: true when a hello is to be said again. After a deferred work; then the hellos,
 * 0 or -errno. */
bool rc_lanes_greet_again(struct pst_endpoint *endpoint);
void rc_lanes_are_up(struct pst_endpoint *endpoint);
int rc_lanes_greet(struct pst_endpoint *endpoint);

/* reconnect.c: several that are had again. Have they given back all but the send queue's;
 * then they begin anew; what of the send queue was given back. */
bool rc_lanes_are_back(const struct pst_endpoint *endpoint);
void rc_lanes_begin_anew(struct pst_endpoint *endpoint);
void rc_lanes_given_back(struct pst_endpoint *endpoint);
void rc_lanes_reconnect_end(struct pst_endpoint *endpoint);
/* Hellos by all, 0 or -errno; the peer's; and whatever else comes before the connection stands. */
int rc_lanes_say_hello(struct pst_endpoint *endpoint);
void rc_lane_reconnect_heard(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said);
void rc_lanes_reconnect_met(struct pst_endpoint *endpoint);
/* Does the connection stand? */
void rc_lanes_reconnect_look(struct pst_endpoint *endpoint);

/* row.c: at `index` and behind it, those at the front of the `n` that are plain and can be taken.
 * Returns how many. */
uint32_t rc_build_row(struct pst_endpoint *endpoint, uint64_t index,
                      const struct pst_request *requests, uint32_t n);

static inline bool rc_is_writable(const struct pst_endpoint *endpoint,
                                  const struct pst_remote *remote)
{
  return (endpoint->roles & PST_ROLE_RMA) && remote && remote->endpoint == endpoint &&
         (remote->access & PST_ACCESS_REMOTE_WRITE);
}

/* rma.c: 0 or -errno; and what was checked, as a work request. */
int rc_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_rma_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                  const struct pst_request *request);
int rc_flush_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_flush_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                    const struct pst_request *request);
/* Is there more to be read than a FLUSH does by itself? Then this comes before it, behind all that
 * was built: 0; -EAGAIN: some were read, and there is no room for others now; -errno: post failed.
 */
bool rc_flush_needs_others(const struct pst_endpoint *endpoint, const struct pst_request *request);
int rc_flush_others(struct pst_endpoint *endpoint);
/* A WRITE names it. */
void rc_written(struct pst_endpoint *endpoint, struct pst_remote *remote);

#endif
