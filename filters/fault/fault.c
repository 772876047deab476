/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter that injects faults where messages are sent. Everything that is no
 * SEND of a sender's endpoint is the inner transport's.
 */
#include <stdio.h>

#include "endpoint.h"
#include "ops.h"

static int fault_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host, (void)probe;
  return 0;
}

/* Reads the plan from the options. -EINVAL: the rates add up to more than one million. */
static int fault_plan_read(const struct pst_host *host, const struct pst_options *options,
                           struct fault_plan *plan)
{
  const char *const names[FAULT_STALL] = {
      [FAULT_DROP] = "drop_ppm",       [FAULT_DUPLICATE] = "duplicate_ppm",
      [FAULT_REORDER] = "reorder_ppm", [FAULT_CORRUPT] = "corrupt_ppm",
      [FAULT_DELAY] = "delay_ppm",
  };
  uint64_t sum = 0;
  for (int kind = FAULT_DROP; kind < FAULT_STALL; kind++) {
    sum += host->option_uint(options, names[kind]);
    plan->below[kind] = (uint32_t)sum;
  }
  if (sum > FAULT_MILLION)
    return PST_REFUSE(host, -EINVAL,
                      "the rates add up to %llu per million, and a message has one fault at most; "
                      "lower some of drop_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm, delay_ppm",
                      (unsigned long long)sum);
  plan->rates = (uint32_t)sum;
  plan->corrupt = (uint32_t)host->option_uint(options, "corrupt_ppm");
  plan->seed = host->option_uint(options, "seed");
  plan->distance = host->option_uint(options, "distance");
  plan->reorder_ns = host->option_uint(options, "reorder_time");
  plan->delay_ns = host->option_uint(options, "delay_time");
  plan->stall_ns = host->option_uint(options, "stall_time");
  plan->ledger = (uint32_t)host->option_uint(options, "ledger");
  plan->stall_at = plan->kill_at = FAULT_NEVER;
  if (host->option_is_set(options, "stall_at"))
    plan->stall_at = host->option_uint(options, "stall_at");
  if (host->option_is_set(options, "kill_at"))
    plan->kill_at = host->option_uint(options, "kill_at");
  plan->active = sum || plan->stall_at != FAULT_NEVER || plan->kill_at != FAULT_NEVER;
  return 0;
}

static int fault_limits_read(struct pst_device *device, struct pst_limits *limits)
{
  int rc = device->ops->limits(device->inner, limits);
  if (rc == 0 && device->plan.corrupt &&
      limits->struct_size >= offsetof(struct pst_limits, send_needs) + sizeof(limits->send_needs))
    limits->send_needs |= PST_NEED_CPU_ACCESS;
  return rc;
}

static void fault_close(struct pst_device *device)
{
  if (!device)
    return;
  if (device->inner) {
    fault_pool_close(device);
    device->ops->close(device->inner);
  }
  fault_mrs_free(device);
  free(device);
}

static int fault_open(const struct pst_host *host, const struct pst_open_params *params,
                      struct pst_device **device)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  if (!params->inner)
    return PST_REFUSE(host, -EINVAL,
                      "fault wraps a transport and was given none; name it under `filters`, not "
                      "as the plugin of `transport`");
  struct pst_device *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->host = host;
  made->ops = params->inner;
  int rc = fault_plan_read(host, params->options, &made->plan);
  if (rc == 0)
    rc = made->ops->open(params->inner_host, params->inner_params, &made->inner);
  if (rc == 0)
    rc = fault_limits_read(made, &limits);
  if (rc == 0) {
    made->requests_max = limits.requests_max;
    rc = fault_pool_open(made, params->plan, &limits);
  }
  if (rc != 0) {
    fault_close(made);
    return rc;
  }
  *device = made;
  return 0;
}

static void fault_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  worker->device->ops->worker_close(worker->inner);
  while (worker->endpoints) {
    struct pst_endpoint *endpoint = worker->endpoints;
    worker->endpoints = endpoint->next;
    fault_endpoint_free(endpoint);
  }
  free(worker);
}

static int fault_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  if (endpoint->inner)
    return pass_describe(endpoint, text, size);
  snprintf(text, size, "cut off by the filter fault");
  return 0;
}

static const struct pst_transport_ops fault_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = fault_open,
    .close = fault_close,
    .limits = fault_limits_read,
    .mr_register = fault_mr_register,
    .mr_deregister = fault_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = fault_worker_close,
    .arm = fault_arm,
    .event_fd = pass_event_fd,
    .ring_open = pass_ring_open,
    .ring_close = pass_ring_close,
    .endpoint_open = fault_endpoint_open,
    .endpoint_address = pass_endpoint_address,
    .endpoint_connect = pass_endpoint_connect,
    .endpoint_path = pass_endpoint_path,
    .post = fault_post,
    .poll = fault_poll,
    .release = pass_release,
    .counters = fault_counters,
    .describe = fault_describe,
    .start = pass_start,
    .endpoint_close = fault_endpoint_close,
};

PST_PLUGIN(fault_probe, &fault_ops);
