/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that messages to peers are sent from. */
#include <assert.h>
#include <stdlib.h>

#include "peer.h"

/* As many as there are, so that blocks are few and none is much larger than what is in use. */
static uint32_t send_block_shares(const struct pst_node *node)
{
  uint32_t sum = 0;

  if (node->device->limits.capabilities & PST_CAP_LEND)
    return 1;
  for (const struct send_block *block = node->send_blocks; block; block = block->next)
    sum += block->shares;
  const uint32_t left = sum < node->peers_max ? node->peers_max - sum : 1;
  return sum == 0 ? 1 : sum < left ? sum : left;
}

static int send_block_open(struct pst_node *node, struct send_block **block)
{
  const uint32_t shares = send_block_shares(node);
  struct send_block *made = calloc(1, sizeof(*made) + shares * sizeof(made->free[0]));
  const struct region_params params = {.memory = node->memory,
                                       .device = node->device,
                                       .length = node->send_stride * node->messages * shares,
                                       .needs =
                                           node->device->limits.send_needs | PST_NEED_CPU_ACCESS,
                                       .label = "messages to peers",
                                       .access = PST_ACCESS_LOCAL_READ};
  struct region_why why;

  if (!made)
    return -ENOMEM;
  int rc = region_open(&made->region, &params, &why);
  if (rc < 0) {
    region_fail(NULL, rc, params.label, &why, "");
    region_close(&made->region);
    free(made);
    return rc;
  }
  made->shares = shares;
  while (made->free_count < shares) { /* the first is taken first */
    made->free[made->free_count] = shares - 1 - made->free_count;
    made->free_count++;
  }
  made->next = node->send_blocks;
  node->send_blocks = made;
  *block = made;
  return 0;
}

int send_share_take(struct pst_node *node, struct send_share *share)
{
  struct send_block *block = node->send_blocks;
  int rc = 0;

  while (block && block->free_count == 0)
    block = block->next;
  if (!block)
    rc = send_block_open(node, &block);
  if (rc < 0)
    return rc;
  share->block = block;
  share->offset = block->free[--block->free_count] * node->send_stride * node->messages;
  return 0;
}

void send_share_give(struct pst_node *node, struct send_share *share)
{
  struct send_block *block = share->block, **at = &node->send_blocks;

  if (!block)
    return;
  share->block = NULL;
  assert(block->free_count < block->shares);
  block->free[block->free_count++] =
      (uint32_t)(share->offset / (node->send_stride * node->messages));
  if (block->free_count < block->shares)
    return;
  while (*at != block)
    at = &(*at)->next;
  *at = block->next;
  region_close(&block->region);
  free(block);
}
