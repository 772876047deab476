/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a machine's description, and what is looked up in it. */
#include "machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "grow.h"
#include "host/gpu.h"
#include "ports.h"
#ifdef HAVE_HWLOC
#include "tree.h"
#endif

static int machine_order_gpus(const void *a, const void *b)
{
  const struct topo_gpu *of_a = a, *of_b = b;

  if (of_a->is_nvidia != of_b->is_nvidia)
    return of_a->is_nvidia ? -1 : 1;
  return strcmp(of_a->place.pci, of_b->place.pci);
}

static int machine_order_adapters(const void *a, const void *b)
{
  const struct topo_adapter *of_a = a, *of_b = b;
  int order = strcmp(of_a->place.pci, of_b->place.pci);

  return order != 0 ? order : strcmp(of_a->name, of_b->name);
}

static int machine_order_cpus(const void *a, const void *b)
{
  return ((const struct topo_cpu *)a)->number - ((const struct topo_cpu *)b)->number;
}

/* Reads the GPUs that NVML knows, and the GPU that a system on chip has beside its CPU. */
static int machine_read_gpus(struct host *host, struct topo_machine *machine)
{
  struct host_pcis pcis = {0};
  struct host_gpus known = {0};
  char chip[64] = "";

  host_pci_list(host, &pcis);
  host_gpu_list(host, &pcis, &known);
  for (size_t i = 0; i < known.count; i++)
    for (size_t k = 0; k < machine->gpu_count; k++)
      if (known.all[i].pci[0] && strcmp(known.all[i].pci, machine->gpus[k].place.pci) == 0) {
        snprintf(machine->gpus[k].uuid, sizeof(machine->gpus[k].uuid), "%s", known.all[i].uuid);
        machine->gpus[k].is_integrated = known.all[i].is_integrated;
        if (known.all[i].name[0])
          snprintf(machine->gpus[k].model, sizeof(machine->gpus[k].model), "%s", known.all[i].name);
      }
  host_gpu_free(&known);
  host_pci_free(&pcis);
  host_tegra_chip(host, chip, sizeof(chip));
  if (!chip[0])
    return 0;
  struct topo_gpu *gpu = topo_grow((void **)&machine->gpus, &machine->gpu_count, sizeof(*gpu));
  if (!gpu)
    return -ENOMEM;
  gpu->place.node = machine->node_count == 1 ? machine->nodes[0].number : -1;
  if (machine->node_count == 1)
    gpu->place.cpus = machine->nodes[0].cpus;
  gpu->is_nvidia = gpu->is_integrated = true;
  snprintf(gpu->model, sizeof(gpu->model), "integrated GPU of %s", chip);
  return 0;
}

static int machine_fill(struct host *host, struct topo_machine *machine, char why[TOPO_WHY_BYTES])
{
#ifdef HAVE_HWLOC
  int rc = topo_tree_read(host, machine, why);
#else
  int rc = -EOPNOTSUPP;
  snprintf(why, TOPO_WHY_BYTES,
           "this build has no hwloc; install libhwloc-dev and build again with -Dhwloc=enabled");
#endif
  if (rc < 0)
    return rc;
  if (machine->adapter_count > 0)
    qsort(machine->adapters, machine->adapter_count, sizeof(*machine->adapters),
          machine_order_adapters);
  rc = machine_read_gpus(host, machine);
  if (rc == 0)
    rc = topo_ports_read(host, machine);
  if (rc < 0)
    return snprintf(why, TOPO_WHY_BYTES, "out of memory"), rc;
  if (machine->gpu_count > 0)
    qsort(machine->gpus, machine->gpu_count, sizeof(*machine->gpus), machine_order_gpus);
  if (machine->cpu_count > 0)
    qsort(machine->cpus, machine->cpu_count, sizeof(*machine->cpus), machine_order_cpus);
  for (size_t i = 0; i < machine->gpu_count; i++)
    snprintf(machine->gpus[i].name, sizeof(machine->gpus[i].name), "gpu%zu", i);
  return 0;
}

int topo_machine_read(const char *root, struct topo_machine **machine, char why[TOPO_WHY_BYTES])
{
  char cause[HOST_WHY_BYTES];

  *machine = calloc(1, sizeof(**machine));
  if (!*machine)
    return snprintf(why, TOPO_WHY_BYTES, "out of memory"), -ENOMEM;
  struct host *host = host_open(root, cause);
  if (!host)
    return snprintf(why, TOPO_WHY_BYTES, "%s%s", root ? "--root: " : "", cause),
           root ? -ENOENT : -EIO;
  const int rc = machine_fill(host, *machine, why);
  host_close(host);
  return rc;
}

void topo_machine_close(struct topo_machine *machine)
{
  if (!machine)
    return;
  for (size_t i = 0; i < machine->adapter_count; i++) {
    free(machine->adapters[i].addresses);
    free(machine->adapters[i].neighbours);
  }
  free(machine->nodes);
  free(machine->cpus);
  free(machine->adapters);
  free(machine->gpus);
  free(machine);
}

/* "3b:00.0" and "0000:3b:00.0" are the same. */
static bool machine_is_pci(const char *pci, const char *name)
{
  return pci[0] && (strcasecmp(pci, name) == 0 ||
                    (strncmp(pci, "0000:", 5) == 0 && strcasecmp(pci + 5, name) == 0));
}

static bool machine_has_address(const struct topo_adapter *adapter, const char *name)
{
  for (size_t i = 0; i < adapter->address_count; i++) {
    const char *text = adapter->addresses[i].text;
    const size_t length = strcspn(text, "/");
    if (strncmp(text, name, length) == 0 && name[length] == '\0')
      return true;
  }
  return false;
}

const struct topo_adapter *topo_adapter_find(const struct topo_machine *machine, const char *name)
{
  for (size_t i = 0; name[0] && i < machine->adapter_count; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    if (strcmp(adapter->netdev, name) == 0 || strcmp(adapter->rdma, name) == 0 ||
        (!adapter->over[0] && machine_is_pci(adapter->place.pci, name)) ||
        machine_has_address(adapter, name))
      return adapter;
  }
  return NULL;
}

const struct topo_gpu *topo_gpu_find(const struct topo_machine *machine, const char *name)
{
  for (size_t i = 0; name[0] && i < machine->gpu_count; i++) {
    const struct topo_gpu *gpu = &machine->gpus[i];
    if (strcmp(gpu->name, name) == 0 || strcmp(gpu->uuid, name) == 0 ||
        machine_is_pci(gpu->place.pci, name))
      return gpu;
  }
  return NULL;
}

const char *topo_cpus_text(const cpu_set_t *cpus, char *text, size_t size)
{
  size_t used = 0;

  text[0] = '\0';
  for (int cpu = 0; cpu < CPU_SETSIZE && used < size; cpu++) {
    int last = cpu;
    if (!CPU_ISSET(cpu, cpus))
      continue;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
      last++;
    used += (size_t)snprintf(text + used, size - used, last > cpu ? "%s%d-%d" : "%s%d",
                             used > 0 ? "," : "", cpu, last);
    cpu = last;
  }
  if (used == 0)
    snprintf(text, size, "none");
  return text;
}
