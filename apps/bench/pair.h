/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks measure each other: each endpoint of one with each of the other, in both directions. */
#ifndef APP_BENCH_PAIR_H
#define APP_BENCH_PAIR_H

#include <stdbool.h>

#include "endpoints.h"

struct json_object;

/* One round of this rank with its partner. */
struct bench_pair {
  struct endpoint *endpoints;
  uint32_t count;
  struct json_object *far;    /* the partner's bench_endpoints_json() */
  struct bench_case c;        /* but for its token */
  const char *token;          /* of the job: shows that a client is a rank of it */
  bool goes_first;            /* as the client */
  struct control_link *watch; /* to rank 0, or from there to the partner: when it ends, or says
                         anything, the partner is waited for no longer */
  struct json_object *rows;   /* a list: what this rank measured as the client is appended,
                                 {"from": endpoint, "to": endpoint, "row": bench_row_json()} */
};

/* Measure with the partner. Waits have a limit. */
void bench_pair_run(struct bench_pair *pair);

#endif
