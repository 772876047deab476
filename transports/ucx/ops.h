/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, each by the file that has it. */
#ifndef UCX_OPS_H
#define UCX_OPS_H

#include <penstock/transport.h>

/* device.c */
int ucx_probe(const struct pst_host *host, struct pst_probe *probe);
int ucx_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device);
void ucx_close(struct pst_device *device);
int ucx_limits(struct pst_device *device, struct pst_limits *limits);

/* mr.c */
int ucx_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr);
void ucx_mr_deregister(struct pst_device *device, struct pst_mr *mr);

/* remote.c */
int ucx_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int ucx_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                    struct pst_remote **remote);
void ucx_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);

/* worker.c */
int ucx_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void ucx_worker_close(struct pst_worker *worker);
int ucx_event_fd(struct pst_worker *worker);

/* sleep.c */
int ucx_arm(struct pst_worker *worker);

/* ring.c */
int ucx_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring);
void ucx_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int ucx_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);

/* endpoint.c */
int ucx_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint);
int ucx_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
void ucx_endpoint_free(struct pst_endpoint *endpoint);

/* connect.c */
int ucx_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);

/* path.c */
int ucx_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int ucx_describe(struct pst_endpoint *endpoint, char *text, size_t size);

/* post.c, poll.c, counters.c */
int ucx_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait);
int ucx_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int ucx_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);

#endif
