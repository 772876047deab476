/* SPDX-License-Identifier: Apache-2.0 */
/* A buddy system of blocks that are numbers. */
#include "buddy.h"

#include <stdbool.h>
#include <stdlib.h>

#define ORDERS 32u

struct block {
  uint32_t next, before; /* of the same order, in a ring, while it is free */
  uint8_t order;
  bool free;
};

struct buddy {
  uint32_t blocks;     /* of BUDDY_LEAST bytes */
  struct block *heads; /* of the rings, by order: behind the last block */
  struct block block[];
};

static void serve_buddy_push(struct buddy *p, uint32_t at, uint32_t order)
{
  uint32_t head = p->blocks + order, first = p->heads[order].next;

  p->block[at] =
      (struct block){.next = first, .before = head, .order = (uint8_t)order, .free = true};
  p->block[first].before = p->heads[order].next = at;
}

static void serve_buddy_take_out(struct buddy *p, uint32_t at)
{
  struct block *block = &p->block[at];

  p->block[block->before].next = block->next;
  p->block[block->next].before = block->before;
  block->free = false;
}

struct buddy *serve_buddy_open(uint64_t bytes)
{
  const uint64_t blocks = bytes / BUDDY_LEAST;
  struct buddy *p = NULL;

  if (blocks < UINT32_MAX - ORDERS)
    p = calloc(1, sizeof(*p) + (blocks + ORDERS) * sizeof(p->block[0]));
  if (!p)
    return NULL;
  p->blocks = (uint32_t)blocks;
  p->heads = &p->block[blocks];
  for (uint32_t order = 0; order < ORDERS; order++)
    p->heads[order].next = p->heads[order].before = p->blocks + order;
  /* As few blocks as make up the whole, large ones first, so that each lies at a multiple
   * of its size. */
  for (uint32_t at = 0, order = ORDERS - 1; at < p->blocks; order--) {
    if ((p->blocks - at) >> order == 0)
      continue;
    serve_buddy_push(p, at, order);
    at += 1u << order;
  }
  return p;
}

void serve_buddy_close(struct buddy *p)
{
  free(p);
}

uint64_t serve_buddy_largest(const struct buddy *p)
{
  return p->blocks == 0 ? 0 : (uint64_t)BUDDY_LEAST << (31 - __builtin_clz(p->blocks));
}

uint64_t serve_buddy_take(struct buddy *p, uint64_t bytes)
{
  uint32_t order = 0, found;

  while (order < ORDERS && (uint64_t)BUDDY_LEAST << order < bytes)
    order++;
  for (found = order; found < ORDERS && p->heads[found].next >= p->blocks; found++)
    ;
  if (found >= ORDERS)
    return BUDDY_NONE;
  uint32_t at = p->heads[found].next;
  serve_buddy_take_out(p, at);
  while (found > order) {
    found--;
    serve_buddy_push(p, at + (1u << found), found);
  }
  p->block[at].order = (uint8_t)order;
  return (uint64_t)at * BUDDY_LEAST;
}

void serve_buddy_give(struct buddy *p, uint64_t offset)
{
  uint32_t at = (uint32_t)(offset / BUDDY_LEAST), order = p->block[at].order;

  for (; order + 1 < ORDERS; order++) {
    uint32_t buddy = at ^ 1u << order;
    if (buddy >= p->blocks || !p->block[buddy].free || p->block[buddy].order != order)
      break;
    serve_buddy_take_out(p, buddy);
    at &= ~(1u << order);
  }
  serve_buddy_push(p, at, order);
}
