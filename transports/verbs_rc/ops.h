/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the transport, as the host calls them: penstock/transport.h says what each
 * does. */
#ifndef RC_OPS_H
#define RC_OPS_H

#include "device.h"

int rc_open(const struct pst_host *host, const struct pst_open_params *params,
            struct pst_device **device);
void rc_close(struct pst_device *device);
int rc_limits(struct pst_device *device, struct pst_limits *limits);
int rc_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr);
void rc_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int rc_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void rc_worker_close(struct pst_worker *worker);
int rc_arm(struct pst_worker *worker);
int rc_event_fd(struct pst_worker *worker);
int rc_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
void rc_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int rc_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int rc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
int rc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int rc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int rc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int rc_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int rc_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
/* Reads the port's counters. One warning a device where they tell of a link that is slow; none once
 * an endpoint has failed, or a hello has found nobody. */
void rc_tell_slow(struct pst_device *device);
/* IBV_ACCESS_RELAXED_ORDERING or 0, of a range with these rights (enum pst_access). */
int rc_relaxed(const struct pst_device *device, uint32_t access);
int rc_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int rc_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote);
void rc_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);
int rc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int rc_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
