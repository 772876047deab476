/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of WRITE and READ that are measured. Each belongs to the thread that calls
 * it. With --verify a target that is written to is asked to check what lies there, each time
 * before anything else is written. */
#ifndef APP_BENCH_ONESIDED_H
#define APP_BENCH_ONESIDED_H

#include "measure.h"
#include "region_end.h"

/* Before an initiator comes: fill what READs are verified against. 0, or -errno. */
int onesided_prepare(struct region_end *target, const struct bench_case *c);

/* Each drives its end until its peer has left in good order. 0, or -errno: end->text tells why,
 * where somebody said; -ECONNRESET also when the other end has gone, -ETIMEDOUT when it never came.
 * The clock is the initiator's, which has begun to connect; *times: each transfer's, of latency. */
int onesided_initiate(struct region_end *initiator, const struct bench_case *c,
                      struct measure_watch *watch, struct histogram *times,
                      struct measure_taken *taken);
/* Sleeps in between. */
int onesided_offer(struct region_end *target, const struct bench_case *c,
                   struct measure_watch *watch, struct measure_taken *taken);

#endif
