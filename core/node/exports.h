/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of ours on offer to a peer. */
#ifndef PST_NODE_EXPORTS_H
#define PST_NODE_EXPORTS_H

#include "peer.h"

/* The peer's answer. */
void offer_taken(struct pst_peer *peer, uint32_t id, int code, const char *text);
void offer_drop_all(struct pst_peer *peer);

#endif
