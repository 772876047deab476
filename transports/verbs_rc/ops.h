/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the transport, as the host calls them, that verbs has not: penstock/transport.h
 * says what each does. */
#ifndef RC_OPS_H
#define RC_OPS_H

#include "../verbs/ops.h"
#include "../verbs/transport.h"

int rc_open(const struct pst_host *host, const struct vb_transport *transport,
            const struct pst_open_params *params, struct pst_device **device);
void rc_close(struct pst_device *device);
int rc_limits(struct pst_device *device, struct pst_limits *limits);
int rc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
int rc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int rc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int rc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
/* Reads the port's counters. One warning a device where they tell of a link that is slow; none once
 * an endpoint has failed, or a hello has found nobody. */
void rc_tell_slow(struct pst_device *device);
int rc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int rc_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
