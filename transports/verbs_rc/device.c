/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, what they allow, and registrations. */
#include <endian.h>
#include <stdio.h>

#include "../verbs/domain.h"
#include "cm.h"
#include "ops.h"

#define SOFT_ROCE_VENDOR 0xffffffu
#define PKEY_BASE 0x7fffu /* the partition */
#define PKEY_FULL 0x8000u

static int refuse(struct pst_device *device, const char *call)
{
  int code = errno;

  VB_LOG(device, PST_LOG_ERROR, "%s: %s: %s; see the kernel's log (`dmesg`)",
         device->open.info->name, call, strerror(code));
  return vb_call_error(code);
}

/* On InfiniBand a subnet manager fills the table: an entry may be empty, or that of a limited
 * member, which hears full ones alone. RoCE has the default partition. */
static int check_membership(const struct pst_device *device)
{
  const struct vb_open *open = &device->open;
  const unsigned index = device->path.pkey_index;
  __be16 entry = 0;

  if (open->port->is_ethernet || open->port->lid == 0 ||
      ibv_query_pkey(open->context, (uint8_t)open->port->number, (int)index, &entry) != 0)
    return 0;
  const unsigned pkey = be16toh(entry);
  if ((pkey & PKEY_BASE) == 0) {
    VB_LOG(device, PST_LOG_ERROR,
           "%s port %u: entry %u of the port's P_Key table (`pkey_index`) is empty: the subnet "
           "manager has made the port no member there; see /sys/class/infiniband/%s/ports/%u/pkeys "
           "and its partitions (`partitions.conf` of opensm)",
           open->info->name, open->port->number, index, open->info->name, open->port->number);
    return -ENODEV;
  }
  VB_LOG(device, PST_LOG_DEBUG, "%s port %u: P_Key 0x%04x, %s", open->info->name,
         open->port->number, pkey,
         pkey & PKEY_FULL ? "a full member" : "a limited member, which hears full ones alone");
  return 0;
}

/* 0 is of every port, whatever a driver says of its table. */
static int check_pkey(const struct pst_device *device, const struct ibv_port_attr *port)
{
  const struct vb_open *open = &device->open;

  if (device->path.pkey_index == 0 || device->path.pkey_index < port->pkey_tbl_len)
    return check_membership(device);
  VB_LOG(
      device, PST_LOG_ERROR,
      "%s port %u: the port's P_Key table has no entry %u (`pkey_index`), but %u, from 0 on; see "
      "/sys/class/infiniband/%s/ports/%u/pkeys",
      open->info->name, open->port->number, device->path.pkey_index, port->pkey_tbl_len,
      open->info->name, open->port->number);
  return -ENODEV;
}

static int read_device(struct pst_device *device, const struct pst_options *options)
{
  struct vb_open *open = &device->open;
  struct ibv_port_attr port;

  if ((errno = ibv_query_device(open->context, &device->attr)) != 0)
    return refuse(device, "ibv_query_device");
  if ((errno = ibv_query_port(open->context, (uint8_t)open->port->number, &port)) != 0)
    return refuse(device, "ibv_query_port");
  device->is_soft = device->attr.vendor_id == SOFT_ROCE_VENDOR;
  vb_path_read(device->host, options, device->is_soft, &device->path);
  int rc = check_pkey(device, &port);
  if (rc < 0)
    return rc;
  if (device->shares && (device->attr.max_srq < 1 || device->attr.max_srq_sge < 1 ||
                         (uint32_t)device->attr.max_srq_wr <= VB_RECEIVES_BESIDE)) {
    VB_LOG(device, PST_LOG_ERROR,
           "%s has no shared receive queues for `srq: true` (max_srq %d, of %d receives of %d "
           "pieces; see `ibv_devinfo -v`): leave out `srq`, or choose another device",
           device->open.info->name, device->attr.max_srq, device->attr.max_srq_wr,
           device->attr.max_srq_sge);
    return -EOPNOTSUPP;
  }
  device->message_max = vb_smaller(port.max_msg_sz ? port.max_msg_sz : UINT32_MAX, VB_BYTES_MAX);
  device->capabilities = RC_CAPABILITIES;
  if (device->attr.max_qp_rd_atom < 1 || device->attr.max_qp_init_rd_atom < 1)
    device->capabilities &= ~(uint64_t)(PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC);
  if (device->attr.atomic_cap == IBV_ATOMIC_NONE)
    device->capabilities &= ~(uint64_t)PST_CAP_ATOMIC;
  /* Both lists of a READ and of a WRITE. */
  int sges = device->attr.max_sge_rd > 0 && device->attr.max_sge_rd < device->attr.max_sge
                 ? device->attr.max_sge_rd
                 : device->attr.max_sge;
  device->pieces_max = vb_smaller((uint64_t)sges, RC_PIECES_MAX);
  snprintf(device->carrier, sizeof(device->carrier), "%s", device->is_soft ? "soft-roce" : "rdma");
  snprintf(device->counter_folder, sizeof(device->counter_folder), "%.250s/ports/%u",
           open->context->device->ibdev_path, open->port->number);
  device->numa_node = vb_numa_of_device(open->context->device->ibdev_path);
  device->counter_host = vb_counters_host(&open->place.gid);
  vb_counters_read(device->counter_folder, device->counter_host, &device->port_before);
  return 0;
}

static void read_options(struct pst_device *device, const struct pst_options *options)
{
  const struct pst_host *host = device->host;

#ifdef IBV_ACCESS_OPTIONAL_RANGE
  const uint64_t relaxed = host->option_uint(options, "relaxed_ordering");
  device->relaxed = relaxed != VB_RELAXED_NEVER ? IBV_ACCESS_RELAXED_ORDERING : 0;
  device->relaxed_offered = relaxed == VB_RELAXED_ALWAYS ? IBV_ACCESS_RELAXED_ORDERING : 0;
#endif
  device->sends = strcmp(host->option_string(options, "operation"), "send") == 0;
  device->reconnect_ns = host->option_uint(options, "reconnect");
  device->keepalive_ns = host->option_uint(options, "keepalive");
  device->cm = host->option_uint(options, "connection") == 1 ? &rc_cm : NULL;
  device->cm_port = (uint16_t)host->option_uint(options, "cm_port");
  device->initial = host->option_uint(options, "first_sequence");
  device->qps = (uint32_t)host->option_uint(options, "qps");
  device->has_ece = host->option_uint(options, "ece") == VB_ECE_AUTO;
  device->shares = host->option_uint(options, "srq");
  device->runs = host->option_uint(options, "runs");
}

/* A silent end notices a failure by a keepalive, and may do so after the other has given up. By
 * rdma_cm the kernel says so at once. */
static void tell_brief(const struct pst_device *device)
{
  const uint64_t notices_ns = device->keepalive_ns + vb_silence_ns(&device->path);

  if (device->cm || device->reconnect_ns == 0 || device->reconnect_ns >= notices_ns)
    return;
  VB_LOG(device, PST_LOG_WARN,
         "`reconnect` of %.2f s ends before a silent end notices that the connection failed: that "
         "takes keepalive + timeout * (retry_cnt + 1), %.2f s here. Raise `reconnect` to several "
         "times that, or lower `timeout` (%u) or `keepalive`",
         (double)device->reconnect_ns / 1e9, (double)notices_ns / 1e9, device->path.timeout);
}

int rc_open(const struct pst_host *host, const struct vb_transport *transport,
            const struct pst_open_params *params, struct pst_device **device)
{
  struct pst_open_params in;
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->host = host;
  made->transport = transport;
  if (in.plan)
    pst_struct_read(&made->plan, sizeof(made->plan), in.plan);
  read_options(made, in.options);
  pthread_mutex_init(&made->events, NULL);
  pthread_mutex_init(&made->place_lock, NULL);
  pthread_mutex_init(&made->domains_lock, NULL);
  int32_t gid = host->option_is_set(in.options, "gid_index")
                    ? (int32_t)host->option_uint(in.options, "gid_index")
                    : -1;
  int rc = vb_open(host, host->option_string(in.options, "device"),
                   (uint32_t)host->option_uint(in.options, "port"), gid, &made->open);
  if (rc == 0 && made->cm)
    rc = made->cm->check(made);
  if (rc == 0)
    rc = read_device(made, in.options);
  if (rc == 0)
    rc = vb_domain_open(&made->own, made, 0);
  if (rc < 0) {
    rc_close(made);
    return rc;
  }
  char node[32] = "";
  if (made->numa_node >= 0)
    snprintf(node, sizeof(node), ", NUMA node %d", made->numa_node);
  VB_LOG(made, PST_LOG_DEBUG, "%s port %u%s, %s; a peer that does not answer shows after %.2f s",
         made->open.info->name, made->open.port->number, node, made->open.place.reason,
         (double)vb_silence_ns(&made->path) / 1e9);
  tell_brief(made);
  made->place = made->open.place;
  *device = made;
  return 0;
}

void rc_close(struct pst_device *device)
{
  if (!device)
    return;
  if (device->counter_folder[0])
    rc_tell_slow(device);
  vb_domain_close(&device->own);
  vb_open_close(&device->open);
  pthread_mutex_destroy(&device->domains_lock);
  pthread_mutex_destroy(&device->place_lock);
  pthread_mutex_destroy(&device->events);
  free(device);
}
