/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mempools whose objects are a stack.
 *
 * Threads of this plugin are not DPDK's, so that a mempool has no cache of theirs: with DPDK's own
 * operations each mbuf is an atomic exchange on a ring, and the next one is always the coldest.
 */
#include "stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>

struct stack {
  rte_spinlock_t lock;
  bool is_shared;
  uint32_t count;
  void *objects[];
};

static int eth_stack_alloc(struct rte_mempool *mempool)
{
  struct stack *stack = calloc(1, sizeof(*stack) + mempool->size * sizeof(stack->objects[0]));

  if (!stack)
    return -ENOMEM;
  rte_spinlock_init(&stack->lock);
  stack->is_shared = true;
  mempool->pool_data = stack;
  return 0;
}

static void eth_stack_free(struct rte_mempool *mempool)
{
  free(mempool->pool_data);
}

static int eth_stack_enqueue(struct rte_mempool *mempool, void *const *objects, unsigned n)
{
  struct stack *stack = mempool->pool_data;

  if (stack->is_shared)
    rte_spinlock_lock(&stack->lock);
  if (n == 1) /* as memif frees and allocates */
    stack->objects[stack->count] = objects[0];
  else
    memcpy(&stack->objects[stack->count], objects, n * sizeof(objects[0]));
  stack->count += n;
  if (stack->is_shared)
    rte_spinlock_unlock(&stack->lock);
  return 0;
}

static int eth_stack_dequeue(struct rte_mempool *mempool, void **objects, unsigned n)
{
  struct stack *stack = mempool->pool_data;
  bool is_there;

  if (stack->is_shared)
    rte_spinlock_lock(&stack->lock);
  is_there = n <= stack->count;
  if (is_there) {
    stack->count -= n;
    if (n == 1)
      objects[0] = stack->objects[stack->count];
    else
      memcpy(objects, &stack->objects[stack->count], n * sizeof(objects[0]));
  }
  if (stack->is_shared)
    rte_spinlock_unlock(&stack->lock);
  return is_there ? 0 : -ENOBUFS;
}

static unsigned eth_stack_count(const struct rte_mempool *mempool)
{
  const struct stack *stack = mempool->pool_data;

  return stack->count;
}

static const struct rte_mempool_ops stack_ops = {
    .name = ETH_STACK_OPS,
    .alloc = eth_stack_alloc,
    .free = eth_stack_free,
    .enqueue = eth_stack_enqueue,
    .dequeue = eth_stack_dequeue,
    .get_count = eth_stack_count,
};
RTE_MEMPOOL_REGISTER_OPS(stack_ops);

void eth_stack_share(struct rte_mempool *mempool, bool is_shared)
{
  struct stack *stack = mempool->pool_data;

  stack->is_shared = is_shared;
}

/* ---- The one that keeps nothing ----------------------------------------------------------------
 */

static int eth_stack_keeper_alloc(struct rte_mempool *mempool)
{
  (void)mempool;
  return 0;
}

static int eth_stack_keeper_enqueue(struct rte_mempool *mempool, void *const *objects, unsigned n)
{
  (void)mempool, (void)objects, (void)n;
  return 0;
}

static int eth_stack_keeper_dequeue(struct rte_mempool *mempool, void **objects, unsigned n)
{
  (void)mempool, (void)objects, (void)n;
  return -ENOBUFS;
}

/* Nothing is ever out. */
static unsigned eth_stack_keeper_count(const struct rte_mempool *mempool)
{
  return mempool->size;
}

static const struct rte_mempool_ops keeper_ops = {
    .name = ETH_KEEPER_OPS,
    .alloc = eth_stack_keeper_alloc,
    .enqueue = eth_stack_keeper_enqueue,
    .dequeue = eth_stack_keeper_dequeue,
    .get_count = eth_stack_keeper_count,
};
RTE_MEMPOOL_REGISTER_OPS(keeper_ops);

struct rte_mempool *eth_keeper_make(const char *name, int socket)
{
  /* Pinned: a free detaches no buffer. */
  struct rte_pktmbuf_pool_private private = {.flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF};
  struct rte_mempool *made =
      rte_mempool_create_empty(name, 1, sizeof(struct rte_mbuf), 0, sizeof(private), socket, 0);
  int rc = made ? rte_mempool_set_ops_byname(made, ETH_KEEPER_OPS, NULL) : 0;

  if (rc < 0) {
    rte_mempool_free(made);
    rte_errno = -rc;
    return NULL;
  }
  if (made)
    memcpy(rte_mempool_get_priv(made), &private, sizeof(private));
  return made;
}
