/* SPDX-License-Identifier: Apache-2.0 */
/* The operations. */
#ifndef UDP_OPS_H
#define UDP_OPS_H

#include <penstock/transport.h>

int udp_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device);
void udp_close(struct pst_device *device);
int udp_limits(struct pst_device *device, struct pst_limits *limits);
int udp_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr);
int udp_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void udp_worker_close(struct pst_worker *worker);
int udp_arm(struct pst_worker *worker);
int udp_event_fd(struct pst_worker *worker);
int udp_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring);
void udp_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int udp_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint);
int udp_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int udp_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int udp_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int udp_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait);
int udp_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int udp_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int udp_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);
int udp_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
