/* SPDX-License-Identifier: Apache-2.0 */
/* Distances by the bridges that two devices have in common. */
#include "distance.h"

#include <string.h>

const char *const topo_distance_words[TOPO_DISTANCES] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
const char *const topo_distance_meanings[TOPO_DISTANCES] = {
    "at most one PCIe switch between them",
    "several PCIe switches, and not the CPU",
    "the CPU's PCIe host bridge",
    "host bridges of one NUMA node",
    "the link between NUMA nodes, or an unknown place",
};

static uint32_t distance_common(const struct topo_place *a, const struct topo_place *b)
{
  uint32_t common = 0;

  while (common < a->depth && common < b->depth &&
         strcmp(a->bridges[common], b->bridges[common]) == 0)
    common++;
  return common;
}

/* A PCIe switch is one bridge towards the CPU, and below that one bridge for each port. So devices
 * on one switch have each one bridge of their own below the last common one, and devices of one
 * card none. */
enum topo_distance topo_distance(const struct topo_place *a, const struct topo_place *b)
{
  const uint32_t common = distance_common(a, b);
  const uint32_t deepest = a->depth > b->depth ? a->depth : b->depth;

  if (common > 1)
    return deepest - common <= 1 ? TOPO_PIX : TOPO_PXB;
  if (common == 1)
    return TOPO_PHB;
  return a->node >= 0 && a->node == b->node ? TOPO_NODE : TOPO_SYS;
}

enum topo_distance topo_distance_pair(const struct topo_adapter *adapter,
                                      const struct topo_gpu *gpu)
{
  if (gpu->is_integrated && (gpu->place.node < 0 || gpu->place.node == adapter->place.node))
    return TOPO_PHB;
  return topo_distance(&adapter->place, &gpu->place);
}

/* A port whose state is "down" has no link; others may not know. */
static bool distance_is_better(const struct topo_adapter *a, const struct topo_adapter *b,
                               const struct topo_gpu *gpu)
{
  const enum topo_distance of_a = topo_distance_pair(a, gpu), of_b = topo_distance_pair(b, gpu);
  const bool a_down = strcmp(a->state, "down") == 0, b_down = strcmp(b->state, "down") == 0;

  if (a_down != b_down)
    return b_down;
  if (of_a != of_b)
    return of_a < of_b;
  if ((a->rdma[0] != '\0') != (b->rdma[0] != '\0'))
    return a->rdma[0] != '\0';
  return a->speed_mbps > b->speed_mbps;
}

const struct topo_adapter *topo_distance_best_adapter(const struct topo_machine *machine,
                                                      const struct topo_gpu *gpu)
{
  const struct topo_adapter *best = NULL;

  for (size_t i = 0; i < machine->adapter_count; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    if (adapter->place.pci[0] && !adapter->over[0] && (adapter->netdev[0] || adapter->rdma[0]) &&
        (!best || distance_is_better(adapter, best, gpu)))
      best = adapter;
  }
  return best;
}

const struct topo_gpu *topo_distance_best_gpu(const struct topo_machine *machine,
                                              const struct topo_adapter *adapter)
{
  const struct topo_gpu *best = NULL;

  for (size_t i = 0; i < machine->gpu_count; i++) {
    const struct topo_gpu *gpu = &machine->gpus[i];
    if (gpu->is_nvidia &&
        (!best || topo_distance_pair(adapter, gpu) < topo_distance_pair(adapter, best)))
      best = gpu;
  }
  return best;
}
