/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock bench --all-pairs`: each pair of the ranks that a launcher has started. */
#ifndef APP_BENCH_ALL_PAIRS_H
#define APP_BENCH_ALL_PAIRS_H

#include "cases.h"

/* This process's part of it, as one rank. The exit status. */
int bench_all_pairs(const struct command *command, const struct arguments *arguments,
                    const struct bench_plan *plan);

/* Rank 0 alone writes a result. */
bool bench_all_pairs_is_silent(const struct arguments *arguments);

#endif
