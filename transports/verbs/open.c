/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: opened, with what a transport needs to know of them, and closed. */
#include <endian.h>
#include <stdio.h>

#include "domain.h"
#include "open.h"
#include "worker.h"

#define SOFT_ROCE_VENDOR 0xffffffu
#define PKEY_BASE 0x7fffu /* the partition */
#define PKEY_FULL 0x8000u

static int vb_open_refuse(struct pst_device *device, const char *call)
{
  int code = errno;

  VB_LOG(device, PST_LOG_ERROR, "%s: %s: %s; see the kernel's log (`dmesg`)",
         device->open.info->name, call, strerror(code));
  return vb_call_error(code);
}

/* On InfiniBand a subnet manager fills the table. An entry may be empty, or that of a limited
 * member, which receives only from full ones. RoCE has the default partition. */
static int vb_open_check_membership(const struct pst_device *device)
{
  const struct vb_open *open = &device->open;
  const unsigned index = device->path.pkey_index;
  __be16 entry = 0;

  if (open->port->is_ethernet || open->port->lid == 0 ||
      ibv_query_pkey(open->context, (uint8_t)open->port->number, (int)index, &entry) != 0)
    return 0;
  const unsigned pkey = be16toh(entry);
  if ((pkey & PKEY_BASE) == 0) {
    VB_LOG(
        device, PST_LOG_ERROR,
        "%s port %u: entry %u of the port's P_Key table (`pkey_index`) is empty: the subnet "
        "manager has not made the port a member of it; see "
        "/sys/class/infiniband/%s/ports/%u/pkeys and its partitions (`partitions.conf` of opensm)",
        open->info->name, open->port->number, index, open->info->name, open->port->number);
    return -ENODEV;
  }
  VB_LOG(device, PST_LOG_DEBUG, "%s port %u: P_Key 0x%04x, %s", open->info->name,
         open->port->number, pkey,
         pkey & PKEY_FULL ? "a full member" : "a limited member, which reaches only full members");
  return 0;
}

/* 0 is of every port, whatever a driver says of its table. */
static int vb_open_check_pkey(const struct pst_device *device, const struct ibv_port_attr *port)
{
  const struct vb_open *open = &device->open;

  if (device->path.pkey_index == 0 || device->path.pkey_index < port->pkey_tbl_len)
    return vb_open_check_membership(device);
  VB_LOG(device, PST_LOG_ERROR,
         "%s port %u: the port's P_Key table has no entry %u (`pkey_index`); it has %u entries, "
         "from 0; see "
         "/sys/class/infiniband/%s/ports/%u/pkeys",
         open->info->name, open->port->number, device->path.pkey_index, port->pkey_tbl_len,
         open->info->name, open->port->number);
  return -ENODEV;
}

/* Reads the attributes of device and port, and checks the options that depend on them. */
static int vb_open_read_device(struct pst_device *device, const struct pst_options *options)
{
  struct vb_open *open = &device->open;
  struct ibv_port_attr port;

  if ((errno = ibv_query_device(open->context, &device->attr)) != 0)
    return vb_open_refuse(device, "ibv_query_device");
  if ((errno = ibv_query_port(open->context, (uint8_t)open->port->number, &port)) != 0)
    return vb_open_refuse(device, "ibv_query_port");
  device->is_soft = device->attr.vendor_id == SOFT_ROCE_VENDOR;
  vb_path_read(device->host, options, device->is_soft, &device->path);
  int rc = vb_open_check_pkey(device, &port);
  if (rc < 0)
    return rc;
  device->message_max = vb_smaller(port.max_msg_sz ? port.max_msg_sz : UINT32_MAX, VB_BYTES_MAX);
  if (device->attr.max_qp_rd_atom < 1 || device->attr.max_qp_init_rd_atom < 1)
    device->capabilities &= ~(uint64_t)(PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC);
  if (device->attr.atomic_cap == IBV_ATOMIC_NONE)
    device->capabilities &= ~(uint64_t)PST_CAP_ATOMIC;
  /* Both lists of a READ and of a WRITE. */
  int sges = device->attr.max_sge_rd > 0 && device->attr.max_sge_rd < device->attr.max_sge
                 ? device->attr.max_sge_rd
                 : device->attr.max_sge;
  device->pieces_max = vb_smaller((uint64_t)sges, VB_PIECES_MAX);
  snprintf(device->carrier, sizeof(device->carrier), "%s", device->is_soft ? "soft-roce" : "rdma");
  snprintf(device->counter_folder, sizeof(device->counter_folder), "%.250s/ports/%u",
           open->context->device->ibdev_path, open->port->number);
  device->numa_node = vb_numa_of_device(open->context->device->ibdev_path);
  device->counter_host = vb_counters_host(&open->place.gid);
  vb_counters_read(device->counter_folder, device->counter_host, &device->port_before);
  return 0;
}

static void vb_open_read_relaxed(struct pst_device *device, const struct pst_options *options)
{
#ifdef IBV_ACCESS_OPTIONAL_RANGE
  const uint64_t relaxed = device->host->option_uint(options, "relaxed_ordering");
  device->relaxed = relaxed != VB_RELAXED_NEVER ? IBV_ACCESS_RELAXED_ORDERING : 0;
  device->relaxed_offered = relaxed == VB_RELAXED_ALWAYS ? IBV_ACCESS_RELAXED_ORDERING : 0;
#endif
#ifndef IBV_ACCESS_OPTIONAL_RANGE
  (void)device;
  (void)options;
#endif
}

/* The host sizes rings by the link. Soft-RoCE names a speed that it does not have. */
static void vb_open_read_plan(struct pst_device *device, const struct pst_open_params *params)
{
  if (params->tell_link && device->open.port->mbps && !device->is_soft)
    params->tell_link(params, device->open.port->mbps * UINT64_C(1000000));
  if (params->plan)
    pst_struct_read(&device->plan, sizeof(device->plan), params->plan);
}

/* Opens the device for a transport. On failure vb_device_close() frees what there is. */
int vb_device_open(struct pst_device *device, const struct pst_host *host,
                   const struct vb_transport *transport, const struct pst_open_params *params,
                   uint64_t capabilities)
{
  const struct pst_options *options = params->options;
  const int32_t gid = host->option_is_set(options, "gid_index")
                          ? (int32_t)host->option_uint(options, "gid_index")
                          : -1;

  device->host = host;
  device->transport = transport;
  device->capabilities = capabilities;
  pthread_mutex_init(&device->events, NULL);
  pthread_mutex_init(&device->place_lock, NULL);
  pthread_mutex_init(&device->domains_lock, NULL);
  vb_open_read_relaxed(device, options);
  int rc = vb_open(host, host->option_string(options, "device"),
                   (uint32_t)host->option_uint(options, "port"), gid, &device->open);
  if (rc == 0)
    rc = vb_open_read_device(device, options);
  if (rc == 0)
    rc = vb_domain_open(&device->own, device, 0);
  if (rc < 0)
    return rc;
  vb_open_read_plan(device, params);
  char node[32] = "";
  if (device->numa_node >= 0)
    snprintf(node, sizeof(node), ", NUMA node %d", device->numa_node);
  VB_LOG(device, PST_LOG_DEBUG, "%s port %u%s, %s; a peer that does not answer shows after %.2f s",
         device->open.info->name, device->open.port->number, node, device->open.place.reason,
         (double)vb_silence_ns(&device->path) / 1e9);
  device->place = device->open.place;
  return 0;
}

void vb_device_close(struct pst_device *device)
{
  vb_domain_close(&device->own);
  vb_open_close(&device->open);
  pthread_mutex_destroy(&device->domains_lock);
  pthread_mutex_destroy(&device->place_lock);
  pthread_mutex_destroy(&device->events);
}

static bool vb_open_is_elsewhere(const struct vb_port_address *was,
                                 const struct vb_port_address *is)
{
  return was->lid != is->lid || was->mtu != is->mtu || was->gid.index != is->gid.index ||
         memcmp(was->gid.raw, is->gid.raw, sizeof(is->gid.raw)) != 0;
}

int vb_device_place(struct pst_device *device, struct vb_port_address *place)
{
  struct vb_port_address now;
  int rc = 0;

  vb_events(device);
  pthread_mutex_lock(&device->place_lock);
  if (atomic_exchange(&device->place_changes, false) ||
      !vb_port_address_holds(&device->open, &device->place)) {
    rc = vb_port_address_read(device->host, &device->open, &now);
    if (rc < 0)
      atomic_store(&device->place_changes, true);
    else if (vb_open_is_elsewhere(&device->place, &now))
      VB_LOG(device, PST_LOG_INFO, "%s port %u has another address now: LID %u, MTU %u, %s",
             device->open.info->name, device->open.port->number, now.lid, vb_mtu_bytes(now.mtu),
             now.reason);
    if (rc == 0)
      device->place = now;
  }
  *place = device->place;
  pthread_mutex_unlock(&device->place_lock);
  return rc;
}
