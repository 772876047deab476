/* SPDX-License-Identifier: Apache-2.0 */
/* Links: a ucp_worker with one ucp_ep, from endpoint_open to after CLOSED. */
#ifndef UCX_LINK_H
#define UCX_LINK_H

#include "ucx.h"

/* 0; -ENOMEM, -ENODEV or what UCX says, logged with `label`. */
int ucx_link_open(struct pst_worker *worker, const char *label, ucp_am_recv_callback_t receive,
                  bool with_payload, struct ucx_link **link);
/* The ucp_ep to a peer. 0; -EPROTO, -EHOSTUNREACH, logged. */
int ucx_link_connect(struct ucx_link *link, const ucp_address_t *address);
/* Its endpoint is closed: it stays with the worker until the peer has what was sent. */
void ucx_link_leave(struct ucx_link *link);
/* Links that leave: send what is owed, and free those that are done with. */
void ucx_links_step(struct pst_worker *worker, uint64_t now_ns);
/* When the first one is given up; UINT64_MAX: there is none. */
uint64_t ucx_links_deadline_ns(const struct pst_worker *worker);
/* Free all of them now. Blocks. */
void ucx_links_free(struct pst_worker *worker);
/* None of them writes to `ring` any more. */
void ucx_links_leave_ring(struct pst_worker *worker, const struct pst_ring *ring);

#endif
