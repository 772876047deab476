/* SPDX-License-Identifier: Apache-2.0 */
/* Which transports UCX has chosen: only print_info shows them. */
#ifndef UCX_LANES_H
#define UCX_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

struct ucx_lanes {
  char names[192];    /* "posix/memory cma/memory", each once, in UCX's order */
  uint64_t eager_max; /* bytes of an active message in one piece; 0: not said */
};

void ucx_lanes_read(ucp_ep_h ep, struct ucx_lanes *lanes);
/* Is a transport of this name, "rc" for instance, among them? One that begins so counts. */
bool ucx_lanes_has(const char *names, const char *name);
/* Transports of a context, by name: "posix sysv tcp". */
void ucx_transports_read(ucp_context_h context, char *names, size_t size);

#endif
