/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS 40
#define NO_BLOCK UINT32_MAX
#define NOT_FIRST 0xff /* of no block that is free or taken */

struct pool {
  uint32_t blocks; /* of POOL_LEAST bytes */
  uint64_t free;
  uint32_t first[ORDERS]; /* free blocks by order: a list */
  uint32_t *next, *before;
  uint8_t *order; /* of the block that begins there, else NOT_FIRST */
  bool *taken;
};

static void push(struct pool *p, uint32_t block, uint32_t order)
{
  p->order[block] = (uint8_t)order;
  p->taken[block] = false;
  p->before[block] = NO_BLOCK;
  p->next[block] = p->first[order];
  if (p->first[order] != NO_BLOCK)
    p->before[p->first[order]] = block;
  p->first[order] = block;
}

static void take_out(struct pool *p, uint32_t block)
{
  uint32_t order = p->order[block];

  if (p->before[block] != NO_BLOCK)
    p->next[p->before[block]] = p->next[block];
  else
    p->first[order] = p->next[block];
  if (p->next[block] != NO_BLOCK)
    p->before[p->next[block]] = p->before[block];
  p->order[block] = NOT_FIRST;
}

struct pool *pool_open(uint64_t bytes)
{
  struct pool *p = calloc(1, sizeof *p);
  uint64_t blocks = bytes / POOL_LEAST;

  if (p == NULL || blocks >= NO_BLOCK) {
    free(p);
    return NULL;
  }
  p->blocks = (uint32_t)blocks;
  p->next = calloc(blocks + 1, sizeof *p->next);
  p->before = calloc(blocks + 1, sizeof *p->before);
  p->order = malloc(blocks + 1);
  p->taken = calloc(blocks + 1, sizeof *p->taken);
  if (p->next == NULL || p->before == NULL || p->order == NULL || p->taken == NULL) {
    pool_close(p);
    return NULL;
  }
  memset(p->order, NOT_FIRST, blocks + 1);
  for (uint32_t i = 0; i < ORDERS; i++)
    p->first[i] = NO_BLOCK;
  /* As few blocks as make up the whole, large ones first, so that each lies at a multiple
   * of its size. */
  for (uint32_t at = 0, order = 31; at < p->blocks; order--) {
    if ((p->blocks - at) >> order == 0)
      continue;
    push(p, at, order);
    at += 1u << order;
  }
  p->free = (uint64_t)p->blocks * POOL_LEAST;
  return p;
}

void pool_close(struct pool *p)
{
  if (p == NULL)
    return;
  free(p->next);
  free(p->before);
  free(p->order);
  free(p->taken);
  free(p);
}

uint64_t pool_largest(const struct pool *p)
{
  return p->blocks == 0 ? 0 : (uint64_t)POOL_LEAST << (31 - __builtin_clz(p->blocks));
}

uint64_t pool_free(const struct pool *p)
{
  return p->free;
}

uint64_t pool_take(struct pool *p, uint64_t bytes)
{
  uint32_t order = 0, found;

  while (order < ORDERS && (uint64_t)POOL_LEAST << order < bytes)
    order++;
  for (found = order; found < ORDERS && p->first[found] == NO_BLOCK; found++)
    ;
  if (found >= ORDERS)
    return POOL_NONE;
  uint32_t block = p->first[found];
  take_out(p, block);
  while (found > order) {
    found--;
    push(p, block + (1u << found), found);
  }
  p->order[block] = (uint8_t)order;
  p->taken[block] = true;
  p->free -= (uint64_t)POOL_LEAST << order;
  return (uint64_t)block * POOL_LEAST;
}

void pool_give(struct pool *p, uint64_t offset)
{
  uint32_t block = (uint32_t)(offset / POOL_LEAST), order = p->order[block];

  p->free += (uint64_t)POOL_LEAST << order;
  p->taken[block] = false;
  p->order[block] = NOT_FIRST;
  for (;; order++) {
    uint32_t buddy = block ^ 1u << order;
    if (order + 1 >= 32 || buddy >= p->blocks || p->order[buddy] != order || p->taken[buddy])
      break;
    take_out(p, buddy);
    block &= ~(1u << order);
  }
  push(p, block, order);
}
