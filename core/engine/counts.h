/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's counters of a device or a worker, kept for any thread to read. */
#ifndef PST_ENGINE_COUNTS_H
#define PST_ENGINE_COUNTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/stats.h>
#include <penstock/transport.h>

#define COUNTS_MAX 128
#define COUNTS_DROPS_MAX 16 /* causes */

/* Messages dropped for one cause, and how many of them explain gaps of streams. */
struct counts_drop {
  char cause[32];
  uint64_t messages;
  uint64_t claimed;
};

struct counts {
  pthread_mutex_t lock;
  uint32_t count, drop_count;
  struct pst_counter_value values[COUNTS_MAX];
  struct counts_drop drops[COUNTS_DROPS_MAX];
};

void counts_init(struct counts *counts);
/* Ask a transport: of the endpoint, or, NULL, of the worker, or of the device. */
void counts_read(struct counts *counts, const struct pst_transport_ops *ops,
                 struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint);
bool counts_has_drops(struct counts *counts);
/* Explain missing messages by drops that nobody else claims, in place of what `claims` (of
 * COUNTS_DROPS_MAX) held before. Returns how many are left. */
uint64_t counts_claim(struct counts *counts, uint64_t *claims, uint64_t missing);
/* As pst_sender_counters(). */
int counts_copy(const struct counts *counts, struct pst_counter_value *values, uint32_t max);

#endif
