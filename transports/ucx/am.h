/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages: from a link's pools, to UCX, and back. */
#ifndef UCX_AM_H
#define UCX_AM_H

#include <stdbool.h>
#include <stddef.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

#include "link.h"
#include "wire.h"

#define UCX_BATCH_MAX 128u   /* messages of one active message */
#define UCX_SOURCES_MAX 136u /* pieces of memory of one: a batch, or a request of 64 pieces */
#define UCX_WINDOW 32u       /* active messages with payload under way on a link */
#define UCX_CONTROLS 16u     /* others under way */
#define UCX_HELLO_BYTES 512u /* behind its header: more than UCX sends as a short one */

/* An active message under way. UCX reads header and sources until it has ended. */
struct ucx_am {
  struct ucx_header header;
  struct ucx_link *link;
  struct ucx_am *next; /* in its pool */
  uint64_t bytes;      /* behind the header */
  uint64_t unit;       /* of the SENDs, or the WRITE, it carries */
  uint32_t source_count;
  bool has_unit;
  bool is_void; /* its sources are the host's again */
  bool is_read; /* UCX, or the peer, reads its sources until it ends: it cannot be taken back */
  ucp_dt_iov_t *sources;
  struct ucx_record *records;
  uint8_t *gathered; /* NULL, or room for the bytes behind the header */
};

/* 0 or -ENOMEM. */
int ucx_ams_open(struct ucx_link *link, bool with_payload);
void ucx_ams_close(struct ucx_link *link);
/* UCX has none of them any more, whatever it has called back for. */
void ucx_ams_reset(struct ucx_link *link);

/* From now on they are sent from a buffer of their own of `bytes` each, where there is memory for
 * that: none is under way. */
void ucx_ams_gather(struct ucx_link *link, uint64_t bytes);

/* NULL: all are under way. Its header is all 0. */
struct ucx_am *ucx_am_take(struct ucx_link *link);
/* Gives back a buffer that was taken and not sent. */
void ucx_am_give(struct ucx_am *am);
static inline bool ucx_am_is_free(const struct ucx_link *link)
{
  return link->free_ams != NULL;
}

/* Writes the pieces of a request as UCX's sources; returns how many. */
uint32_t ucx_am_sources(ucp_dt_iov_t *to, const struct pst_request *request);
/* Hand it to UCX: its sources are copied into UCX's buffer now, or in a later progress. Its unit
 * has been begun, or has one part more. A failure fails the link. */
void ucx_am_send(struct ucx_am *am);
/* The same of one whose bytes lie in `gathered` already. */
void ucx_am_send_gathered(struct ucx_am *am);
/* Sends an active message whose sources, memory of this type, the receiver fetches. `memh` is that
 * of the only source, or NULL: without one UCX registers the memory each time. */
void ucx_am_offer(struct ucx_am *am, ucs_memory_type_t type, ucp_mem_h memh);
/* A header alone. False: none is free. */
bool ucx_am_control(struct ucx_link *link, const struct ucx_header *header);

/* Makes active messages that UCX has not copied yet carry nothing, and ends their SENDs with this
 * status. Those that the receiver fetches go on. */
void ucx_ams_void(struct ucx_link *link, int32_t status);
/* The datatype that ucx_am_send() sends. */
ucs_status_t ucx_am_datatype(ucp_datatype_t *datatype);

#endif
