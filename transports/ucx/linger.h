/* SPDX-License-Identifier: Apache-2.0 */
/* Links whose worker is closed, and whose peers live and have no room for the BYE. */
#ifndef UCX_LINGER_H
#define UCX_LINGER_H

#include <stdbool.h>
#include <stdint.h>

struct pst_device;
struct ucx_link;

/* The link, which is on no worker's list any more, is the keeper's until its peer has been told or
 * has died. False: it cannot be kept. */
bool ucx_linger_take(struct pst_device *device, struct ucx_link *link);
/* Before the device closes: waits for those whose time, UCX_LINGER_NS and `linger` since their
 * CLOSED, is not over; then none is left. Blocks. */
void ucx_linger_close(struct pst_device *device);

#endif
