/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices and their ports. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

#define NO_DEVICE_REMEDY                                                                           \
  "load the adapter's kernel module (mlx5_ib, rdma_rxe for soft-RoCE: `rdma link add rxe0 type "   \
  "rxe netdev eth0`), install its provider (Debian: ibverbs-providers), and pass /dev/infiniband " \
  "to the container"

static void vb_device_read_pci(const struct ibv_device *device, char pci[16])
{
  char path[300], target[300];

  snprintf(path, sizeof(path), "%s/device", device->ibdev_path);
  ssize_t n = readlink(path, target, sizeof(target) - 1);
  if (n <= 0)
    return;
  target[n] = '\0';
  const char *last = strrchr(target, '/');
  unsigned domain, bus, slot, function;
  if (last && sscanf(last + 1, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
    snprintf(pci, 16, "%.15s", last + 1);
}

static uint32_t vb_device_speed_of(const struct ibv_port_attr *attr)
{
#ifdef VB_HAS_ACTIVE_SPEED_EX
  if (attr->active_speed_ex) /* libraries that do not know it leave 0 */
    return attr->active_speed_ex;
#endif
  return attr->active_speed;
}

void vb_port_read(struct ibv_context *context, uint32_t number, struct vb_port *port)
{
  struct ibv_port_attr attr;
  struct ifaddrs *own = NULL;

  if (ibv_query_port(context, (uint8_t)number, &attr) != 0)
    return;
  port->number = number;
  port->state = attr.state;
  port->is_ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
  port->needs_grh = attr.flags & IBV_QPF_GRH_REQUIRED;
  port->lid = attr.lid;
  port->mtu = attr.active_mtu;
  port->mbps = vb_port_mbps(attr.active_width, vb_device_speed_of(&attr));
  int n = vb_gid_read(context, number, port->is_ethernet, port->gids);
  port->gid_count = n > 0 ? (uint32_t)n : 0;
  port->gid_error = n < 0 ? -n : 0;
  if (port->is_ethernet && getifaddrs(&own) == 0) {
    vb_gid_find_homes(port->gids, port->gid_count, own);
    freeifaddrs(own);
  }
}

static int vb_device_read_open(struct ibv_context *context, struct vb_device *to)
{
  struct ibv_device_attr attr;
  int rc = ibv_query_device(context, &attr);

  if (rc != 0)
    return rc;
  snprintf(to->firmware, sizeof(to->firmware), "%s", attr.fw_ver);
  to->port_count = attr.phys_port_cnt < VB_PORTS_MAX ? attr.phys_port_cnt : VB_PORTS_MAX;
  for (uint32_t i = 0; i < to->port_count; i++)
    vb_port_read(context, i + 1, &to->ports[i]);
  return 0;
}

/* Facts of a device that is not opened. */
static void vb_device_name(struct ibv_device *device, struct vb_device *to)
{
  snprintf(to->name, sizeof(to->name), "%s", ibv_get_device_name(device));
  to->transport = device->transport_type;
  vb_device_read_pci(device, to->pci);
}

static void vb_device_read(struct ibv_device *device, struct vb_device *to)
{
  errno = 0;
  struct ibv_context *context = ibv_open_device(device);

  if (!context) {
    to->error = errno ? errno : EIO;
    return;
  }
  to->error = vb_device_read_open(context, to);
  ibv_close_device(context);
}

/* All of them, or the one that is called so; how many were opened. */
static int vb_device_read_devices(struct ibv_device **devices, const char *only,
                                  struct vb_device *all, int *count)
{
  int opened = 0;

  for (int i = 0; i < *count; i++)
    vb_device_name(devices[i], &all[i]);
  for (int i = 0; only[0] && i < *count; i++) {
    if (!vb_is_called(&all[i], only))
      continue;
    all[0] = all[i];
    *count = 1;
    vb_device_read(devices[i], &all[0]);
    return !all[0].error;
  }
  for (int i = 0; i < *count; i++) {
    vb_device_read(devices[i], &all[i]);
    opened += !all[i].error;
  }
  return opened;
}

static int vb_device_list_none(struct ibv_device **devices, char *why, size_t why_size,
                               char *remedy, size_t remedy_size)
{
  const int error = devices ? -ENODEV : errno ? -errno : -ENODEV;

  snprintf(why, why_size, "no RDMA device%s%s",
           error == -ENOSYS ? ": the kernel module ib_uverbs is not loaded"
           : devices        ? ""
                            : ": ibv_get_device_list: ",
           devices || error == -ENOSYS ? "" : strerror(-error));
  snprintf(remedy, remedy_size, "%s", NO_DEVICE_REMEDY);
  if (devices)
    ibv_free_device_list(devices);
  return error == -ENOSYS ? -ENODEV : error;
}

/* Lists the devices, opened. If `only` is the verbs name or the PCI address of one, no other is
 * opened. Returns how many; -errno with `why` and `remedy` when there is none or none opens. */
static int vb_list(const char *only, struct vb_device **all, char *why, size_t why_size,
                   char *remedy, size_t remedy_size)
{
  int count = 0;
  struct ibv_device **devices = ibv_get_device_list(&count);

  if (!devices || count == 0)
    return vb_device_list_none(devices, why, why_size, remedy, remedy_size);
  struct vb_device *made = calloc((size_t)count, sizeof(*made));
  const int opened = made ? vb_device_read_devices(devices, only, made, &count) : 0;
  ibv_free_device_list(devices);
  /* Report the named device as what it is. */
  if (opened || (made && only[0] && vb_is_called(&made[0], only))) {
    *all = made;
    return count;
  }
  const int error = made ? -made[count - 1].error : -ENOMEM;
  free(made);
  snprintf(why, why_size, "none of the %d RDMA devices can be opened: %s", count, strerror(-error));
  snprintf(remedy, remedy_size,
           "give this user read and write access to /dev/infiniband/uverbs*, and a locked-memory "
           "limit (`ulimit -l`) that is not tiny");
  return error;
}

static struct ibv_context *vb_device_open_named(const char *name)
{
  struct ibv_device **devices = ibv_get_device_list(NULL);
  struct ibv_context *context = NULL;

  for (int i = 0; devices && devices[i] && !context; i++)
    if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
      context = ibv_open_device(devices[i]);
  if (devices)
    ibv_free_device_list(devices);
  return context;
}

/* A port has perhaps no address yet, when a service begins before the network does. */
static int vb_device_choose_place(const struct pst_host *host, struct vb_open *made)
{
  const struct vb_port *port = made->port;

  if (port->gid_count || port->gid_error || made->requested.index >= 0)
    return vb_port_address_choose(host, made, port, &made->place);
  host->log(host, PST_LOG_WARN,
            "%s port %u has no address yet, and reaches no peer before it has one (`ip addr add`, "
            "`ip link set dev … up`)",
            made->info->name, port->number);
  snprintf(made->place.reason, sizeof(made->place.reason), "the port had no GID");
  return 0;
}

/* RC, and what is like it. */
static int vb_device_check_transport(const struct pst_host *host, const struct vb_device *device)
{
  if (device->transport == IBV_TRANSPORT_IB)
    return 0;
  host->log(host, PST_LOG_ERROR,
            "%s is %s; choose an adapter of InfiniBand or RoCE, or transport udp", device->name,
            device->transport == IBV_TRANSPORT_IWARP
                ? "iWARP, which has no RDMA WRITE with immediate data"
                : "not of InfiniBand's transports (EFA and usNIC have no RC)");
  return -EOPNOTSUPP;
}

/* Opens a matching device and its port. *opened owns both; on failure nothing is left. */
static int vb_device_open_match(const struct pst_host *host, const struct vb_device *device,
                                const struct vb_match *match, struct vb_open *opened)
{
  struct vb_open made = {.requested = match->requested};
  int rc = vb_device_check_transport(host, device);

  if (rc < 0)
    return rc;
  struct vb_device *info = malloc(sizeof(*info));
  if (!info)
    return -ENOMEM;
  *info = *device;
  made.info = info;
  made.port = &info->ports[match->port];
  rc = vb_device_choose_place(host, &made);
  if (rc < 0) {
    free(info);
    return rc;
  }
  made.context = vb_device_open_named(info->name);
  if (!made.context) {
    int code = errno;
    rc = vb_call_error(code);
    host->log(host, PST_LOG_ERROR, "%s cannot be opened: %s; see /dev/infiniband", info->name,
              strerror(code));
    free(info);
    return rc;
  }
  if (made.port->state != IBV_PORT_ACTIVE)
    host->log(host, PST_LOG_WARN, "%s port %u is %s: nothing arrives before it is active; see %s",
              info->name, made.port->number, vb_port_state(made.port),
              made.port->is_ethernet ? "`rdma link`, cable and switch, `ip link set dev … up`"
              : made.port->state == IBV_PORT_INIT
                  ? "`sminfo`, and start one (`opensm`, or the switch's)"
                  : "`ibstat`, cable and switch");
  *opened = made;
  return 0;
}

/* Returns the index of a network interface; 0: there is none of that name. Reads the list, because
 * to ask for an unknown name makes the kernel look for a module. */
static uint32_t vb_device_netdev_of(const char *name)
{
  struct if_nameindex *all = if_nameindex();
  uint32_t found = 0;

  for (struct if_nameindex *at = all; at && at->if_name && !found; at++)
    if (strcmp(at->if_name, name) == 0)
      found = at->if_index;
  if (all)
    if_freenameindex(all);
  return found;
}

int vb_open(const struct pst_host *host, const char *name, uint32_t port, int32_t gid_index,
            struct vb_open *opened)
{
  char why[1280], remedy[512];
  struct vb_device *all = NULL;
  struct vb_match match;
  int count = vb_list(name, &all, why, sizeof(why), remedy, sizeof(remedy));

  if (count < 0) {
    host->log(host, PST_LOG_ERROR, "%s: %s", why, remedy);
    return count;
  }
  int rc = vb_match(all, (uint32_t)count, name, port, vb_device_netdev_of(name), &match, why,
                    sizeof(why));
  if (rc < 0)
    host->log(host, PST_LOG_ERROR, "%s", why);
  match.requested.index = gid_index;
  if (rc == 0)
    rc = vb_device_open_match(host, &all[match.device], &match, opened);
  free(all);
  return rc;
}

void vb_open_close(struct vb_open *opened)
{
  if (opened->context)
    ibv_close_device(opened->context);
  free(opened->info);
  *opened = (struct vb_open){0};
}

int vb_probe(struct pst_probe *probe)
{
  struct vb_device *all = NULL;
  int count =
      vb_list("", &all, probe->reason, sizeof(probe->reason), probe->remedy, sizeof(probe->remedy));

  for (int i = 0; i < count; i++) {
    char detail[320], port[160];
    if (all[i].error) {
      snprintf(detail, sizeof(detail), "cannot be opened: %s", strerror(all[i].error));
      probe->device(probe->context, all[i].name, detail);
    }
    for (uint32_t p = 0; p < all[i].port_count; p++) {
      vb_port_text(&all[i].ports[p], port, sizeof(port));
      snprintf(detail, sizeof(detail), "%s%s%s, firmware %s", port, all[i].pci[0] ? ", PCI " : "",
               all[i].pci, all[i].firmware[0] ? all[i].firmware : "unknown");
      probe->device(probe->context, all[i].name, detail);
    }
  }
  free(all);
  return count < 0 ? count : 0;
}
