/* SPDX-License-Identifier: Apache-2.0 */
/* Subnets, routers, hosts and devices of a description. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "keys.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const mtu_words[] = {"256", "512", "1024", "2048", "4096", NULL};
static const char *const vendor_words[] = {"mellanox", "soft-roce", NULL};
static const char *const transport_words[] = {"ib", "iwarp", "efa", NULL};
static const uint8_t transports[] = {IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP,
                                     IBV_TRANSPORT_UNSPECIFIED};
static const char *const open_words[] = {"yes", "EACCES", "EPERM", "ENOMEM", NULL};
static const int open_errors[] = {0, EACCES, EPERM, ENOMEM};
static const uint32_t vendor_ids[] = {FAB_VENDOR_MELLANOX, FAB_VENDOR_SOFT_ROCE};

/* enum ibv_mtu */
static uint8_t hosts_mtu_of(const struct taken *from)
{
  return (uint8_t)(IBV_MTU_256 + from->value.number);
}

static bool hosts_has_room(struct describe *d, const struct node *node, uint32_t used,
                           uint32_t most, const char *what)
{
  if (used >= most)
    findings_add(&d->findings, &node->place, "a fabric has at most %u %s; leave some out", most,
                 what);
  return used < most;
}

static bool hosts_is_new(struct describe *d, const struct taken *name, const char *other)
{
  if (strcmp(name->text, other))
    return true;
  findings_add(&d->findings, &name->node->place, "the name \"%s\" is taken already; choose another",
               other);
  return false;
}

void describe_subnet(struct describe *d, const struct node *node)
{
  static const struct key keys[] = {
      {{.name = "name", .type = RULE_STRING, .help = "what ports and routers call it"}, true},
      {{.name = "mtu", .type = RULE_ENUM, .choices = mtu_words, .default_value = "4096"}, 0},
  };
  struct taken taken[COUNT(keys)];
  struct fabric *f = d->f;
  if (!keys_take(d, node, "a subnet", keys, COUNT(keys), taken) ||
      !hosts_has_room(d, node, f->subnets, FAB_SUBNETS, "subnets"))
    return;
  struct fab_subnet *subnet = &f->subnet[f->subnets];
  for (uint32_t i = 0; i < f->subnets; i++) {
    if (!hosts_is_new(d, &taken[0], f->subnet[i].name))
      return;
  }
  if (!keys_name(d, &taken[0], subnet->name))
    return;
  subnet->mtu = hosts_mtu_of(&taken[1]);
  subnet->used = 1;
  f->subnets++;
}

/* Returns the subnet's index, or -1 with a finding. */
static int hosts_find_subnet(struct describe *d, const struct node *node)
{
  const char *names[FAB_SUBNETS];
  if (node->type != NODE_SCALAR) {
    findings_add(&d->findings, &node->place, "a subnet's name is expected here");
    return -1;
  }
  for (uint32_t i = 0; i < d->f->subnets; i++) {
    names[i] = d->f->subnet[i].name;
    if (!strcmp(names[i], node->text))
      return (int)i;
  }
  keys_unknown(d, &node->place, "there is no subnet", node->text, names, d->f->subnets);
  return -1;
}

static bool hosts_router_subnets(struct describe *d, const struct node *list, uint64_t *bits)
{
  if (list->type != NODE_LIST) {
    findings_add(&d->findings, &list->place, "subnets is a list here, as in [left, right]");
    return false;
  }
  bool right = true;
  for (const struct node *child = list->first; child; child = child->next) {
    int subnet = hosts_find_subnet(d, child);
    right = right && subnet >= 0;
    *bits |= subnet >= 0 ? UINT64_C(1) << subnet : 0;
  }
  if (right && __builtin_popcountll(*bits) < 2) {
    findings_add(&d->findings, &list->place, "a router joins at least two subnets; name another");
    return false;
  }
  return right;
}

void describe_router(struct describe *d, const struct node *node)
{
  static const struct key keys[] = {
      {{.name = "name", .type = RULE_STRING, .help = "what reports call it"}, true},
      {{.name = "mtu", .type = RULE_ENUM, .choices = mtu_words, .default_value = "4096"}, 0},
      {{.name = "subnets", .type = RULE_NODE, .help = "the subnets that it joins"}, true},
  };
  struct taken taken[COUNT(keys)];
  struct fabric *f = d->f;
  uint64_t bits = 0;
  if (!keys_take(d, node, "a router", keys, COUNT(keys), taken) ||
      !hosts_has_room(d, node, f->routers, FAB_ROUTERS, "routers") ||
      !hosts_router_subnets(d, taken[2].node, &bits))
    return;
  struct fab_router *router = &f->router[f->routers];
  for (uint32_t i = 0; i < f->routers; i++) {
    if (!hosts_is_new(d, &taken[0], f->router[i].name))
      return;
  }
  if (!keys_name(d, &taken[0], router->name))
    return;
  router->mtu = hosts_mtu_of(&taken[1]);
  router->subnets = bits;
  router->used = 1;
  router->up = 1;
  f->routers++;
}

/* ---- devices ---- */

#define CAP_OF(field, most, words)                                                                 \
  {                                                                                                \
#field, offsetof(struct fab_caps, field), sizeof(((struct fab_caps *)0)->field), most, words   \
  }
#define CAP(field, most) CAP_OF(field, most, NULL)
/* By enum ibv_atomic_cap. */
static const char *const atomic_words[] = {"none", "hca", "glob", NULL};
static const struct cap {
  const char *name;
  size_t offset, size;
  uint64_t most;
  const char *const *choices; /* in words */
} caps[] = {
    CAP(max_qp, FAB_QPS - 1),
    CAP(max_cq, FAB_CQS - 1),
    CAP(max_mr, FAB_MRS - 1),
    CAP(max_pd, FAB_QPS - 1),
    CAP(max_srq, FAB_SRQS - 1),
    CAP(max_ah, INT32_MAX),
    CAP(max_mw, FAB_MRS - 1),
    CAP(max_qp_wr, 32768),
    CAP(max_sge, 30),
    CAP(max_sge_rd, 30),
    CAP(max_inline, 988),
    CAP(max_cqe, 4194303),
    CAP(max_srq_wr, 32767),
    CAP(max_srq_sge, 31),
    CAP(max_rd_atomic, 128),
    CAP(max_dest_rd_atomic, 128),
    CAP(max_dc_rd_atomic, 128),
    CAP(max_msg_size, UINT64_C(1) << 31),
    CAP(wqe_blocks, 65536),
    CAP(scatter_to_cqe, SIM_SCATTER),
    CAP(dmabuf, 1),
    CAP(dc, 1),
    CAP(log_max_streams, 15),
    CAP(log_max_errored, 15),
    CAP(late_writes, 1),
    CAP(resize_cq, 1),
    CAP(last_wqe, 1),
    CAP(retries_for_ever, 1),
    CAP(ece, UINT32_MAX),
    CAP(command_us, 10000000),
    CAP_OF(atomic_cap, IBV_ATOMIC_GLOB, atomic_words),
    CAP(rounds_up, 1),
    CAP(gives_sends, UINT32_MAX),
    CAP(gives_receives, UINT32_MAX),
    CAP(gives_pieces, UINT32_MAX),
    CAP(gives_inline, UINT32_MAX),
    CAP(gives_shared, UINT32_MAX),
    CAP(gives_cqe, UINT32_MAX),
};

static void describe_caps(struct describe *d, const struct node *node, struct fab_caps *to)
{
  struct key keys[COUNT(caps)] = {0};
  struct taken taken[COUNT(caps)];
  for (size_t i = 0; i < COUNT(caps); i++) {
    bool flag = caps[i].most == 1;
    keys[i].rule.name = caps[i].name;
    keys[i].rule.type = caps[i].choices ? RULE_ENUM : flag ? RULE_BOOL : RULE_UINT;
    keys[i].rule.choices = caps[i].choices;
    keys[i].rule.max = flag || caps[i].choices ? 0 : caps[i].most;
  }
  if (!keys_take(d, node, "caps", keys, COUNT(keys), taken))
    return;
  for (size_t i = 0; i < COUNT(caps); i++) {
    /* Little-endian, as the machines are that this runs on. */
    if (taken[i].node)
      memcpy((char *)to + caps[i].offset, &taken[i].value.number, caps[i].size);
  }
}

/* `of`: the device's own node; without a list it has one port, all by default. */
static void describe_ports(struct describe *d, uint32_t device, const struct node *list,
                           const struct node *of)
{
  if (!list) {
    describe_port(d, device, 0, &(struct node){.type = NODE_MAP, .place = of->place});
    return;
  }
  if (list->type != NODE_LIST || !list->first) {
    findings_add(&d->findings, &list->place, "ports is a list of 1 to %d ports", FAB_PORTS);
    return;
  }
  unsigned index = 0;
  for (const struct node *child = list->first; child; child = child->next, index++) {
    if (index == FAB_PORTS) {
      findings_add(&d->findings, &child->place, "a device has at most %d ports; leave this out",
                   FAB_PORTS);
      return;
    }
    describe_port(d, device, index, child);
  }
}

static void describe_device(struct describe *d, const struct node *node)
{
  static const struct key keys[] = {
      {{.name = "name", .type = RULE_STRING, .help = "as in mlx5_0"}, true},
      {{.name = "caps", .type = RULE_NODE}, false},
      {{.name = "ports", .type = RULE_NODE}, false},
      {{.name = "transport", .type = RULE_ENUM, .choices = transport_words, .default_value = "ib"},
       false},
      {{.name = "opens", .type = RULE_ENUM, .choices = open_words, .default_value = "yes"}, false},
      {{.name = "vendor", .type = RULE_ENUM, .choices = vendor_words, .default_value = "mellanox"},
       false},
  };
  struct taken taken[COUNT(keys)];
  struct fabric *f = d->f;
  if (!keys_take(d, node, "a device", keys, COUNT(keys), taken) ||
      !hosts_has_room(d, node, f->devices, FAB_DEVICES, "devices"))
    return;
  uint32_t number = f->devices, before = 0;
  struct fab_device *device = &f->device[number];
  for (uint32_t i = 0; i < number; i++) {
    if (f->device[i].host != f->hosts)
      continue;
    if (!hosts_is_new(d, &taken[0], f->device[i].name))
      return;
    before++;
  }
  if (!keys_name(d, &taken[0], device->name))
    return;
  device->host = (uint16_t)f->hosts;
  device->number = (uint16_t)before;
  device->guid = fab_guid(f->hosts, before);
  device->used = 1;
  device->vendor_id = vendor_ids[taken[5].value.number];
  device->transport = transports[taken[3].value.number];
  device->open_error = open_errors[taken[4].value.number];
  fab_caps_default(&device->caps, device->vendor_id);
  if (taken[1].node)
    describe_caps(d, taken[1].node, &device->caps);
  f->devices++;
  describe_ports(d, number, taken[2].node, node);
}

void describe_host(struct describe *d, const struct node *node)
{
  static const struct key keys[] = {
      {{.name = "name", .type = RULE_STRING, .help = "what --host takes"}, true},
      {{.name = "devices", .type = RULE_NODE, .help = "a list of the host's devices"}, true},
  };
  struct taken taken[COUNT(keys)];
  struct fabric *f = d->f;
  if (!keys_take(d, node, "a host", keys, COUNT(keys), taken) ||
      !hosts_has_room(d, node, f->hosts, FAB_HOSTS, "hosts"))
    return;
  for (uint32_t i = 0; i < f->hosts; i++) {
    if (!hosts_is_new(d, &taken[0], f->host[i]))
      return;
  }
  if (!keys_name(d, &taken[0], f->host[f->hosts]))
    return;
  keys_each(d, taken[1].node, "devices", describe_device);
  f->hosts++;
}
