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

/* What is the same for all steps. */
struct hardware_plan {
  const char *transport;
  const char **plugin_paths;
  size_t plugin_path_count;
  bool insecure;
  uint64_t duration_ns;
};

/* What this host has of it. */
struct hardware_has {
  struct hardware_devices adapters, gpus;
  uint32_t tools;        /* NEED_PERFTEST and what is like it, NEED_CONTRACT */
  char plugin[PATH_MAX]; /* the transport's file; at this end alone */
  /* By check: 1 << step, whose options the transport lacks. */
  uint32_t lacks_options[HARDWARE_CHECKS];
};

/* Which step, between which devices. */
struct hardware_ask {
  uint32_t check, step;
  uint32_t adapter; /* of `adapters`, modulo how many there are */
  uint32_t gpu;
  uint64_t duration_ns;
};

struct hardware_end {
  const struct hardware_plan *plan;
  struct hardware_has has;
  struct child child;
  char line[1024]; /* what it runs; "": nothing yet */
  bool is_endless; /* that has to be told to end */
  bool is_bench;   /* it says when a client has come */
};

/* The adapters that the words of `list` name, "a,b"; NULL: all that are active. May block for
 * seconds. 0; -ENODEV: there is none, adapters.why_none says why. */
int hardware_look(const struct hardware_plan *plan, const char *list, struct hardware_has *has);
/* Those that `list` names, as far as `known` has them with their details. -EINVAL: too many, or an
 * empty name. */
int hardware_named(const char *list, const struct hardware_devices *known,
                   struct hardware_devices *named);

const struct hardware_device *hardware_adapter(const struct hardware_has *has,
                                               const struct hardware_ask *ask);

/* Starts the program that serves the step at `host` and `port`, and waits until it listens; one
 * beyond this host takes the next port, too. -errno, with `why`. */
int hardware_serve(struct hardware_end *end, const struct hardware_ask *ask, const char *host,
                   uint16_t port, char why[HARDWARE_WHY]);
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

/* What the program has done, and `lines` that it wrote to stderr: all, or those with `about` in
 * them. The program is forgotten. */
struct json_object *hardware_told(struct hardware_end *end, const char *about);

#endif
