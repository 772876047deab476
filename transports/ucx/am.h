/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages: from a link's pools, to UCX, and back. */
#ifndef UCX_AM_H
#define UCX_AM_H

#include "ucx.h"

/* 0 or -ENOMEM. */
int ucx_ams_open(struct ucx_link *link, bool with_payload);
void ucx_ams_close(struct ucx_link *link);
/* UCX has none of them any more, whatever it has called back for. */
void ucx_ams_reset(struct ucx_link *link);

/* NULL: all are under way. Its header is all 0. */
struct ucx_am *ucx_am_take(struct ucx_link *link);
static inline bool ucx_am_is_free(const struct ucx_link *link)
{
  return link->free_ams != NULL;
}

/* Hand it to UCX: its sources are copied into UCX's buffer now, or in a later progress. Its unit
 * has been begun, or has one part more. A failure fails the link. */
void ucx_am_send(struct ucx_am *am);
/* The receiver fetches its sources, which are memory of this type. */
void ucx_am_offer(struct ucx_am *am, ucs_memory_type_t type);
/* A header alone. False: none is free. */
bool ucx_am_control(struct ucx_link *link, const struct ucx_header *header);

/* What UCX has not copied yet carries nothing any more, and its SENDs end with this status.
 * Those that the receiver fetches go on. */
void ucx_ams_void(struct ucx_link *link, int32_t status);
/* The datatype that ucx_am_send() sends. */
ucs_status_t ucx_am_datatype(ucp_datatype_t *datatype);

#endif
