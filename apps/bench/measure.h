/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that are measured. Each belongs to the thread that calls it. */
#ifndef APP_BENCH_MEASURE_H
#define APP_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "cases.h"
#include "control_link.h"
#include "histogram.h"

/* As long as it may take to open what is large. */
#define MEASURE_CONNECT_NS ((uint64_t)60 * 1000 * 1000 * 1000)
#define MEASURE_END_NS ((uint64_t)10 * 1000 * 1000 * 1000) /* for the last ones and the counts */

/* Measurements of a receiver. Its clock runs from the first poll after the warm-up to the last
 * message within the duration. */
struct measure_taken {
  uint64_t delivered; /* all */
  uint64_t messages, bytes, ns;
  uint64_t verified, corrupted;
  bool touched;     /* a cache line of each was read */
  double cpu_share; /* as app_statistics_cpu_share(), of an end in another process */
};

struct region_end;

/* One end of a case, which one thread drives. */
struct measure {
  const struct bench_case *c;
  struct pst_sender *sender; /* NULL: it has none */
  struct pst_receiver *receiver;
  struct region_end *region; /* WRITE and READ: instead of both */
  struct control_link *link; /* to the other end; NULL: */
  struct measure *other;     /* a thread of this process */
  bool serves;               /* the end that is asked: a client's ^C is none of ours */
  bool stopped;              /* ^C: the case is cut short, and counts */
  int enough;                /* send bandwidth: the receiver has measured for its whole time */
  int has_ended;             /* nobody drives it any more, since it has failed */
  uint64_t next_ns;          /* when to look again */
  struct measure_taken taken;
  struct histogram *times; /* latency: each transfer's, or whole round trips */
  int result;
};

/* Drives the end until it has ended on both sides, and notes the result: 0, or -errno: the
 * stream's statistics, or the region's text, tell why; -ECONNRESET also when the other end has
 * gone, -ETIMEDOUT when it never came. */
void bench_measure_run(struct measure *m);
/* 0: go on; m->stopped may have been set. Else why not. Cheap until it is time. */
int bench_measure_look(struct measure *m, uint64_t now_ns);

/* ---- onesided.c: WRITE and READ ---------------------------------------------------- */

/* Before an initiator comes: fill what READs are verified against. 0, or reported in *error. */
int bench_onesided_prepare(struct region_end *target, const struct bench_case *c,
                           struct pst_error *error);
/* As bench_measure_run(), for the end that posts WRITEs or READs. It has begun to connect, and its
 * clock counts. m->region says why it failed, where that is known. */
int bench_onesided_initiate(struct measure *m);
/* As bench_measure_run(), for the end whose memory is written or read. It sleeps in between. With
 * --verify it checks what was written, each time before anything else is written. */
int bench_onesided_offer(struct measure *m);

#endif
