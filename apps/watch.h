/* SPDX-License-Identifier: Apache-2.0 */
/* Observations of a run each second: lines, metrics, series. */
#ifndef APP_WATCH_H
#define APP_WATCH_H

#include "runner.h"

/* Opens what --metrics asks for, before the streams: a port that cannot be had ends the run before
 * it began. 0, or -errno with runner->error. */
int app_watch_open(struct runner *runner);
/* When streams are there: what is kept of each. 0 or -ENOMEM. */
int app_watch_begin(struct runner *runner);
/* Reads the statistics of each stream once, and shows them. */
void app_watch_second(struct runner *runner, uint64_t now);
/* The last values, which are those of the result. */
void app_watch_end(struct runner *runner);
/* The object `series` of a stream's result; NULL: none is kept. */
struct json_object *app_watch_series(const struct app_stream *stream);
/* After the result was written, as --metrics-wait may keep it. Legal after a failed open. */
void app_watch_close(struct runner *runner);

#endif
