/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a job find rank 0: by the launcher's key-value exchange, or by a file of a
 * folder that all of them see. */
#ifndef APP_BENCH_EXCHANGE_H
#define APP_BENCH_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "arguments.h"
#include "cases.h"

#define BENCH_RANKS_MAX 4096u
#define EXCHANGE_TEXT_MAX 256

struct bench_pmix;

struct exchange {
  uint32_t rank, ranks;
  struct bench_pmix *pmix; /* NULL: by a file */
  char path[512];
  bool is_written;
};

/* This process's number in its job, by --rank or as its launcher says. False: nobody says. */
bool bench_exchange_rank(const struct arguments *arguments, uint32_t *rank);

/* 0, or reported in *error. Close in any case. */
int bench_exchange_open(const struct arguments *arguments, struct exchange *exchange,
                        struct pst_error *error);
/* Rank 0's text, shorter than EXCHANGE_TEXT_MAX. 0, or reported in *error. */
int bench_exchange_put(struct exchange *exchange, const char *text, struct pst_error *error);
/* Waits for rank 0's text until until_ns. A file's may be an earlier job's. 0; -ETIMEDOUT, -EINTR;
 * or reported in *error. */
int bench_exchange_get(struct exchange *exchange, uint64_t until_ns, char text[EXCHANGE_TEXT_MAX],
                       struct pst_error *error);
/* Removes rank 0's file. */
void bench_exchange_close(struct exchange *exchange);

#endif
