/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, registrations, rings. */
#include <stdio.h>

#include <penstock/page.h>
#include <rte_dev.h>
#include <rte_errno.h>

#include "pool.h"
#include "port.h"

int eth_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device)
{
  struct pst_open_params in;
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  dg_device_read(&made->dg, host, &in);
  made->receive = host->option_uint(in.options, "receive");
  made->udp_sum = host->option_uint(in.options, "udp_checksum");
  made->patience_ns = host->option_uint(in.options, "patience");
  int rc = eth_port_open(made, in.options, &made->port);
  if (rc < 0) {
    free(made);
    return rc;
  }
  *device = made;
  return 0;
}

void eth_close(struct pst_device *device)
{
  if (!device)
    return;
  eth_port_leave(device->port, device);
  free(device->workers);
  free(device);
}

int eth_start(struct pst_device *device)
{
  device->is_started = true;
  return eth_port_start(device->port);
}

int eth_limits(struct pst_device *device, struct pst_limits *limits)
{
  const struct eth_port *port = device->port;
  const uint32_t headers = device->dg.family == AF_INET6 ? 48 : 28;
  uint32_t most = port->mtu - headers;
  struct pst_limits out = {.struct_size = sizeof(out)};

  if (most > 65507)
    most = 65507;
  dg_limits_fill(&device->dg, ETH_CAPABILITIES & ~(port->times.unit ? 0 : (uint64_t)PST_CAP_TIME),
                 most, &out);
  out.slot_alignment = 64;
  out.headroom = ETH_SLOT_HEADROOM;
  out.tailroom += ETH_SLOT_MORE + (port->driver == &eth_drivers[ETH_DRIVER_AF_PACKET] ? 128 : 0);
  out.send_headroom = port->reads_by_reference ? ETH_SEND_HEADROOM : 0;
  out.slots_max = ETH_SLOTS_MAX;
  out.page_size = port->driver->traits & ETH_IS_DMA ? pst_page_size() : 1;
  pst_struct_write(limits, &out, sizeof(out));
  return 0;
}

void eth_path_fill(const struct pst_ring *ring, const struct eth_port *port,
                   struct pst_path_info *path)
{
  const bool is_slots = ring && ring->pool;
  char via[48];

  snprintf(via, sizeof(via), "%s, %s", port->driver->name,
           !ring      ? port->reads_by_reference ? "reference" : "copy"
           : is_slots ? "slots"
                      : "copy");
  pst_path_write(path, PST_PATH_DIRECT, via, "ethernet",
                 ring && !is_slots ? ring->copy_reason : "");
}

/* The whole pages that a range lies in: where they begin. */
static uint8_t *pages_of(const struct pst_cpu_mr *mr, size_t *length)
{
  const size_t page = pst_page_size();
  uint8_t *from = (uint8_t *)((uintptr_t)mr->base & ~(uintptr_t)(page - 1));

  *length = ((size_t)(mr->base + mr->length - from) + page - 1) & ~(page - 1);
  return from;
}

/* A card reaches only memory that DPDK knows and that is mapped for it. */
static int map(struct pst_device *device, struct pst_cpu_mr *mr)
{
  struct eth_port *port = device->port;
  struct rte_eth_dev_info *info = &port->info;
  size_t length;
  uint8_t *from = pages_of(mr, &length);

  if (!(port->driver->traits & ETH_IS_DMA))
    return 0;
  if (rte_extmem_register(from, length, NULL, 0, pst_page_size()) != 0 && rte_errno != EEXIST)
    return PST_REFUSE(device->dg.host, -rte_errno, "DPDK does not register %lu bytes: %s",
                      (unsigned long)length, strerror(rte_errno));
  if (rte_dev_dma_map(info->device, from, (uint64_t)(uintptr_t)from, length) == 0 ||
      rte_errno == ENOTSUP || rte_errno == EEXIST)
    return 0;
  int rc = -rte_errno;
  rte_extmem_unregister(from, length);
  return PST_REFUSE(device->dg.host, rc,
                    "port %s cannot reach %lu bytes: %s; `ulimit -l` bounds locked memory",
                    port->identity, (unsigned long)length, strerror(-rc));
}

int eth_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr)
{
  struct pst_mr *made;
  int rc = pst_cpu_mr_register(device, params, &made);

  if (rc < 0)
    return rc;
  rc = map(device, pst_cpu_mr_of(made));
  if (rc < 0) {
    pst_cpu_mr_deregister(device, made);
    return rc;
  }
  eth_path_fill(NULL, device->port, params->path);
  *mr = made;
  return 0;
}

void eth_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  struct pst_cpu_mr *range = pst_cpu_mr_of(mr);

  if (range && device->port->driver->traits & ETH_IS_DMA) {
    size_t length;
    uint8_t *from = pages_of(range, &length);
    rte_dev_dma_unmap(device->port->info.device, from, (uint64_t)(uintptr_t)from, length);
    rte_extmem_unregister(from, length);
  }
  pst_cpu_mr_deregister(device, mr);
}

/* Until the port starts, what is likely: endpoint_path has the last word. */
static void path_ahead(const struct pst_worker *worker, struct pst_path_info *path)
{
  const struct pst_device *device = worker->device;
  const bool has_rules = device->port->driver->traits & ETH_HAS_RULES;
  const bool is_copied = (device->port->driver->traits & ETH_TAKES_NO_POOL) ||
                         device->receive == ETH_RECEIVE_COPY ||
                         (device->dg.plan.rings > 1 && !(device->port->wants_rules && has_rules));
  char via[48];

  snprintf(via, sizeof(via), "%s, %s", device->port->driver->name, is_copied ? "copy" : "slots");
  pst_path_write(path, PST_PATH_DIRECT, via, "ethernet", "");
}

int eth_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  struct pst_ring *made;

  if (eth_port_is_sealed(worker->device->port))
    return -EBUSY;
  made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  eth_limits(worker->device, &limits);
  made->worker = worker;
  int rc = pst_cpu_ring_open(&made->cpu, worker->device->dg.host, &worker->rings, params, &limits);
  if (rc < 0) {
    free(made);
    return rc;
  }
  path_ahead(worker, path);
  *ring = made;
  return 0;
}

void eth_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  eth_port_end_ring(worker->device->port, ring);
  pst_cpu_ring_close(&ring->cpu, &worker->rings);
  free(ring);
}

int eth_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  return pst_cpu_release(worker->device->dg.host, &worker->rings, tokens, n);
}
