/* SPDX-License-Identifier: Apache-2.0 */
/* Faults, as descriptions and command lines word them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

enum {
  DO,
  OF,
  ON,
  QP,
  AFTER,
  COUNT,
  SHARE,
  BY,
  ERROR,
  AT,
  FOR,
  EVENT,
  LID,
  MTU,
  GID,
  INDEX,
  FAULT_KEYS
};
enum { LID_MAX = 0xbfff };

#define BIT(key) (1u << (key))
#define WHEN (BIT(DO) | BIT(AFTER) | BIT(AT))
#define WHICH (WHEN | BIT(COUNT) | BIT(SHARE) | BIT(FOR))

/* Kinds of faults: the keys that each has, and those of them that it needs. */
static const struct kind {
  uint32_t kind;
  uint32_t keys, needs;
  int value; /* errno, unless it says another */
} kinds[] = {
    {FAB_FAULT_DROP, WHICH | BIT(OF) | BIT(QP), 0, 0},
    {FAB_FAULT_DELAY, WHICH | BIT(OF) | BIT(QP) | BIT(BY), BIT(BY), 0},
    {FAB_FAULT_RNR, WHICH | BIT(ON) | BIT(QP), 0, 0},
    {FAB_FAULT_REG_MR, WHICH | BIT(ON) | BIT(ERROR), 0, ENOMEM},
    {FAB_FAULT_DMABUF, WHICH | BIT(ON) | BIT(ERROR), 0, EOPNOTSUPP},
    {FAB_FAULT_QP_ERROR, WHICH | BIT(OF) | BIT(QP), 0, 0},
    {FAB_FAULT_TARGET_ERROR, WHICH | BIT(ON) | BIT(QP), 0, 0},
    {FAB_FAULT_CQ_ERROR, WHICH | BIT(OF) | BIT(QP), 0, 0},
    {FAB_FAULT_QP_EVENT, WHICH | BIT(OF) | BIT(QP) | BIT(EVENT), BIT(EVENT), 0},
    {FAB_FAULT_PORT_DOWN, WHEN | BIT(OF) | BIT(ON) | BIT(FOR), BIT(ON), 0},
    {FAB_FAULT_PORT_UP, WHEN | BIT(OF) | BIT(ON), BIT(ON), 0},
    {FAB_FAULT_LOSE_PEER, WHEN | BIT(OF) | BIT(ON) | BIT(FOR), BIT(ON), 0},
    {FAB_FAULT_RESTORE_PEER, WHEN | BIT(OF) | BIT(ON), BIT(ON), 0},
    {FAB_FAULT_REMOVE_DEVICE, WHEN | BIT(OF) | BIT(ON) | BIT(FOR), BIT(ON), 0},
    {FAB_FAULT_RESTORE_DEVICE, WHEN | BIT(OF) | BIT(ON), BIT(ON), 0},
    {FAB_FAULT_ROUTER_DOWN, WHEN | BIT(OF) | BIT(ON) | BIT(FOR), BIT(ON), 0},
    {FAB_FAULT_ROUTER_UP, WHEN | BIT(OF) | BIT(ON), BIT(ON), 0},
    {FAB_FAULT_PORT_EVENT, WHEN | BIT(OF) | BIT(ON) | BIT(EVENT), BIT(ON) | BIT(EVENT), 0},
    {FAB_FAULT_PORT_SET, WHEN | BIT(OF) | BIT(ON) | BIT(LID) | BIT(MTU) | BIT(GID) | BIT(INDEX),
     BIT(ON), 0},
};
const char *const describe_fault_names[] = {
    "drop",
    "delay",
    "rnr",
    "refuse-registration",
    "refuse-dmabuf",
    "qp-error",
    "target-error",
    "cq-error",
    "qp-event",
    "port-down",
    "port-up",
    "lose-peer",
    "restore-peer",
    "remove-device",
    "restore-device",
    "router-down",
    "router-up",
    "port-event",
    "port-set",
    NULL,
};
_Static_assert(sizeof(kinds) / sizeof(kinds[0]) + 1 ==
                   sizeof(describe_fault_names) / sizeof(describe_fault_names[0]),
               "a name for each");

static const char *const error_words[] = {"ENOMEM",     "EINVAL", "EFAULT", "EPERM",
                                          "EACCES",     "EAGAIN", "EBUSY",  "EIO",
                                          "EOPNOTSUPP", "ENOSPC", "ENODEV", NULL};
static const int errors[] = {ENOMEM, EINVAL, EFAULT,     EPERM,  EACCES, EAGAIN,
                             EBUSY,  EIO,    EOPNOTSUPP, ENOSPC, ENODEV};

/* Events that ports and queue pairs can raise. */
static const char *const event_words[] = {
    "path-mig",  "path-mig-err",      "comm-est",   "sq-drained", "lid-change", "pkey-change",
    "sm-change", "client-reregister", "gid-change", "unknown",    NULL};
static const struct event {
  int type;
  bool is_ports; /* else a queue pair's */
} events[] = {
    {IBV_EVENT_PATH_MIG, false},  {IBV_EVENT_PATH_MIG_ERR, false},
    {IBV_EVENT_COMM_EST, false},  {IBV_EVENT_SQ_DRAINED, false},
    {IBV_EVENT_LID_CHANGE, true}, {IBV_EVENT_PKEY_CHANGE, true},
    {IBV_EVENT_SM_CHANGE, true},  {IBV_EVENT_CLIENT_REREGISTER, true},
    {IBV_EVENT_GID_CHANGE, true}, {SIM_EVENT_UNKNOWN, true},
};
_Static_assert(sizeof(events) / sizeof(events[0]) + 1 ==
                   sizeof(event_words) / sizeof(event_words[0]),
               "a word for each");

static const char *const mtu_words[] = {"256", "512", "1024", "2048", "4096", NULL};

const char *describe_event(int type)
{
  size_t i = 0;
  while (event_words[i + 1] && events[i].type != type)
    i++;
  return event_words[i];
}

static const struct key fault_keys[FAULT_KEYS] = {
    [DO] = {{.name = "do",
             .type = RULE_ENUM,
             .choices = describe_fault_names,
             .help = "what it does, as in drop"},
            true},
    [OF] = {{.name = "from", .type = RULE_STRING}},
    [ON] = {{.name = "on", .type = RULE_STRING}},
    [QP] = {{.name = "qp", .type = RULE_STRING}},
    [AFTER] = {{.name = "after", .type = RULE_UINT, .max = INT64_MAX, .default_value = "0"}},
    [COUNT] = {{.name = "count", .type = RULE_UINT, .min = 1, .max = INT64_MAX}},
    [SHARE] = {{.name = "share", .type = RULE_SHARE, .default_value = "1"}},
    [BY] = {{.name = "by", .type = RULE_DURATION, .min = 1}},
    [ERROR] = {{.name = "error", .type = RULE_ENUM, .choices = error_words}},
    [AT] = {{.name = "at", .type = RULE_DURATION}},
    [FOR] = {{.name = "for", .type = RULE_DURATION, .min = 1}},
    [LID] = {{.name = "lid", .type = RULE_UINT, .min = 1, .max = LID_MAX}},
    [MTU] = {{.name = "mtu", .type = RULE_ENUM, .choices = mtu_words}},
    [GID] = {{.name = "gid", .type = RULE_STRING}},
    [INDEX] = {{.name = "index", .type = RULE_UINT, .max = FAB_GIDS - 1, .default_value = "0"}},
    [EVENT] = {{.name = "event", .type = RULE_ENUM, .choices = event_words}},
};

/* ---- targets ---- */

/* Cuts the word up to '/' off *at. */
static void faults_cut_word(const char **at, char word[FAB_NAME])
{
  size_t length = strcspn(*at, "/");
  snprintf(word, FAB_NAME, "%.*s", (int)length, *at);
  *at += length + ((*at)[length] == '/');
}

static bool faults_target_host(struct describe *d, const struct taken *from, const char *word,
                               struct fab_target *target)
{
  const char *names[FAB_HOSTS];
  for (uint32_t i = 0; i < d->f->hosts; i++) {
    names[i] = d->f->host[i];
    if (!strcmp(names[i], word))
      target->host = (uint16_t)(i + 1);
  }
  if (!target->host)
    keys_unknown(d, &from->node->place, "there is no host", word, names, d->f->hosts);
  return target->host;
}

static bool faults_target_device(struct describe *d, const struct taken *from, const char *word,
                                 struct fab_target *target)
{
  const char *names[FAB_DEVICES];
  uint32_t count = 0;
  for (uint32_t i = 0; i < d->f->devices; i++) {
    if (d->f->device[i].host + 1 != target->host)
      continue;
    names[count++] = d->f->device[i].name;
    if (!strcmp(d->f->device[i].name, word))
      target->device = (uint16_t)(i + 1);
  }
  if (!target->device)
    keys_unknown(d, &from->node->place, "that host has no device", word, names, count);
  return target->device;
}

static bool faults_target_port(struct describe *d, const struct taken *from, const char *word,
                               struct fab_target *target)
{
  char *end;
  unsigned long port = strtoul(word, &end, 10);
  if (*end || port < 1 || port > FAB_PORTS ||
      !d->f->device[target->device - 1].ports[port - 1].used) {
    findings_add(&d->findings, &from->node->place,
                 "that device has no port \"%.60s\"; count from 1", word);
    return false;
  }
  target->port = (uint16_t)port;
  return true;
}

bool describe_target(struct describe *d, const struct taken *from, struct fab_target *target)
{
  struct fab_target found = {0};
  char word[FAB_NAME];
  const char *at = from->text;
  faults_cut_word(&at, word);
  if (!faults_target_host(d, from, word, &found))
    return false;
  if (*at) {
    faults_cut_word(&at, word);
    if (!faults_target_device(d, from, word, &found))
      return false;
  }
  if (*at && !faults_target_port(d, from, at, &found))
    return false;
  *target = found;
  return true;
}

/* ---- the fault ---- */

static bool faults_fit_kind(struct describe *d, const struct node *node, const struct taken *taken,
                            const struct kind *kind, const char *name)
{
  bool right = true;
  for (int i = 0; i < FAULT_KEYS; i++) {
    const char *key = fault_keys[i].rule.name;
    if (taken[i].node && !(kind->keys & BIT(i))) {
      findings_add(&d->findings, &taken[i].node->key_place,
                   "\"%s\" has no meaning for %s; remove it", key, name);
      right = false;
    }
    if (!taken[i].node && kind->needs & BIT(i)) {
      findings_add(&d->findings, &node->place, "%s needs \"%s\"%s", name, key,
                   i == BY      ? ", as in 5 ms"
                   : i == EVENT ? ": which event, see ctl --help"
                                : ": what it applies to, see ctl --help");
      right = false;
    }
  }
  if (kind->kind >= FAB_FAULT_PORT_DOWN && taken[AT].node && taken[AFTER].node) {
    findings_add(&d->findings, &taken[AT].node->key_place,
                 "%s takes a time or a number of messages, not both; remove one", name);
    right = false;
  }
  return right;
}

static bool faults_target_router(struct describe *d, const struct taken *from,
                                 struct fab_target *target)
{
  const char *names[FAB_ROUTERS];
  for (uint32_t i = 0; i < d->f->routers; i++) {
    names[i] = d->f->router[i].name;
    if (!strcmp(names[i], from->text))
      target->router = (uint16_t)(i + 1);
  }
  if (!target->router)
    keys_unknown(d, &from->node->place, "there is no router", from->text, names, d->f->routers);
  return target->router;
}

static bool faults_fit_target(struct describe *d, const struct taken *taken,
                              struct fab_fault *fault)
{
  bool done_once = fault->kind >= FAB_FAULT_PORT_DOWN;
  if (taken[OF].node && !describe_target(d, &taken[OF], &fault->of))
    return false;
  if (fault->kind == FAB_FAULT_ROUTER_DOWN || fault->kind == FAB_FAULT_ROUTER_UP)
    return faults_target_router(d, &taken[ON], &fault->on);
  if (taken[ON].node && !describe_target(d, &taken[ON], done_once ? &fault->on : &fault->of))
    return false;
  if (fault->of.port) {
    findings_add(&d->findings, &taken[taken[OF].node ? OF : ON].node->place,
                 "faults choose messages by device, not by port; leave the port out");
    return false;
  }
  if (fault->kind == FAB_FAULT_PORT_SET && !fault->on.port) {
    findings_add(&d->findings, &taken[ON].node->place, "one port is meant: HOST/DEVICE/PORT");
    return false;
  }
  bool whole = fault->kind == FAB_FAULT_REMOVE_DEVICE || fault->kind == FAB_FAULT_RESTORE_DEVICE;
  if (whole && (!fault->on.device || fault->on.port)) {
    findings_add(&d->findings, &taken[ON].node->place, "a whole device is meant: HOST/DEVICE");
    return false;
  }
  return true;
}

static bool faults_fit_qp(struct describe *d, const struct taken *taken, struct fab_fault *fault)
{
  if (!taken->node)
    return true;
  char *end;
  errno = 0;
  unsigned long number = strtoul(taken->text, &end, 0);
  if (errno || end == taken->text || *end || !number || number > 0xffffff) {
    findings_add(&d->findings, &taken->node->place,
                 "qp: \"%.60s\" is not a QP number; write it as in 0x1a or 26", taken->text);
    return false;
  }
  fault->qpn = (uint32_t)number;
  return true;
}

static bool faults_fit_event(struct describe *d, const struct taken *taken, struct fab_fault *fault)
{
  if (!taken->node)
    return true;
  const struct event *event = &events[taken->value.number];
  if (event->is_ports != (fault->kind == FAB_FAULT_PORT_EVENT)) {
    findings_add(&d->findings, &taken->node->place, "%s is an event of a %s; use %s-event",
                 taken->text, event->is_ports ? "port" : "queue pair",
                 event->is_ports ? "port" : "qp");
    return false;
  }
  fault->value = event->type;
  return true;
}

/* Checks that a change of a port fits it, and takes the values over; Ethernet has RoCE v2. */
static bool faults_fit_port(struct describe *d, const struct taken *taken, struct fab_fault *fault)
{
  if (fault->kind != FAB_FAULT_PORT_SET)
    return true;
  const struct fab_port *port = fab_port_of(fault->on.device - 1u, fault->on.port);
  const bool ib = port->link_layer == IBV_LINK_LAYER_INFINIBAND;
  if (taken[LID].node && !ib) {
    findings_add(&d->findings, &taken[LID].node->place, "\"lid\" is an InfiniBand port's");
    return false;
  }
  if (taken[GID].node && inet_pton(AF_INET6, taken[GID].text, fault->gid.gid.raw) != 1) {
    findings_add(&d->findings, &taken[GID].node->place,
                 "\"%.60s\" is not a GID; write it as an IPv6 address, as in ::ffff:10.0.0.1",
                 taken[GID].text);
    return false;
  }
  fault->lid = (uint16_t)taken[LID].value.number;
  fault->mtu = taken[MTU].node ? (uint8_t)(IBV_MTU_256 + taken[MTU].value.number) : 0;
  fault->gid_index = (uint8_t)taken[INDEX].value.number;
  fault->gid.used = taken[GID].node != NULL;
  fault->gid.type = ib ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  return true;
}

static void faults_fit_times(const struct taken *taken, struct fab_fault *fault)
{
  uint64_t now = fab_clock_ns(fab);
  if (taken[AT].node)
    fault->at_ns = now + taken[AT].value.number;
  if (fault->kind >= FAB_FAULT_PORT_DOWN)
    fault->for_ns = taken[FOR].value.number;
  else if (taken[FOR].node)
    fault->until_ns = (fault->at_ns ? fault->at_ns : now) + taken[FOR].value.number;
}

void describe_fault(struct describe *d, const struct node *node)
{
  struct taken taken[FAULT_KEYS];
  if (!keys_take(d, node, "a fault", fault_keys, FAULT_KEYS, taken))
    return;
  size_t which = taken[DO].value.number;
  const struct kind *kind = &kinds[which];
  struct fab_fault fault = {.kind = kind->kind};
  if (!faults_fit_kind(d, node, taken, kind, describe_fault_names[which]) ||
      !faults_fit_target(d, taken, &fault) || !faults_fit_qp(d, &taken[QP], &fault))
    return;
  fault.value = taken[ERROR].node ? errors[taken[ERROR].value.number] : kind->value;
  if (!faults_fit_event(d, &taken[EVENT], &fault) || !faults_fit_port(d, taken, &fault))
    return;
  fault.per_million = (uint32_t)(taken[SHARE].value.real * 1000000);
  fault.after = (int64_t)taken[AFTER].value.number;
  fault.left = taken[COUNT].node ? (int64_t)taken[COUNT].value.number : -1;
  fault.delay_ns = taken[BY].value.number;
  faults_fit_times(taken, &fault);
  if (!d->findings.total && fab_fault_plant(&fault))
    findings_add(&d->findings, &node->place,
                 "a fabric has at most %d faults at a time; clear some first", FAB_FAULTS);
}
