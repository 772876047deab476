/* SPDX-License-Identifier: Apache-2.0 */
/* The filter fault, tested: streams through it, and what became of them. */
#ifndef CONTRACT_FAULT_H
#define CONTRACT_FAULT_H

#include "../harness.h"
#include "stream/seq_window.h"

#define FAULT_SLOTS 256u
#define FAULT_MESSAGE 200u

/* How one stream went. */
struct fault_stream {
  struct contract_pair *pair;
  uint64_t posted;
  uint64_t done; /* in post order, each once: asserted as they come */
  uint64_t flushed;
  int32_t status; /* that DONEs must have */
  uint64_t arrived;
  uint64_t corrupted;
  struct seq_window track;
};

/* A connected pair whose filter has these options. */
void fault_open(const struct contract_variant *variant, const char *options,
                struct fault_stream *stream);
void fault_close(struct fault_stream *stream);
/* Poll both ends, and keep account. Returns how many completions came. */
int fault_step(struct fault_stream *stream);
/* Post up to n messages of which each slot holds its own; returns how many were
 * taken, or the error. */
int fault_send(struct fault_stream *stream, uint32_t n);
/* FLUSH, and wait until it and all messages are done. */
void fault_finish(struct fault_stream *stream);
/* Post `count`, then finish. */
void fault_stream(struct fault_stream *stream, uint64_t count);
uint64_t fault_count(const struct fault_stream *stream, const char *name);

int fault_rates_run(const struct contract_variant *variant);
int fault_ends_run(const struct contract_variant *variant);

#endif
