/* SPDX-License-Identifier: Apache-2.0 */
/* How far two devices are from each other, in the words of `nvidia-smi topo`. */
#ifndef APP_TOPO_DISTANCE_H
#define APP_TOPO_DISTANCE_H

#include "machine.h"

/* The nearest first. */
enum topo_distance {
  TOPO_PIX,  /* one PCIe switch at most */
  TOPO_PXB,  /* several PCIe switches, and no host bridge */
  TOPO_PHB,  /* a host bridge, which is in the CPU */
  TOPO_NODE, /* host bridges of one NUMA node */
  TOPO_SYS,  /* the link between NUMA nodes, or nothing says where the devices are */
  TOPO_DISTANCES,
};

extern const char *const topo_distance_words[TOPO_DISTANCES];
extern const char *const topo_distance_meanings[TOPO_DISTANCES];

enum topo_distance topo_distance(const struct topo_place *a, const struct topo_place *b);

/* Between an adapter and a GPU. An integrated GPU is in the CPU. */
enum topo_distance topo_distance_pair(const struct topo_adapter *adapter,
                                      const struct topo_gpu *gpu);
/* The adapter nearest to the GPU that has a link and, of those, is an RDMA device, and is fastest.
 * NULL: the machine has no PCI adapter. */
const struct topo_adapter *topo_distance_best_adapter(const struct topo_machine *machine,
                                                      const struct topo_gpu *gpu);
/* The GPU of NVIDIA nearest to the adapter; NULL: there is none. */
const struct topo_gpu *topo_distance_best_gpu(const struct topo_machine *machine,
                                              const struct topo_adapter *adapter);

#endif
