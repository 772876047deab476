/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's counters at each second: `--series`. */
#ifndef APP_SERIES_H
#define APP_SERIES_H

#include <stdint.h>

#include "accounting.h"

struct json_object;
struct series;

/* Points that are kept: when there are as many, every other one goes, and from then on one is
 * taken half as often. So a day has as many as ten minutes. */
#define SERIES_POINTS 600

/* NULL: out of memory. */
struct series *app_series_new(void);
void app_series_free(struct series *series);

/* Adds what is counted now. Either end may be NULL, not both. time_ns: as in pst_stats. */
void app_series_add(struct series *series, uint64_t time_ns, const struct pst_stats *sender,
                    const struct pst_stats *receiver, const struct account *account);
/* The last point, which is kept in any case. */
void app_series_end(struct series *series, uint64_t time_ns, const struct pst_stats *sender,
                    const struct pst_stats *receiver, const struct account *account);
/* As the result has it; NULL: no point, or series is NULL. */
struct json_object *app_series_json(const struct series *series);

#endif
