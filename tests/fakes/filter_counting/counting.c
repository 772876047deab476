/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter, for tests: after each registration and each ring that comes or goes it logs how many
 * there are, how many bytes are registered, and how many slots the rings have.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <penstock/transport.h>

struct counted {
  struct counted *next;
  const void *what; /* a pst_mr or a pst_ring */
  uint64_t size;    /* bytes, or slots */
};

struct tally {
  struct counted *first;
  uint64_t count, sum;
};

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  struct tally mrs, rings;
  bool two_sided;
  uint32_t rings_max;
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
};

#include "../wrap.h"

static int counting_open(const struct pst_host *host, const struct pst_open_params *params,
                         struct pst_device **device)
{
  struct pst_device *made;
  int rc = wrap_begin(host, params, "counting", &made);

  if (rc != 0)
    return rc;
  made->two_sided = host->option_uint(params->options, "two_sided");
  made->rings_max = (uint32_t)host->option_uint(params->options, "rings_max");
  return wrap_finish(params, made, device);
}

static int counting_limits(struct pst_device *device, struct pst_limits *limits)
{
  int rc = device->ops->limits(device->inner, limits);

  if (rc == 0 && device->two_sided)
    limits->capabilities |= PST_CAP_TWO_SIDED;
  if (rc == 0 && device->rings_max)
    limits->rings_max = device->rings_max;
  return rc;
}

/* ---- Counters ------------------------------------------------------------------------ */

static void counting_say(const struct pst_device *device)
{
  device->host->log(device->host, PST_LOG_INFO,
                    "%llu registrations of %llu bytes, %llu rings of %llu slots",
                    (unsigned long long)device->mrs.count, (unsigned long long)device->mrs.sum,
                    (unsigned long long)device->rings.count, (unsigned long long)device->rings.sum);
}

static int counting_add(struct tally *tally, const void *what, uint64_t size)
{
  struct counted *made = malloc(sizeof(*made));

  if (!made)
    return -ENOMEM;
  *made = (struct counted){.next = tally->first, .what = what, .size = size};
  tally->first = made;
  tally->count++;
  tally->sum += size;
  return 0;
}

static void counting_drop(struct tally *tally, const void *what)
{
  for (struct counted **at = &tally->first; *at; at = &(*at)->next)
    if ((*at)->what == what) {
      struct counted *gone = *at;
      *at = gone->next;
      tally->count--;
      tally->sum -= gone->size;
      free(gone);
      return;
    }
}

static int counting_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                                struct pst_mr **mr)
{
  int rc = pass_mr_register(device, params, mr);

  if (rc == 0 && (rc = counting_add(&device->mrs, *mr, params->length)) < 0)
    pass_mr_deregister(device, *mr);
  if (rc == 0)
    counting_say(device);
  return rc;
}

static void counting_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  counting_drop(&device->mrs, mr);
  pass_mr_deregister(device, mr);
  counting_say(device);
}

static int counting_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                              struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_device *device = worker->device;
  int rc = pass_ring_open(worker, params, path, ring);

  device->host->log(device->host, PST_LOG_INFO, "ring of %u slots, %u endpoints, %u of each",
                    params->slots, params->endpoints, params->endpoint_slots);
  if (rc == 0 && (rc = counting_add(&device->rings, *ring, params->slots)) < 0)
    pass_ring_close(worker, *ring);
  if (rc == 0)
    counting_say(device);
  return rc;
}

static void counting_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  counting_drop(&worker->device->rings, ring);
  pass_ring_close(worker, ring);
  counting_say(worker->device);
}

/* ---- Calls that pass ----------------------------------------------------------------- */

static int counting_arm(struct pst_worker *worker)
{
  return worker->device->ops->arm(worker->inner);
}

static int counting_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                         uint32_t n, uint32_t *wait)
{
  return pass_ops(endpoint)->post(endpoint->inner, requests, n, wait);
}

static int counting_poll(struct pst_worker *worker, struct pst_completion *completions,
                         uint32_t max)
{
  int n = worker->device->ops->poll(worker->inner, completions, max);

  for (int i = 0; i < n; i++)
    if (completions[i].kind == PST_COMPLETION_EVENT && completions[i].code == PST_EVENT_CLOSED)
      wrap_forget(worker, completions[i].endpoint);
  return n;
}

static const struct pst_transport_ops counting_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = (PST_CAP_QUEUES << 1) - 1, /* the inner transport's limits say which */
    .open = counting_open,
    .close = wrap_close,
    .limits = counting_limits,
    .mr_register = counting_mr_register,
    .mr_deregister = counting_mr_deregister,
    .mr_pack = pass_mr_pack,
    .remote_open = pass_remote_open,
    .remote_close = pass_remote_close,
    .worker_open = pass_worker_open,
    .worker_close = wrap_worker_close,
    .arm = counting_arm,
    .event_fd = pass_event_fd,
    .ring_open = counting_ring_open,
    .ring_close = counting_ring_close,
    .endpoint_open = wrap_endpoint_open,
    .endpoint_address = pass_endpoint_address,
    .endpoint_connect = pass_endpoint_connect,
    .endpoint_path = pass_endpoint_path,
    .post = counting_post,
    .poll = counting_poll,
    .release = pass_release,
    .counters = pass_counters,
    .describe = pass_describe,
    .start = pass_start,
    .endpoint_close = pass_endpoint_close,
};

PST_PLUGIN(wrap_probe, &counting_ops);
