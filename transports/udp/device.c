/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, registrations, rings. */
#include <stdio.h>

#include "address.h"
#include "blob.h"
#include "udp.h"

int udp_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP, DG_FRAMING_NONE};
  static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};
  struct udp_device_name name;
  struct pst_open_params in;
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->host = host;
  if (in.plan)
    pst_struct_read(&made->plan, sizeof(made->plan), in.plan);
  made->framing = framings[host->option_uint(in.options, "framing")];
  made->family = families[host->option_uint(in.options, "family")];
  made->timestamps = (enum udp_timestamps)host->option_uint(in.options, "timestamps");
  made->clock_rate = (uint32_t)host->option_uint(in.options, "clock_rate");
  snprintf(made->name, sizeof(made->name), "%s", host->option_string(in.options, "device"));
  made->listens.any.sa_family = AF_UNSPEC;
  if (made->plan.flags & PST_PLAN_IN_PROCESS)
    udp_address_set_loopback(&made->listens, AF_INET);
  else if (in.local_address)
    udp_address_parse(in.local_address, &made->listens);
  int rc = udp_device_find(made, made->name, made->family, &name);
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

  if (device->framing == DG_FRAMING_NONE)
    capabilities &= ~(uint64_t)PST_CAP_SEQUENCE;
  if (device->timestamps == UDP_TIME_OFF)
    capabilities &= ~(uint64_t)PST_CAP_TIME;
  const struct pst_limits out = {
      PST_CPU_LIMITS,
      .sequence_bits = dg_sequence_bits(device->framing),
      .capabilities = capabilities,
      .message_max = UDP_DATAGRAM_MAX - dg_header_bytes(device->framing, true),
      .tailroom = device->framing == DG_FRAMING_RTP ? DG_RTP_TAILROOM : 0,
      .address_max = UDP_BLOB_BYTES,
  };
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
  int rc = pst_cpu_ring_open(&made->cpu, worker->device->host, &worker->rings, params, &limits);
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
  return pst_cpu_release(worker->device->host, &worker->rings, tokens, n);
}
