/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, registrations, rings. */
#include <stdio.h>

#include "address.h"
#include "device.h"
#include "ops.h"
#include "ring.h"
#include "worker.h"

int udp_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device)
{
  struct udp_device_name name;
  struct pst_open_params in;
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  dg_device_read(&made->dg, host, &in);
  made->timestamps = (enum udp_timestamps)host->option_uint(in.options, "timestamps");
  made->departure = (enum udp_departure)host->option_uint(in.options, "departure");
  made->dg.keeps_departures = made->departure != UDP_DEPARTURE_OFF;
  snprintf(made->name, sizeof(made->name), "%s", host->option_string(in.options, "device"));
  made->listens.any.sa_family = AF_UNSPEC;
  if (made->dg.plan.flags & PST_PLAN_IN_PROCESS)
    dg_address_set_loopback(&made->listens, AF_INET);
  else if (in.local_address)
    dg_address_parse(in.local_address, &made->listens);
  int rc = udp_device_find(made, made->name, made->dg.family, &name);
  if (rc < 0) {
    free(made);
    return rc;
  }
  *device = made;
  return 0;
}

void udp_close(struct pst_device *device)
{
  free(device);
}

int udp_limits(struct pst_device *device, struct pst_limits *limits)
{
  uint64_t capabilities = UDP_CAPABILITIES;
  struct pst_limits out;

  if (device->timestamps == UDP_TIME_OFF)
    capabilities &= ~(uint64_t)PST_CAP_TIME;
  if (device->dg.keeps_departures)
    capabilities |= PST_CAP_DEPARTURE;
  dg_limits_fill(&device->dg, capabilities, UDP_DATAGRAM_MAX, &out);
  pst_struct_write(limits, &out, sizeof(out));
  return 0;
}

void udp_path_fill(struct pst_path_info *path)
{
  pst_path_write(path, PST_PATH_DIRECT, "socket", "udp", "");
}

int udp_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr)
{
  int rc = pst_cpu_mr_register(device, params, mr);

  if (rc == 0)
    udp_path_fill(params->path);
  return rc;
}

int udp_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  struct pst_ring *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  udp_limits(worker->device, &limits);
  int rc = pst_cpu_ring_open(&made->cpu, worker->device->dg.host, &worker->rings, params, &limits);
  if (rc < 0) {
    free(made);
    return rc;
  }
  udp_path_fill(path);
  *ring = made;
  return 0;
}

void udp_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  pst_cpu_ring_close(&ring->cpu, &worker->rings);
  free(ring);
}

int udp_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  return pst_cpu_release(worker->device->dg.host, &worker->rings, tokens, n);
}
