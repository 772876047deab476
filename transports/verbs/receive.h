/* SPDX-License-Identifier: Apache-2.0 */
/* What a receiver does: messages arrive, and credit goes back to the sender. */
#ifndef VERBS_RECEIVE_H
#define VERBS_RECEIVE_H

#include "endpoint.h"

/* arrival.c: a message has arrived; as many as come one after the other, at `worker->wc_at`, where
 * nothing else is to be seen to. Returns how many. */
void vb_arrived(struct pst_endpoint *endpoint, const struct ibv_wc *wc, struct vb_out *out);
/* Likewise, of several queue pairs, messages that waited for their turn, of which there is at least
 * one. Returns how many; 0: the connection fails. */
uint32_t vb_arrived_row(struct pst_endpoint *endpoint, const struct ibv_wc *wc, uint32_t n,
                        struct vb_out *out);
uint32_t vb_arrived_in_line(struct pst_endpoint *endpoint, uint32_t most, struct vb_out *out);

/* Of several queue pairs: as vb_arrived_in_line(), where the next `n` come by the queue pair of the
 * first of them. Returns how many are as they have to be. */
uint32_t vb_arrived_by_one(struct pst_endpoint *endpoint, const struct ibv_wc *wc, uint32_t n,
                           struct vb_out *out);

/* credit.c: memory for credit messages of either direction; then, once the queue pair is there,
 * what they are sent from. 0 or -errno, which is logged. */
int vb_credit_open(struct pst_endpoint *endpoint);
int vb_credit_open_sends(struct pst_endpoint *endpoint);
void vb_credit_close(struct pst_endpoint *endpoint);
void vb_credit_send(struct pst_endpoint *endpoint);
/* What a credit message holds. False: it makes no sense. */
bool vb_credit_take(struct pst_endpoint *endpoint, const uint8_t *bytes, uint32_t length);

#endif
