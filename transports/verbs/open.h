/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as the transports of verbs open them. */
#ifndef VERBS_OPEN_H
#define VERBS_OPEN_H

#include "transport.h"

#define VB_PIECES_MAX 30u /* of one request, at most */

/* The device that the options name, with the protection domain of its own. `capabilities`: the
 * transport's, of which the device may lack some. *device is zero but for the transport's own
 * options. 0 or -errno, logged; vb_device_close() ends it in either case. */
int vb_device_open(struct pst_device *device, const struct pst_host *host,
                   const struct vb_transport *transport, const struct pst_open_params *params,
                   uint64_t capabilities);
void vb_device_close(struct pst_device *device);
/* Reads where the port is now: an endpoint's address must be up to date. 0 or -errno, logged. */
int vb_device_place(struct pst_device *device, struct vb_port_address *place);

#endif
