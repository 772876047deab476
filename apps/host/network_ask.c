/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel by route netlink for links, addresses, routes and neighbours. */
#include <json-c/json.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vlan.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/route.h>
#include <stdio.h>
#include <string.h>

#include "json_put.h"
#include "sources.h"

#define ADDRESS_BYTES 64

struct network {
  struct json_object *links, *routes, *neighbours;
};

static const char *network_link_name(int index, char name[IF_NAMESIZE])
{
  return if_indextoname((unsigned)index, name) ? name : "";
}

static void network_put_address(struct json_object *object, const char *key,
                                struct nl_addr *address)
{
  char text[ADDRESS_BYTES];

  if (!address) {
    app_json_put_null(object, key);
    return;
  }
  app_json_put_text(object, key, nl_addr2str(address, text, sizeof(text)));
}

/* A number, and the priorities on the wire by those in the kernel: {"0": 3}. */
static void network_add_vlan(struct rtnl_link *link, struct json_object *object)
{
  struct json_object *egress = json_object_new_object();
  int count = 0;
  const struct vlan_map *map = rtnl_link_vlan_get_egress_map(link, &count);
  char key[16];

  app_json_put_uint(object, "vlan", (uint64_t)rtnl_link_vlan_get_id(link));
  for (int i = 0; map && i < count; i++) {
    snprintf(key, sizeof(key), "%u", map[i].vm_from);
    app_json_put_uint(egress, key, map[i].vm_to);
  }
  json_object_object_add(object, "egress", egress);
}

/* nl_cache_foreach() calls it for each link. */
static void network_add_link(struct nl_object *found, void *to)
{
  struct rtnl_link *link = (struct rtnl_link *)found;
  struct network *network = to;
  struct json_object *object = json_object_new_object();
  const unsigned flags = rtnl_link_get_flags(link);
  char name[IF_NAMESIZE];

  app_json_put_text(object, "name", rtnl_link_get_name(link));
  app_json_put_uint(object, "index", (uint64_t)rtnl_link_get_ifindex(link));
  app_json_put_text(object, "kind", rtnl_link_get_type(link));
  network_put_address(object, "mac", rtnl_link_get_addr(link));
  app_json_put_uint(object, "mtu", rtnl_link_get_mtu(link));
  app_json_put_bool(object, "up", (flags & IFF_UP) != 0);
  app_json_put_bool(object, "carrier", rtnl_link_get_carrier(link) != 0);
  app_json_put_bool(object, "loopback", (flags & IFF_LOOPBACK) != 0);
  app_json_put_text(
      object, "master",
      rtnl_link_get_master(link) > 0 ? network_link_name(rtnl_link_get_master(link), name) : NULL);
  app_json_put_text(object, "on",
                    rtnl_link_get_link(link) > 0 &&
                            rtnl_link_get_link(link) != rtnl_link_get_ifindex(link)
                        ? network_link_name(rtnl_link_get_link(link), name)
                        : NULL);
  if (rtnl_link_is_vlan(link))
    network_add_vlan(link, object);
  json_object_object_add(object, "addresses", json_object_new_array());
  host_add_ethtool(object, rtnl_link_get_name(link));
  json_object_array_add(network->links, object);
}

static struct json_object *network_addresses_of(const struct network *network, const char *name)
{
  for (size_t i = 0; i < json_object_array_length(network->links); i++) {
    struct json_object *link = json_object_array_get_idx(network->links, i), *value;
    if (json_object_object_get_ex(link, "name", &value) &&
        strcmp(json_object_get_string(value), name) == 0 &&
        json_object_object_get_ex(link, "addresses", &value))
      return value;
  }
  return NULL;
}

static void network_add_address(struct nl_object *found, void *to)
{
  struct rtnl_addr *address = (struct rtnl_addr *)found;
  char name[IF_NAMESIZE], text[ADDRESS_BYTES];
  struct json_object *list =
      network_addresses_of(to, network_link_name(rtnl_addr_get_ifindex(address), name));

  if (list && rtnl_addr_get_local(address))
    json_object_array_add(list, json_object_new_string(
                                    nl_addr2str(rtnl_addr_get_local(address), text, sizeof(text))));
}

static void network_add_route(struct nl_object *found, void *to)
{
  struct rtnl_route *route = (struct rtnl_route *)found;
  struct network *network = to;
  struct rtnl_nexthop *hop = rtnl_route_nexthop_n(route, 0);
  struct json_object *object;
  char name[IF_NAMESIZE], text[ADDRESS_BYTES];
  unsigned limit;

  if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_type(route) != RTN_UNICAST ||
      !hop)
    return;
  object = json_object_new_object();
  const struct nl_addr *destination = rtnl_route_get_dst(route);
  /* libnl writes "default" and "none" for a destination of no bits. */
  app_json_put_text(object, "to",
                    destination && nl_addr_get_prefixlen(destination) > 0
                        ? nl_addr2str(destination, text, sizeof(text))
                    : rtnl_route_get_family(route) == AF_INET6 ? "::/0"
                                                               : "0.0.0.0/0");
  network_put_address(object, "gateway", rtnl_route_nh_get_gateway(hop));
  app_json_put_text(object, "link", network_link_name(rtnl_route_nh_get_ifindex(hop), name));
  network_put_address(object, "source", rtnl_route_get_pref_src(route));
  app_json_put_uint(object, "metric", rtnl_route_get_priority(route));
  if (rtnl_route_get_metric(route, RTAX_HOPLIMIT, &limit) == 0)
    app_json_put_uint(object, "hop_limit", limit);
  json_object_array_add(network->routes, object);
}

static void network_add_neighbour(struct nl_object *found, void *to)
{
  struct rtnl_neigh *neighbour = (struct rtnl_neigh *)found;
  struct network *network = to;
  struct json_object *object;
  char name[IF_NAMESIZE], state[64];

  if (!rtnl_neigh_get_dst(neighbour) || (rtnl_neigh_get_state(neighbour) & NUD_NOARP) != 0)
    return;
  object = json_object_new_object();
  network_put_address(object, "address", rtnl_neigh_get_dst(neighbour));
  network_put_address(object, "mac", rtnl_neigh_get_lladdr(neighbour));
  app_json_put_text(object, "link", network_link_name(rtnl_neigh_get_ifindex(neighbour), name));
  app_json_put_text(object, "state",
                    rtnl_neigh_state2str(rtnl_neigh_get_state(neighbour), state, sizeof(state)));
  json_object_array_add(network->neighbours, object);
}

/* Calls `add` for each object of a cache, and frees it. */
static void network_each(struct nl_cache *cache, void (*add)(struct nl_object *, void *),
                         struct network *network)
{
  nl_cache_foreach(cache, add, network);
  nl_cache_free(cache);
}

static int network_ask_all(struct nl_sock *socket, struct network *network)
{
  struct nl_cache *cache;
  int rc = rtnl_link_alloc_cache(socket, AF_UNSPEC, &cache);

  if (rc < 0)
    return rc;
  network_each(cache, network_add_link, network);
  if ((rc = rtnl_addr_alloc_cache(socket, &cache)) < 0)
    return rc;
  network_each(cache, network_add_address, network);
  if ((rc = rtnl_route_alloc_cache(socket, AF_UNSPEC, 0, &cache)) < 0)
    return rc;
  network_each(cache, network_add_route, network);
  if ((rc = rtnl_neigh_alloc_cache(socket, &cache)) < 0)
    return rc;
  network_each(cache, network_add_neighbour, network);
  return 0;
}

struct json_object *host_ask_network(char why[HOST_WHY_BYTES])
{
  struct network network = {json_object_new_array(), json_object_new_array(),
                            json_object_new_array()};
  struct json_object *object = json_object_new_object();
  struct nl_sock *socket = nl_socket_alloc();
  int rc = socket ? nl_connect(socket, NETLINK_ROUTE) : -NLE_NOMEM;

  if (rc >= 0)
    rc = network_ask_all(socket, &network);
  nl_socket_free(socket);
  json_object_object_add(object, "links", network.links);
  json_object_object_add(object, "routes", network.routes);
  json_object_object_add(object, "neighbours", network.neighbours);
  if (rc >= 0)
    return object;
  snprintf(why, HOST_WHY_BYTES, "the kernel's links cannot be asked for: %s", nl_geterror(rc));
  json_object_put(object);
  return NULL;
}
