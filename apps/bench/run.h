/* SPDX-License-Identifier: Apache-2.0 */
/* Running cases: as the client of a server, as that server, or with both ends here. */
#ifndef APP_BENCH_RUN_H
#define APP_BENCH_RUN_H

#include <stdbool.h>

#include "link.h"
#include "plan.h"
#include "row.h"

/* Of a session that has the target of a one-sided case, before it is started: what the
 * case expects to find there. Nothing to do for any other. */
int bench_prepare(struct pst_session *session, const struct bench_case *c, struct pst_error *error);

/* Both ends in this process. */
void bench_run_here(const struct bench_plan *plan, struct bench_row *row);
/* With a server at the other end of `link`. False: that has gone, no case can follow. */
bool bench_run_with(struct link *link, const struct bench_plan *plan, struct bench_row *row);
/* What the server has to say of itself. 0, or -errno, said why. */
int bench_greet(struct link *link, const struct bench_plan *plan, struct bench_setting *setting,
                struct pst_error *error);

/* Serve the client at the other end of `link` until it leaves; `port` is for its
 * streams, 0: any. -errno: it has not left in good order, said why. */
int bench_serve(struct link *link, const struct bench_plan *plan, uint16_t port, int cpu);
/* `penstock bench --server`: one client after the other. The exit status. */
int bench_server(const struct bench_plan *plan);

#endif
