/* SPDX-License-Identifier: Apache-2.0 */
#include "turns.h"

#include <stddef.h>

static void append(struct turns *turns, struct turn *turn)
{
  turn->next = NULL;
  if (turns->first == NULL)
    turns->first = turn;
  else
    turns->last->next = turn;
  turns->last = turn;
}

static struct turn *take_first(struct turns *turns)
{
  struct turn *turn = turns->first;

  turns->first = turn->next;
  turns->given = false;
  return turn;
}

void turns_join(struct turns *turns, struct turn *turn, uint64_t cost)
{
  if (turn->waits)
    return;
  *turn = (struct turn){.cost = cost, .waits = true};
  append(turns, turn);
}

void turns_leave(struct turns *turns, struct turn *turn)
{
  struct turn *before = NULL;

  if (!turn->waits)
    return;
  turn->waits = false;
  if (turns->first == turn) {
    take_first(turns);
    return;
  }
  for (before = turns->first; before->next != turn; before = before->next)
    ;
  before->next = turn->next;
  if (turns->last == turn)
    turns->last = before;
}

struct turn *turns_next(struct turns *turns)
{
  struct turn *turn;

  while ((turn = turns->first) != NULL) {
    if (!turns->given)
      turn->credit += TURNS_QUANTUM;
    turns->given = true;
    if (turn->credit >= turn->cost)
      break;
    append(turns, take_first(turns));
  }
  return turn;
}

void turns_spend(struct turns *turns, uint64_t cost)
{
  struct turn *turn = turns->first;

  turn->credit -= turn->cost;
  turn->cost = cost;
  if (cost == 0)
    turns_leave(turns, turn);
}
