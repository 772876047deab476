/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection begins, fails, begins anew and ends. */
#ifndef RC_CONNECTION_H
#define RC_CONNECTION_H

#include "endpoint.h"

/* blob.c */
void rc_blob_write(const struct rc_blob *blob, uint8_t bytes[RC_BLOB_BYTES]);
bool rc_blob_read(const uint8_t *bytes, uint32_t length, struct rc_blob *blob);

/* connect.c: says hello, once the deferred work is done. Called by poll. */
void rc_greet(struct pst_endpoint *endpoint);
/* Says hello again after the device gave one up, once all that was posted is flushed. Called by
 * poll. */
void rc_greet_again(struct pst_endpoint *endpoint);
/* The peer has sent or answered something on this queue pair. */
void rc_lane_heard(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* Whether this end opens. Both ends come to opposite answers. */
bool rc_says_hello(const struct pst_endpoint *endpoint);

/* fail.c. A failed completion in words. */
void rc_wc_text(const struct pst_endpoint *endpoint, const struct ibv_wc *wc, char *text,
                size_t size);
/* True: the connection is being re-established, and has not failed. */
bool rc_reconnect_for(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
void rc_reconnect_again(struct pst_endpoint *endpoint, uint64_t in_ns);
/* The next try begins after that time. */
void rc_reconnect_within(struct pst_endpoint *endpoint, uint64_t in_ns);
/* The index in the send queue up to which the device has returned all requests. */
uint64_t rc_given_back(const struct pst_endpoint *endpoint);
/* How many messages, credits and requests have got through, in both directions. */
uint64_t rc_got_through(const struct pst_endpoint *endpoint);
/* The connection is RC_LEFT or RC_FAILED, which DISCONNECTED reports with this status unless the
 * host closes. A reconnection that was under way ends. */
void rc_over(struct pst_endpoint *endpoint, enum rc_stage_name stage, int status);
/* The connection has failed: `status` -errno; logged with `why` unless NULL. Once. */
void rc_fail(struct pst_endpoint *endpoint, int status, const char *why);
void rc_left(struct pst_endpoint *endpoint, int status);

/* reconnect.c */
void rc_reconnect_step(struct pst_endpoint *endpoint);
void rc_reconnect_greet(struct pst_endpoint *endpoint);
/* The peer's hello has come by this queue pair. */
void rc_reconnect_heard(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said);
/* `count` messages, or a credit, have come by this queue pair while the endpoint reconnects. True:
 * an earlier try received the same ones, and its acknowledgement was lost. */
bool rc_reconnect_is_repeated(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t count);
/* A message or a credit has come. Before any hello, the peer's old queue pair repeats it. */
void rc_reconnect_met(struct pst_endpoint *endpoint, const struct rc_lane *lane);
/* This try has failed, or has met an earlier try of the peer: the next one begins. */
void rc_reconnect_lost(struct pst_endpoint *endpoint);
#define RC_RECONNECT_AGAIN_NS UINT64_C(100000000) /* where the path is not there */
/* `number` is of this end's try, `answers` of the peer's; from 1 to 15, or 0 for none. */
uint32_t rc_reconnect_hello(uint64_t messages, uint64_t credits, uint32_t number, uint32_t answers);
/* Drops requests from those to be sent again that the peer has received by queue pair `by`, as its
 * hello says. NULL, or why the connection cannot go on. */
const char *rc_reconnect_drop_what_arrived(struct pst_endpoint *endpoint, uint32_t by,
                                           uint32_t said);
void rc_reconnect_look(struct pst_endpoint *endpoint, uint64_t now_ns);

/* fail.c: notes counters, at most 0.1 s old, as the endpoint begins to connect. 0 or -ENOMEM. */
int rc_counter_baseline_begin(struct pst_endpoint *endpoint, uint64_t now_ns);
/* Forgets the noted counters. */
void rc_counter_baseline_end(struct pst_endpoint *endpoint);

/* close.c: the end. */
/* Gives up requests that a peer which has left has not answered within the stream's timeout. */
void rc_left_look(struct pst_endpoint *endpoint, uint64_t now_ns);
/* A step further. True: it can be freed. */
bool rc_close_step(struct pst_endpoint *endpoint, uint64_t now_ns);
/* When it ends, though the device has not given all back. */
uint64_t rc_close_due(const struct pst_endpoint *endpoint);
/* A step further. True: the end can be reported. */
bool rc_gone_step(struct pst_endpoint *endpoint, uint64_t now_ns);
void rc_endpoint_free(struct pst_endpoint *endpoint);

#endif
