/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: made, taken from state to state, and what goes by them beside the send queue. */
#ifndef RC_QP_H
#define RC_QP_H

#include "endpoint.h"

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

#endif
