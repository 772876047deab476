/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint meets its peer, connect.c, and how it ends, end.c. */
#ifndef DC_CONNECTION_H
#define DC_CONNECTION_H

#include "endpoint.h"

#define DC_REASON 256u
/* Why the port's GID is the one that it is. */
const char *dc_gid_reason(const struct dc_endpoint *dc, char text[DC_REASON]);

/* Writes the endpoint's own address. */
void dc_local_address(const struct dc_endpoint *dc, struct dc_blob *own);
/* A hello with that value. False: it is a stranger's. */
bool dc_hear_hello(struct dc_endpoint *dc, uint32_t value);
/* Others may connect to that peer; of one that has none, nothing happens. */
void dc_forget_peer(struct dc_endpoint *dc);
/* The peer's device has answered that request, and with it all before. */
void dc_answered(struct dc_endpoint *dc, uint64_t index);
/* Connects the endpoint once each end has heard the other. */
void dc_met(struct dc_endpoint *dc);
void dc_enter(struct dc_endpoint *dc, enum dc_stage stage);

void dc_left(struct dc_endpoint *dc, int status);
/* True: it can be freed. */
bool dc_close_step(struct dc_endpoint *dc, uint64_t now_ns);

#endif
