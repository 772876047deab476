/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing CPUs by node, isolation and core. */
#include "cores.h"

#include <string.h>

#define CORES_OF_NODE 256

static bool cores_is_near(const struct topo_cpu *cpu, const struct topo_place *place)
{
  if (place->node >= 0)
    return cpu->node == place->node;
  return cpu->number < CPU_SETSIZE && CPU_ISSET(cpu->number, &place->cpus);
}

static struct topo_core cores_judge(const struct topo_cpu *cpu, const struct topo_place *place)
{
  return (struct topo_core){
      .cpu = cpu->number,
      .is_near = cores_is_near(cpu, place),
      .is_isolated = cpu->is_isolated,
      .is_quiet = cpu->core != 0,
  };
}

static bool cores_is_better(const struct topo_core *a, const struct topo_core *b)
{
  if (a->is_near != b->is_near)
    return a->is_near;
  if (a->is_isolated != b->is_isolated)
    return a->is_isolated;
  if (a->is_quiet != b->is_quiet)
    return a->is_quiet;
  return a->cpu < b->cpu;
}

/* Only the first allowed CPU of a core: two threads on one core are slower than on two. */
static bool cores_is_first(const struct topo_machine *machine, const struct topo_cpu *cpu)
{
  for (size_t i = 0; i < machine->cpu_count; i++) {
    const struct topo_cpu *other = &machine->cpus[i];
    if (other->core == cpu->core && other->is_allowed && other->number < cpu->number &&
        other->is_isolated == cpu->is_isolated)
      return false;
  }
  return cpu->is_allowed;
}

size_t topo_cores_choose(const struct topo_machine *machine, const struct topo_place *place,
                         struct topo_core *cores, size_t most)
{
  size_t count = 0;

  for (size_t i = 0; i < machine->cpu_count; i++) {
    if (!cores_is_first(machine, &machine->cpus[i]))
      continue;
    const struct topo_core core = cores_judge(&machine->cpus[i], place);
    size_t at = count < most ? count++ : most;
    for (; at > 0 && cores_is_better(&core, &cores[at - 1]); at--)
      if (at < most)
        cores[at] = cores[at - 1];
    if (at < most)
      cores[at] = core;
  }
  /* The near ones come first: where there are any, the others do not count. */
  for (size_t i = 1; i < count; i++)
    if (cores[i].is_near != cores[0].is_near)
      return i;
  return count;
}

size_t topo_cores_alike(const struct topo_core *cores, size_t count)
{
  size_t alike = 0;

  while (alike < count && cores[alike].is_isolated == cores[0].is_isolated &&
         cores[alike].is_quiet == cores[0].is_quiet)
    alike++;
  return alike;
}

size_t topo_cores_for_gpu(const struct topo_machine *machine, size_t gpu,
                          const struct topo_place *place, struct topo_core *cores, size_t most)
{
  struct topo_core all[CORES_OF_NODE];
  const size_t count = topo_cores_choose(machine, place, all, CORES_OF_NODE);
  const size_t good = topo_cores_alike(all, count);
  size_t gpus = 0, before = 0;

  for (size_t i = 0; i < machine->gpu_count; i++) {
    const bool is_beside = machine->gpus[i].place.node == machine->gpus[gpu].place.node;
    gpus += is_beside;
    before += is_beside && i < gpu;
  }
  if (good == 0)
    return 0;
  size_t share = good / gpus > 0 ? good / gpus : 1;
  share = share < most ? share : most;
  memcpy(cores, &all[before * share % good], share * sizeof(*cores));
  return share;
}
