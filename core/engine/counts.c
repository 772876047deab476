/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's counters of a device or a worker, kept for any thread to read. */
#include "counts.h"

#include <string.h>

static void counts_copy_text(char *to, size_t size, const char *from)
{
  size_t length = from ? strnlen(from, size - 1) : 0;

  memcpy(to, from ? from : "", length);
  to[length] = 0;
}

void counts_init(struct counts *counts)
{
  *counts = (struct counts){0};
  pthread_mutex_init(&counts->lock, NULL);
}

static void counts_value(const struct pst_counter *raw, struct pst_counter_value *value)
{
  counts_copy_text(value->name, sizeof(value->name), raw->name);
  counts_copy_text(value->cause, sizeof(value->cause), raw->cause);
  value->value = raw->value;
  value->flags = raw->flags;
}

static bool counts_is_drop(const struct pst_counter_value *value)
{
  return (value->flags & (PST_COUNTER_DROP | PST_COUNTER_GAUGE)) == PST_COUNTER_DROP;
}

static void counts_take(struct counts *counts, const struct pst_counter *raw, uint32_t n)
{
  uint32_t drop_count = 0;

  pthread_mutex_lock(&counts->lock);
  counts->count = n;
  for (uint32_t i = 0; i < n; i++) {
    struct pst_counter_value *value = &counts->values[i];

    counts_value(&raw[i], value);
    if (!counts_is_drop(value) || drop_count == COUNTS_DROPS_MAX)
      continue;
    struct counts_drop *drop = &counts->drops[drop_count++];
    counts_copy_text(drop->cause, sizeof(drop->cause),
                     value->cause[0] ? value->cause : raw[i].name);
    drop->messages = value->value;
  }
  counts->drop_count = drop_count;
  pthread_mutex_unlock(&counts->lock);
}

void counts_read(struct counts *counts, const struct pst_transport_ops *ops,
                 struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint)
{
  struct pst_counter raw[COUNTS_MAX];
  int n = ops->counters(device, worker, endpoint, raw, COUNTS_MAX);

  if (n >= 0)
    counts_take(counts, raw, n < COUNTS_MAX ? (uint32_t)n : COUNTS_MAX);
}

bool counts_has_drops(struct counts *counts)
{
  pthread_mutex_lock(&counts->lock);
  bool has = counts->drop_count > 0;
  pthread_mutex_unlock(&counts->lock);
  return has;
}

uint64_t counts_claim(struct counts *counts, uint64_t *claims, uint64_t missing)
{
  pthread_mutex_lock(&counts->lock);
  for (uint32_t i = 0; i < counts->drop_count; i++) {
    struct counts_drop *drop = &counts->drops[i];
    uint64_t others = drop->claimed - claims[i];
    uint64_t left = drop->messages > others ? drop->messages - others : 0;

    claims[i] = left < missing ? left : missing;
    drop->claimed = others + claims[i];
    missing -= claims[i];
  }
  pthread_mutex_unlock(&counts->lock);
  return missing;
}

int counts_copy(const struct counts *counts, struct pst_counter_value *values, uint32_t max)
{
  pthread_mutex_lock((pthread_mutex_t *)&counts->lock);
  uint32_t count = counts->count;
  if (max)
    memcpy(values, counts->values, (count < max ? count : max) * sizeof(*values));
  pthread_mutex_unlock((pthread_mutex_t *)&counts->lock);
  return (int)count;
}
