/* SPDX-License-Identifier: Apache-2.0 */
/* penstock-simverbs ctl: looks at a fabric and changes it while programs run on it. */
#include "launcher.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "verbs of penstock-simverbs ctl FABRIC:\n"
    "  show                           devices, ports, processes\n"
    "  counters                       what was moved, lost and why\n"
    "  port DEVICE[/PORT] up|down     with the host before it, if several: HOST:DEVICE/PORT\n"
    "  device DEVICE remove|restore   as if pulled out of its slot\n"
    "  router NAME up|down\n"
    "  fault drop|delay|rnr|reg-mr|dmabuf [KEY=VALUE...]\n"
    "                                 host= device= qpn= percent= after= count= delay= errno=\n"
    "  faults clear\n"
    "  clock real|manual|SCALE        SCALE: fabric seconds in one real second\n"
    "  advance TIME                   of a manual clock: 5s, 20ms, 100us, 7ns\n"
    "  strict on|off\n"
    "  engine eager|deferred [DELAY]  deferred: on the NIC thread, up to DELAY later\n"
    "  kill-objects PID               reap a process that hangs, as if it had died\n";

static void kick_all(void)
{
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    if (atomic_load(&fab->process[i].state) == FAB_SLOT_USED)
      fab_kick(i);
  }
}

static int complain(const char *what, const char *word)
{
  fprintf(stderr, "penstock-simverbs ctl: %s '%s'\n", what, word ? word : "");
  return 2;
}

/* 0 for what is no time. */
static bool parse_time(const char *text, uint64_t *ns)
{
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 6e10}};
  char *end;
  double value = text ? strtod(text, &end) : -1;
  if (value < 0 || end == text)
    return false;
  for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
    if (!strcmp(end, units[i].unit)) {
      *ns = (uint64_t)(value * units[i].ns);
      return true;
    }
  }
  return false;
}

static int find_host(const char *name)
{
  for (uint32_t i = 0; i < fab->hosts; i++) {
    if (!strcmp(fab->host[i], name))
      return (int)i;
  }
  return -1;
}

/* [HOST:]DEVICE[/PORT] */
static int find_device(const char *text, unsigned *port)
{
  char host[FAB_NAME + 1] = "", device[FAB_NAME + 1] = "";
  const char *colon = strchr(text, ':');
  if (colon)
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
  const char *name = colon ? colon + 1 : text;
  size_t length = strcspn(name, "/");
  snprintf(device, sizeof(device), "%.*s", (int)length, name);
  *port = name[length] ? (unsigned)atoi(name + length + 1) : 1;
  for (uint32_t i = 0; i < fab->devices; i++) {
    if (strcmp(fab->device[i].name, device))
      continue;
    if (!colon || fab->device[i].host == find_host(host))
      return (int)i;
  }
  return -1;
}

static int show(int argc, char **argv)
{
  (void)argc;
  (void)argv;
  fab_reap_all();
  for (uint32_t i = 0; i < fab->devices; i++) {
    const struct fab_device *device = &fab->device[i];
    printf("%s:%s%s\n", fab->host[device->host], device->name, device->removed ? " (removed)" : "");
    for (unsigned p = 0; p < FAB_PORTS && device->ports[p].used; p++) {
      const struct fab_port *port = &device->ports[p];
      printf("  port %u %s %s, subnet %s, lid %u, mtu %u\n", p + 1, port->up ? "up" : "down",
             port->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand",
             fab->subnet[port->subnet].name, port->lid, 128u << port->mtu);
    }
    printf("  objects: %u PD, %u MR, %u CQ, %u SRQ, %u QP\n", device->objects[FAB_KIND_PD],
           device->objects[FAB_KIND_MR], device->objects[FAB_KIND_CQ],
           device->objects[FAB_KIND_SRQ], device->objects[FAB_KIND_QP]);
  }
  for (uint32_t i = 0; i < fab->routers; i++)
    printf("router %s %s, %" PRIu64 " died of their hop limit\n", fab->router[i].name,
           fab->router[i].up ? "up" : "down", fab->router[i].died_of_hop_limit);
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    if (atomic_load(&fab->process[i].state) == FAB_SLOT_USED)
      printf("process %d on %s\n", fab->process[i].pid, fab->host[fab->process[i].host]);
  }
  return 0;
}

static int counters(int argc, char **argv)
{
  (void)argc;
  (void)argv;
  for (unsigned c = 0; c < FAB_COUNTERS; c++) {
    uint64_t sum = atomic_load(&fab->counters[c]);
    for (uint32_t i = 0; !sum && i < fab->devices; i++) {
      for (unsigned p = 0; p < FAB_PORTS; p++)
        sum += atomic_load(&fab->device[i].ports[p].counters[c]);
    }
    printf("%s %" PRIu64 "\n", fab_counter_names[c], sum);
  }
  return 0;
}

static int set_port(int argc, char **argv)
{
  unsigned number;
  int device = argc > 1 ? find_device(argv[1], &number) : -1;
  struct fab_port *port = device < 0 ? NULL : fab_port_of((uint32_t)device, number);
  if (!port || argc != 3)
    return complain("no such port", argc > 1 ? argv[1] : NULL);
  bool up = !strcmp(argv[2], "up");
  if (!up && strcmp(argv[2], "down"))
    return complain("up or down, not", argv[2]);
  atomic_store(&port->up, up);
  atomic_fetch_add(&fab->topology, 1);
  kick_all();
  return 0;
}

static int set_device(int argc, char **argv)
{
  unsigned port;
  int device = argc > 1 ? find_device(argv[1], &port) : -1;
  if (device < 0 || argc != 3)
    return complain("no such device", argc > 1 ? argv[1] : NULL);
  bool removed = !strcmp(argv[2], "remove");
  if (!removed && strcmp(argv[2], "restore"))
    return complain("remove or restore, not", argv[2]);
  atomic_store(&fab->device[device].removed, removed);
  atomic_fetch_add(&fab->topology, 1);
  kick_all();
  return 0;
}

static int set_router(int argc, char **argv)
{
  for (uint32_t i = 0; argc == 3 && i < fab->routers; i++) {
    if (strcmp(fab->router[i].name, argv[1]))
      continue;
    atomic_store(&fab->router[i].up, !strcmp(argv[2], "up"));
    fab_routes_changed(fab);
    kick_all();
    return 0;
  }
  return complain("no such router", argc > 1 ? argv[1] : NULL);
}

static int fault_word(struct fab_fault *fault, const char *word)
{
  const char *value = strchr(word, '=');
  if (!value)
    return complain("KEY=VALUE, not", word);
  size_t length = (size_t)(value++ - word);
  unsigned port;
  if (!strncmp(word, "host", length))
    fault->host = (uint32_t)find_host(value) + 1;
  else if (!strncmp(word, "device", length))
    fault->device = (uint32_t)find_device(value, &port) + 1;
  else if (!strncmp(word, "qpn", length))
    fault->qpn = (uint32_t)strtoul(value, NULL, 0);
  else if (!strncmp(word, "percent", length))
    fault->per_million = (uint32_t)(strtod(value, NULL) * 10000);
  else if (!strncmp(word, "after", length))
    fault->after = strtoll(value, NULL, 0);
  else if (!strncmp(word, "count", length))
    fault->left = strtoll(value, NULL, 0);
  else if (!strncmp(word, "errno", length))
    fault->error = fab_errno(value);
  else if (strncmp(word, "delay", length) || !parse_time(value, &fault->delay_ns))
    return complain("no such key or value", word);
  if (fault->error < 0)
    return complain("no such errno", value);
  return 0;
}

static int plant(int argc, char **argv)
{
  struct fab_fault fault = {
      .per_million = 1000000, .left = -1, .error = ENOMEM, .delay_ns = 1000000};
  int kind = argc > 1 ? fab_fault_kind_of(argv[1]) : FAB_FAULT_NONE;
  if (kind == FAB_FAULT_NONE)
    return complain("no such fault", argc > 1 ? argv[1] : NULL);
  for (int i = 2; i < argc; i++) {
    int status = fault_word(&fault, argv[i]);
    if (status)
      return status;
  }
  if (fab_fault_plant(fab, kind, &fault))
    return complain("too many faults: clear them first", NULL);
  return 0;
}

static int clear_faults(int argc, char **argv)
{
  if (argc != 2 || strcmp(argv[1], "clear"))
    return complain("clear, not", argc > 1 ? argv[1] : NULL);
  for (unsigned i = 0; i < FAB_FAULTS; i++)
    atomic_store(&fab->fault[i].kind, FAB_FAULT_NONE);
  return 0;
}

static int set_clock(int argc, char **argv)
{
  if (argc != 2 || fab_clock_set(fab, argv[1]))
    return complain("real, manual or a number above 0, not", argc > 1 ? argv[1] : NULL);
  kick_all();
  return 0;
}

static int advance(int argc, char **argv)
{
  uint64_t ns;
  if (argc != 2 || !parse_time(argv[1], &ns))
    return complain("a time as 5s or 20ms, not", argc > 1 ? argv[1] : NULL);
  atomic_fetch_add(&fab->clock_base_ns, (int64_t)ns);
  kick_all();
  return 0;
}

static int set_strict(int argc, char **argv)
{
  if (argc != 2)
    return complain("on or off", NULL);
  fab->strict = !strcmp(argv[1], "on");
  return 0;
}

static int set_engine(int argc, char **argv)
{
  uint64_t delay = 0;
  if (argc < 2 || argc > 3 || (argc == 3 && !parse_time(argv[2], &delay)))
    return complain("eager, or deferred and a time", NULL);
  fab->engine_delay_ns = delay;
  fab->engine = strcmp(argv[1], "deferred") ? FAB_ENGINE_EAGER : FAB_ENGINE_DEFERRED;
  return 0;
}

static int kill_objects(int argc, char **argv)
{
  for (uint32_t i = 0; argc == 2 && i < FAB_PROCESSES; i++) {
    if (atomic_load(&fab->process[i].state) == FAB_SLOT_USED &&
        fab->process[i].pid == atoi(argv[1])) {
      fab_reap(i);
      return 0;
    }
  }
  return complain("no such process on the fabric", argc > 1 ? argv[1] : NULL);
}

static int help(int argc, char **argv)
{
  (void)argc;
  (void)argv;
  fputs(help_text, stdout);
  return 0;
}

int launcher_ctl(int argc, char **argv)
{
  static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
  } verbs[] = {{"show", show},
               {"counters", counters},
               {"port", set_port},
               {"device", set_device},
               {"router", set_router},
               {"fault", plant},
               {"faults", clear_faults},
               {"clock", set_clock},
               {"advance", advance},
               {"strict", set_strict},
               {"engine", set_engine},
               {"kill-objects", kill_objects},
               {"help", help}};
  char path[PATH_MAX];
  if (argc < 2) {
    fputs(help_text, stderr);
    return 2;
  }
  launcher_path(argv[0], path, sizeof(path));
  int error = fab_open(path);
  if (error) {
    fprintf(stderr, "penstock-simverbs ctl: %s: %s\n", path, strerror(error));
    return 1;
  }
  for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
    if (!strcmp(verbs[i].name, argv[1]))
      return verbs[i].run(argc - 1, argv + 1);
  }
  return complain("no such verb; see help:", argv[1]);
}
