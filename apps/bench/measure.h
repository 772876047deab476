/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that are measured. Each belongs to the thread that calls it. */
#ifndef APP_BENCH_MEASURE_H
#define APP_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "histogram.h"
#include "link.h"
#include "plan.h"

/* Why a loop should end though its streams have not. */
struct measure_watch {
  struct link *link;        /* to the other end; NULL: a thread of this process */
  bool serves;              /* the server's end: a client's ^C is none of ours */
  const volatile int *gone; /* in process: the other thread has given up */
  uint64_t next_ns;         /* when to look again */
  bool stopped;             /* ^C: the case is cut short, and counts */
  /* Send bandwidth: the receiver has measured for as long as it was to, and says so. */
  bool enough;
  int *enough_here; /* in process: where it says so */
};

/* 0: go on; watch->stopped may have been set. Else why not. Cheap until it is time. */
int measure_look(struct measure_watch *watch, uint64_t now_ns);
/* As long as it may take to open what is large. */
#define MEASURE_CONNECT_NS ((uint64_t)60 * 1000 * 1000 * 1000)
#define MEASURE_END_NS ((uint64_t)10 * 1000 * 1000 * 1000) /* for the last ones and the counts */

/* What a receiver saw. Its clock runs from the first poll after the warm-up to the
 * last message within the duration. */
struct measure_taken {
  uint64_t delivered; /* all */
  uint64_t messages, bytes, ns;
  uint64_t verified, corrupted;
  bool touched;     /* a cache line of each was read */
  double cpu_share; /* as statistics_cpu_share(), of an end in another process */
};

/* Each drives its end until the stream has ended on both sides. 0, or -errno: the
 * stream's statistics tell why; -ECONNRESET also when the other end has gone,
 * -ETIMEDOUT when it never came. */
int measure_source(struct pst_sender *sender, const struct bench_case *c,
                   struct measure_watch *watch);
int measure_sink(struct pst_receiver *receiver, const struct bench_case *c,
                 struct measure_watch *watch, struct measure_taken *taken);
/* Send one, wait for it to come back, time it; *times: of whole round trips. */
int measure_ping(struct pst_sender *sender, struct pst_receiver *receiver,
                 const struct bench_case *c, struct measure_watch *watch, struct histogram *times,
                 struct measure_taken *taken);
int measure_pong(struct pst_receiver *receiver, struct pst_sender *sender,
                 const struct bench_case *c, struct measure_watch *watch,
                 struct measure_taken *taken);

#endif
