/* SPDX-License-Identifier: Apache-2.0 */
/* Deficit round robin. */
#include "fair_queue.h"

#include <assert.h>
#include <stddef.h>

/* Its next visit's quantum is given here. */
static void append(struct turns *turns, struct turn *turn)
{
  turn->credit += TURNS_QUANTUM;
  turn->next = NULL;
  if (!turns->first)
    turns->last = &turns->first;
  *turns->last = turn;
  turns->last = &turn->next;
}

void turns_join(struct turns *turns, struct turn *turn, uint64_t cost)
{
  assert(cost > 0);
  if (turn->cost > 0)
    return;
  *turn = (struct turn){.cost = cost};
  append(turns, turn);
}

void turns_leave(struct turns *turns, struct turn *turn)
{
  struct turn **at = &turns->first;

  if (turn->cost == 0)
    return;
  turn->cost = 0;
  while (*at != turn)
    at = &(*at)->next;
  *at = turn->next;
  if (!*at)
    turns->last = at;
}

struct turn *turns_next(struct turns *turns)
{
  struct turn *turn;

  while ((turn = turns->first) != NULL && turn->credit < turn->cost) {
    turns->first = turn->next;
    append(turns, turn);
  }
  return turn;
}

void turns_spend(struct turns *turns, uint64_t cost)
{
  struct turn *turn = turns->first;

  turn->credit -= turn->cost;
  if (cost == 0)
    turns_leave(turns, turn);
  else
    turn->cost = cost;
}
