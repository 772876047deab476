/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of penstock-contract. */
#ifndef CONTRACT_PROGRAM_H
#define CONTRACT_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "config/options.h"
#include "loader/loader.h"

struct contract_variant;

/* All groups of the memory suite. `options` makes what each device is opened with;
 * options_free() after it. 0, or 1: it breaks the contract. */
int contract_memory_run(const struct loader_plugin *plugin,
                        struct pst_options *(*options)(void *context), void *context);

/* Runs the cases for two hosts. `address` is HOST:PORT, or /PATH of a Unix socket,
 * by which descriptors go too. Both sides run the same cases in the same order; who
 * listens receives first. `messages` go in each stream. Returns failed cases. */
int contract_remote_run(const struct contract_variant *variant, const char *address, bool listens,
                        uint64_t messages);

/* Sets `*limits` to what the opened device announces. Returns failed cases. */
int contract_open_run(const struct contract_variant *variant, struct pst_limits *limits);

/* Sets `*reached` when an endpoint connects to one of another process; not when the
 * plugin says -EXDEV. Returns failed cases. */
int contract_reach_run(const struct contract_variant *variant, bool *reached);

#endif
