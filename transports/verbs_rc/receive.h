/* SPDX-License-Identifier: Apache-2.0 */
/* What a receiver does: messages arrive, and credit goes back to the sender. */
#ifndef RC_RECEIVE_H
#define RC_RECEIVE_H

#include "endpoint.h"

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

#endif
