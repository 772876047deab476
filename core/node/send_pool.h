/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that messages to peers are sent from. A block holds the slots of several peers, so that a
 * peer costs no allocation and no registration of its own. No peer has rights there. Where a
 * transport lends what is sent, receivers map the block: then each peer has one of its own.
 */
#ifndef PST_NODE_SEND_POOL_H
#define PST_NODE_SEND_POOL_H

#include "engine/region.h"
#include "node.h"

struct send_block {
  struct send_block *next;
  struct region region;
  uint32_t shares;
  uint32_t free_count;
  uint32_t free[]; /* stack of indices */
};

/* The slots of one peer; block NULL: none. */
struct send_share {
  struct send_block *block;
  uint64_t offset; /* of the first slot */
};

/* 0 or -errno; the log says why not. */
int send_share_take(struct pst_node *node, struct send_share *share);
/* Nothing is sent from it any more. The last of a block frees that. */
void send_share_give(struct pst_node *node, struct send_share *share);

#endif
