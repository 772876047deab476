/* SPDX-License-Identifier: Apache-2.0 */
/* The transport's counters of a node's device and worker. */
#include <errno.h>
#include <penstock/node.h>

#include "node.h"

int pst_node_device(const struct pst_node *node, struct pst_device_info *info)
{
  if (node->is_bare)
    return -ENOENT;
  engine_device_info(node->device, info);
  return 0;
}

int pst_node_device_counters(struct pst_node *node, struct pst_counter_value *values, uint32_t max)
{
  if (node->is_bare)
    return -ENOENT;
  if (node->device->has_counters)
    engine_device_count(node->device);
  return counts_copy(&node->device->counts, values, max);
}

int pst_node_worker_counters(struct pst_node *node, struct pst_counter_value *values, uint32_t max)
{
  struct counts counts;

  if (node->is_bare)
    return -ENOENT;
  counts_init(&counts);
  counts_read(&counts, node->worker.ops, node->device->device, node->worker.handle, NULL);
  return counts_copy(&counts, values, max);
}
