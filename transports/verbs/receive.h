/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving: messages arrive, and credit goes back to the sender. */
#ifndef VERBS_RECEIVE_H
#define VERBS_RECEIVE_H

#include "endpoint.h"

/* How many messages a completion is of: a run is longer than a slot may be. Its slots are a stride
 * apart, and a message of it is at least a byte long and at most a stride. */
static inline uint32_t vb_messages_of(const struct vb_rx *rx, const struct ibv_wc *wc)
{
  const struct pst_ring_params *params = &rx->ring->params;

  if (!rx->has_runs || wc->byte_len <= params->payload_max)
    return 1;
  return (uint32_t)((wc->byte_len - 1) / params->stride) + 1;
}

/* arrival.c: a message, or a run of them, has arrived. False: there are more than there was room
 * for, and `wc` is of these alone. */
bool vb_arrived(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out);
/* As many as come one after the other, at `worker->wc_at`, where nothing else is to be seen to.
 * Returns how many completions of `most`, or 0: it is not of a message, or not told. */
uint32_t vb_arrived_in_line(struct pst_endpoint *endpoint, uint32_t most, struct vb_out *out);
/* With several queue pairs: give out at most `n` messages of completions that came by one of them,
 * or, where these waited for their turn, at least one. Returns how many completions were used up.
 * 0: they are not as they have to be; where they waited, the connection fails then. */
uint32_t vb_arrived_by_one(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs,
                           uint32_t n, struct vb_out *out);
uint32_t vb_arrived_row(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, uint32_t n,
                        struct vb_out *out);

/* credit.c: memory for credit messages of either direction, once the queue pair is there. 0 or
 * -errno, which is logged. */
int vb_credit_open(struct pst_endpoint *endpoint);
void vb_credit_close(struct pst_endpoint *endpoint);
void vb_credit_send(struct pst_endpoint *endpoint);
/* Takes the credit of a credit message. False: it makes no sense. */
bool vb_credit_take(struct pst_endpoint *endpoint, const uint8_t *bytes, uint32_t length);

#endif
