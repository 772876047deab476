/* SPDX-License-Identifier: Apache-2.0 */
/* Running cases: as the client of a server, as that server, or with both ends here. */
#ifndef APP_BENCH_RUN_H
#define APP_BENCH_RUN_H

#include <stdbool.h>

#include "cases.h"
#include "control_link.h"
#include "region_end.h"
#include "result_row.h"

/* The measurements of a case at the end that receives, or is a target. */
struct bench_seen {
  struct measure_taken taken;
  struct bench_path path;
  int code; /* why it failed; 0: it did not, or nobody said */
  char text[512];
};
void bench_see(const struct measure *m, struct bench_seen *seen);

/* Both ends in this process. */
void bench_run_here(const struct bench_plan *plan, struct bench_row *row);
/* With a server at the other end of `link`. False: that has gone, no case can follow. */
bool bench_run_with(struct control_link *link, const struct bench_plan *plan,
                    struct bench_row *row);
/* Exchanges greetings with the server, and takes over its settings. 0, or -errno, said why. */
int bench_greet(struct control_link *link, const struct bench_plan *plan,
                struct bench_setting *setting, struct pst_error *error);

/* Serve the client at the other end of `link` until it leaves; `token` is what it has to show
 * (NULL: nothing), else -EACCES; `port` is for its streams and nodes, 0: any. -errno: it has not
 * left in good order, said why. */
int bench_serve(struct control_link *link, const struct bench_plan *plan, const char *token,
                uint16_t port, int cpu);
/* `penstock bench --server`: one client after the other. The exit status. */
int bench_server(const struct bench_plan *plan);

#endif
