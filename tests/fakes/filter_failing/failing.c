/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter, for tests: one operation fails with EIO, the nth time it is called. It
 * also watches its caller: a region that has gone before its registration, and
 * what is still open at close(), are errors in the log that begin with "BUG".
 *
 * Workers and endpoints are wrapped, since their calls must find the device.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

#define REGISTRATIONS_MAX 64
/* One-sided access is not passed on. */
#define CAPABILITIES                                                                               \
  ((uint64_t)(((PST_CAP_QUEUES << 1) - 1) & ~(PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC)))

struct registration {
  struct pst_mr *mr;
  const struct pst_region *region;
};

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  char fail[32];
  uint64_t left; /* calls of `fail` until it fails */
  bool sequence, says;
  uint32_t workers;
  uint32_t rings;
  struct registration registrations[REGISTRATIONS_MAX];
  uint32_t endpoints; /* limits that are lower than the inner transport's; 0: its own */
  uint32_t rings_max;
  uint32_t domains_max;
  uint32_t device_endpoints;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_worker *inner;
  struct pst_endpoint *endpoints;
};

struct pst_endpoint {
  struct pst_endpoint *next;
  struct pst_device *device;
  struct pst_endpoint *inner;
};

static bool fails(struct pst_device *device, const char *operation)
{
  const bool now = strcmp(device->fail, operation) == 0 && --device->left == 0;
  if (now && device->says)
    device->host->log(device->host, PST_LOG_ERROR, "%s fails by order", operation);
  return now;
}

static void bug(const struct pst_device *device, const char *what)
{
  device->host->log(device->host, PST_LOG_ERROR, "BUG: %s", what);
}

static int failing_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host, (void)probe;
  return 0;
}

static int failing_open(const struct pst_host *host, const struct pst_open_params *params,
                        struct pst_device **device)
{
  struct pst_device *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->host = host;
  made->ops = params->inner;
  made->left = host->option_uint(params->options, "nth");
  made->sequence = host->option_uint(params->options, "sequence");
  made->says = host->option_uint(params->options, "says");
  made->endpoints = (uint32_t)host->option_uint(params->options, "endpoints");
  made->rings_max = (uint32_t)host->option_uint(params->options, "rings");
  made->domains_max = (uint32_t)host->option_uint(params->options, "domains");
  made->device_endpoints = (uint32_t)host->option_uint(params->options, "device_endpoints");
  strncpy(made->fail, host->option_string(params->options, "fail"), sizeof(made->fail) - 1);
  int rc = fails(made, "open")
               ? -EIO
               : made->ops->open(params->inner_host, params->inner_params, &made->inner);
  if (rc != 0) {
    free(made);
    return rc;
  }
  *device = made;
  return 0;
}

static void failing_close(struct pst_device *device)
{
  if (device->workers)
    bug(device, "the device is closed with workers open");
  if (device->rings)
    bug(device, "the device is closed with rings open");
  for (int i = 0; i < REGISTRATIONS_MAX; i++)
    if (device->registrations[i].mr)
      bug(device, "the device is closed with memory registered");
  device->ops->close(device->inner);
  free(device);
}

static int failing_limits(struct pst_device *device, struct pst_limits *limits)
{
  if (fails(device, "limits"))
    return -EIO;
  int rc = device->ops->limits(device->inner, limits);
  limits->capabilities &= CAPABILITIES;
  if (device->endpoints)
    limits->endpoints_max = device->endpoints;
  if (device->rings_max)
    limits->rings_max = device->rings_max;
  if (device->domains_max)
    limits->domains_max = device->domains_max;
  if (device->device_endpoints) {
    limits->device_endpoints_max = device->device_endpoints;
    strcpy(limits->endpoints_reason, "max_qp is 3");
  }
  if (!device->sequence) {
    limits->sequence_bits = 0;
    limits->capabilities &= ~(uint64_t)PST_CAP_SEQUENCE;
  }
  return rc;
}

static int failing_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                               struct pst_mr **mr)
{
  int free_at = 0;
  if (fails(device, "mr_register"))
    return -EIO;
  while (device->registrations[free_at].mr)
    free_at++;
  int rc = device->ops->mr_register(device->inner, params, mr);
  if (rc == 0)
    device->registrations[free_at] = (struct registration){*mr, params->region};
  return rc;
}

static void failing_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  for (int i = 0; i < REGISTRATIONS_MAX; i++)
    if (device->registrations[i].mr == mr) {
      if (device->registrations[i].region->length == 0)
        bug(device, "a region went before its registration");
      device->registrations[i].mr = NULL;
    }
  device->ops->mr_deregister(device->inner, mr);
}

static int failing_worker_open(struct pst_device *device, uint32_t index,
                               struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->device = device;
  int rc = fails(device, "worker_open")
               ? -EIO
               : device->ops->worker_open(device->inner, index, &made->inner);
  if (rc != 0) {
    free(made);
    return rc;
  }
  device->workers++;
  *worker = made;
  return 0;
}

static void failing_worker_close(struct pst_worker *worker)
{
  if (worker->device->rings)
    bug(worker->device, "a worker is closed with rings open");
  worker->device->workers--;
  worker->device->ops->worker_close(worker->inner);
  while (worker->endpoints) {
    struct pst_endpoint *endpoint = worker->endpoints;
    worker->endpoints = endpoint->next;
    free(endpoint);
  }
  free(worker);
}

static int failing_arm(struct pst_worker *worker)
{
  return worker->device->ops->arm(worker->inner);
}

static int failing_event_fd(struct pst_worker *worker)
{
  return fails(worker->device, "event_fd") ? -EIO : worker->device->ops->event_fd(worker->inner);
}

static int failing_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                             struct pst_path_info *path, struct pst_ring **ring)
{
  if (fails(worker->device, "ring_open"))
    return -EIO;
  int rc = worker->device->ops->ring_open(worker->inner, params, path, ring);
  worker->device->rings += rc == 0;
  return rc;
}

static void failing_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  worker->device->rings--;
  worker->device->ops->ring_close(worker->inner, ring);
}

static int failing_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  int rc = worker->device->ops->release(worker->inner, tokens, n);
  if (rc < 0)
    bug(worker->device, "a token is released that is not out");
  return rc;
}

static int failing_endpoint_open(struct pst_worker *worker,
                                 const struct pst_endpoint_params *params,
                                 struct pst_endpoint **endpoint)
{
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->device = worker->device;
  int rc = fails(worker->device, "endpoint_open")
               ? -EIO
               : worker->device->ops->endpoint_open(worker->inner, params, &made->inner);
  if (rc != 0) {
    free(made);
    return rc;
  }
  made->next = worker->endpoints;
  worker->endpoints = made;
  *endpoint = made;
  return 0;
}

static int failing_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  struct pst_device *device = endpoint->device;
  return fails(device, "endpoint_address")
             ? -EIO
             : device->ops->endpoint_address(endpoint->inner, address);
}

static int failing_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct pst_device *device = endpoint->device;
  return fails(device, "endpoint_connect")
             ? -EIO
             : device->ops->endpoint_connect(endpoint->inner, address);
}

static int failing_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  return endpoint->device->ops->endpoint_path(endpoint->inner, path);
}

static int failing_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode,
                                  uint64_t deadline_ns)
{
  return endpoint->device->ops->endpoint_close(endpoint->inner, mode, deadline_ns);
}

static int failing_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                        uint32_t n, uint32_t *wait)
{
  struct pst_device *device = endpoint->device;
  return fails(device, "post") ? -EIO : device->ops->post(endpoint->inner, requests, n, wait);
}

static int failing_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  int n = worker->device->ops->poll(worker->inner, completions, max);
  for (int i = 0; i < n && !worker->device->sequence; i++)
    if (completions[i].kind == PST_COMPLETION_MESSAGE) {
      completions[i].flags &= (uint16_t)~PST_HAS_SEQUENCE;
      completions[i].u.message.sequence = 0;
    }
  return n;
}

static int failing_start(struct pst_device *device)
{
  if (fails(device, "start"))
    return -EIO;
  return device->ops->start ? device->ops->start(device->inner) : 0;
}

static const struct pst_transport_ops failing_ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = CAPABILITIES,
    .open = failing_open,
    .close = failing_close,
    .limits = failing_limits,
    .mr_register = failing_mr_register,
    .mr_deregister = failing_mr_deregister,
    .worker_open = failing_worker_open,
    .worker_close = failing_worker_close,
    .arm = failing_arm,
    .event_fd = failing_event_fd,
    .ring_open = failing_ring_open,
    .ring_close = failing_ring_close,
    .endpoint_open = failing_endpoint_open,
    .endpoint_address = failing_endpoint_address,
    .endpoint_connect = failing_endpoint_connect,
    .endpoint_path = failing_endpoint_path,
    .post = failing_post,
    .poll = failing_poll,
    .release = failing_release,
    .start = failing_start,
    .endpoint_close = failing_endpoint_close,
};

PST_PLUGIN(failing_probe, &failing_ops);
