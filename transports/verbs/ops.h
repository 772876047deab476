/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a transport that those of verbs share, as the host calls them: penstock/transport.h
 * says what each does. */
#ifndef VERBS_OPS_H
#define VERBS_OPS_H

#include "transport.h"

int vb_register(struct pst_device *device, const struct pst_mr_params *params, struct pst_mr **mr);
void vb_deregister(struct pst_device *device, struct pst_mr *mr);
int vb_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void vb_worker_close(struct pst_worker *worker);
int vb_arm(struct pst_worker *worker);
int vb_event_fd(struct pst_worker *worker);
int vb_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
void vb_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int vb_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int vb_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int vb_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
/* IBV_ACCESS_RELAXED_ORDERING or 0, of a range with these rights (enum pst_access). */
int vb_relaxed(const struct pst_device *device, uint32_t access);
int vb_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int vb_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote);
void vb_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);

/* Operations that the tables of all transports of verbs have. */
#define VB_OPS                                                                                     \
  .struct_size = sizeof(struct pst_transport_ops), .mr_register = vb_register,                     \
  .mr_deregister = vb_deregister, .mr_pack = vb_mr_pack, .remote_open = vb_remote_open,            \
  .remote_close = vb_remote_close, .worker_open = vb_worker_open, .worker_close = vb_worker_close, \
  .arm = vb_arm, .event_fd = vb_event_fd, .ring_close = vb_ring_close, .poll = vb_poll,            \
  .release = vb_release

#endif
