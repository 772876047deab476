/* SPDX-License-Identifier: Apache-2.0 */
/* The line a second and stream. */
#ifndef APP_STATISTICS_H
#define APP_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct statistics_sample {
  const char *stream;
  bool sent; /* the sender's numbers; else the receiver's */
  bool gpu;  /* the memory is a GPU's */
  uint64_t messages, bytes, dropped;
  uint64_t interval_ns;
  uint32_t path;              /* enum pst_path */
  const char *staged_by;      /* "sender", "receiver", "both"; NULL: it is not staged */
  bool loss_unknown;          /* nobody says how many were sent, or delivered */
  uint64_t restarts;          /* of a foreign sender, since the beginning */
  uint64_t jitter_ns, p99_ns; /* RTP's jitter; between arrivals; 0: not said */
};

/* "staged by the receiver"; staged_by as above. */
#define STATISTICS_PATH_BYTES 32
const char *app_statistics_path_by(uint32_t path, const char *staged_by,
                                   char text[STATISTICS_PATH_BYTES]);

/* "packets: Got 5877704 GPU packets | 68.75 Gbps during 1.00 sec | 0 dropped | staged by the
 * receiver".
 * Where the loss is not known, "loss ?" for the drops; and how often the sender restarted. */
void app_statistics_line(const struct statistics_sample *sample, char *line, size_t size);

/* Counts at the last line, to take differences. */
struct statistics_mark {
  uint64_t time_ns, messages, bytes, dropped;
};
/* The sample since *mark, which moves on to now. */
void app_statistics_since(struct statistics_mark *mark, const struct pst_stats *stats, bool sent,
                          uint64_t time_ns, struct statistics_sample *sample);

/* "direct", "mapped", "staged", "unknown path". */
const char *app_statistics_path(uint32_t path);
double app_statistics_gbps(uint64_t bytes, uint64_t ns);
/* "68.75 Gbps"; what is less than a tenth of one, in Mbps. */
#define STATISTICS_RATE_BYTES 32
const char *app_statistics_rate(uint64_t bytes, uint64_t ns, char text[STATISTICS_RATE_BYTES]);
/* A share of 0 to 1 as "48%", "0.013%": two digits, and never "100%" or "0%" unless it is all or
 * none. */
#define STATISTICS_PERCENT_BYTES 32
const char *app_statistics_percent(double share, char text[STATISTICS_PERCENT_BYTES]);
/* The share of its thread's working time in which the thread had a CPU, 0 to 1; -1: not known. */
double app_statistics_cpu_share(const struct pst_stats *stats);
#define STATISTICS_CPU_FULL 0.95
/* The lesser share of both; 1: neither is known. Either may be NULL. */
double app_statistics_cpu_least(const struct pst_stats *sender, const struct pst_stats *receiver);
/* The counter of that name; NULL: the transport has none. */
const struct pst_counter_value *app_statistics_counter(const struct pst_counter_value *values,
                                                       uint32_t count, const char *name);
uint64_t app_statistics_dropped(const struct pst_stats *stats);

#endif
