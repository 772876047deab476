/* SPDX-License-Identifier: Apache-2.0 */
/* Which CPUs to pin threads to. */
#ifndef APP_TOPO_CORES_H
#define APP_TOPO_CORES_H

#include "machine.h"

/* Why a CPU was chosen; all false: nothing speaks for it but that it is there. */
struct topo_core {
  int cpu;
  bool is_near;     /* on the NUMA node of the place */
  bool is_isolated; /* the scheduler gives it to no other program */
  bool is_quiet;    /* not the core of CPU 0, which takes interrupts and the kernel's own work */
};

/* At most `most` CPUs, the best first, each of a core of its own: near `place` first, then isolated
 * ones, then not CPU 0's core. A CPU of another node comes only where the place has none. Returns
 * how many. */
size_t topo_cores_choose(const struct topo_machine *machine, const struct topo_place *place,
                         struct topo_core *cores, size_t most);

/* How many of them, which are sorted, are as good as the first. */
size_t topo_cores_alike(const struct topo_core *cores, size_t count);

/* The CPUs for the GPU of that index: of those best for its adapter the share that no other GPU of
 * that NUMA node has, `most` at most, at least one where there is any. Returns how many. */
size_t topo_cores_for_gpu(const struct topo_machine *machine, size_t gpu,
                          const struct topo_place *place, struct topo_core *cores, size_t most);

#endif
