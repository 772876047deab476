/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint meets its peer, connect.c, and how it ends, end.c. */
#ifndef DC_CONNECTION_H
#define DC_CONNECTION_H

#include "endpoint.h"

/* They have met, if each has heard the other: it is connected. */
void dc_met(struct dc_endpoint *dc);
void dc_enter(struct dc_endpoint *dc, enum dc_stage stage);

void dc_left(struct dc_endpoint *dc, int status);
/* True: it can be freed. */
bool dc_close_step(struct dc_endpoint *dc, uint64_t now_ns);

#endif
