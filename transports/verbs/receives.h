/* SPDX-License-Identifier: Apache-2.0 */
/* Receives that a queue pair has by itself: receives.c. */
#ifndef VERBS_RECEIVES_H
#define VERBS_RECEIVES_H

#include "endpoint.h"

/* Prepares the members that do not change from one post of receives to the next: without `mr` they
 * have no buffers. */
void vb_receives_open(struct vb_receives *receives, uint64_t wr_id, uint32_t length,
                      const struct ibv_mr *mr);
/* Posts the receives without buffers that are missing. 0 or -errno. */
int vb_receives_restore(struct pst_endpoint *endpoint, struct vb_receive_queue *rq);
/* Posts the receive of that buffer of credit again. 0 or -errno. */
int vb_receive_again(struct pst_endpoint *endpoint, uint32_t buffer);
/* By SEND: posts receives for the slots that are granted. 0 or -errno. */
int vb_slots_post(struct pst_endpoint *endpoint);
/* By SEND: posts receives for the slots that were released. 0 or -errno. */
int vb_slots_post_back(struct pst_endpoint *endpoint);
/* By SEND: posts a receive for the next slot to be filled, whose receive another message took. 0 or
 * -errno. */
int vb_slot_again(struct pst_endpoint *endpoint);
/* By SEND: posts a receive without a slot. 0 or -errno. */
int vb_receive_spare(struct pst_endpoint *endpoint);

static inline uint8_t *vb_receive_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return endpoint->buffers->control + (size_t)buffer * endpoint->credit_bytes;
}

#endif
