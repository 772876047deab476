/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of `run`, `send` and `receive`. */
#ifndef APP_METRICS_STREAMS_H
#define APP_METRICS_STREAMS_H

#include "page.h"
#include "result.h"

#define METRICS_CAUSES 16 /* as pst_stats has */

/* A cause of loss until now. Counters of Prometheus only grow, but a message that was counted as
 * lost may arrive after all: it is counted as recovered. */
struct metrics_cause {
  char cause[32];
  uint64_t last, dropped, recovered;
};

/* State of a stream that is kept from one page to the next. */
struct metrics_kept {
  struct metrics_cause causes[METRICS_CAUSES];
  uint32_t count;
  uint64_t interval_sum_ns; /* the largest that was shown */
};

/* The program, and its plugins. */
void metrics_put_program(struct metrics_page *page, const char *command);
void metrics_put_plugin(struct metrics_page *page, const struct pst_plugin_info *info);
/* A stream, of which `stream` has what a result has, its account included. */
void metrics_put_stream(struct metrics_page *page, const struct result_stream *stream,
                        struct metrics_kept *kept);
/* Counters of a plugin, of which a call wrote COUNTERS_MAX at most; less than 0: none. */
void metrics_put_counters(struct metrics_page *page, const char *prefix,
                          const struct pst_counter_value *values, int count);
/* Devices of a session, with their workers. */
void metrics_put_devices(struct metrics_page *page, struct pst_session *session);

#endif
