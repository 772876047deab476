/* SPDX-License-Identifier: Apache-2.0 */
/* Deficit round robin. */
#include "fair_queue.h"

#include <assert.h>
#include <stddef.h>

/* Appends an entry, with the quantum of its next visit. */
static void serve_queue_append(struct fair_queue *turns, struct fair_queue_entry *turn)
{
  turn->credit += FAIR_QUEUE_QUANTUM;
  turn->next = NULL;
  if (!turns->first)
    turns->last = &turns->first;
  *turns->last = turn;
  turns->last = &turn->next;
}

void serve_queue_join(struct fair_queue *turns, struct fair_queue_entry *turn, uint64_t cost)
{
  assert(cost > 0);
  if (turn->cost > 0)
    return;
  *turn = (struct fair_queue_entry){.cost = cost};
  serve_queue_append(turns, turn);
}

void serve_queue_leave(struct fair_queue *turns, struct fair_queue_entry *turn)
{
  struct fair_queue_entry **at = &turns->first;

  if (turn->cost == 0)
    return;
  turn->cost = 0;
  while (*at != turn)
    at = &(*at)->next;
  *at = turn->next;
  if (!*at)
    turns->last = at;
}

struct fair_queue_entry *serve_queue_next(struct fair_queue *turns)
{
  struct fair_queue_entry *turn;

  while ((turn = turns->first) && turn->credit < turn->cost) {
    turns->first = turn->next;
    serve_queue_append(turns, turn);
  }
  return turn;
}

void serve_queue_spend(struct fair_queue *turns, uint64_t cost)
{
  struct fair_queue_entry *turn = turns->first;

  turn->credit -= turn->cost;
  if (cost == 0)
    serve_queue_leave(turns, turn);
  else
    turn->cost = cost;
}
