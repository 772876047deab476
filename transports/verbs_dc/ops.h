/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that the host calls, and those that transports/verbs calls: penstock/transport.h and
 * verbs/transport.h say what each does. */
#ifndef DC_OPS_H
#define DC_OPS_H

#include "../verbs/ops.h"
#include "device.h"

int dc_open(const struct pst_host *host, const struct vb_transport *transport,
            const struct pst_open_params *params, struct pst_device **device);
void dc_close(struct pst_device *device);
int dc_limits(struct pst_device *device, struct pst_limits *limits);
struct vb_planned dc_plan_completions(const struct pst_device *device);

int dc_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
int dc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
void dc_endpoint_free(struct pst_endpoint *endpoint);
int dc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int dc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);

int dc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int dc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int dc_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int dc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int dc_describe(struct pst_endpoint *endpoint, char *text, size_t size);

void dc_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
bool dc_received(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out);
struct pst_endpoint *dc_whose(struct pst_worker *worker, const struct ibv_wc *wc);
void dc_work(struct pst_endpoint *endpoint, struct vb_out *out);
void dc_notice(struct pst_endpoint *endpoint);
void dc_look(struct pst_endpoint *endpoint, uint64_t now_ns);
void dc_fail(struct pst_endpoint *endpoint, int status, const char *why);

#endif
