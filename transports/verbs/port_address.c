/* SPDX-License-Identifier: Apache-2.0 */
/* Where a port is on its network, which changes while programs run: an address that is configured
 * later, another LID by another subnet manager, a netdev's MTU. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

int vb_port_address_choose(const struct pst_host *host, const struct vb_open *open,
                           const struct vb_port *port, struct vb_port_address *place)
{
  struct vb_port_address now = {.lid = port->lid, .mtu = port->mtu};
  const char *name = open->info->name;
  uint32_t at;

  if (port->gid_error) {
    host->log(host, PST_LOG_ERROR,
              "%s port %u: its GID table cannot be read: %s; see `rdma link` and "
              "/sys/class/infiniband/%s/ports/%u/gids",
              name, port->number, strerror(port->gid_error), name, port->number);
    return -ENODEV;
  }
  if (vb_gid_choose(port->gids, port->gid_count, &open->requested, &at, now.reason,
                    sizeof(now.reason)) < 0) {
    host->log(host, PST_LOG_ERROR, "%s port %u: %s", name, port->number, now.reason);
    return -ENODEV;
  }
  now.gid = port->gids[at];
  *place = now;
  return 0;
}

bool vb_port_address_holds(const struct vb_open *open, const struct vb_port_address *place)
{
  struct ibv_port_attr attr;

  return ibv_query_port(open->context, (uint8_t)open->port->number, &attr) == 0 &&
         attr.lid == place->lid && attr.active_mtu == place->mtu &&
         vb_port_address_has_gid(open, place);
}

bool vb_port_address_has_gid(const struct vb_open *open, const struct vb_port_address *place)
{
  static const uint8_t none[16];
  union ibv_gid gid;

  return memcmp(place->gid.raw, none, sizeof(none)) != 0 &&
         ibv_query_gid(open->context, (uint8_t)open->port->number, (int)place->gid.index, &gid) ==
             0 &&
         memcmp(gid.raw, place->gid.raw, sizeof(gid.raw)) == 0;
}

int vb_port_address_read(const struct pst_host *host, const struct vb_open *open,
                         struct vb_port_address *place)
{
  struct vb_port *port = calloc(1, sizeof(*port));

  if (!port)
    return -ENOMEM;
  vb_port_read(open->context, open->port->number, port);
  port->number = open->port->number; /* where it could not be asked, too */
  int rc = vb_port_address_choose(host, open, port, place);
  free(port);
  if (rc == 0 && !open->port->is_ethernet && place->lid == 0) {
    host->log(
        host, PST_LOG_ERROR,
        "%s port %u has no LID: no subnet manager has configured it; see `sminfo`, or start one "
        "(`opensm`)",
        open->info->name, open->port->number);
    rc = -EADDRNOTAVAIL;
  }
  return rc;
}
