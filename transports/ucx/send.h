/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs: several small ones in an active message, a long one in several, or fetched by the peer. */
#ifndef UCX_SEND_H
#define UCX_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "wire.h"

/* A message that is longer than an active message, or a WRITE, while it is cut. */
struct ucx_fragments {
  ucp_dt_iov_t sources[PST_CPU_PIECES_MAX];
  struct ucx_header header;
  uint64_t offset; /* bytes that went */
  uint64_t part;   /* bytes of each part but the last */
  uint64_t unit;
  uint32_t source, count; /* the piece that is next, of count */
  uint64_t source_offset;
  bool is_open;
};

/* Start SENDs that have been judged by ucx_send_check(), as many of n as there is credit and room
 * for. Returns how many; *why (enum pst_wait) is what was short. */
uint32_t ucx_send_start(struct pst_endpoint *endpoint, const struct pst_request *requests,
                        uint32_t n, uint32_t *why);
/* May post() take this SEND? 0 or -errno. */
int ucx_send_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* A WRITE of bytes, by messages: no other message is cut now. */
void ucx_send_write(struct pst_endpoint *endpoint, const struct pst_request *request);
/* Go on with a message that is cut in parts. */
void ucx_send_step(struct pst_endpoint *endpoint);
/* Cancels the rest of a message of which parts were sent. */
void ucx_send_cancel(struct pst_endpoint *endpoint, int32_t status);

#endif
