/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of one case of SEND: opened for it, and closed with it. */
#ifndef APP_BENCH_ENDS_H
#define APP_BENCH_ENDS_H

#include <sched.h>

#include <penstock/penstock.h>

#include "plan.h"

/* Does the transport send messages from this side's memory at all? Opens both, to see. */
void bench_choose_sender(struct bench_side *side);

/* One direction of a case, named for it, as a session of `roles`. It binds or connects
 * to `control`, "host:port", as its role says, when it is started. `back`: the stream of
 * replies. `with_back`: both, in one session, which is for in process. */
int bench_session_open(const struct bench_side *side, const struct bench_case *c, uint32_t roles,
                       bool back, bool with_back, const char *control, bool insecure,
                       struct pst_session **session, struct pst_error *error);
void bench_stream_name(const struct bench_case *c, bool back, char *name, size_t size);

/* Pin the calling thread; cpu < 0 does nothing. Threads that are made while it is
 * lifted are pinned nowhere. -errno: said as a warning. */
int bench_pin(int cpu);
/* Lift it, and pin the thread again as it was; cpu < 0: it is not pinned. */
void bench_unpin(int cpu, cpu_set_t *pinned);
void bench_repin(int cpu, const cpu_set_t *pinned);
/* pst_session_start with its thread left to run anywhere. */
int bench_session_start(struct pst_session *session, int cpu, struct pst_error *error);

#endif
