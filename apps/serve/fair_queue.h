/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which many that wait get turns: deficit round robin (Shreedhar and Varghese, 1995).
 * The first gets credit for FAIR_QUEUE_QUANTUM bytes, does what its credit covers, and goes to the
 * end of the queue with the rest of its credit. So none of those that wait for long gets more than
 * a quantum and the largest cost beyond another, whatever they ask for. */
#ifndef APP_SERVE_FAIR_QUEUE_H
#define APP_SERVE_FAIR_QUEUE_H

#include <stdint.h>

#define FAIR_QUEUE_QUANTUM (64u << 10) /* bytes */

/* An entry of one that waits. All zero: it does not wait. */
struct fair_queue_entry {
  struct fair_queue_entry *next;
  uint64_t cost;   /* bytes of what it does first; 0: it does not wait */
  uint64_t credit; /* bytes */
};

/* All zero: nobody waits. */
struct fair_queue {
  struct fair_queue_entry *first, **last;
};

/* Add an entry to the queue; cost: at least 1. Does nothing if the entry is in the queue. */
void serve_queue_join(struct fair_queue *turns, struct fair_queue_entry *turn, uint64_t cost);
/* Remove an entry, which loses its credit. Does nothing if the entry is not in the queue. */
void serve_queue_leave(struct fair_queue *turns, struct fair_queue_entry *turn);
/* The one whose turn it is. Each call returns the same until serve_queue_spend() or
 * serve_queue_leave(). NULL: nobody waits. */
struct fair_queue_entry *serve_queue_next(struct fair_queue *turns);
/* The turn that serve_queue_next() returned is over. `cost`: bytes of its next one; 0: it waits no
 * more. */
void serve_queue_spend(struct fair_queue *turns, uint64_t cost);

#endif
