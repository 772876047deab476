/* SPDX-License-Identifier: Apache-2.0 */
/* UCX's statuses as errno and in words. */
#ifndef UCX_STATUS_H
#define UCX_STATUS_H

#include <penstock/plugin.h>
#include <ucs/type/status.h>

/* -errno of what UCX reports. */
int ucx_status_errno(ucs_status_t status);
/* Returns the remedy for a status, a whole clause. */
const char *ucx_status_remedy(ucs_status_t status);

/* Passes UCX's log to the host's: its errors and warnings at info, since the function that decides
 * an error here logs it; the rest at debug. Once in a process. */
void ucx_log_take(const struct pst_host *host);
/* From now on, warnings of UCX on this thread go to `text` instead; NULL: no more. */
void ucx_log_keep(char *text, size_t size);

#endif
