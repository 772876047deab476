/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a device from a list, so that tests need no devices. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "device.h"
#include "status.h"

uint32_t vb_port_mbps(uint32_t width, uint32_t speed)
{
  static const struct {
    uint32_t code, mbps;
  } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},    {8, 10000},   {16, 14000},
                {32, 25000}, {64, 50000}, {128, 100000}, {256, 200000}};
  static const uint32_t lanes[] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};
  uint32_t count = width <= 16 ? lanes[width] : 0;

  for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
    if (speeds[i].code == speed)
      return speeds[i].mbps * count;
  return 0;
}

/* An InfiniBand port whose cable works stays in INIT until a subnet manager has come by (IBTA 1.7,
 * volume 1, 14.4). */
const char *vb_port_state(const struct vb_port *port)
{
  switch (port->state) {
  case IBV_PORT_ACTIVE:
    return "active";
  case IBV_PORT_DOWN:
    return "down";
  case IBV_PORT_INIT:
    return port->is_ethernet ? "not active" : "not configured by a subnet manager";
  default:
    return "not active";
  }
}

/* The best of a port's addresses, as the GID would be chosen. */
void vb_port_text(const struct vb_port *port, char *text, size_t size)
{
  struct vb_gid_request requested = {.is_ethernet = port->is_ethernet, .index = -1};
  char gid[VB_GID_TEXT] = "no address", ignored[256], rate[32] = "";
  uint32_t at;

  if (vb_gid_choose(port->gids, port->gid_count, &requested, &at, ignored, sizeof(ignored)) == 0)
    vb_gid_print(&port->gids[at], gid);
  if (port->mbps)
    snprintf(rate, sizeof(rate), ", %g Gbit/s", port->mbps / 1000.0);
  snprintf(text, size, "port %u %s, %s%s, %s", port->number, vb_port_state(port),
           port->is_ethernet ? "Ethernet" : "InfiniBand", rate, gid);
}

static void vb_select_list(const struct vb_device *all, uint32_t count, char *text, size_t size)
{
  char port[160];

  text[0] = '\0';
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t p = 0; p < all[i].port_count; p++) {
      vb_port_text(&all[i].ports[p], port, sizeof(port));
      vb_text_add(text, size, "%s%s: %s", text[0] ? "; " : "", all[i].name, port);
    }
    if (all[i].error)
      vb_text_add(text, size, "%s%s, which cannot be opened: %s", text[0] ? "; " : "", all[i].name,
                  strerror(all[i].error));
  }
}

bool vb_is_called(const struct vb_device *device, const char *name)
{
  if (strcmp(device->name, name) == 0)
    return true;
  /* With or without the domain. */
  return device->pci[0] && (strcasecmp(device->pci, name) == 0 ||
                            (strlen(device->pci) > 5 && strcasecmp(device->pci + 5, name) == 0));
}

/* A netdev's index may be another netdev's in another namespace, whose GIDs are shown, too. */
static bool vb_select_has_gid(const struct vb_port *port, const struct vb_gid_request *requested,
                              bool is_here)
{
  for (uint32_t i = 0; i < port->gid_count; i++)
    if (port->gids[i].is_here >= is_here &&
        (requested->has_address
             ? memcmp(port->gids[i].raw, requested->address, 16) == 0
             : port->gids[i].netdev && port->gids[i].netdev == requested->netdev))
      return true;
  return false;
}

/* Conditions on a port, beside its number and its device's name: none, a GID of this network
 * namespace, a GID, or that it is active. */
enum by { BY_NUMBER, BY_GID_HERE, BY_GID, BY_STATE };

/* The first such port into *match. How many there are. */
static uint32_t vb_select_find(const struct vb_device *all, uint32_t count, enum by by,
                               const char *name, uint32_t number, struct vb_match *match)
{
  uint32_t found = 0;

  for (uint32_t i = 0; i < count; i++)
    for (uint32_t p = 0; p < all[i].port_count; p++) {
      const struct vb_port *port = &all[i].ports[p];
      if ((number && port->number != number) || (name && !vb_is_called(&all[i], name)) ||
          ((by == BY_GID || by == BY_GID_HERE) &&
           !vb_select_has_gid(port, &match->requested, by == BY_GID_HERE)) ||
          (!name && all[i].transport != IBV_TRANSPORT_IB) ||
          (by == BY_STATE && port->state != IBV_PORT_ACTIVE))
        continue;
      if (found++)
        continue;
      match->device = i;
      match->port = p;
      match->requested.is_ethernet = port->is_ethernet;
    }
  return found;
}

/* Finds a device of that name that is there, and that this process may not open. */
static const struct vb_device *vb_select_find_closed(const struct vb_device *all, uint32_t count,
                                                     const char *name)
{
  for (uint32_t i = 0; name[0] && i < count; i++)
    if (all[i].error && vb_is_called(&all[i], name))
      return &all[i];
  return NULL;
}

int vb_match(const struct vb_device *all, uint32_t count, const char *name, uint32_t port,
             uint32_t netdev, struct vb_match *match, char *why, size_t size)
{
  struct vb_match found = {.requested = {.index = -1}};
  uint32_t active = 0;
  char there[1024];

  /* The first active port, or the first there is. */
  bool is_found = name[0] && ((!port && vb_select_find(all, count, BY_STATE, name, 0, &found)) ||
                              vb_select_find(all, count, BY_NUMBER, name, port, &found));
  if (!is_found) {
    found.requested.has_address = name[0] && vb_gid_parse(name, found.requested.address);
    found.requested.netdev = found.requested.has_address ? 0 : netdev;
    is_found = (found.requested.has_address || netdev) &&
               (vb_select_find(all, count, BY_GID_HERE, NULL, port, &found) ||
                vb_select_find(all, count, BY_GID, NULL, port, &found));
  }
  if (!is_found && !name[0]) {
    active = vb_select_find(all, count, BY_STATE, NULL, port, &found);
    is_found = active == 1;
  }
  if (is_found) {
    *match = found;
    return 0;
  }
  vb_select_list(all, count, there, sizeof(there));
  const struct vb_device *closed = vb_select_find_closed(all, count, name);
  if (closed)
    snprintf(why, size,
             "%s cannot be opened: %s; give this user read and write access to "
             "/dev/infiniband/uverbs*, hand that to the container, and see `ulimit -l`",
             closed->name, strerror(closed->error));
  else if (name[0])
    snprintf(why, size,
             "device \"%s\"%s not found (tried verbs name, netdev, IP, PCI address). Available: %s",
             name, port ? " with that port" : "", there[0] ? there : "none");
  else
    snprintf(why, size,
             active ? "several ports are active; choose one by the option `device`. Available: %s"
                    : "no port is active. Available: %s",
             there[0] ? there : "none");
  return -ENODEV;
}
