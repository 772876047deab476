/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter, for tests: it wraps any transport and lets post take only so many
 * messages a second. Everything else is the inner transport's.
 *
 * Devices, workers and endpoints are wrapped, since their calls must find the
 * inner transport. Registrations, rings, remote handles and tokens pass through as
 * they are.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

#define NS_PER_S 1000000000u

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  uint64_t rate;
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
  uint64_t since_ns; /* when `allowed` was last reckoned */
  uint64_t allowed;  /* messages that post may take now */
  bool held_back;    /* the last post was cut short here */
};

#include "../wrap.h"

/* ---- Devices ------------------------------------------------------------ */

static int throttle_open(const struct pst_host *host, const struct pst_open_params *params,
                         struct pst_device **device)
{
  struct pst_device *made;
  int rc = wrap_begin(host, params, "throttle", &made);
  if (rc != 0)
    return rc;
  made->rate = host->option_uint(params->options, "rate");
  return wrap_finish(params, made, device);
}

static int throttle_limits(struct pst_device *device, struct pst_limits *limits)
{
  return device->ops->limits(device->inner, limits);
}

/* ---- Workers and rings ------------------------------------------------------ */

static int throttle_arm(struct pst_worker *worker)
{
  /* No descriptor tells when the next message may go. */
  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
    if (endpoint->held_back)
      return -EAGAIN;
  return worker->device->ops->arm(worker->inner);
}

/* ---- Endpoints ------------------------------------------------------------------ */

static int throttle_endpoint_open(struct pst_worker *worker,
                                  const struct pst_endpoint_params *params,
                                  struct pst_endpoint **endpoint)
{
  const struct pst_host *host = worker->device->host;
  int rc = wrap_endpoint_open(worker, params, endpoint);
  if (rc == 0)
    (*endpoint)->since_ns = host->clock_ns(host);
  return rc;
}

/* ---- The one thing it does --------------------------------------------------------- */

/* Adds to the requests that may be taken, which grow with time, up to ten milliseconds' worth and
 * one more: a thread that is not scheduled for a while makes up for it. */
static void reckon(struct pst_endpoint *endpoint)
{
  const struct pst_device *device = endpoint->worker->device;
  uint64_t now = device->host->clock_ns(device->host);
  uint64_t most = device->rate / 100 + 1;
  uint64_t elapsed = now - endpoint->since_ns;
  if (elapsed > NS_PER_S)
    elapsed = NS_PER_S;
  uint64_t grown = elapsed * device->rate / NS_PER_S;
  if (grown == 0)
    return;
  endpoint->since_ns =
      elapsed == NS_PER_S ? now : endpoint->since_ns + grown * NS_PER_S / device->rate;
  endpoint->allowed = endpoint->allowed + grown < most ? endpoint->allowed + grown : most;
}

static int throttle_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                         uint32_t n, uint32_t *wait)
{
  const struct pst_transport_ops *ops = pass_ops(endpoint);
  endpoint->held_back = false;
  if (endpoint->worker->device->rate == 0 || n == 0)
    return ops->post(endpoint->inner, requests, n, wait);
  reckon(endpoint);
  if (endpoint->allowed == 0) {
    endpoint->held_back = true;
    *wait = PST_WAIT_QUEUE;
    return -EAGAIN;
  }
  uint32_t most = endpoint->allowed < n ? (uint32_t)endpoint->allowed : n;
  if (most < n)
    *wait = PST_WAIT_NONE; /* it is to say why those are fewer */
  int taken = ops->post(endpoint->inner, requests, most, wait);
  if (taken > 0)
    endpoint->allowed -= (uint32_t)taken;
  if (taken == (int)most && most < n) {
    endpoint->held_back = true;
    *wait = PST_WAIT_QUEUE;
  }
  return taken;
}

static int throttle_poll(struct pst_worker *worker, struct pst_completion *completions,
                         uint32_t max)
{
  int n = worker->device->ops->poll(worker->inner, completions, max);
  for (int i = 0; i < n; i++)
    if (completions[i].kind == PST_COMPLETION_EVENT && completions[i].code == PST_EVENT_CLOSED)
      wrap_forget(worker, completions[i].endpoint);
  return n;
}

static const struct pst_transport_ops throttle_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = throttle_open,
    .close = wrap_close,
    .limits = throttle_limits,
    .mr_register = pass_mr_register,
    .mr_deregister = pass_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = wrap_worker_close,
    .arm = throttle_arm,
    .event_fd = pass_event_fd,
    .ring_open = pass_ring_open,
    .ring_close = pass_ring_close,
    .endpoint_open = throttle_endpoint_open,
    .endpoint_address = pass_endpoint_address,
    .endpoint_connect = pass_endpoint_connect,
    .endpoint_path = pass_endpoint_path,
    .post = throttle_post,
    .poll = throttle_poll,
    .release = pass_release,
    .counters = pass_counters,
    .describe = pass_describe,
    .start = pass_start,
    .endpoint_close = pass_endpoint_close,
};

PST_PLUGIN(wrap_probe, &throttle_ops);
