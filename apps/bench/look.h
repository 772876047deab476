/* SPDX-License-Identifier: Apache-2.0 */
/* What the transport can do, from opening what the cases will open, and so which of
 * the operations that were asked for are measured. */
#ifndef APP_BENCH_LOOK_H
#define APP_BENCH_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "plan.h"

struct bench_look {
  uint32_t ops;         /* 1 << enum bench_op: to be measured */
  bool no_send_latency; /* a lost reply would be waited for for ever */
  uint32_t depth_max;   /* transfers that an initiator can have under way; 0: not known */
  char notes[512];      /* what is not measured or not as said, and why, a line each; "" */
};

/* `plugin` is called for each plugin in use. 0, or -errno, said why: what was asked for
 * by name cannot be opened, or the transport lacks it. */
int bench_look(const struct bench_plan *plan,
               void (*plugin)(void *context, const struct pst_plugin_info *info), void *context,
               struct bench_look *look, struct pst_error *error);

#endif
