/* SPDX-License-Identifier: Apache-2.0 */
/* Network devices, addresses and routes, from the facts "network". */
#include "network.h"

#include <arpa/inet.h>
#include <json-c/json.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_object *network_member(struct json_object *object, const char *key)
{
  struct json_object *value = NULL;

  json_object_object_get_ex(object, key, &value);
  return value;
}

static const char *network_text(struct json_object *object, const char *key)
{
  const char *text = json_object_get_string(network_member(object, key));

  return text ? text : "";
}

static int64_t network_number(struct json_object *object, const char *key, int64_t otherwise)
{
  struct json_object *value = network_member(object, key);

  return value ? json_object_get_int64(value) : otherwise;
}

static bool network_is(struct json_object *object, const char *key)
{
  return json_object_get_boolean(network_member(object, key));
}

static size_t network_count(struct json_object *list)
{
  return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static void network_read_addresses(struct json_object *list, struct host_link *link)
{
  const size_t count = network_count(list);
  const char **addresses = calloc(count + 1, sizeof(*addresses));

  for (size_t i = 0; i < count && addresses; i++) {
    const char *address = json_object_get_string(json_object_array_get_idx(list, i));
    if (address)
      addresses[link->address_count++] = address;
  }
  link->addresses = addresses;
}

/* As the kernel's dev_valid_name(). */
static bool network_is_name(const char *name)
{
  return name[0] != '\0' && strlen(name) < IFNAMSIZ && strcmp(name, ".") != 0 &&
         strcmp(name, "..") != 0 && !strpbrk(name, "/: \t\n\v\f\r");
}

/* Fills a table from {"26": 3}. True: there was an entry. */
static bool network_read_priorities(struct json_object *object, uint8_t *table, unsigned count)
{
  bool any = false;

  for (unsigned i = 0; i < count; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%u", i);
    struct json_object *value = network_member(object, key);
    table[i] = value ? json_object_get_int(value) & 7 : 0;
    any = any || value;
  }
  return any;
}

/* Takes a link of the facts; sysfs has its speed. */
static void network_read_link(struct host *host, struct json_object *object, struct host_link *link)
{
  struct json_object *pause = network_member(object, "pause");
  int64_t speed;

  *link = (struct host_link){
      .name = network_text(object, "name"),
      .index = (unsigned)network_number(object, "index", 0),
      .kind = network_text(object, "kind"),
      .mac = network_text(object, "mac"),
      .master = network_text(object, "master"),
      .on = network_text(object, "on"),
      .mtu = (unsigned)network_number(object, "mtu", 0),
      .up = network_is(object, "up"),
      .carrier = network_is(object, "carrier"),
      .is_loopback = network_is(object, "loopback"),
      .vlan = (int)network_number(object, "vlan", -1),
      .phc = (int)network_number(object, "phc", -1),
      .pfc = (int)network_number(object, "pfc", -1),
      .pause_known = pause != NULL,
      .pause_rx = pause && network_is(pause, "rx"),
      .pause_tx = pause && network_is(pause, "tx"),
      .speed_mbps = -1,
  };
  if (host_number(host, &speed, "sys/class/net/%s/speed", link->name) && speed > 0)
    link->speed_mbps = speed;
  network_read_priorities(network_member(object, "egress"), link->egress, 8);
  link->trusts_dscp =
      network_read_priorities(network_member(object, "dscp"), link->dscp, HOST_DSCPS);
  network_read_addresses(network_member(object, "addresses"), link);
}

static void network_read_route(struct json_object *object, struct host_route *route)
{
  *route = (struct host_route){
      .to = network_text(object, "to"),
      .gateway = network_text(object, "gateway"),
      .link = network_text(object, "link"),
      .source = network_text(object, "source"),
      .metric = (unsigned)network_number(object, "metric", 0),
      .hop_limit = (int)network_number(object, "hop_limit", -1),
  };
}

static void network_read_neighbour(struct json_object *object, struct host_neighbour *neighbour)
{
  *neighbour = (struct host_neighbour){.address = network_text(object, "address"),
                                       .mac = network_text(object, "mac"),
                                       .link = network_text(object, "link"),
                                       .state = network_text(object, "state")};
}

void host_network_read(struct host *host, struct host_network *network)
{
  struct json_object *facts, *links, *routes, *neighbours;

  *network = (struct host_network){0};
  facts = host_facts(host, "network", &network->why);
  links = network_member(facts, "links");
  routes = network_member(facts, "routes");
  neighbours = network_member(facts, "neighbours");
  network->links = calloc(network_count(links) + 1, sizeof(*network->links));
  network->routes = calloc(network_count(routes) + 1, sizeof(*network->routes));
  network->neighbours = calloc(network_count(neighbours) + 1, sizeof(*network->neighbours));
  if (!network->links || !network->routes || !network->neighbours)
    return;
  network->known = facts != NULL;
  for (size_t i = 0; i < network_count(links); i++) {
    struct json_object *link = json_object_array_get_idx(links, i);
    if (network_is_name(network_text(link, "name")))
      network_read_link(host, link, &network->links[network->link_count++]);
  }
  for (size_t i = 0; i < network_count(routes); i++)
    network_read_route(json_object_array_get_idx(routes, i),
                       &network->routes[network->route_count++]);
  for (size_t i = 0; i < network_count(neighbours); i++)
    network_read_neighbour(json_object_array_get_idx(neighbours, i),
                           &network->neighbours[network->neighbour_count++]);
}

void host_network_free(struct host_network *network)
{
  for (size_t i = 0; i < network->link_count; i++)
    free((void *)(uintptr_t)network->links[i].addresses);
  free(network->links);
  free(network->routes);
  free(network->neighbours);
  *network = (struct host_network){0};
}

const struct host_link *host_link_find(const struct host_network *network, const char *name)
{
  for (size_t i = 0; i < network->link_count; i++)
    if (strcmp(network->links[i].name, name) == 0)
      return &network->links[i];
  return NULL;
}

const struct host_link *host_link_with(const struct host_network *network, const char *address)
{
  for (size_t i = 0; i < network->link_count; i++)
    for (size_t k = 0; k < network->links[i].address_count; k++) {
      const char *one = network->links[i].addresses[k];
      const size_t length = strcspn(one, "/");
      if (strlen(address) == length && strncmp(one, address, length) == 0)
        return &network->links[i];
    }
  return NULL;
}

/* Bits of the prefix "10.9.2.0/24" that the address has; -1: it is none of it. */
static int network_match(const char *prefix, int family, const unsigned char address[16])
{
  char base[INET6_ADDRSTRLEN];
  unsigned char raw[16];
  const char *slash = strchr(prefix, '/');

  snprintf(base, sizeof(base), "%.*s", (int)strcspn(prefix, "/"), prefix);
  if (inet_pton(family, base, raw) != 1)
    return -1;
  const int whole = family == AF_INET ? 32 : 128;
  const int bits = slash ? atoi(slash + 1) : whole;
  for (int bit = 0; bit < bits && bit < whole; bit++)
    if ((raw[bit / 8] ^ address[bit / 8]) & (0x80 >> bit % 8))
      return -1;
  return bits;
}

const struct host_route *host_route_to(const struct host_network *network, const char *address)
{
  const struct host_route *best = NULL;
  unsigned char raw[16];
  const int family = strchr(address, ':') ? AF_INET6 : AF_INET;
  int most = -1;

  if (inet_pton(family, address, raw) != 1)
    return NULL;
  for (size_t i = 0; i < network->route_count; i++) {
    const struct host_route *route = &network->routes[i];
    const int bits = network_match(route->to, family, raw);
    if (bits > most || (bits == most && bits >= 0 && best && route->metric < best->metric)) {
      best = route;
      most = bits;
    }
  }
  return best;
}
