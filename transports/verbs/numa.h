/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA nodes of devices, threads and memory, and how far they are from each other. */
#ifndef VERBS_NUMA_H
#define VERBS_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VB_NUMA_UNKNOWN (-1)
#define VB_NUMA_NODES "/sys/devices/system/node"

/* NUMA node of the device whose folder in sysfs this is (ibdev_path); VB_NUMA_UNKNOWN: none is
 * known. */
int vb_numa_of_device(const char *folder);
/* NUMA node that the calling thread runs on now, or VB_NUMA_UNKNOWN. */
int vb_numa_of_thread(void);
/* NUMA node of the page at that address, which is there; or VB_NUMA_UNKNOWN. */
int vb_numa_of_page(const void *address);
/* As the kernel has it: 10 within a node. `nodes`: VB_NUMA_NODES. 0: unknown. */
uint32_t vb_numa_distance(const char *nodes, int from, int to);
/* Do both have a node, and another each. */
bool vb_numa_cross(int a, int b);
/* "NUMA node 0 (21 away, 10 within a node)"; without the distance, "NUMA node 0". */
void vb_numa_text(int of, int from, char *text, size_t size);

/* The calling thread's policy, while pages come from `node` where there are some. */
struct vb_numa_policy {
  int mode; /* -1: left alone */
  unsigned long nodes[16];
};
void vb_numa_prefer(int node, struct vb_numa_policy *before);
void vb_numa_restore(const struct vb_numa_policy *before);

#endif
