/* SPDX-License-Identifier: Apache-2.0 */
/* Links: a ucp_worker with one ucp_ep, from endpoint_open to after CLOSED. */
#ifndef UCX_LINK_H
#define UCX_LINK_H

#include "ucx.h"

/* 0; -ENOMEM, -ENODEV or what UCX says, logged with `label`. */
int ucx_link_open(struct pst_worker *worker, const char *label, ucp_am_recv_callback_t receive,
                  bool with_payload, struct ucx_link **link);
/* It is on no worker's list of those that leave. Blocks for a millisecond. */
void ucx_link_free(struct ucx_link *link);
/* The ucp_ep to the peer of this address of UCX's. 0; -EPROTO, -EHOSTUNREACH, -ENOMEM, logged. */
int ucx_link_connect(struct ucx_link *link, const void *address, size_t length);
/* UCX uses no memory of the host for it any more, and the peer, unless it has gone, hears BYE with
 * ABORT: from UCX, or from a ucp_worker that has nothing else to do. Takes milliseconds. */
void ucx_link_end_requests(struct ucx_link *link);
/* Its endpoint is closed: it stays with the worker until the peer has what was sent. */
void ucx_link_leave(struct ucx_link *link);
/* Links that leave: send what is owed, and free those that are done with. */
void ucx_links_step(struct pst_worker *worker, uint64_t now_ns);
/* When the first one is given up; UINT64_MAX: there is none. */
uint64_t ucx_links_deadline_ns(const struct pst_worker *worker);
/* When the last one would be given up if no peer were seen to live; 0: there is none. */
uint64_t ucx_links_clock_ns(const struct pst_worker *worker);
/* UCX's progress of all of them. */
void ucx_links_progress(struct pst_worker *worker);
/* One that has no clock, since its peer lives and has no room for the BYE, and has lingered: it is
 * on no list any more, and not watched. NULL: there is none. */
struct ucx_link *ucx_links_take_waiting(struct pst_worker *worker, uint64_t now_ns);
/* Free all of them now. Blocks. */
void ucx_links_free(struct pst_worker *worker);
/* None of them writes to `ring` any more. */
void ucx_links_leave_ring(struct pst_worker *worker, const struct pst_ring *ring);

#endif
