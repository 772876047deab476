/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's memory, and its key. */
#ifndef UCX_REMOTE_H
#define UCX_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

struct ucx_link;

struct pst_remote {
  struct pst_remote *next; /* of the link's */
  ucp_rkey_h rkey;
  uint64_t address;
  uint64_t length;
  uint32_t access; /* enum pst_access */
  bool by_cpu;     /* its owner's CPU reaches it */
  const struct ucx_link *link;
};

#endif
