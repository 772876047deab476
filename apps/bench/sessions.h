/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of one case of SEND: opened for it, and closed with it. */
#ifndef APP_BENCH_SESSIONS_H
#define APP_BENCH_SESSIONS_H

#include <sched.h>

#include <penstock/penstock.h>

#include "cases.h"

/* The names that findings give as the place of options that bench sets. */
extern const struct pst_origins bench_origins;

/* Does the transport send messages from this side's memory at all, the longest ones? Opens both, to
 * see. */
void bench_choose_sender(struct bench_plan *plan);

/* The directions of a case, a stream each; replies are for latency alone. */
enum { BENCH_OUT = 1, BENCH_BACK = 2 };

/* A session of `roles` with the streams of these directions, named for the case. It binds or
 * connects to `control`, "host:port", as its role says, when it is started; NULL: in process, and
 * without `access`. */
int bench_session_open(const struct bench_side *side, const struct bench_case *c, uint32_t roles,
                       unsigned directions, const char *control, const struct link_access *access,
                       struct pst_session **session, struct pst_error *error);
struct pst_sender *bench_sender(struct pst_session *session, const struct bench_case *c,
                                unsigned direction);
struct pst_receiver *bench_receiver(struct pst_session *session, const struct bench_case *c,
                                    unsigned direction);
/* Opens and starts it; host NULL: in process. Its threads are left to run anywhere, though this
 * one is pinned to `cpu`. */
int bench_streams_open(const struct bench_plan *plan, const struct bench_case *c, uint32_t roles,
                       unsigned directions, const char *host, uint16_t port, int cpu,
                       struct pst_session **session, struct pst_error *error);

/* Pin the calling thread; cpu < 0 does nothing. Threads that are made while it is
 * lifted are pinned nowhere. -errno: said as a warning. */
int bench_pin(int cpu);
/* Lets the thread run on any CPU. *pinned: where it ran before. cpu < 0: it is not pinned. */
void bench_unpin(int cpu, cpu_set_t *pinned);
/* Pins the thread again as bench_unpin() found it. cpu < 0: it was not pinned. */
void bench_repin(int cpu, const cpu_set_t *pinned);
#endif
