/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that messages to peers are sent from. */
#include <assert.h>
#include <stdlib.h>

#include "peer.h"

int send_pool_open(struct pst_node *node, struct send_pool *pool, uint32_t peers,
                   struct pst_error *error)
{
  const uint32_t slots = node_slots(node, peers);
  const struct region_params params = {.memory = node->memory,
                                       .device = node->device,
                                       .length = node->send_stride * slots,
                                       .needs =
                                           node->device->limits.send_needs | PST_NEED_CPU_ACCESS,
                                       .label = "messages to peers",
                                       .lower = "`peers`, `messages` or `message_max`",
                                       .access = PST_ACCESS_LOCAL_READ};
  struct region_why why;

  pool->kept = peers;
  pool->free = calloc(slots, sizeof(*pool->free));
  if (!pool->free)
    return node_no_memory(error);
  while (pool->free_count < slots) { /* the first is taken first */
    pool->free[pool->free_count] = slots - 1 - pool->free_count;
    pool->free_count++;
  }
  int rc = region_open(&pool->region, &params, &why);
  return rc < 0 ? region_fail(error, rc, params.label, &why, "") : 0;
}

void send_pool_close(struct send_pool *pool)
{
  region_close(&pool->region);
  free(pool->free);
}

bool send_pool_has_room(const struct send_pool *pool, uint64_t held)
{
  assert(pool->free_count >= pool->kept);
  return held == 0 || pool->free_count > pool->kept;
}

uint32_t send_pool_take(struct send_pool *pool, uint64_t held)
{
  assert(send_pool_has_room(pool, held));
  pool->kept -= held == 0;
  return pool->free[--pool->free_count];
}

void send_pool_give(struct send_pool *pool, uint32_t slot, uint64_t held)
{
  assert(held > 0);
  pool->kept += held == 1;
  pool->free[pool->free_count++] = slot;
}
