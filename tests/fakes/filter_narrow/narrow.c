/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter, for tests: it makes of any transport one that moves less at once, has fewer
 * one-sided operations, and takes its time over them. A one-sided request is kept until
 * poll has been called `late` times, so that requests are under way when an endpoint
 * is closed; DONEs of WRITEs that come together become one that covers all of them.
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

#define KEPT_MAX 4096u

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  uint64_t rma_max;
  uint64_t requests;
  uint64_t late;
  uint64_t lacks;
  uint64_t twice; /* one-sided DONEs until one is reported twice; 0: none is */
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
  struct pst_request kept[KEPT_MAX];
  uint64_t due[KEPT_MAX]; /* the poll from which on it may go */
  uint32_t head, tail;
  uint64_t polls;
  uint32_t close_mode; /* asked for; the inner one's is closed when nothing is kept */
  uint64_t close_deadline_ns;
  bool is_closing;
};

#include "../wrap.h"

/* ---- Devices ------------------------------------------------------------ */

static int narrow_open(const struct pst_host *host, const struct pst_open_params *params,
                       struct pst_device **device)
{
  struct pst_device *made;
  int rc = wrap_begin(host, params, "narrow", &made);
  if (rc != 0)
    return rc;
  made->rma_max = host->option_uint(params->options, "rma_max");
  made->requests = host->option_uint(params->options, "requests");
  made->late = host->option_uint(params->options, "late");
  made->twice = host->option_uint(params->options, "twice");
  made->lacks = (host->option_uint(params->options, "write") ? 0 : PST_CAP_WRITE) |
                (host->option_uint(params->options, "read") ? 0 : PST_CAP_READ) |
                (host->option_uint(params->options, "atomic") ? 0 : PST_CAP_ATOMIC) |
                (host->option_uint(params->options, "device") ? 0 : PST_CAP_DEVICE_RMA);
  return wrap_finish(params, made, device);
}

static int narrow_limits(struct pst_device *device, struct pst_limits *limits)
{
  struct pst_limits full = {.struct_size = sizeof(full)};
  uint32_t size = limits->struct_size < sizeof(full) ? limits->struct_size : sizeof(full);
  int rc = device->ops->limits(device->inner, &full);
  if (rc != 0)
    return rc;
  full.capabilities &= ~device->lacks;
  if (device->rma_max && device->rma_max < full.rma_max)
    full.rma_max = device->rma_max;
  if (device->requests && device->requests < full.requests_max)
    full.requests_max = (uint32_t)device->requests;
  if (full.requests_max > KEPT_MAX)
    full.requests_max = KEPT_MAX;
  full.struct_size = limits->struct_size;
  memcpy(limits, &full, size);
  return 0;
}

/* ---- Workers and rings ------------------------------------------------------ */

static int narrow_arm(struct pst_worker *worker)
{
  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
    if (endpoint->head != endpoint->tail)
      return -EAGAIN;
  return worker->device->ops->arm(worker->inner);
}

/* ---- Endpoints ------------------------------------------------------------------ */

static int narrow_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  if (endpoint->head == endpoint->tail)
    return pass_ops(endpoint)->endpoint_close(endpoint->inner, mode, deadline_ns);
  endpoint->close_mode = mode;
  endpoint->close_deadline_ns = deadline_ns;
  endpoint->is_closing = true;
  return 0;
}

/* ---- Operations --------------------------------------------------------------------- */

static int narrow_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                       uint32_t n, uint32_t *wait)
{
  const struct pst_device *device = endpoint->worker->device;
  uint64_t most = device->requests && device->requests < KEPT_MAX ? device->requests : KEPT_MAX;
  uint32_t taken = 0;

  if (device->twice)
    *wait = PST_WAIT_NONE; /* what has no DONE cannot be ended twice */
  if (device->late == 0 || n == 0 || requests[0].opcode == PST_OP_SEND)
    return device->ops->post(endpoint->inner, requests, n, wait);
  if (endpoint->is_closing)
    return -ENOTCONN;
  *wait = PST_WAIT_NONE;
  for (; taken < n && requests[taken].opcode != PST_OP_SEND; taken++) {
    if (endpoint->tail - endpoint->head == most) {
      *wait = PST_WAIT_QUEUE;
      break;
    }
    endpoint->due[endpoint->tail % KEPT_MAX] = endpoint->polls + device->late;
    endpoint->kept[endpoint->tail++ % KEPT_MAX] = requests[taken];
  }
  return taken ? (int)taken : -EAGAIN;
}

static struct pst_completion done_of(const struct pst_endpoint *endpoint,
                                     const struct pst_request *request, int32_t status)
{
  return (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                 .code = request->opcode,
                                 .status = status,
                                 .endpoint = endpoint->cookie,
                                 .u.done = {request->cookie, 1}};
}

/* Kept requests go on their way, or come back. Returns the number of completions. */
static uint32_t pass_on(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max)
{
  bool cancel = endpoint->is_closing && endpoint->close_mode == PST_CLOSE_ABORT;
  uint32_t n = 0, wait = PST_WAIT_NONE;

  endpoint->polls++;
  while (endpoint->head != endpoint->tail && n < max) {
    const struct pst_request *request = &endpoint->kept[endpoint->head % KEPT_MAX];
    if (cancel) {
      out[n++] = done_of(endpoint, request, -ECANCELED);
    } else {
      if (endpoint->due[endpoint->head % KEPT_MAX] > endpoint->polls)
        break;
      int rc = pass_ops(endpoint)->post(endpoint->inner, request, 1, &wait);
      if (rc == -EAGAIN)
        break;
      if (rc < 0)
        out[n++] = done_of(endpoint, request, rc);
    }
    endpoint->head++;
  }
  if (endpoint->is_closing && endpoint->head == endpoint->tail && endpoint->close_mode) {
    pass_ops(endpoint)->endpoint_close(endpoint->inner, endpoint->close_mode,
                                       endpoint->close_deadline_ns);
    endpoint->close_mode = 0;
  }
  return n;
}

static bool covers(const struct pst_completion *a, const struct pst_completion *b)
{
  return a->kind == PST_COMPLETION_DONE && b->kind == PST_COMPLETION_DONE &&
         a->code == PST_OP_WRITE && b->code == PST_OP_WRITE && a->status == b->status &&
         a->endpoint == b->endpoint;
}

static int merge(struct pst_completion *completions, int n)
{
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (kept && covers(&completions[kept - 1], &completions[i])) {
      completions[kept - 1].u.done.cookie = completions[i].u.done.cookie;
      completions[kept - 1].u.done.count += completions[i].u.done.count;
    } else {
      completions[kept++] = completions[i];
    }
  }
  return kept;
}

static int tell_twice(struct pst_device *device, struct pst_completion *completions, int n,
                      uint32_t max)
{
  int told = n;

  for (int i = 0; i < n && device->twice; i++)
    if (completions[i].kind == PST_COMPLETION_DONE && completions[i].code != PST_OP_SEND &&
        --device->twice == 0 && (uint32_t)told < max)
      completions[told++] = completions[i];
  return told;
}

static int narrow_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t own = 0;
  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
    own += pass_on(endpoint, completions + own, max - own);
  int n = own < max ? worker->device->ops->poll(worker->inner, completions + own, max - own) : 0;
  if (n < 0)
    return n;
  for (uint32_t i = own; i < own + (uint32_t)n; i++)
    if (completions[i].kind == PST_COMPLETION_EVENT && completions[i].code == PST_EVENT_CLOSED)
      wrap_forget(worker, completions[i].endpoint);
  return tell_twice(worker->device, completions, merge(completions, (int)own + n), max);
}

static const struct pst_transport_ops narrow_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = narrow_open,
    .close = wrap_close,
    .limits = narrow_limits,
    .mr_register = pass_mr_register,
    .mr_deregister = pass_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = wrap_worker_close,
    .arm = narrow_arm,
    .event_fd = pass_event_fd,
    .ring_open = pass_ring_open,
    .ring_close = pass_ring_close,
    .endpoint_open = wrap_endpoint_open,
    .endpoint_address = pass_endpoint_address,
    .endpoint_connect = pass_endpoint_connect,
    .endpoint_path = pass_endpoint_path,
    .post = narrow_post,
    .poll = narrow_poll,
    .release = pass_release,
    .counters = pass_counters,
    .describe = pass_describe,
    .start = pass_start,
    .endpoint_close = narrow_endpoint_close,
};

PST_PLUGIN(wrap_probe, &narrow_ops);
