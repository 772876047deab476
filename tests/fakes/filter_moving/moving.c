/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter, for tests: its endpoints move. An address is the inner transport's with the number
 * of an endpoint and of its move behind it; EVENT READDRESS reports each move, and nothing that
 * is posted to an older address arrives until endpoint_connect has got the new one.
 *
 * Endpoints are found by their numbers in this process, where both ends have to be.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

#define ENDPOINTS 64u /* opened in a process's life */

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  uint64_t every, late;
  bool early;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_worker *inner;
  struct pst_endpoint *endpoints;
};

struct place {
  uint32_t number, moves;
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_endpoint *inner;
  struct pst_endpoint *next;
  uint64_t cookie;
  uint32_t number;
  uint64_t heard;      /* messages since the last move */
  bool has_moved;      /* READDRESS is to be told */
  struct place peer;   /* number 0: not connected yet */
  uint64_t late;       /* polls until it is connected again; 0: it is */
  bool owes_connected; /* of connecting again */
};

#include "../wrap.h"

/* Moves of each endpoint of this process, whoever's thread has it. */
static _Atomic uint32_t moves[ENDPOINTS + 1];
static _Atomic uint32_t last;

static bool is_astray(const struct pst_endpoint *endpoint)
{
  return endpoint->peer.number && moves[endpoint->peer.number] != endpoint->peer.moves;
}

/* ---- Devices, workers --------------------------------------------------------- */

static int moving_open(const struct pst_host *host, const struct pst_open_params *params,
                       struct pst_device **device)
{
  struct pst_device *made;
  int rc = wrap_begin(host, params, "moving", &made);
  if (rc != 0)
    return rc;
  made->every = host->option_uint(params->options, "every");
  made->early = host->option_uint(params->options, "early");
  made->late = host->option_uint(params->options, "late");
  return wrap_finish(params, made, device);
}

static int moving_limits(struct pst_device *device, struct pst_limits *limits)
{
  int rc = device->ops->limits(device->inner, limits);
  if (rc == 0)
    limits->address_max += (uint32_t)sizeof(struct place);
  return rc;
}

static int moving_arm(struct pst_worker *worker)
{
  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
    if (endpoint->has_moved || endpoint->late || endpoint->owes_connected || is_astray(endpoint))
      return -EAGAIN;
  return worker->device->ops->arm(worker->inner);
}

/* ---- Endpoints ------------------------------------------------------------------ */

static void move(struct pst_endpoint *endpoint)
{
  const struct pst_host *host = endpoint->worker->device->host;

  endpoint->heard = 0;
  endpoint->has_moved = true;
  host->log(host, PST_LOG_INFO, "moving: endpoint %u, move %u", endpoint->number,
            ++moves[endpoint->number]);
}

static int moving_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                                struct pst_endpoint **endpoint)
{
  uint32_t number = ++last;
  int rc = number > ENDPOINTS ? -ENOSPC : wrap_endpoint_open(worker, params, endpoint);
  if (rc == 0)
    (*endpoint)->number = number;
  return rc;
}

static int moving_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  const struct place place = {endpoint->number, moves[endpoint->number]};
  int rc = pass_ops(endpoint)->endpoint_address(endpoint->inner, address);

  if (rc != 0)
    return rc;
  if (address->capacity - address->length < sizeof(place))
    return -ENOSPC;
  memcpy((char *)address->bytes + address->length, &place, sizeof(place));
  address->length += (uint32_t)sizeof(place);
  return 0;
}

static int moving_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct pst_blob inner = *address;
  struct place place;

  if (inner.length < sizeof(place))
    return -EPROTO;
  inner.length -= (uint32_t)sizeof(place);
  memcpy(&place, (const char *)inner.bytes + inner.length, sizeof(place));
  if (place.number == 0 || place.number > ENDPOINTS)
    return -EPROTO;
  if (endpoint->late || endpoint->owes_connected)
    return -EALREADY;
  int rc = pass_ops(endpoint)->endpoint_connect(endpoint->inner, &inner);
  if (rc != 0)
    return rc;
  if (endpoint->peer.number)
    endpoint->late = endpoint->worker->device->late + 1;
  endpoint->peer = place;
  return 0;
}

static int moving_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                       uint32_t n, uint32_t *wait)
{
  if (endpoint->late || endpoint->owes_connected)
    return -ENOTCONN;
  if (!is_astray(endpoint))
    return pass_ops(endpoint)->post(endpoint->inner, requests, n, wait);
  *wait = PST_WAIT_QUEUE;
  return -EAGAIN;
}

/* ---- Polling ---------------------------------------------------------------------- */

static struct pst_endpoint *of_cookie(const struct pst_worker *worker, uint64_t cookie)
{
  struct pst_endpoint *endpoint = worker->endpoints;

  while (endpoint && endpoint->cookie != cookie)
    endpoint = endpoint->next;
  return endpoint;
}

/* False: it is for nobody yet. */
static bool look_at(struct pst_worker *worker, const struct pst_completion *completion)
{
  struct pst_endpoint *endpoint = of_cookie(worker, completion->endpoint);

  if (!endpoint)
    return true;
  if (completion->kind == PST_COMPLETION_MESSAGE && ++endpoint->heard == worker->device->every)
    move(endpoint);
  if (completion->kind != PST_COMPLETION_EVENT)
    return true;
  if (completion->code == PST_EVENT_CLOSED)
    wrap_forget(worker, completion->endpoint);
  if (completion->code != PST_EVENT_CONNECTED || !endpoint->late)
    return true;
  endpoint->owes_connected = true; /* once it is late enough */
  return false;
}

static struct pst_completion event_of(const struct pst_endpoint *endpoint, enum pst_event code)
{
  return (struct pst_completion){
      .kind = PST_COMPLETION_EVENT, .code = (uint8_t)code, .endpoint = endpoint->cookie};
}

static uint32_t own_events(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;

  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint && n + 2 <= max;
       endpoint = endpoint->next) {
    if (worker->device->early && moves[endpoint->number] == 0)
      move(endpoint);
    if (endpoint->has_moved)
      out[n++] = event_of(endpoint, PST_EVENT_READDRESS);
    endpoint->has_moved = false;
    if (endpoint->late > 1)
      endpoint->late--;
    if (endpoint->late != 1 || !endpoint->owes_connected)
      continue;
    endpoint->late = 0;
    endpoint->owes_connected = false;
    out[n++] = event_of(endpoint, PST_EVENT_CONNECTED);
  }
  return n;
}

static int moving_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t own = own_events(worker, completions, max), kept = own;
  int n = own < max ? worker->device->ops->poll(worker->inner, completions + own, max - own) : 0;

  if (n < 0)
    return n;
  for (uint32_t i = own; i < own + (uint32_t)n; i++)
    if (look_at(worker, &completions[i]))
      completions[kept++] = completions[i];
  return (int)kept;
}

static const struct pst_transport_ops moving_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = moving_open,
    .close = wrap_close,
    .limits = moving_limits,
    .mr_register = pass_mr_register,
    .mr_deregister = pass_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = wrap_worker_close,
    .arm = moving_arm,
    .event_fd = pass_event_fd,
    .ring_open = pass_ring_open,
    .ring_close = pass_ring_close,
    .endpoint_open = moving_endpoint_open,
    .endpoint_address = moving_endpoint_address,
    .endpoint_connect = moving_endpoint_connect,
    .endpoint_path = pass_endpoint_path,
    .post = moving_post,
    .poll = moving_poll,
    .release = pass_release,
    .counters = pass_counters,
    .describe = pass_describe,
    .start = pass_start,
    .endpoint_close = pass_endpoint_close,
};

PST_PLUGIN(wrap_probe, &moving_ops);
