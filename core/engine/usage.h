/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that one thread writes and any thread reads: fields, each for itself, and how much of a
 * CPU a thread had and for how long it waited for one.
 */
#ifndef PST_ENGINE_USAGE_H
#define PST_ENGINE_USAGE_H

#include <stdint.h>

#define stat_set(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define stat_get(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define stat_add(field, value) stat_set(field, (field) + (value))

/* CPU use of a thread until at_ns. Its own thread writes it, any thread reads it. */
struct usage {
  uint64_t at_ns; /* 0: not taken */
  uint64_t cpu_ns, switches;
  uint64_t wait_ns; /* ready to run, without a CPU; UINT64_MAX: not known */
};

/* Reads the calling thread's use of CPU. */
void usage_take(struct usage *usage);
void usage_copy(struct usage *to, const struct usage *from);
/* at_ns is 0 where nothing lies between them. */
void usage_between(const struct usage *from, const struct usage *to, struct usage *difference);

#endif
