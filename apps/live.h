/* SPDX-License-Identifier: Apache-2.0 */
/* Lines at the foot of a terminal that renew themselves, each with a sparkline. */
#ifndef APP_LIVE_H
#define APP_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#define LIVE_SAMPLES 24 /* of a sparkline */

struct live_line {
  const char *text;    /* without newline */
  uint32_t insert_at;  /* where in `text` the sparkline goes, in bytes */
  const double *rates; /* the oldest first */
  uint32_t rate_count; /* up to LIVE_SAMPLES */
  bool has_loss;       /* its sparkline is red */
};

/* Whether standard error is a terminal that can do it (TERM is set and not "dumb"). From then on
 * lines of the log appear above the block. */
bool app_live_open(void);
/* Replaces the block by these lines, cut to the terminal's width and height. */
void app_live_show(const struct live_line *lines, uint32_t count);
/* Ends the live lines; their last text stays on the terminal. */
void app_live_close(void);

#endif
