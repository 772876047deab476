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

/* plan.c: the room that a worker's completion queue begins with, and what it would need if all that
 * is planned were on one worker. */
struct rc_planned {
  uint32_t first, all;
};
struct rc_planned rc_plan_completions(const struct pst_device *device);

/* qp_create.c: queues as the device makes them. 0 or -errno, which is logged, also where the device
 * gives less than is needed. Of queue pair `which` of the endpoint, max_inline_data is a wish, and
 * receives do not count where they are shared. Of a shared receive queue *size is what is wished
 * for and then what there is, at least `least`. A completion queue has room for `wanted` then. */
int rc_qp_create(struct pst_endpoint *endpoint, uint32_t which, const struct ibv_qp_cap *want,
                 struct ibv_qp_cap *given);
int rc_srq_create(const struct rc_domain *domain, void *context, uint32_t *size, uint32_t least,
                  struct ibv_srq **srq);
int rc_cq_grow(struct pst_worker *worker, uint32_t wanted, const char *label);
uint32_t rc_random_psn(void);
/* What does not change from one post of receives to the next: without `mr` they have no buffers. */
void rc_receives_open(struct rc_receives *receives, uint64_t wr_id, uint32_t length,
                      const struct ibv_mr *mr);

/* qp_state.c: both its halves, 0 or an errno; to INIT, 0 or -errno; to ERR, once, one and all. */
int rc_lane_change_state(const struct rc_lane *lane, enum ibv_qp_state state);
int rc_lane_to_init(const struct pst_endpoint *endpoint, const struct rc_lane *lane);
void rc_lane_error(struct pst_endpoint *endpoint, struct rc_lane *lane);
void rc_queue_error(struct pst_endpoint *endpoint);
/* How many messages went by one of them. */
uint64_t rc_lane_messages(const struct pst_endpoint *endpoint, uint32_t lane);
/* A hello or a farewell, beside the send queue. 0 or -errno. */
int rc_lane_say(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said);
/* The peer's farewell. True: it has left by all of them. */
bool rc_lane_left(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* By one of them at least. */
bool rc_lanes_are_leaving(const struct pst_endpoint *endpoint);
/* Has the device given back what was posted beside the send queue; has it sent what was said. Then
 * none of it will come. */
bool rc_lane_is_empty(const struct rc_lane *lane);
bool rc_lanes_are_empty(const struct pst_endpoint *endpoint);
bool rc_lanes_are_said(const struct pst_endpoint *endpoint);
void rc_lanes_cut(struct pst_endpoint *endpoint);
/* What of the send queue the device has given back, of a connection that begins anew. */
void rc_lanes_given_back(struct pst_endpoint *endpoint);

/* qp_setup.c: by a deferred work to RTS, or, of a connection that was begun, fail. */
int rc_set_up_soon(struct pst_endpoint *endpoint);
void rc_set_up_again(struct pst_endpoint *endpoint);

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

/* Messages of a turn, of several queue pairs: as many for each as make a window of `share` slots go
 * by all of them several times. A power of two. Both ends know both numbers. */
static inline uint32_t rc_turn(uint32_t share, uint32_t lanes)
{
  uint32_t turn = 1;

  while (turn < RC_TURN_MAX && turn * 2 * 4 * lanes <= share)
    turn *= 2;
  return turn;
}
/* By which one message `n` goes, from 0. */
static inline uint32_t rc_lane_of_message(const struct pst_endpoint *endpoint, uint64_t n,
                                          uint32_t turn)
{
  return (uint32_t)(n / turn % endpoint->lane_count);
}

/* lanes.c: all queue pairs of an endpoint. How many completions there may be at a time, by what its
 * queues hold; the queue pairs; 0 or -errno. */
uint32_t rc_lanes_size(struct pst_endpoint *endpoint);
int rc_lanes_open(struct pst_endpoint *endpoint, uint32_t pieces);
int rc_lanes_init(struct pst_endpoint *endpoint);
void rc_lanes_close(struct pst_endpoint *endpoint);
static inline struct rc_lane *rc_lanes_end(const struct pst_endpoint *endpoint)
{
  return (struct rc_lane *)&endpoint->lanes[endpoint->lane_count];
}
/* Whose completion it is: of one in error the number is there, too. */
static inline struct rc_lane *rc_lane_of(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = endpoint->lanes;

  while (lane < rc_lanes_end(endpoint) - 1 && lane->qp->qp_num != wc->qp_num &&
         lane->responder->qp_num != wc->qp_num)
    lane++;
  return lane;
}
/* Each request once more, by the queue pair that it went by. */
int rc_lanes_ring_again(struct pst_endpoint *endpoint, uint64_t from, uint64_t to);
/* Its requests before this one are complete. */
void rc_lane_done(struct pst_endpoint *endpoint, struct rc_lane *lane, uint64_t end);
/* That whose turn it is, and for how many messages more. */
struct rc_lane *rc_lanes_turn(struct pst_endpoint *endpoint, uint32_t *left);
/* A message, of several queue pairs, which waits for its turn. */
void rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc,
                     struct rc_out *out);
/* Tell those whose turn it is. False: there are more than there was room for. */
bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct rc_out *out);

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

/* Is it a range of local memory with that right? A pst_mr_check of an endpoint. */
static inline bool rc_request_is_within(const void *context, struct pst_mr *mr, uint64_t offset,
                                        uint64_t length, uint32_t right)
{
  const struct pst_endpoint *endpoint = context;

  return mr && mr->domain == endpoint->local && (mr->access & right) &&
         pst_range_holds(mr->length, offset, length);
}

static inline int rc_request_check_local(const struct pst_endpoint *endpoint,
                                         const struct pst_request *request, uint32_t right)
{
  /* No bytes are of no memory. */
  if (request->piece_count == 0 && request->arg.length == 0 && !request->local.mr &&
      request->opcode != PST_OP_SEND)
    return 0;
  return pst_request_check(request, endpoint->pieces_max, right, rc_request_is_within, endpoint);
}

static inline bool rc_request_add_piece(struct ibv_send_wr *wr, const struct pst_mr *mr,
                                        uint64_t offset, uint64_t length)
{
  if (length == 0)
    return true;
  wr->sg_list[wr->num_sge++] = (struct ibv_sge){
      .addr = mr->verbs.address + offset, .length = (uint32_t)length, .lkey = mr->lkey};
  return mr->is_cpu_readable;
}

/* A piece, or all of them, into a work request. True: all of it is memory that the CPU reads. */
static inline bool rc_request_add_local(struct ibv_send_wr *wr, const struct pst_request *request)
{
  bool readable = true;

  if (request->piece_count == 0)
    return request->arg.length == 0 ||
           rc_request_add_piece(wr, request->local.mr, request->offset, request->arg.length);
  for (uint32_t i = 0; i < request->piece_count; i++) {
    const struct pst_piece *piece = &request->local.pieces[i];
    readable &= rc_request_add_piece(wr, piece->mr, piece->offset, piece->length);
  }
  return readable;
}

/* rma.c: 0 or -errno; and what was checked, as a work request. */
int rc_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_rma_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                  const struct pst_request *request);
int rc_flush_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_flush_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                    const struct pst_request *request);
/* Is there more to be read than a FLUSH does by itself, or is a fenced WRITE or atomic to find
 * WRITEs into other ranges placed, which the fence waits for then? Then this comes before it,
 * behind all that was built: 0; -EAGAIN: some were read, and there is no room for others now;
 * -errno: post failed.
 */
bool rc_flush_needs_others(const struct pst_endpoint *endpoint, const struct pst_request *request);
int rc_flush_others(struct pst_endpoint *endpoint, const struct pst_request *request);
/* A WRITE names it. */
void rc_written(struct pst_endpoint *endpoint, struct pst_remote *remote);

#endif
