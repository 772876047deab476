/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of WRITE and READ that are measured. Each belongs to the thread that calls
 * it. With --verify a target that is written to is asked over `turns` to check what
 * lies there, each time before anything else is written. */
#ifndef APP_BENCH_ONESIDED_H
#define APP_BENCH_ONESIDED_H

#include "measure.h"

/* Before the session starts: fill what READs are verified against. 0, or -errno. */
int onesided_prepare(struct pst_target *target, const struct bench_case *c);

/* Each drives its end until the stream has ended on both sides. As measure_source.
 * The clock is the initiator's; *times: each transfer's, of latency. */
int onesided_initiate(struct pst_initiator *initiator, const struct bench_case *c,
                      struct measure_watch *watch, struct link *turns, struct histogram *times,
                      struct measure_taken *taken);
/* Sleeps in between, where nobody asks. */
int onesided_offer(struct pst_session *session, struct pst_target *target,
                   const struct bench_case *c, struct measure_watch *watch, struct link *turns,
                   struct measure_taken *taken);

#endif
