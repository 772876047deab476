/* SPDX-License-Identifier: Apache-2.0 */
/* Ports and their GID tables. */
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#include "keys.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { LID_MAX = 0xbfff, VLAN_MAX = 4094 };

static const char *const mtu_words[] = {"256", "512", "1024", "2048", "4096", NULL};
static const char *const layer_words[] = {"ethernet", "infiniband", NULL};
static const char *const state_words[] = {"down", "up", NULL};
static const char *const type_words[] = {"ib", "rocev1", "rocev2", NULL};

static int ports_find_subnet(struct describe *d, const struct taken *from,
                             const struct place *place)
{
  const char *names[FAB_SUBNETS];
  struct fabric *f = d->f;
  if (!from->text && f->subnets == 1)
    return 0;
  for (uint32_t i = 0; i < f->subnets; i++) {
    names[i] = f->subnet[i].name;
    if (from->text && !strcmp(names[i], from->text))
      return (int)i;
  }
  if (from->text)
    keys_unknown(d, &from->node->place, "there is no subnet", from->text, names, f->subnets);
  else
    findings_add(&d->findings, place, "this port is on one of %u subnets; say which: subnet: NAME",
                 f->subnets);
  return -1;
}

/* A subnet has one link layer: a router between an Ethernet and an InfiniBand one is a gateway,
 * which nothing here is. */
static bool ports_same_layer(struct describe *d, int subnet, uint8_t layer,
                             const struct place *place)
{
  uint8_t *is = &d->subnet_layer[subnet];
  if (!*is)
    *is = layer;
  if (*is == layer)
    return true;
  findings_add(&d->findings, place,
               "subnet %s has ports of the other link layer; put this one on another subnet",
               d->f->subnet[subnet].name);
  return false;
}

/* ---- GIDs ---- */

static bool describe_gid(struct describe *d, struct fab_port *port, unsigned next,
                         const struct node *node)
{
  static const struct key keys[] = {
      {{.name = "gid", .type = RULE_STRING, .help = "an IPv6 address, ::ffff:10.0.0.1"}, 1},
      {{.name = "type", .type = RULE_ENUM, .choices = type_words}, false},
      {{.name = "index", .type = RULE_UINT, .max = FAB_GIDS - 1}, false},
      {{.name = "vlan", .type = RULE_UINT, .max = VLAN_MAX, .default_value = "0"}, false},
      {{.name = "ifindex", .type = RULE_UINT, .max = INT32_MAX, .default_value = "0"}, false},
  };
  struct taken taken[COUNT(keys)];
  if (!keys_take(d, node, "a GID", keys, COUNT(keys), taken))
    return false;
  unsigned index = taken[2].node ? (unsigned)taken[2].value.number : next;
  if (index >= FAB_GIDS || port->gids[index].used) {
    findings_add(&d->findings, &node->place, "GID index %u is %s; there are 0 to %d", index,
                 index < FAB_GIDS ? "taken already" : "beyond the table", FAB_GIDS - 1);
    return false;
  }
  struct fab_gid *gid = &port->gids[index];
  if (inet_pton(AF_INET6, taken[0].text, gid->gid.raw) != 1) {
    findings_add(&d->findings, &taken[0].node->place,
                 "\"%.60s\" is not a GID; write it as an IPv6 address, as in fe80::1 or "
                 "::ffff:10.0.0.1",
                 taken[0].text);
    return false;
  }
  bool ib = port->link_layer == IBV_LINK_LAYER_INFINIBAND;
  uint64_t type = taken[1].node ? taken[1].value.number : ib ? 0 : 2;
  if (ib != (type == 0)) {
    findings_add(&d->findings, &taken[1].node->place,
                 "a port of link layer %s has no GID of type %s", layer_words[ib],
                 type_words[type]);
    return false;
  }
  gid->type = (uint8_t)(IBV_GID_TYPE_IB + type);
  gid->vlan = (uint16_t)taken[3].value.number;
  gid->ifindex = (uint32_t)taken[4].value.number;
  gid->used = 1;
  return true;
}

static void describe_gids(struct describe *d, struct fab_port *port, const struct node *list)
{
  if (list->type != NODE_LIST) {
    findings_add(&d->findings, &list->place, "gids is a list; begin each entry with \"- \"");
    return;
  }
  memset(port->gids, 0, sizeof(port->gids));
  unsigned next = 0;
  for (const struct node *child = list->first; child; child = child->next) {
    if (!describe_gid(d, port, next, child))
      return;
    while (next < FAB_GIDS && port->gids[next].used)
      next++;
  }
}

static void ports_default_gids(struct fab_port *port, __be64 guid, uint32_t address, uint16_t vlan)
{
  if (port->link_layer == IBV_LINK_LAYER_INFINIBAND) {
    fab_gids_ib(port, guid);
    return;
  }
  fab_gids_roce(port, guid, address);
  for (unsigned i = 0; i < FAB_GIDS; i++)
    port->gids[i].vlan = port->gids[i].used ? vlan : 0;
}

/* 10.SUBNET.HOST.PORT, each from 1. */
static uint32_t ports_default_address(const struct fabric *f, uint32_t device, unsigned index,
                                      int subnet)
{
  const struct fab_device *of = &f->device[device];
  return 10u << 24 | (uint32_t)(subnet + 1) << 16 | (of->host + 1u) << 8 |
         (of->number * FAB_PORTS + index + 1u);
}

static uint16_t ports_default_lid(const struct fabric *f, int subnet)
{
  uint16_t lid = 0;
  for (uint32_t i = 0; i < f->devices; i++) {
    for (unsigned p = 0; p < FAB_PORTS; p++) {
      const struct fab_port *port = &f->device[i].ports[p];
      if (port->used && port->subnet == subnet && port->lid > lid)
        lid = port->lid;
    }
  }
  return (uint16_t)(lid + 1);
}

enum { LAYER, SUBNET, MTU, NETDEV, ADDRESS, VLAN, LID, PKEY, GRH, STATE, GIDS, PORT_KEYS };
static const struct key port_keys[PORT_KEYS] = {
    [LAYER] = {{.name = "link_layer",
                .type = RULE_ENUM,
                .choices = layer_words,
                .default_value = "ethernet"}},
    [SUBNET] = {{.name = "subnet", .type = RULE_STRING}},
    [MTU] = {{.name = "mtu", .type = RULE_ENUM, .choices = mtu_words}},
    [NETDEV] = {{.name = "netdev", .type = RULE_STRING}},
    [ADDRESS] = {{.name = "address", .type = RULE_STRING}},
    [VLAN] = {{.name = "vlan", .type = RULE_UINT, .max = VLAN_MAX, .default_value = "0"}},
    [LID] = {{.name = "lid", .type = RULE_UINT, .max = LID_MAX}},
    [PKEY] = {{.name = "pkey", .type = RULE_UINT, .max = 0xffff, .default_value = "65535"}},
    [GRH] = {{.name = "grh_required", .type = RULE_BOOL, .default_value = "false"}},
    [STATE] = {{.name = "state", .type = RULE_ENUM, .choices = state_words, .default_value = "up"}},
    [GIDS] = {{.name = "gids", .type = RULE_NODE}},
};

/* Keys that the other link layer has. */
static bool ports_fit_layer(struct describe *d, const struct taken *taken, bool ib)
{
  static const int ethernet_only[] = {NETDEV, ADDRESS, VLAN};
  bool right = true;
  for (size_t i = 0; ib && i < COUNT(ethernet_only); i++) {
    const struct node *node = taken[ethernet_only[i]].node;
    if (!node)
      continue;
    findings_add(&d->findings, &node->key_place, "\"%s\" is an Ethernet port's; remove it",
                 node->key);
    right = false;
  }
  if (!ib && taken[LID].node) {
    findings_add(&d->findings, &taken[LID].node->key_place,
                 "\"lid\" is an InfiniBand port's; remove it");
    right = false;
  }
  return right;
}

static bool ports_parse_address(struct describe *d, const struct taken *from, uint32_t *address)
{
  struct in_addr in;
  if (!from->node)
    return true;
  if (inet_pton(AF_INET, from->text, &in) != 1) {
    findings_add(&d->findings, &from->node->place,
                 "\"%.60s\" is not an IPv4 address; write it as in 10.0.0.1", from->text);
    return false;
  }
  *address = ntohl(in.s_addr);
  return true;
}

void describe_port(struct describe *d, uint32_t number, unsigned index, const struct node *node)
{
  struct taken taken[PORT_KEYS];
  struct fabric *f = d->f;
  struct fab_device *device = &f->device[number];
  if (!keys_take(d, node, "a port", port_keys, PORT_KEYS, taken))
    return;
  bool ib = taken[LAYER].value.number == 1;
  uint8_t layer = ib ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  int subnet = ports_find_subnet(d, &taken[SUBNET], &node->place);
  uint32_t address = subnet < 0 ? 0 : ports_default_address(f, number, index, subnet);
  if (subnet < 0 || !ports_same_layer(d, subnet, layer, &node->place) ||
      !ports_fit_layer(d, taken, ib) || !ports_parse_address(d, &taken[ADDRESS], &address))
    return;
  struct fab_port *port = &device->ports[index];
  port->link_layer = layer;
  port->subnet = (uint16_t)subnet;
  port->mtu =
      taken[MTU].node ? (uint8_t)(IBV_MTU_256 + taken[MTU].value.number) : f->subnet[subnet].mtu;
  port->up = (uint8_t)taken[STATE].value.number;
  port->pkeys[0] = (uint16_t)taken[PKEY].value.number;
  port->grh_required = (uint8_t)taken[GRH].value.number;
  if (taken[NETDEV].node && !keys_name(d, &taken[NETDEV], port->netdev))
    return;
  if (ib)
    port->lid = taken[LID].node ? (uint16_t)taken[LID].value.number : ports_default_lid(f, subnet);
  /* The bytes of a host's number leave room for a port's. */
  __be64 guid = device->guid ^ htobe64((uint64_t)index << 16);
  if (taken[GIDS].node)
    describe_gids(d, port, taken[GIDS].node);
  else
    ports_default_gids(port, guid, address, (uint16_t)taken[VLAN].value.number);
  port->used = 1;
  d->port_place[number][index] = node->place;
}

/* ---- what two ports may not both have ---- */

static bool ports_same_gid(const struct fab_port *a, const struct fab_port *b)
{
  for (unsigned i = 0; i < FAB_GIDS; i++) {
    for (unsigned k = 0; k < FAB_GIDS; k++) {
      const struct fab_gid *x = &a->gids[i], *y = &b->gids[k];
      if (x->used && y->used && x->type == y->type && x->vlan == y->vlan &&
          !memcmp(&x->gid, &y->gid, sizeof(x->gid)))
        return true;
    }
  }
  return false;
}

static void ports_compare(struct describe *d, unsigned at, unsigned other)
{
  const struct fab_device *devices = d->f->device;
  const struct fab_port *a = &devices[at / FAB_PORTS].ports[at % FAB_PORTS];
  const struct fab_port *b = &devices[other / FAB_PORTS].ports[other % FAB_PORTS];
  const struct fab_device *owner = &devices[other / FAB_PORTS];
  bool lid = a->lid && a->subnet == b->subnet && a->lid == b->lid;
  if (!a->used || !b->used || a->link_layer != b->link_layer || (!lid && !ports_same_gid(a, b)))
    return;
  findings_add(&d->findings, &d->port_place[at / FAB_PORTS][at % FAB_PORTS],
               "this port has a %s that %s/%s/%u has too; give it another", lid ? "LID" : "GID",
               d->f->host[owner->host], owner->name, other % FAB_PORTS + 1);
}

void describe_check_ports(struct describe *d)
{
  for (unsigned at = 0; at < d->f->devices * FAB_PORTS; at++) {
    for (unsigned other = 0; other < at; other++)
      ports_compare(d, at, other);
  }
}
