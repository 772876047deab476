/* SPDX-License-Identifier: Apache-2.0 */
/* penstock-simverbs: makes or joins a fabric, and runs a command on it. */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include "keys.h"

#include <limits.h>

/* As env, timeout and their like: what a command could not have meant itself. */
enum {
  LAUNCH_STRICT = 86,
  LAUNCH_FAILED = 125,
  LAUNCH_CANNOT_RUN = 126,
  LAUNCH_NOT_FOUND = 127,
};

/* One line on stderr, "penstock-simverbs: " before it. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- where fabrics are ---- */

/* A fabric that this launcher is at: mapped, and kept from being removed. */
struct site {
  char path[PATH_MAX];
  int lock;  /* descriptor of the fabric's file, shared lock */
  bool made; /* else joined */
};

/* `fabric`: a name, a description's file, or NULL for a new one without a name. `options` apply to
 * a new one only: joining another way is an error. 0, or a negative number with a line on
 * stderr. */
int site_enter(const char *fabric, struct describe_options *options, struct site *site);
/* Removes the fabric if nobody else is at it. */
void site_leave(struct site *site);
/* Maps the fabric of this name, description or path, for `ctl`; "." is the one that this process
 * was started on. */
int site_open(const char *fabric);

/* ---- the command ---- */

/* Runs it to its end; its exit status, or one of ours. *killed_by: a signal, or 0. */
int run_command(const struct site *site, const char *host, char *const argv[], int *killed_by);

/* ---- ctl ---- */
int ctl_main(int argc, char *argv[]);
void show_fabric(void);
void show_counters(const struct fab_target *of);

#endif
