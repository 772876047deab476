/* SPDX-License-Identifier: Apache-2.0 */
/* The device, its registrations and workers, and the table of calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "template.h"

pthread_mutex_t template_lock = PTHREAD_MUTEX_INITIALIZER;

int template_refuse(const struct pst_device *device, int code, const char *why)
{
  device->host->log(device->host, PST_LOG_ERROR, "%s", why);
  return code;
}

static int probe(const struct pst_host *host, struct pst_probe *found)
{
  (void)host;
  found->device(found->context, "", "this process");
  return 0;
}

static int device_open(const struct pst_host *host, const struct pst_open_params *params,
                       struct pst_device **device)
{
  struct pst_device *made = calloc(1, sizeof(*made));
  (void)params;
  if (!made)
    return -ENOMEM;
  made->host = host;
  *device = made;
  return 0;
}

static void device_close(struct pst_device *device)
{
  free(device);
}

#define CAPABILITIES                                                                               \
  (PST_CAP_SEND | PST_CAP_RELIABLE | PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META |           \
   PST_CAP_DYNAMIC | PST_CAP_IN_PROCESS)

static int limits(struct pst_device *device, struct pst_limits *limits)
{
  const struct pst_limits made = {.sequence_bits = 64,
                                  .capabilities = CAPABILITIES,
                                  .message_max = MESSAGE_MAX,
                                  .slot_alignment = 1,
                                  .slots_min = 1,
                                  .slots_max = SLOTS_MAX,
                                  .workers_max = 64,
                                  .endpoints_max = 1024,
                                  .requests_max = REQUESTS_MAX,
                                  .pieces_max = PIECES_MAX,
                                  .ring_needs = PST_NEED_CPU_ACCESS,
                                  .send_needs = PST_NEED_CPU_ACCESS,
                                  .page_size = 1,
                                  .address_max = template_address_bytes()};
  (void)device;
  pst_struct_write(limits, &made, sizeof(made));
  return 0;
}

static int mr_register(struct pst_device *device, const struct pst_mr_params *params,
                       struct pst_mr **mr)
{
  const struct pst_region *region = params->region;
  if (params->offset > region->length || params->length > region->length - params->offset)
    return template_refuse(device, -EINVAL, "a registration ends beyond its region");
  if (params->access >= PST_ACCESS_RING << 1)
    return template_refuse(device, -EINVAL, "a registration asks for rights that are not known");
  if (!region->host) {
    static const char why[] = "the CPU cannot touch this memory";
    if (params->path)
      memcpy(params->path->reason, why, sizeof(why));
    return -EOPNOTSUPP;
  }
  struct pst_mr *made = malloc(sizeof(*made));
  if (!made)
    return template_refuse(device, -ENOMEM, "no memory for a registration");
  *made = (struct pst_mr){(uint8_t *)region->host + params->offset, params->length, params->access};
  *mr = made;
  return 0;
}

static void mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  free(mr);
}

static int worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));
  (void)index;
  if (!made)
    return template_refuse(device, -ENOMEM, "no memory for a worker");
  made->device = device;
  *worker = made;
  return 0;
}

static void worker_close(struct pst_worker *worker)
{
  free(worker);
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = CAPABILITIES,
    .open = device_open,
    .close = device_close,
    .limits = limits,
    .mr_register = mr_register,
    .mr_deregister = mr_deregister,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .ring_open = template_ring_open,
    .ring_close = template_ring_close,
    .endpoint_open = template_endpoint_open,
    .endpoint_address = template_endpoint_address,
    .endpoint_connect = template_endpoint_connect,
    .endpoint_path = template_endpoint_path,
    .endpoint_close = template_endpoint_close,
    .post = template_post,
    .poll = template_poll,
    .release = template_release,
};

PST_PLUGIN(probe, &ops);
