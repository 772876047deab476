/* SPDX-License-Identifier: Apache-2.0 */
/* Header-data split: whether, and where. */
#include "split.h"

#include <stdio.h>

const char *eth_split_judge(const struct eth_split_facts *facts, char why[ETH_SPLIT_WHY])
{
  if (!facts->is_card)
    return "the CPU writes what this driver receives";
  if (!facts->has_split)
    return "its driver splits no headers from payloads (RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT)";
  if (facts->segments_max < 2 || !facts->has_pools)
    return "its driver splits frames into one pool alone";
  if (facts->wants_copy)
    return "the option `receive` is copy, and the CPU cannot copy there";
  if (facts->has_tags)
    return "`authenticate` has the CPU compute a tag over the payload";
  if (!facts->wants_rules)
    return "the option `rules` is off, and a split needs a queue that has the ring's frames alone";
  if (facts->rings + 2 > facts->queues) {
    snprintf(why, ETH_SPLIT_WHY, "the port has %u queues, one for the rest and %u for other rings",
             facts->queues, facts->rings);
    return why;
  }
  return NULL;
}

uint32_t eth_split_point(const uint32_t *headers, uint32_t count)
{
  for (uint32_t i = 1; i < count; i++)
    if (headers[i] != headers[0])
      return 0;
  return count ? headers[0] : 0;
}

bool eth_split_place(uint32_t point, uint32_t offset, uint32_t *at)
{
  if (offset < point)
    return false;
  *at = offset - point;
  return true;
}
