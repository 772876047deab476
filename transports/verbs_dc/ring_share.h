/* SPDX-License-Identifier: Apache-2.0 */
/* How endpoints share the slots of a ring: ring_share.c. */
#ifndef DC_RING_SHARE_H
#define DC_RING_SHARE_H

#include "endpoint.h"

/* An endpoint comes. 0 or -ENOSPC: there is none left. */
int dc_share_begin(struct dc_endpoint *dc);
/* Ends an endpoint's share of the ring. */
void dc_share_end(struct dc_endpoint *dc);
/* Slots that the peer is to be granted now. */
uint32_t dc_share_more(const struct dc_endpoint *dc);
/* Counts slots as granted. */
void dc_share_grant(struct dc_endpoint *dc, uint32_t count);
/* Frees the slots that were released. */
void dc_share_settle(struct dc_endpoint *dc);

#endif
