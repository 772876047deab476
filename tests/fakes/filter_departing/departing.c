/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter, for tests: over any transport it keeps the times at which messages are to leave, as a
 * NIC does that schedules, and refuses messages whose times are not those of the rate. Everything
 * else is the inner transport's.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

#define AHEAD_NS 2000000u /* the most that core hands a message over before its time */
#define RUN 64u

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
  uint64_t checked;  /* messages, by their sequence */
  uint64_t least_ns; /* that the next one's time may be */
  bool held_back;    /* the last post was cut short here */
};

#include "../wrap.h"

static int departing_open(const struct pst_host *host, const struct pst_open_params *params,
                          struct pst_device **device)
{
  struct pst_device *made;
  int rc = wrap_begin(host, params, "departing", &made);

  if (rc != 0)
    return rc;
  made->rate = host->option_uint(params->options, "rate");
  return wrap_finish(params, made, device);
}

static int departing_limits(struct pst_device *device, struct pst_limits *limits)
{
  int rc = device->ops->limits(device->inner, limits);

  if (rc == 0)
    limits->capabilities |= PST_CAP_DEPARTURE;
  return rc;
}

static int departing_arm(struct pst_worker *worker)
{
  /* No descriptor tells when the next message may go. */
  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
    if (endpoint->held_back)
      return -EAGAIN;
  return worker->device->ops->arm(worker->inner);
}

/* A message is judged once, however often it is posted. */
static bool is_right(struct pst_endpoint *endpoint, const struct pst_request *request,
                     uint64_t now_ns)
{
  const struct pst_device *device = endpoint->worker->device;
  const uint64_t time_ns = request->u.send.departure_ns, line = request->arg.length * 8;

  if (device->rate == 0)
    return time_ns == 0;
  if (request->u.send.sequence < endpoint->checked)
    return true;
  if (time_ns == 0 || time_ns < endpoint->least_ns || time_ns > now_ns + AHEAD_NS) {
    device->host->log(device->host, PST_LOG_ERROR,
                      "message %lu is to leave at %lu: now is %lu, the line is free at %lu",
                      request->u.send.sequence, time_ns, now_ns, endpoint->least_ns);
    return false;
  }
  endpoint->checked = request->u.send.sequence + 1;
  /* Times are whole nanoseconds, cut. */
  endpoint->least_ns = time_ns + (uint64_t)((double)line * 1e9 / (double)device->rate) - 1;
  return true;
}

static int departing_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                          uint32_t n, uint32_t *wait)
{
  const struct pst_device *device = endpoint->worker->device;
  const uint64_t now_ns = device->host->clock_ns(device->host);
  struct pst_request due[RUN];
  uint32_t count = 0;

  endpoint->held_back = false;
  for (; count < n && count < RUN; count++) {
    due[count] = requests[count];
    if (due[count].opcode != PST_OP_SEND)
      continue;
    if (!is_right(endpoint, &due[count], now_ns))
      return -EINVAL;
    if (due[count].u.send.departure_ns > now_ns)
      break;
    due[count].u.send.departure_ns = 0;
  }
  endpoint->held_back = count < n && count < RUN;
  if (endpoint->held_back)
    *wait = PST_WAIT_QUEUE;
  if (count == 0)
    return n ? -EAGAIN : 0;
  int taken = device->ops->post(endpoint->inner, due, count, wait);
  if (taken == (int)count && count < n)
    *wait = endpoint->held_back ? PST_WAIT_QUEUE : PST_WAIT_NONE;
  return taken;
}

static int departing_poll(struct pst_worker *worker, struct pst_completion *completions,
                          uint32_t max)
{
  int n = worker->device->ops->poll(worker->inner, completions, max);

  for (int i = 0; i < n; i++)
    if (completions[i].kind == PST_COMPLETION_EVENT && completions[i].code == PST_EVENT_CLOSED)
      wrap_forget(worker, completions[i].endpoint);
  return n;
}

static const struct pst_transport_ops departing_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = departing_open,
    .close = wrap_close,
    .limits = departing_limits,
    .mr_register = pass_mr_register,
    .mr_deregister = pass_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = wrap_worker_close,
    .arm = departing_arm,
    .event_fd = pass_event_fd,
    .ring_open = pass_ring_open,
    .ring_close = pass_ring_close,
    .endpoint_open = wrap_endpoint_open,
    .endpoint_address = pass_endpoint_address,
    .endpoint_connect = pass_endpoint_connect,
    .endpoint_path = pass_endpoint_path,
    .post = departing_post,
    .poll = departing_poll,
    .release = pass_release,
    .counters = pass_counters,
    .describe = pass_describe,
    .start = pass_start,
    .endpoint_close = pass_endpoint_close,
};

PST_PLUGIN(wrap_probe, &departing_ops);
