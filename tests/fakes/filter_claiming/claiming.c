/* SPDX-License-Identifier: Apache-2.0 */
/* A filter, for tests: it says of the transport that it wraps what its options say. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

enum { PATH_OWN, PATH_STAGED }; /* choices of `path` */

#define LENT_MAX 64

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  uint64_t path, path_after;
  uint64_t address_max, remote_max;
  uint64_t loses, endpoint_drops, worker_drops, device_drops;
  bool lends;
  struct pst_region lent[LENT_MAX];
};

struct pst_worker {
  struct pst_device *device;
  struct pst_worker *inner;
  struct pst_endpoint *endpoints;
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_endpoint *inner;
  struct pst_endpoint *next;
  uint64_t cookie;
  uint64_t lost, carried;
};

#include "../wrap.h"

static int claiming_open(const struct pst_host *host, const struct pst_open_params *params,
                         struct pst_device **device)
{
  struct pst_device *made;
  int rc = wrap_begin(host, params, "claiming", &made);

  if (rc != 0)
    return rc;
  made->path = host->option_uint(params->options, "path");
  made->path_after = host->option_uint(params->options, "path_after");
  made->address_max = host->option_uint(params->options, "address_max");
  made->remote_max = host->option_uint(params->options, "remote_max");
  made->loses = host->option_uint(params->options, "loses");
  made->endpoint_drops = host->option_uint(params->options, "endpoint_drops");
  made->worker_drops = host->option_uint(params->options, "worker_drops");
  made->device_drops = host->option_uint(params->options, "device_drops");
  made->lends = host->option_uint(params->options, "lends");
  return wrap_finish(params, made, device);
}

static int claiming_limits(struct pst_device *device, struct pst_limits *limits)
{
  int rc = device->ops->limits(device->inner, limits);

  if (rc == 0 && device->loses)
    limits->capabilities &= ~(uint64_t)PST_CAP_RELIABLE;
  if (rc == 0 && device->address_max)
    limits->address_max = (uint32_t)device->address_max;
  if (rc == 0 && device->remote_max)
    limits->remote_max = (uint32_t)device->remote_max;
  return rc;
}

static int claiming_arm(struct pst_worker *worker)
{
  return worker->device->ops->arm(worker->inner);
}

static int claiming_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  int rc = pass_endpoint_path(endpoint, path);

  if (rc == 0 && endpoint->worker->device->path == PATH_STAGED &&
      endpoint->carried >= endpoint->worker->device->path_after) {
    path->path = PST_PATH_STAGED;
    snprintf(path->reason, sizeof(path->reason), "its peer is not on this host");
  }
  return rc;
}

static int claiming_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                         uint32_t n, uint32_t *wait)
{
  int taken = pass_ops(endpoint)->post(endpoint->inner, requests, n, wait);

  endpoint->carried += taken > 0 ? (uint64_t)taken : 0;
  return taken;
}

/* The region as this filter claims that it is. */
static void claim_lent(struct pst_device *device, struct pst_completion *completion)
{
  struct pst_region *lent = &device->lent[completion->u.region.buffer % LENT_MAX];

  *lent = *completion->u.region.region;
  lent->kind = PST_MEMORY_CUDA;
  strcpy(lent->device, "GPU-claimed");
  completion->u.region.region = lent;
}

static void claim_event(struct pst_worker *worker, struct pst_completion *completion)
{
  if (completion->code == PST_EVENT_CLOSED)
    wrap_forget(worker, completion->endpoint);
  else if (completion->code == PST_EVENT_LENT && worker->device->lends)
    claim_lent(worker->device, completion);
}

static bool claim_lost(struct pst_worker *worker, const struct pst_completion *completion)
{
  struct pst_endpoint *endpoint = worker->endpoints;

  while (endpoint && endpoint->cookie != completion->endpoint)
    endpoint = endpoint->next;
  if (completion->kind != PST_COMPLETION_MESSAGE || !endpoint)
    return false;
  endpoint->carried++;
  if (endpoint->lost == worker->device->loses)
    return false;
  endpoint->lost++;
  worker->device->ops->release(worker->inner, &completion->u.message.token, 1);
  return true;
}

static int claiming_poll(struct pst_worker *worker, struct pst_completion *completions,
                         uint32_t max)
{
  int n = worker->device->ops->poll(worker->inner, completions, max);

  int kept = 0;

  for (int i = 0; i < n; i++) {
    if (completions[i].kind == PST_COMPLETION_EVENT)
      claim_event(worker, &completions[i]);
    if (!claim_lost(worker, &completions[i]))
      completions[kept++] = completions[i];
  }
  return n < 0 ? n : kept;
}

/* The inner transport's, and what is claimed of this level. */
static int claiming_counters(struct pst_device *device, struct pst_worker *worker,
                             struct pst_endpoint *endpoint, struct pst_counter *counters,
                             uint32_t max)
{
  const char *cause = endpoint ? "endpoint_full" : worker ? "worker_full" : "device_full";
  uint64_t drops = endpoint ? device->endpoint_drops
                   : worker ? device->worker_drops
                            : device->device_drops;
  int n = pass_counters(device, worker, endpoint, counters, max);

  if (n < 0)
    n = 0;
  if (drops && (uint32_t)n < max)
    counters[n] = (struct pst_counter){cause, cause, drops, PST_COUNTER_DROP};
  return drops ? n + 1 : n;
}

static const struct pst_transport_ops claiming_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = claiming_open,
    .close = wrap_close,
    .limits = claiming_limits,
    .mr_register = pass_mr_register,
    .mr_deregister = pass_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = wrap_worker_close,
    .arm = claiming_arm,
    .event_fd = pass_event_fd,
    .ring_open = pass_ring_open,
    .ring_close = pass_ring_close,
    .endpoint_open = wrap_endpoint_open,
    .endpoint_address = pass_endpoint_address,
    .endpoint_connect = pass_endpoint_connect,
    .endpoint_path = claiming_endpoint_path,
    .post = claiming_post,
    .poll = claiming_poll,
    .release = pass_release,
    .counters = claiming_counters,
    .describe = pass_describe,
    .start = pass_start,
    .endpoint_close = pass_endpoint_close,
};

PST_PLUGIN(wrap_probe, &claiming_ops);
