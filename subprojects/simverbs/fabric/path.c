/* SPDX-License-Identifier: Apache-2.0 */
/* Where a message comes out: subnets, and the routers between them. */
#include "fabric.h"

#include <string.h>

struct fab_port *fab_port_of(uint32_t device, unsigned port)
{
  if (port < 1 || port > FAB_PORTS || !fab->device[device].ports[port - 1].used)
    return NULL;
  return &fab->device[device].ports[port - 1];
}

static uint8_t fab_path_less(uint8_t a, uint8_t b)
{
  return a < b ? a : b;
}

struct routes {
  uint8_t hops[FAB_SUBNETS][FAB_SUBNETS];
  uint8_t path_mtu[FAB_SUBNETS][FAB_SUBNETS];
  uint8_t first_router[FAB_SUBNETS][FAB_SUBNETS];
};

/* Through a router from subnet `at` to those that nothing led to yet. */
static bool fab_path_pass(const struct fabric *f, struct routes *routes, uint32_t from, uint32_t at,
                          uint32_t r)
{
  const struct fab_router *router = &f->router[r];
  uint8_t hops = routes->hops[from][at];
  bool found = false;
  if (!router->up || !(router->subnets >> at & 1))
    return false;
  for (uint32_t to = 0; to < f->subnets; to++) {
    if (!(router->subnets >> to & 1) || routes->hops[from][to] != FAB_NO_ROUTE)
      continue;
    routes->hops[from][to] = (uint8_t)(hops + 1);
    routes->path_mtu[from][to] =
        fab_path_less(routes->path_mtu[from][at], fab_path_less(router->mtu, f->subnet[to].mtu));
    routes->first_router[from][to] = hops ? routes->first_router[from][at] : (uint8_t)r;
    found = true;
  }
  return found;
}

/* One step further from `from`, through the routers at every subnet that is `hops` away. */
static bool fab_path_widen(const struct fabric *f, struct routes *routes, uint32_t from,
                           uint8_t hops)
{
  bool found = false;
  for (uint32_t at = 0; at < f->subnets; at++) {
    for (uint32_t r = 0; routes->hops[from][at] == hops && r < f->routers; r++)
      found |= fab_path_pass(f, routes, from, at, r);
  }
  return found;
}

/* Made aside: messages are on their way meanwhile, and see the old or the new. */
void fab_routes_changed(struct fabric *f)
{
  struct routes routes;
  memset(&routes, 0, sizeof(routes));
  memset(routes.hops, FAB_NO_ROUTE, sizeof(routes.hops));
  for (uint32_t from = 0; from < f->subnets; from++) {
    routes.hops[from][from] = 0;
    routes.path_mtu[from][from] = f->subnet[from].mtu;
    for (uint8_t hops = 0; hops < FAB_NO_ROUTE - 1 && fab_path_widen(f, &routes, from, hops);
         hops++)
      ;
  }
  memcpy(f->path_mtu, routes.path_mtu, sizeof(f->path_mtu));
  memcpy(f->first_router, routes.first_router, sizeof(f->first_router));
  memcpy(f->hops, routes.hops, sizeof(f->hops));
  atomic_fetch_add(&f->topology, 1);
}

static struct fab_path fab_path_lost(enum fab_counter why)
{
  return (struct fab_path){.lost = why};
}

/* The port of that link layer which has the address in its subnet's table. */
static struct fab_path fab_path_find_gid(const union ibv_gid *gid, const struct fab_gid *source,
                                         const struct fab_port *from)
{
  enum fab_counter why = FAB_LOST_NO_PATH;
  for (uint32_t d = 0; d < fab->devices; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      struct fab_port *port = fab_port_of(d, p);
      if (!port || port->link_layer != from->link_layer)
        continue;
      for (unsigned g = 0; g < FAB_GIDS; g++) {
        const struct fab_gid *entry = &port->gids[g];
        if (!entry->used || memcmp(&entry->gid, gid, sizeof(*gid)))
          continue;
        if (entry->type != source->type)
          why = FAB_LOST_GID_TYPE;
        else if (entry->vlan != source->vlan && port->subnet == from->subnet)
          why = FAB_LOST_VLAN;
        else
          return (struct fab_path){.device = d, .port = p, .found = true};
      }
    }
  }
  return fab_path_lost(why);
}

bool fab_gid_is_somewhere(const union ibv_gid *gid)
{
  for (uint32_t d = 0; d < fab->devices; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      const struct fab_port *port = fab_port_of(d, p);
      for (unsigned g = 0; port && g < FAB_GIDS; g++) {
        if (port->gids[g].used && memcmp(&port->gids[g].gid, gid, sizeof(*gid)) == 0)
          return true;
      }
    }
  }
  return false;
}

static struct fab_path fab_path_find_lid(uint16_t lid, const struct fab_port *from)
{
  for (uint32_t d = 0; d < fab->devices; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      struct fab_port *port = fab_port_of(d, p);
      if (port && port->link_layer == from->link_layer && port->subnet == from->subnet &&
          port->lid == lid)
        return (struct fab_path){.device = d, .port = p, .found = true};
    }
  }
  return fab_path_lost(FAB_LOST_NO_PATH);
}

static bool fab_path_is_link_local(const union ibv_gid *gid)
{
  return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* The way through the routers, for a message that was addressed by GID. */
static struct fab_path fab_path_cross(struct fab_path path, const struct fab_port *from,
                                      const struct fab_gid *source, const struct ibv_ah_attr *ah,
                                      uint8_t mtu)
{
  uint16_t to = fab_port_of(path.device, path.port)->subnet;
  uint8_t hops = fab->hops[from->subnet][to];
  bool routable = source->type != IBV_GID_TYPE_ROCE_V1 && !fab_path_is_link_local(&ah->grh.dgid);
  if (hops == FAB_NO_ROUTE || (hops && !routable && from->link_layer == IBV_LINK_LAYER_ETHERNET))
    return fab_path_lost(FAB_LOST_NO_PATH);
  /* A router takes one off, and does not pass on what has none left. */
  if (hops && ah->grh.hop_limit <= hops) {
    atomic_fetch_add(&fab->router[fab->first_router[from->subnet][to]].died_of_hop_limit, 1);
    return fab_path_lost(FAB_LOST_HOP_LIMIT);
  }
  if (mtu > fab->path_mtu[from->subnet][to])
    return fab_path_lost(FAB_LOST_MTU);
  return path;
}

struct fab_path fab_route(uint32_t device, unsigned port, const struct ibv_ah_attr *ah, uint8_t mtu)
{
  const struct fab_port *from = fab_port_of(device, port);
  if (!from || !from->up || fab->device[device].removed)
    return fab_path_lost(FAB_LOST_PORT_DOWN);
  if (from->cut)
    return fab_path_lost(FAB_LOST_FAULT);
  if (from->grh_required && !ah->is_global)
    return fab_path_lost(FAB_LOST_NO_PATH);
  struct fab_path path;
  bool by_gid = from->link_layer == IBV_LINK_LAYER_ETHERNET;
  const struct fab_gid *source = &from->gids[ah->grh.sgid_index % FAB_GIDS];
  if (!by_gid) {
    path = fab_path_find_lid(ah->dlid, from);
    by_gid = !path.found && ah->is_global;
  }
  if (by_gid) {
    if (!source->used || !ah->is_global)
      return fab_path_lost(FAB_LOST_NO_PATH);
    path = fab_path_find_gid(&ah->grh.dgid, source, from);
    /* Within an InfiniBand subnet the LID alone leads to a port. */
    if (path.found && from->link_layer == IBV_LINK_LAYER_INFINIBAND &&
        fab_port_of(path.device, path.port)->subnet == from->subnet)
      return fab_path_lost(FAB_LOST_NO_PATH);
    if (path.found)
      path = fab_path_cross(path, from, source, ah, mtu);
  }
  if (!path.found)
    return path;
  const struct fab_port *to = fab_port_of(path.device, path.port);
  if (!to->up || fab->device[path.device].removed)
    return fab_path_lost(FAB_LOST_PORT_DOWN);
  if (to->cut)
    return fab_path_lost(FAB_LOST_FAULT);
  if (mtu > to->mtu || mtu > from->mtu || mtu > fab->path_mtu[from->subnet][from->subnet])
    return fab_path_lost(FAB_LOST_MTU);
  return path;
}
