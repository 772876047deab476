/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a step: what this host has, and the program that it runs. */
#ifndef APP_HARDWARE_END_H
#define APP_HARDWARE_END_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "checks.h"
#include "child.h"

struct json_object;

#define HARDWARE_DEVICES 64
#define HARDWARE_WHY 1024

struct hardware_device {
  char name[128]; /* "": the transport has but one */
  char detail[320];
};

struct hardware_devices {
  struct hardware_device all[HARDWARE_DEVICES];
  uint32_t count;
  char why_none[HARDWARE_WHY];
};

/* Settings that are the same for all steps. */
struct hardware_plan {
  const char *transports, *memories; /* lists, "udp,ucx"; NULL: all */
  const char *path;                  /* of streams; NULL: auto */
  const char **plugin_paths;
  size_t plugin_path_count;
  const char **transport_options, **memory_options; /* of this host's ends, "k=v" */
  size_t transport_option_count, memory_option_count;
  bool insecure;
  uint64_t duration_ns;
  uint64_t limit_ns; /* of a step, beside what it measures */
};

#define HARDWARE_NAME 64

/* A transport or memory. */
struct hardware_part {
  char name[HARDWARE_NAME];
  char file[PATH_MAX];             /* at this end alone */
  struct hardware_devices devices; /* none: it cannot be used, and why_none says why */
  bool takes_device;               /* it has the option `device` */
  char needs_option[64];           /* a required option; "": it has none */
  bool is_usable;                  /* as the plugin says */
  /* 1 << step, by check, whose options a transport lacks. */
  uint32_t lacks_options[HARDWARE_CHECKS];
};

#define HARDWARE_PARTS 16

struct hardware_parts {
  struct hardware_part all[HARDWARE_PARTS];
  uint32_t count;
};

/* Plugins and tools of a host. */
struct hardware_has {
  struct hardware_parts transports, memories;
  uint32_t tools; /* NEED_PERFTEST and what is like it, NEED_CONTRACT */
};

/* Which step, between which devices. */
struct hardware_ask {
  uint32_t check, step;
  char transport[HARDWARE_NAME], memory[HARDWARE_NAME]; /* "": of none */
  uint32_t adapter; /* of the transport's devices, modulo how many there are */
  uint32_t gpu;     /* of the memory's */
  char path[16];    /* of streams */
  uint64_t duration_ns, limit_ns;
};

struct hardware_end {
  const struct hardware_plan *plan;
  struct hardware_has has;
  struct child child;
  char line[1024]; /* what it runs; "": nothing yet */
  bool is_endless; /* that has to be told to end */
  bool is_bench;   /* it says when a client has come */
};

/* Finds which of the plan's transports and memories are here. `list` names the transports'
 * devices, "a,b"; NULL: all active RDMA adapters, and for other transports the device that each
 * takes by itself. May block for seconds. 0; -ENODEV: no transport can be used, `why` says
 * why. */
int hardware_look(const struct hardware_plan *plan, const char *list, struct hardware_has *has,
                  char why[HARDWARE_WHY]);
/* Writes the devices that `list` names, as far as `known` has them with their details. -EINVAL: too
 * many, or an empty name. */
int hardware_named(const char *list, const struct hardware_devices *known,
                   struct hardware_devices *named);
/* Whether `list` has the word; NULL has all. */
bool hardware_has_word(const char *list, const char *word);
/* Whether a transport runs over RDMA adapters. */
bool hardware_is_verbs(const char *transport);

/* NULL: there is none of this name. */
struct hardware_part *hardware_part(struct hardware_parts *parts, const char *name);
const struct hardware_part *hardware_part_of(const struct hardware_parts *parts, const char *name);
/* NULL: it has none. */
const struct hardware_device *hardware_part_device(const struct hardware_part *part,
                                                   uint32_t number);

/* Starts the program that serves the step at `host` and `port`, or at the path `host`, and waits
 * until it listens; one beyond this host takes the next port, too. -errno, with `why`. */
int hardware_serve(struct hardware_end *end, const struct hardware_ask *ask, const char *host,
                   uint16_t port, char why[HARDWARE_WHY]);
/* The longest that one request of the step may take, before the asking end gives it up. */
uint64_t hardware_request_ns(const struct hardware_ask *ask);
/* Starts the one that asks it. */
int hardware_request(struct hardware_end *end, const struct hardware_ask *ask, const char *host,
                     uint16_t port, char why[HARDWARE_WHY]);
/* One more that asks beside it, into `child`, which is not counted; one that is to be killed asks
 * for an hour. */
int hardware_request_beside(const struct hardware_end *end, const struct hardware_ask *ask,
                            const char *host, uint16_t port, bool is_killed, struct child *child,
                            char why[HARDWARE_WHY]);
/* Waits for the program's end, asks for it, and has it by force at last, each after `patience_ns`.
 * After a signal to us, and of a server that no client has come to, it asks at once. */
void hardware_stop(struct hardware_end *end, uint64_t patience_ns);

/* Returns as JSON how the program ended, its counters, and `lines` that it wrote to stderr: all, or
 * those that contain `about`. The program is forgotten. */
struct json_object *hardware_told(struct hardware_end *end, const char *about);

#endif
