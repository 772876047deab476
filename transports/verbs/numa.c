/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA nodes of devices, threads and memory. */
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numa.h"

/* Nodes that a policy has bits for. */
#define NODES_MAX (8 * sizeof(((struct vb_numa_policy *)0)->nodes))
#define BITS (8 * sizeof(unsigned long))

/* The first line of a file. */
static bool vb_numa_read_text(const char *path, char *text, size_t size)
{
  FILE *file = fopen(path, "re");
  const bool has = file && fgets(text, (int)size, file);

  if (file)
    fclose(file);
  return has;
}

int vb_numa_of_device(const char *folder)
{
  char path[512], text[32];

  snprintf(path, sizeof(path), "%.480s/device/numa_node", folder);
  const long node = vb_numa_read_text(path, text, sizeof(text)) ? strtol(text, NULL, 10) : -1;
  return node >= 0 && node < (long)NODES_MAX ? (int)node : VB_NUMA_UNKNOWN;
}

int vb_numa_of_thread(void)
{
  unsigned cpu, node;

  return syscall(SYS_getcpu, &cpu, &node, NULL) == 0 ? (int)node : VB_NUMA_UNKNOWN;
}

int vb_numa_of_page(const void *address)
{
  int node = VB_NUMA_UNKNOWN;

  if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, address,
              (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)) != 0)
    return VB_NUMA_UNKNOWN;
  return node;
}

/* How many nodes of a list like "0-1,8" are below `node`; -1: it is not among them. */
static int vb_numa_rank_of(const char *list, int node)
{
  int below = 0;

  for (char *end;; list = end + 1) {
    const long first = strtol(list, &end, 10);
    if (end == list)
      return -1;
    const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    if (node >= first && node <= last)
      return below + (int)(node - first);
    below += (int)(last - first + 1);
    if (*end != ',')
      return -1;
  }
}

/* The kernel lists distances to nodes that are online, whose numbers may have gaps. */
uint32_t vb_numa_distance(const char *nodes, int from, int to)
{
  char path[320], text[4096], *at = text, *end;

  snprintf(path, sizeof(path), "%.256s/online", nodes);
  const int rank =
      to >= 0 && vb_numa_read_text(path, text, sizeof(text)) ? vb_numa_rank_of(text, to) : -1;
  snprintf(path, sizeof(path), "%.256s/node%d/distance", nodes, from);
  if (from < 0 || rank < 0 || !vb_numa_read_text(path, text, sizeof(text)))
    return 0;
  for (int i = 0;; i++, at = end) {
    const unsigned long distance = strtoul(at, &end, 10);
    if (end == at)
      return 0;
    if (i == rank)
      return (uint32_t)distance;
  }
}

bool vb_numa_cross(int a, int b)
{
  return a >= 0 && b >= 0 && a != b;
}

void vb_numa_text(int of, int from, char *text, size_t size)
{
  const uint32_t distance = vb_numa_distance(VB_NUMA_NODES, from, of);
  char far[48] = "";

  if (distance)
    snprintf(far, sizeof(far), " (%u away, 10 within a node)", distance);
  snprintf(text, size, "NUMA node %d%s", of, far);
}

void vb_numa_prefer(int node, struct vb_numa_policy *before)
{
  unsigned long nodes[sizeof(before->nodes) / sizeof(before->nodes[0])] = {0};

  before->mode = -1;
  if (node < 0 || (size_t)node >= NODES_MAX ||
      syscall(SYS_get_mempolicy, &before->mode, before->nodes, NODES_MAX, NULL, 0UL) != 0) {
    before->mode = -1;
    return;
  }
  nodes[(size_t)node / BITS] = 1UL << ((size_t)node % BITS);
  /* A policy that was set for the thread stays; a container may allow none. */
  if (before->mode != MPOL_DEFAULT ||
      syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, NODES_MAX) != 0)
    before->mode = -1;
}

void vb_numa_restore(const struct vb_numa_policy *before)
{
  if (before->mode >= 0)
    syscall(SYS_set_mempolicy, before->mode, NULL, 0UL);
}
