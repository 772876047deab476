/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UCX_FAIL_H
#define UCX_FAIL_H

#include "ucx.h"

/* The connection is no more: UCX says so of `what`. The first call counts. */
void ucx_link_fail(struct ucx_link *link, ucs_status_t status, const char *what);
/* It ends with this -errno, of which somebody has told already. */
void ucx_link_end(struct ucx_link *link, int32_t status);

#endif
