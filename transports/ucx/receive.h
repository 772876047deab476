/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages of a peer, and what the peer is owed for them. */
#ifndef UCX_RECEIVE_H
#define UCX_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

struct ucx_link;

/* A message that is arriving or has arrived, by its position. */
struct ucx_arrival {
  struct ucx_link *link; /* it is fetched; else NULL */
  uint64_t sequence;
  uint64_t meta;
  uint64_t left;   /* bytes to come */
  uint64_t writes; /* UCX_WRITEs that come before it */
  uint32_t slot;
  uint32_t length;
  bool is_open; /* it has a slot */
};

/* The peer breaks the protocol: the end. */
ucs_status_t ucx_receive_refuse(struct ucx_link *link, const char *why);
/* UCX calls it for each active message, inside ucp_worker_progress(). */
ucs_status_t ucx_receive(void *arg, const void *header, size_t header_length, void *data,
                         size_t length, const ucp_am_recv_param_t *param);
/* Slots of messages that have not come whole are free again; those being fetched with the link's
 * end. */
void ucx_receive_end(struct pst_endpoint *endpoint);
/* Give up to max MESSAGEs, in the order of their SENDs. */
uint32_t ucx_receive_take(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max);
/* Is the next one there? */
bool ucx_receive_is_pending(const struct pst_endpoint *endpoint);
/* Has ucx_receive_step() something to send? */
bool ucx_receive_owes(const struct pst_endpoint *endpoint);
/* Credits, and answers to FLUSH. */
void ucx_receive_step(struct pst_endpoint *endpoint);

#endif
