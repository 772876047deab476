/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of `penstock bench --all-pairs`, as all_pairs.c, pairs_lead.c and pairs_follow.c have it.
 */
#ifndef APP_BENCH_PAIRS_H
#define APP_BENCH_PAIRS_H

#include <stdint.h>
#include <stdio.h>

#include "cases.h"
#include "endpoints.h"
#include "environment.h"
#include "exchange.h"
#include "matrix.h"
#include "pair.h"
#include "result_row.h"
#include "schedule.h"

#define PAIRS_VERSION 2 /* of what ranks say to one another */

/* A rank as rank 0 knows it. */
struct pairs_rank {
  struct control_link *link; /* NULL: it is rank 0, has not come, or has gone */
  struct json_object *ends;  /* its bench_endpoints_json() */
  uint32_t first;            /* of its ends in the matrix */
  char host[64];
  int64_t pid;
};

struct pairs {
  const struct command *command;
  const struct arguments *arguments;
  const struct bench_plan *plan;
  struct exchange exchange;
  struct endpoint *endpoints;
  uint32_t endpoint_count;
  struct environment environment;
  struct bench_setting setting;
  struct bench_probe look;
  char token[BENCH_TOKEN_MAX];
  uint64_t until_ns;             /* when all have to have come */
  struct json_object *measured;  /* of the round, by this rank as the client */
  struct control_link *to_first; /* to rank 0 */
  int status;
  /* Rank 0's. */
  struct control_link_server server;
  struct pairs_rank *ranks;
  struct matrix matrix;
  struct schedule schedule;
  uint32_t *partners; /* of each rank, in this round; the rank itself: it rests */
  struct bench_case c;
  struct json_object *result, *rows;
  FILE *table;
};

/* pairs_lead.c: what rank 0 does. error: what has gone wrong before. */
void bench_pairs_lead(struct pairs *pairs, struct pst_error *error);

/* pairs_follow.c: what any other rank does. A file may be of a job that has died: then nobody
 * answers, and rank 0 writes another. trouble: why this rank cannot take part; NULL: it can.
 * 0, or -errno, reported. */
int bench_pairs_find_first(struct pairs *pairs, const char *trouble);
void bench_pairs_follow(struct pairs *pairs);

#endif
