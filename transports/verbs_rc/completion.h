/* SPDX-License-Identifier: Apache-2.0 */
/* RC's operations of struct vb_transport: completion.c, timers.c. */
#ifndef RC_COMPLETION_H
#define RC_COMPLETION_H

#include "endpoint.h"

void rc_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
bool rc_received(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out);
void rc_work(struct pst_endpoint *endpoint, struct vb_out *out);
void rc_notice(struct pst_endpoint *endpoint);
void rc_timers_poll(struct pst_endpoint *endpoint, uint64_t now_ns);

#endif
