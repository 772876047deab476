/* SPDX-License-Identifier: Apache-2.0 */
/* When a queue pair takes no more shared receives: last_wqe.c. */
#ifndef RC_LAST_WQE_H
#define RC_LAST_WQE_H

#include "../verbs/srq.h"
#include "endpoint.h"

/* Notes that the queue pair may take entries from now on. */
void rc_last_wqe_begin(struct pst_endpoint *endpoint);
/* By poll: has it given all back? Then rq.posted is 0. */
void rc_last_wqe_step(struct pst_endpoint *endpoint);
/* False: it is another's completion than that of what was posted in ERR. */
bool rc_last_wqe_flushed(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
/* By the transport's look(). */
void rc_last_wqe_look(struct pst_endpoint *endpoint, uint64_t now_ns);
/* Asks for a poll if vb_events() has left the queue pair's event. */
void rc_last_wqe_notice(struct pst_endpoint *endpoint);

#endif
