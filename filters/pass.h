/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a filter hands to what it wraps just as they came: registrations, rings and
 * tokens are the inner transport's own. A file that includes this has defined
 *   struct pst_device with `ops` and `inner`,
 *   struct pst_worker with `device` and `inner`,
 *   struct pst_endpoint with `worker` and `inner`.
 * No state of its own; what the plugin's copy of it does not use costs nothing.
 */
#ifndef FILTERS_PASS_H
#define FILTERS_PASS_H

#include <errno.h>
#include <stdlib.h>

#include <penstock/transport.h>

static inline const struct pst_transport_ops *pass_ops(const struct pst_endpoint *endpoint)
{
  return endpoint->worker->device->ops;
}

/* ---- Devices ------------------------------------------------------------------ */

static inline int pass_start(struct pst_device *device)
{
  return device->ops->start ? device->ops->start(device->inner) : 0;
}

static inline int pass_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                                   struct pst_mr **mr)
{
  return device->ops->mr_register(device->inner, params, mr);
}

static inline void pass_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  device->ops->mr_deregister(device->inner, mr);
}

static inline int pass_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  return device->ops->mr_pack(device->inner, mr, blob);
}

static inline int pass_counters(struct pst_device *device, struct pst_worker *worker,
                                struct pst_endpoint *endpoint, struct pst_counter *counters,
                                uint32_t max)
{
  return device->ops->counters(device->inner, worker ? worker->inner : NULL,
                               endpoint ? endpoint->inner : NULL, counters, max);
}

/* ---- Workers and rings ---------------------------------------------------------- */

/* A worker of the filter's around a new one of the inner transport. */
static inline int pass_worker_open(struct pst_device *device, uint32_t index,
                                   struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->device = device;
  int rc = device->ops->worker_open(device->inner, index, &made->inner);
  if (rc != 0) {
    free(made);
    return rc;
  }
  *worker = made;
  return 0;
}

static inline int pass_event_fd(struct pst_worker *worker)
{
  return worker->device->ops->event_fd(worker->inner);
}

static inline int pass_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                                 struct pst_path_info *path, struct pst_ring **ring)
{
  return worker->device->ops->ring_open(worker->inner, params, path, ring);
}

static inline void pass_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  worker->device->ops->ring_close(worker->inner, ring);
}

static inline int pass_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  return worker->device->ops->release(worker->inner, tokens, n);
}

/* ---- Endpoints: without an inner one, they are cut off ----------------------------- */

static inline int pass_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  return endpoint->inner ? pass_ops(endpoint)->endpoint_address(endpoint->inner, address)
                         : -ECONNRESET;
}

static inline int pass_endpoint_connect(struct pst_endpoint *endpoint,
                                        const struct pst_blob *address)
{
  return endpoint->inner ? pass_ops(endpoint)->endpoint_connect(endpoint->inner, address)
                         : -ECONNRESET;
}

static inline int pass_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  return endpoint->inner ? pass_ops(endpoint)->endpoint_path(endpoint->inner, path) : -ECONNRESET;
}

static inline int pass_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode,
                                      uint64_t deadline_ns)
{
  return pass_ops(endpoint)->endpoint_close(endpoint->inner, mode, deadline_ns);
}

static inline int pass_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                                   struct pst_remote **remote)
{
  return endpoint->inner ? pass_ops(endpoint)->remote_open(endpoint->inner, blob, remote)
                         : -ENOTCONN;
}

static inline void pass_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  if (endpoint->inner)
    pass_ops(endpoint)->remote_close(endpoint->inner, remote);
}

static inline int pass_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  return pass_ops(endpoint)->describe(endpoint->inner, text, size);
}

#endif
