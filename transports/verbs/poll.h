/* SPDX-License-Identifier: Apache-2.0 */
/* Completions that an endpoint has for its host: poll.c. */
#ifndef VERBS_POLL_H
#define VERBS_POLL_H

#include "endpoint.h"

/* Requests that are done, as many as there is room for. */
void vb_tell_done(struct pst_endpoint *endpoint, struct vb_out *out);
/* Room that a post wanted, and that nothing else reports. */
void vb_tell_room(struct pst_endpoint *endpoint);

#endif
