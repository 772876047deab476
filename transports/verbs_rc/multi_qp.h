/* SPDX-License-Identifier: Apache-2.0 */
/* The queue pairs of one endpoint, of which there may be several: multi_qp.c. */
#ifndef RC_LANES_H
#define RC_LANES_H

#include "endpoint.h"

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

/* multi_qp.c: how many completions all queue pairs of the endpoint can have at a time. */
uint32_t rc_lanes_size(struct pst_endpoint *endpoint);
/* Opens all queue pairs of the endpoint. 0 or -errno. */
int rc_lanes_open(struct pst_endpoint *endpoint, uint32_t pieces);
int rc_lanes_init(struct pst_endpoint *endpoint);
void rc_lanes_close(struct pst_endpoint *endpoint);
static inline struct rc_lane *rc_lanes_end(const struct pst_endpoint *endpoint)
{
  return (struct rc_lane *)&endpoint->rc->lanes[endpoint->lane_count];
}
/* Returns the queue pair of a completion; a completion in error has its number, too. */
static inline struct rc_lane *rc_lane_of(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = endpoint->rc->lanes;

  while (lane < rc_lanes_end(endpoint) - 1 && lane->qp->qp_num != wc->qp_num &&
         lane->rq.qp->qp_num != wc->qp_num)
    lane++;
  return lane;
}
/* As vb_send_queue_ring(), by all of them. */
int rc_lanes_ring(struct vb_send_queue *sq, uint64_t from, uint64_t to);
/* Each request once more, by the queue pair that it went by. */
int rc_lanes_ring_again(struct pst_endpoint *endpoint, uint64_t from, uint64_t to);
/* Notes that the lane's requests before `end` are complete. */
void rc_lane_done(struct pst_endpoint *endpoint, struct rc_lane *lane, uint64_t end);
/* That whose turn it is, and for how many messages more. */
struct rc_lane *rc_lanes_turn(struct pst_endpoint *endpoint, uint32_t *left);
/* A message, of several queue pairs, which waits for its turn. */
void rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc,
                     struct vb_out *out);
/* Messages at the front of the completions that are of the queue pair whose turn it is, unless some
 * of its messages wait: report them. Returns how many. */
uint32_t rc_lanes_arrived(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t most,
                          struct vb_out *out);
/* Tell those whose turn it is. False: there are more than there was room for. */
bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct vb_out *out);

#endif
