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
  made->sums = made->dg.framing == DG_FRAMING_SEQUENCE && host->option_uint(in.options, "checksum");
  made->stamps = host->option_uint(in.options, "timestamps") != 0;
  made->holds_back = host->option_uint(in.options, "departure") != 0;
  int rc = eth_port_open(made, in.options, &made->port);
  if (rc < 0) {
    free(made);
    return rc;
  }
  made->dg.keeps_departures = made->holds_back || made->port->times.departs;
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

/* Fills in what the device can do: of its port's MTU, its rings and its options. */
int eth_limits(struct pst_device *device, struct pst_limits *limits)
{
  const struct eth_port *port = device->port;
  const uint32_t headers = device->dg.family == AF_INET6 ? 48 : 28;
  uint32_t most = port->mtu - headers;
  struct pst_limits out = {.struct_size = sizeof(out)};

  if (most > 65507)
    most = 65507;
  dg_limits_fill(
      &device->dg,
      (ETH_CAPABILITIES & ~(device->stamps || port->times.unit ? 0 : (uint64_t)PST_CAP_TIME)) |
          (device->dg.keeps_departures ? PST_CAP_DEPARTURE : 0),
      most, &out);
  out.slot_alignment = 64;
  out.headroom = ETH_SLOT_HEADROOM;
  out.tailroom += ETH_SLOT_MORE + eth_frame_overhead(&port->info) - 18;
  out.tailroom += (port->driver == &eth_drivers[ETH_DRIVER_AF_PACKET] ? 128 : 0);
  out.send_headroom = port->reads_by_reference
                          ? ETH_SEND_HEADROOM + (device->dg.authenticates ? DG_TAG_BYTES : 0)
                          : 0;
  out.slots_max = ETH_SLOTS_MAX;
  if (port->driver->traits & ETH_IS_DMA) {
    out.ring_needs = out.send_needs = 0; /* mr_register says which memory a card reaches */
    out.page_size = pst_page_size();
    if (port->segments_max > 1)
      out.pieces_max = RTE_MIN(out.pieces_max, port->segments_max - 1);
  }
  pst_struct_write(limits, &out, sizeof(out));
  return 0;
}

void eth_path_fill(const struct pst_ring *ring, const struct eth_port *port,
                   struct pst_path_info *path)
{
  const bool is_slots = ring && ring->pool;
  char via[48];

  snprintf(via, sizeof(via), "%s, %s", port->driver->name,
           !ring            ? port->reads_by_reference ? "reference" : "copy"
           : ring->is_split ? "split"
           : is_slots       ? "slots"
                            : "copy");
  pst_path_write(path, PST_PATH_DIRECT, via, "ethernet",
                 ring && !is_slots ? ring->copy_reason : "");
}

/* The whole pages that a range lies in: where they begin. */
static uint8_t *eth_device_pages_of(const struct pst_cpu_mr *mr, size_t *length)
{
  const size_t page = pst_page_size();
  uint8_t *from = (uint8_t *)((uintptr_t)mr->base & ~(uintptr_t)(page - 1));

  *length = ((size_t)(mr->base + mr->length - from) + page - 1) & ~(page - 1);
  return from;
}

/* A card reaches only memory that DPDK knows and that is mapped for it. 0; -errno, and what fails.
 */
static int eth_device_map(const struct pst_device *device, const struct pst_mr *registered,
                          const char **what)
{
  const struct pst_cpu_mr *mr = &registered->cpu;
  const struct eth_port *port = device->port;
  size_t length;
  uint8_t *from = eth_device_pages_of(mr, &length);

  if (!(port->driver->traits & ETH_IS_DMA))
    return 0;
  *what = "DPDK does not register";
  if (rte_extmem_register(from, length, NULL, 0, pst_page_size()) != 0 && rte_errno != EEXIST)
    return -rte_errno;
  if (rte_dev_dma_map(port->info.device, from, (uint64_t)(uintptr_t)from, length) == 0 ||
      (rte_errno == ENOTSUP && !registered->is_device) || rte_errno == EEXIST)
    return 0;
  int rc = -rte_errno;
  rte_extmem_unregister(from, length);
  *what = "its card cannot reach";
  return rc;
}

/* Why no ring can lie in memory that the CPU does not reach; NULL: one can. */
static const char *eth_device_judge_split(const struct pst_device *device, char why[ETH_SPLIT_WHY])
{
  const struct eth_port *port = device->port;
  const struct rte_eth_dev_info *info = &port->info;
  struct eth_split_facts facts = {
      .is_card = port->driver->traits & ETH_IS_DMA && rte_eal_iova_mode() == RTE_IOVA_VA,
      .has_split =
          (info->rx_offload_capa | info->rx_queue_offload_capa) & RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT,
      .has_pools = info->rx_seg_capa.multi_pools,
      .segments_max = info->rx_seg_capa.max_nseg,
      .wants_rules = port->wants_rules && port->driver->traits & ETH_HAS_RULES,
      .wants_copy = device->receive == ETH_RECEIVE_COPY,
      .has_tags = device->dg.authenticates,
      .queues = RTE_MIN((uint32_t)info->max_rx_queues, ETH_QUEUES_MAX)};

  ETH_FOR_EACH_WORKER(port, worker)
  for (uint32_t i = 0; i < worker->rings.room; i++)
    facts.rings += worker->rings.all[i].at != NULL;
  return eth_split_judge(&facts, why);
}

/* mlx5 looks for the flag when it starts. False: DPDK has no flag left. */
static bool eth_device_ask_no_inline(struct eth_port *port)
{
  /* RTE_PMD_MLX5_FINE_GRANULARITY_INLINE of rte_pmd_mlx5.h, which a DPDK without mlx5 lacks. */
  static const struct rte_mbuf_dynflag flag = {.name = "mlx5_fine_granularity_inline"};
  int bit = rte_mbuf_dynflag_register(&flag);

  if (bit >= 0)
    port->no_inline = RTE_BIT64(bit);
  return bit >= 0;
}

/* Why no payload can be sent from memory that the CPU does not reach; NULL: one can. */
static const char *eth_device_judge_payload(const struct pst_device *device)
{
  const struct eth_port *port = device->port;
  const struct eth_payload_facts facts = {
      .is_card = port->driver->traits & ETH_IS_DMA && port->reads_by_reference,
      .has_no_inline = strncmp(port->info.driver_name, "mlx5", 4) == 0,
      .inline_min = eth_payload_inline_min(port->arguments),
      .segments_max = port->segments_max,
      .sums_bytes = device->sums,
      .has_tags = device->dg.authenticates,
      .sums_udp = device->udp_sum == ETH_SUM_SOFTWARE,
      .offloads_udp = (port->info.tx_offload_capa & ETH_TX_SUMS) == ETH_TX_SUMS,
      .may_be_ipv6 = device->dg.family != AF_INET && eth_port_network(port, AF_INET6)};
  const char *why = eth_payload_judge(&facts);

  return why || eth_device_ask_no_inline(device->port) ? why : "DPDK has no mbuf flag left";
}

/* Memory of a GPU: a card that splits frames receives into it, and mlx5 sends from it. */
static int eth_device_register(struct pst_device *device, const struct pst_mr_params *params,
                               const struct pst_region *region, struct pst_mr *made)
{
  char text[ETH_SPLIT_WHY];
  const bool is_ring = params->access & PST_ACCESS_RING;
  const char *why =
      is_ring ? eth_device_judge_split(device, text) : eth_device_judge_payload(device);

  if (!why) {
    made->is_device = true;
    made->cpu =
        (struct pst_cpu_mr){(uint8_t *)(uintptr_t)region->address + params->offset, params->length,
                            params->access & ~(is_ring ? (uint32_t)PST_ACCESS_LOCAL_READ : 0u)};
    if (eth_device_map(device, made, &why) == 0) {
      pst_path_write(params->path, PST_PATH_DIRECT, is_ring ? "pci, split" : "pci, reference",
                     "ethernet", "");
      return 0;
    }
    why = "the card does not reach it; `modprobe nvidia-peermem` lets an mlx5 reach a GPU";
  }
  pst_path_write(params->path, PST_PATH_NONE, "", "", why);
  return -EOPNOTSUPP;
}

/* Registers the memory with DPDK and the port's device, or says in the path why its messages will
 * be staged. */
int eth_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr)
{
  struct pst_mr_params in;
  struct pst_region region;
  struct pst_mr *made;
  const char *what;
  int rc;

  pst_struct_read(&in, sizeof(in), params);
  pst_struct_read(&region, sizeof(region), in.region);
  rc = pst_mr_params_check(device->dg.host, &in, &region, NULL);
  if (rc < 0)
    return rc;
  made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->page_size = region.page_size;
  if (region.host) {
    made->cpu = (struct pst_cpu_mr){(uint8_t *)region.host + in.offset, in.length, in.access};
    rc = eth_device_map(device, made, &what);
    if (rc < 0)
      ETH_PORT_LOG(device->port, PST_LOG_ERROR,
                   "%s %lu bytes: %s; `ulimit -l` bounds locked memory", what,
                   (unsigned long)in.length, strerror(-rc));
    eth_path_fill(NULL, device->port, in.path);
  } else {
    rc = eth_device_register(device, &in, &region, made);
  }
  if (rc < 0)
    free(made);
  else
    *mr = made;
  return rc;
}

void eth_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  if (mr && device->port->driver->traits & ETH_IS_DMA) {
    size_t length;
    uint8_t *from = eth_device_pages_of(&mr->cpu, &length);
    rte_dev_dma_unmap(device->port->info.device, from, (uint64_t)(uintptr_t)from, length);
    rte_extmem_unregister(from, length);
  }
  free(mr);
}

/* Until the port starts, what is likely: endpoint_path has the last word. */
static void eth_device_path_ahead(const struct pst_worker *worker, const struct pst_ring *ring,
                                  struct pst_path_info *path)
{
  const struct pst_device *device = worker->device;
  const bool has_rules = device->port->driver->traits & ETH_HAS_RULES;
  const bool is_copied = (device->port->driver->traits & ETH_TAKES_NO_POOL) ||
                         device->receive == ETH_RECEIVE_COPY ||
                         (device->dg.plan.rings > 1 && !(device->port->wants_rules && has_rules));
  char via[48];

  snprintf(via, sizeof(via), "%s, %s", device->port->driver->name,
           ring->is_split ? "split"
           : is_copied    ? "copy"
                          : "slots");
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
  made->mr = params->mr;
  made->is_split = params->mr->is_device;
  eth_device_path_ahead(worker, made, path);
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
