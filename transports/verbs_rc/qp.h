/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: made, taken from state to state, and what goes by them beside the send queue. */
#ifndef RC_QP_H
#define RC_QP_H

#include "endpoint.h"

/* cq_size.c */
struct vb_planned rc_cq_size_completions(const struct pst_device *device);

/* queue.c: computes how long the queues of the endpoint are. */
void rc_queue_sizes(struct pst_endpoint *endpoint);
/* Creates the queue pairs and what is kept of their queues. 0 or -errno. */
int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces);
void rc_queue_close(struct pst_endpoint *endpoint);
/* To INIT, with all receives posted: the peer may send as soon as it knows us. 0 or -errno. */
int rc_lane_init(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* Receives without buffers, those that are missing. 0 or -errno. */
int rc_receives_restore(struct pst_endpoint *endpoint);
/* A receive for the hello that confirms, where SENDs have none left: the host has all slots. 0 or
 * -errno. */
int rc_receive_confirmation(struct pst_endpoint *endpoint);

/* In a wr_id: beyond whatever the send queue can have, not of it. */
#define RC_ASIDE UINT32_C(0x40000000)
#define RC_LAST UINT32_C(0x60000000) /* posted in ERR, to know when all is flushed */

/* qp_create.c: queues as the device makes them. 0 or -errno, which is logged, also where the device
 * gives less than is needed. `which` is the queue pair of the endpoint. max_inline_data is a hint.
 * max_recv_wr is ignored with a shared receive queue. */
int rc_qp_create(struct pst_endpoint *endpoint, uint32_t which, const struct ibv_qp_cap *want,
                 struct ibv_qp_cap *given);
uint32_t rc_random_psn(void);

/* qp_state.c: changes both halves of a queue pair. 0 or an errno. */
int rc_lane_change_state(const struct rc_lane *lane, enum ibv_qp_state state);
/* Changes a queue pair to INIT. 0 or -errno. */
int rc_lane_to_init(const struct pst_endpoint *endpoint, const struct rc_lane *lane);
/* Changes a queue pair to ERR, once. */
void rc_lane_error(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* Changes all queue pairs of the endpoint to ERR. */
void rc_queue_error(struct pst_endpoint *endpoint);
/* How many messages went by one of them. */
uint64_t rc_lane_messages(const struct pst_endpoint *endpoint, uint32_t lane);
/* A hello or a farewell, beside the send queue. 0 or -errno. */
int rc_lane_say(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said);
/* The peer's farewell. True: it has left by all of them. */
bool rc_lane_left(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* By one of them at least. */
bool rc_lanes_are_leaving(const struct pst_endpoint *endpoint);
/* Whether the device has given back all that was posted beside the send queue. */
bool rc_lane_is_empty(const struct rc_lane *lane);
/* Whether rc_lane_is_empty() holds for all queue pairs. */
bool rc_lanes_are_empty(const struct pst_endpoint *endpoint);
/* Whether all hellos and farewells were sent. */
bool rc_lanes_are_said(const struct pst_endpoint *endpoint);
void rc_lanes_cut(struct pst_endpoint *endpoint);
/* Counts the requests of the send queue that the device has given back, for a connection that
 * begins anew. */
void rc_lanes_given_back(struct pst_endpoint *endpoint);

/* qp_setup.c: changes the queue pairs to RTS by a deferred work, or fails the connection. */
int rc_set_up_soon(struct pst_endpoint *endpoint);
/* As rc_set_up_soon(), for a connection that is made again. */
void rc_set_up_again(struct pst_endpoint *endpoint);

#endif
