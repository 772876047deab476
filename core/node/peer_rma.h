/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a peer's regions; engine/rma.h has the requests. */
#ifndef PST_NODE_PEER_RMA_H
#define PST_NODE_PEER_RMA_H

#include "peer.h"

struct node_remote;

/* Objects that the operation in a slot uses. */
struct node_use {
  struct node_remote *remote; /* FLUSH: NULL */
  struct pst_area *area;      /* NULL: there is none, or there are pieces */
};

int peer_rma_open(struct pst_peer *peer);
void peer_rma_close(struct pst_peer *peer);
/* node->batch; free() ends it. 0 or -ENOMEM. */
int peer_rma_open_batch(struct pst_node *node);
/* A DONE of operations. False: of none that is under way. */
bool peer_rma_done(struct pst_peer *peer, const struct pst_completion *completion);
/* An area, or a region of the peer's, is about to go: the next operation is checked in full. */
static inline void operate_forget_run(struct pst_peer *peer)
{
  peer->run = (struct plain_run){0};
}
bool peer_rma_has_room(const struct pst_peer *peer);
/* Operations under way that name the area, or (NULL) the remote: asked seldom, and so not counted
 * by those that come and go often. */
uint32_t peer_rma_names(const struct pst_peer *peer, const struct pst_area *area,
                        const struct node_remote *remote);

#endif
