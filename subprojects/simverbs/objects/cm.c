/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the fabric for the simulated librdmacm: addresses, routes, time. */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

enum { HOP_LIMIT = 64 }; /* the kernel's, of a route that names none: IPDEFTTL */

static bool sim_cm_is_mapped(const union ibv_gid *gid)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static void sim_cm_set_own(struct sim_cm_path *path, struct sim_device *device, unsigned port,
                           unsigned index)
{
  const struct fab_port *from = fab_port_of(device->number, port);
  path->device = device;
  path->port = port;
  path->gid_index = index;
  path->own = from->gids[index].gid;
  path->mtu = from->mtu;
}

static const struct fab_port *sim_cm_ethernet(const struct sim_device *device, unsigned port)
{
  const struct fab_port *at = fab_port_of(device->number, port);
  bool serves = at && at->link_layer == IBV_LINK_LAYER_ETHERNET &&
                !fab->device[device->number].removed && !fab->device[device->number].open_error;
  return serves ? at : NULL;
}

void sim_cm_ah(const struct sim_cm_path *path, struct ibv_ah_attr *ah)
{
  *ah = (struct ibv_ah_attr){
      .is_global = 1,
      .port_num = (uint8_t)path->port,
      .grh = {.dgid = path->peer, .sgid_index = (uint8_t)path->gid_index, .hop_limit = HOP_LIMIT},
  };
}

static struct fab_path sim_cm_route(const struct sim_cm_path *path)
{
  struct ibv_ah_attr ah;
  sim_cm_ah(path, &ah);
  return fab_route(path->device->number, path->port, &ah, IBV_MTU_256);
}

bool sim_cm_passes(const struct sim_cm_path *path)
{
  return sim_cm_route(path).found;
}

int sim_cm_own(const union ibv_gid *own, struct sim_cm_path *path)
{
  int error = sim_attach();
  if (error)
    return error;
  struct sim_cm_path found = *path;
  found.device = NULL;
  for (unsigned d = 0; d < sim_self.device_count; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      const struct fab_port *port = sim_cm_ethernet(sim_self.devices[d], p);
      for (unsigned g = 0; port && g < FAB_GIDS; g++) {
        if (!port->gids[g].used || memcmp(&port->gids[g].gid, own, sizeof(*own)))
          continue;
        /* RoCE v2 where there is an entry of it: the kernel's CMA_PREFERRED_ROCE_GID_TYPE. */
        if (!found.device || port->gids[g].type == IBV_GID_TYPE_ROCE_V2)
          sim_cm_set_own(&found, sim_self.devices[d], p, g);
      }
    }
  }
  if (!found.device)
    return EADDRNOTAVAIL;
  *path = found;
  return 0;
}

/* Returns the port that has the address; NULL: none. */
static const struct fab_port *sim_cm_find_peer(const union ibv_gid *peer, unsigned *host)
{
  for (uint32_t d = 0; d < fab->devices; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      const struct fab_port *port = fab_port_of(d, p);
      for (unsigned g = 0; port && g < FAB_GIDS; g++) {
        if (!port->gids[g].used || memcmp(&port->gids[g].gid, peer, sizeof(*peer)))
          continue;
        *host = fab->device[d].host;
        return port;
      }
    }
  }
  return NULL;
}

/* On one subnet the peer has to answer who it is; beyond a router, the router does that. */
static int sim_cm_resolve(const struct sim_cm_path *path, const struct fab_port *to)
{
  const struct fab_port *from = fab_port_of(path->device->number, path->port);
  if (!from->up)
    return ENETUNREACH;
  struct fab_path way = sim_cm_route(path);
  if (way.found)
    return 0;
  bool is_beyond = to && to->subnet != from->subnet &&
                   fab->hops[from->subnet][to->subnet] != FAB_NO_ROUTE && !from->cut;
  return is_beyond && (way.lost == FAB_LOST_PORT_DOWN || way.lost == FAB_LOST_FAULT) ? 0
                                                                                     : ETIMEDOUT;
}

/* The best of all ways from this host: one on the peer's subnet, or one through a router. */
static int sim_cm_choose(struct sim_cm_path *path, const struct fab_port *to)
{
  enum { NEAR, FAR, SILENT, NONE } best = NONE;
  struct sim_cm_path one = *path;
  for (unsigned d = 0; d < sim_self.device_count; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      const struct fab_port *port = sim_cm_ethernet(sim_self.devices[d], p);
      for (unsigned g = 0; port && g < FAB_GIDS; g++) {
        if (!port->gids[g].used || port->gids[g].type != IBV_GID_TYPE_ROCE_V2 ||
            sim_cm_is_mapped(&port->gids[g].gid) != sim_cm_is_mapped(&path->peer))
          continue;
        sim_cm_set_own(&one, sim_self.devices[d], p, g);
        int error = sim_cm_resolve(&one, to);
        unsigned rank = error == ENETUNREACH         ? NONE
                        : error                      ? SILENT
                        : to->subnet == port->subnet ? NEAR
                                                     : FAR;
        if (rank >= best)
          continue;
        best = rank;
        *path = one;
      }
    }
  }
  return best == NONE ? ENETUNREACH : best == SILENT ? ETIMEDOUT : 0;
}

int sim_cm_to(const union ibv_gid *peer, struct sim_cm_path *path)
{
  int error = sim_attach();
  if (error)
    return error;
  struct sim_cm_path found = *path;
  found.peer = *peer;
  const struct fab_port *to = sim_cm_find_peer(peer, &found.host);
  error = found.device ? sim_cm_resolve(&found, to) : sim_cm_choose(&found, to);
  if (!error)
    *path = found;
  return error;
}

int sim_cm_loopback(struct sim_cm_path *path)
{
  int error = sim_attach();
  for (unsigned d = 0; !error && d < sim_self.device_count; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      const struct fab_port *port = sim_cm_ethernet(sim_self.devices[d], p);
      for (unsigned g = FAB_GIDS; port && port->up && g-- > 0;) {
        if (!port->gids[g].used || port->gids[g].type != IBV_GID_TYPE_ROCE_V2)
          continue;
        sim_cm_set_own(path, sim_self.devices[d], p, g);
        return sim_cm_to(&path->own, path);
      }
    }
  }
  return error ? error : ENODEV;
}

int sim_cm_host(unsigned *host)
{
  int error = sim_attach();
  if (!error)
    *host = fab_host;
  return error;
}

int sim_cm_address(unsigned i, union ibv_gid *gid)
{
  for (unsigned d = 0; d < sim_self.device_count; d++) {
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      const struct fab_port *port = sim_cm_ethernet(sim_self.devices[d], p);
      for (unsigned g = 0; port && g < FAB_GIDS; g++) {
        if (!port->gids[g].used || i-- > 0)
          continue;
        *gid = port->gids[g].gid;
        return 0;
      }
    }
  }
  return ENOENT;
}

uint64_t sim_cm_clock_ns(void)
{
  return fab_clock_ns(fab);
}

uint64_t sim_cm_real_ns(uint64_t until_ns)
{
  return fab_clock_real_ns(fab, until_ns);
}
