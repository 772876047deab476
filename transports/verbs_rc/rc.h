/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this plugin share.
 *
 * A worker has a completion queue; an endpoint has a queue pair on it. Messages are RDMA WRITEs
 * with immediate data (the low 32 bits of the sequence) into the receiver's slots, in the order in
 * which the receiver gave those slots out, so that nothing else needs to travel. Credits, hellos
 * and farewells are SENDs, told apart from messages by the completion's opcode; what one is, its
 * immediate data say.
 *
 * Locks: none on a worker. A device's asynchronous events are read by whichever worker finds them,
 * under the device's lock; what they say of a queue pair is left in its endpoint's atomics, and
 * its worker is woken.
 */
#ifndef RC_H
#define RC_H

#include "cm.h"
#include "shared.h"

int rc_open(const struct pst_host *host, const struct pst_open_params *params,
            struct pst_device **device);
void rc_close(struct pst_device *device);
int rc_limits(struct pst_device *device, struct pst_limits *limits);
int rc_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr);
void rc_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int rc_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void rc_worker_close(struct pst_worker *worker);
int rc_arm(struct pst_worker *worker);
int rc_event_fd(struct pst_worker *worker);
int rc_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
void rc_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int rc_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int rc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
int rc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int rc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int rc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int rc_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int rc_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
/* Reads the port's counters. One warning a device where they tell of a link that is slow; none once
 * an endpoint has failed, or a hello has found nobody. */
void rc_tell_slow(struct pst_device *device);
/* IBV_ACCESS_RELAXED_ORDERING or 0, of a range with these rights (enum pst_access). */
int rc_relaxed(const struct pst_device *device, uint32_t access);
int rc_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int rc_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote);
void rc_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);
int rc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int rc_describe(struct pst_endpoint *endpoint, char *text, size_t size);

/* domain.c: the device's own; then the one of that number, or the device's own for 0. 0 or -errno,
 * which is told. Any thread. */
bool rc_domain_is_one(const struct pst_device *device); /* all numbers have the device's own */
int rc_domain_open(struct rc_domain *domain, struct pst_device *device, uint64_t number);
void rc_domain_close(struct rc_domain *domain);
int rc_domain_take(struct pst_device *device, uint64_t number, struct rc_domain **domain);
void rc_domain_give(struct rc_domain *domain);
/* Memory of the transport's own for the local side of requests, zeroed, unless *pages has it; and
 * registered. 0 or -errno, which is logged: `label` has it, or NULL, for `what`. */
int rc_pages_open(struct rc_domain *domain, const char *label, const char *what, size_t bytes,
                  uint8_t **pages, struct ibv_mr **mr);
int rc_pin(struct rc_domain *domain, const char *label, const char *what, void *at, size_t bytes,
           struct ibv_mr **mr);

/* blob.c */
void rc_blob_write(const struct rc_blob *blob, uint8_t bytes[RC_BLOB_BYTES]);
bool rc_blob_read(const uint8_t *bytes, uint32_t length, struct rc_blob *blob);

/* connect.c: to be called by poll. A deferred work is through; then a hello that the device has
 * given up is said again, once all that was posted is flushed. */
void rc_greet(struct pst_endpoint *endpoint);
void rc_greet_again(struct pst_endpoint *endpoint);
/* The peer has been, on one of the queue pairs. */
void rc_lane_heard(struct pst_endpoint *endpoint, struct rc_lane *lane);
/* Of the two ends. */
bool rc_says_hello(const struct pst_endpoint *endpoint);

/* fail.c. A failed completion in words. */
void rc_wc_text(const struct pst_endpoint *endpoint, const struct ibv_wc *wc, char *text,
                size_t size);
/* True: it is tried to have the connection again, and has not failed. */
bool rc_reconnect_for(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
void rc_reconnect_again(struct pst_endpoint *endpoint, uint64_t in_ns);
/* The next try is then. */
void rc_reconnect_within(struct pst_endpoint *endpoint, uint64_t in_ns);
/* Of the send queue: requests before this one the device has given back. */
uint64_t rc_given_back(const struct pst_endpoint *endpoint);
/* Whatever is not a hello, either way. */
uint64_t rc_got_through(const struct pst_endpoint *endpoint);
/* The connection is RC_LEFT or RC_FAILED, which DISCONNECTED reports with this status unless the
 * host closes. A reconnection that was under way ends. */
void rc_over(struct pst_endpoint *endpoint, enum rc_stage_name stage, int status);
/* The connection has failed: `status` -errno; logged with `why` unless NULL. Once. */
void rc_fail(struct pst_endpoint *endpoint, int status, const char *why);
void rc_left(struct pst_endpoint *endpoint, int status);
/* No post will be told of room. */
void rc_forget_room(struct pst_endpoint *endpoint);

/* reconnect.c */
void rc_reconnect_step(struct pst_endpoint *endpoint);
void rc_reconnect_greet(struct pst_endpoint *endpoint);
/* The peer's hello has come by this queue pair. */
void rc_reconnect_heard(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said);
/* Something else has come by it. Before a hello it is what an old queue pair of the peer repeats.
 */
void rc_reconnect_met(struct pst_endpoint *endpoint, const struct rc_lane *lane);
/* A receive of a queue pair that was set up anew has come back: it has failed once more. */
void rc_reconnect_flushed(struct pst_endpoint *endpoint);
#define RC_RECONNECT_AGAIN_NS UINT64_C(100000000) /* where the path is not there */
/* `number` is of this end's try, `answers` of the peer's; from 1 to 15, or 0 for none. */
uint32_t rc_reconnect_hello(uint64_t messages, uint64_t credits, uint32_t number, uint32_t answers);
/* What the peer has received by queue pair `by`, as its hello says, is not sent again. NULL, or why
 * the connection cannot go on. */
const char *rc_reconnect_drop_what_arrived(struct pst_endpoint *endpoint, uint32_t by,
                                           uint32_t said);
void rc_reconnect_look(struct pst_endpoint *endpoint, uint64_t now_ns);

/* arrive.c: a message has arrived; as many as come one after the other, at `worker->wc_at`, where
 * nothing else is to be seen to. Returns how many. */
void rc_arrived(struct pst_endpoint *endpoint, const struct ibv_wc *wc, struct rc_out *out);
/* Likewise, of several queue pairs, messages that waited for their turn, of which there is at least
 * one. Returns how many; 0: the connection fails. */
uint32_t rc_arrived_row(struct pst_endpoint *endpoint, const struct ibv_wc *wc, uint32_t n,
                        struct rc_out *out);
uint32_t rc_arrived_in_line(struct pst_endpoint *endpoint, uint32_t most, struct rc_out *out);

/* credit.c */
void rc_credit_send(struct pst_endpoint *endpoint);
/* What a credit message holds. False: it makes no sense. */
bool rc_credit_take(struct pst_endpoint *endpoint, const uint8_t *bytes, uint32_t length);

/* fail.c: an endpoint begins to connect, with counters that are 0.1 s old at most; what of them
 * has grown since then, in words. */
int rc_since_begin(struct pst_endpoint *endpoint, uint64_t now_ns);
void rc_since_end(struct pst_endpoint *endpoint);

/* close.c: the end. */
/* What a peer that has left has not answered within the stream's timeout is given up. */
void rc_left_look(struct pst_endpoint *endpoint, uint64_t now_ns);
/* A step further. True: it can be freed. */
bool rc_close_step(struct pst_endpoint *endpoint, uint64_t now_ns);
/* When it ends, though the device has not given all back. */
uint64_t rc_close_due(const struct pst_endpoint *endpoint);
/* Likewise: the end can be told. */
bool rc_gone_step(struct pst_endpoint *endpoint, uint64_t now_ns);
void rc_endpoint_free(struct pst_endpoint *endpoint);

#endif
