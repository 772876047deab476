/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a connection, noticed by UCX, by the peer's process, or by the clock. */
#ifndef UCX_FAIL_H
#define UCX_FAIL_H

#include <stdint.h>
#include <ucs/type/status.h>

struct ucx_link;

/* UCX reports in `what` that the connection is lost. The first call counts. */
void ucx_link_fail(struct ucx_link *link, ucs_status_t status, const char *what);
/* Ends the link with this -errno, which has been logged already. */
void ucx_link_end(struct ucx_link *link, int32_t status);
/* Let end what needs no peer, copies by the kernel for instance: UCX 1.13 aborts where a ucp_worker
 * is destroyed while such a one is under way. */
void ucx_link_settle(struct ucx_link *link);

#endif
