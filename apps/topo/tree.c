/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI tree by hwloc. */
#include <errno.h>
#include <hwloc/glibc-sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "host/topology.h"
#include "tree.h"

#define CLASS_NETWORK 0x02
#define CLASS_DISPLAY 0x03
#define CLASS_ACCELERATOR 0x12
#define CLASS_INFINIBAND 0x0c06 /* older adapters */
#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002
#define VENDOR_INTEL 0x8086

static void tree_pci_text(const hwloc_obj_t object, char text[TOPO_PCI_BYTES])
{
  const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;

  snprintf(text, TOPO_PCI_BYTES, "%04x:%02x:%02x.%01x", pci->domain & 0xffffu, pci->bus, pci->dev,
           pci->func & 0xfu);
}

static void tree_cpus_of(hwloc_topology_t topology, hwloc_const_cpuset_t from, cpu_set_t *to)
{
  CPU_ZERO(to);
  hwloc_cpuset_to_glibc_sched_affinity(topology, from, to, sizeof(*to));
}

/* Where the whole machine is all that is known, and it has several nodes, the node is not. */
static int tree_node_of(hwloc_topology_t topology, hwloc_obj_t object)
{
  hwloc_const_nodeset_t all = hwloc_topology_get_topology_nodeset(topology);

  if (!object->nodeset ||
      (hwloc_bitmap_weight(all) > 1 && hwloc_bitmap_isequal(object->nodeset, all)))
    return -1;
  return hwloc_bitmap_first(object->nodeset);
}

static void tree_place_read(hwloc_topology_t topology, hwloc_obj_t device, struct topo_place *place)
{
  hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  char above[TOPO_DEPTH][TOPO_PCI_BYTES];
  uint32_t count = 0;

  place->node = tree_node_of(topology, near);
  tree_cpus_of(topology, near->cpuset, &place->cpus);
  tree_pci_text(device, place->pci);
  for (hwloc_obj_t at = device->parent; at && count < TOPO_DEPTH; at = at->parent) {
    if (at->type != HWLOC_OBJ_BRIDGE)
      continue;
    if (at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
      tree_pci_text(at, above[count++]);
    else
      snprintf(above[count++], TOPO_PCI_BYTES, "%04x:%02x",
               at->attr->bridge.downstream.pci.domain & 0xffffu,
               at->attr->bridge.downstream.pci.secondary_bus);
  }
  place->depth = count;
  for (uint32_t i = 0; i < count; i++)
    memcpy(place->bridges[i], above[count - 1 - i], TOPO_PCI_BYTES);
}

static void tree_model_text(hwloc_obj_t device, char *text, size_t size)
{
  const char *name = hwloc_obj_get_info_by_name(device, "PCIDevice");

  if (name)
    snprintf(text, size, "%s", name);
  else
    snprintf(text, size, "%04x:%04x", device->attr->pcidev.vendor_id,
             device->attr->pcidev.device_id);
}

/* The adapter of a PCI device, with that netdev. One function may have several. -ENOMEM. */
static int tree_add_adapter(struct topo_machine *machine, const struct topo_place *place,
                            hwloc_obj_t device, const char *netdev, const char *rdma)
{
  struct topo_adapter *adapter =
      topo_grow((void **)&machine->adapters, &machine->adapter_count, sizeof(*adapter));

  if (!adapter)
    return -ENOMEM;
  adapter->place = *place;
  snprintf(adapter->netdev, sizeof(adapter->netdev), "%s", netdev);
  snprintf(adapter->rdma, sizeof(adapter->rdma), "%s", rdma);
  snprintf(adapter->name, sizeof(adapter->name), "%s",
           netdev[0] ? netdev
           : rdma[0] ? rdma
                     : place->pci);
  tree_model_text(device, adapter->model, sizeof(adapter->model));
  return 0;
}

static int tree_take_adapter(hwloc_topology_t topology, struct topo_machine *machine,
                             hwloc_obj_t device)
{
  struct topo_place place = {.node = -1};
  const char *rdma = "";
  int rc = 0, netdevs = 0;

  tree_place_read(topology, device, &place);
  for (hwloc_obj_t at = device->io_first_child; at; at = at->next_sibling)
    if (at->type == HWLOC_OBJ_OS_DEVICE && at->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
      rdma = at->name;
  for (hwloc_obj_t at = device->io_first_child; at && rc == 0; at = at->next_sibling) {
    if (at->type != HWLOC_OBJ_OS_DEVICE || at->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK)
      continue;
    rc = tree_add_adapter(machine, &place, device, at->name, rdma);
    netdevs++;
  }
  return rc == 0 && netdevs == 0 ? tree_add_adapter(machine, &place, device, "", rdma) : rc;
}

static int tree_take_gpu(hwloc_topology_t topology, struct topo_machine *machine,
                         hwloc_obj_t device)
{
  struct topo_gpu *gpu = topo_grow((void **)&machine->gpus, &machine->gpu_count, sizeof(*gpu));

  if (!gpu)
    return -ENOMEM;
  tree_place_read(topology, device, &gpu->place);
  tree_model_text(device, gpu->model, sizeof(gpu->model));
  gpu->is_nvidia = device->attr->pcidev.vendor_id == VENDOR_NVIDIA;
  for (hwloc_obj_t at = device->io_first_child; at; at = at->next_sibling) {
    const char *uuid = hwloc_obj_get_info_by_name(at, "NVIDIAUUID");
    if (uuid)
      snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
  }
  return 0;
}

/* Consoles of servers and of virtual machines are no GPUs. */
static bool tree_is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
  const unsigned base = pci->class_id >> 8;

  return (base == CLASS_DISPLAY || base == CLASS_ACCELERATOR) &&
         (pci->vendor_id == VENDOR_NVIDIA || pci->vendor_id == VENDOR_AMD ||
          pci->vendor_id == VENDOR_INTEL);
}

static int tree_take_devices(hwloc_topology_t topology, struct topo_machine *machine)
{
  hwloc_obj_t device = NULL;
  int rc = 0;

  while (rc == 0 && (device = hwloc_get_next_pcidev(topology, device)) != NULL) {
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    if (pci->class_id >> 8 == CLASS_NETWORK || pci->class_id == CLASS_INFINIBAND)
      rc = tree_take_adapter(topology, machine, device);
    else if (tree_is_gpu(pci))
      rc = tree_take_gpu(topology, machine, device);
  }
  return rc;
}

static int tree_take_nodes(hwloc_topology_t topology, struct topo_machine *machine)
{
  for (hwloc_obj_t at = NULL;
       (at = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, at));) {
    struct topo_node *node =
        topo_grow((void **)&machine->nodes, &machine->node_count, sizeof(*node));
    if (!node)
      return -ENOMEM;
    node->number = (int)at->os_index;
    node->memory_bytes = at->attr->numanode.local_memory;
    tree_cpus_of(topology, at->cpuset, &node->cpus);
  }
  return 0;
}

static int tree_take_cpus(hwloc_topology_t topology, struct topo_machine *machine)
{
  hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);

  for (hwloc_obj_t at = NULL; (at = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, at));) {
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, at);
    struct topo_cpu *cpu = topo_grow((void **)&machine->cpus, &machine->cpu_count, sizeof(*cpu));
    if (!cpu)
      return -ENOMEM;
    cpu->number = (int)at->os_index;
    cpu->core = core ? hwloc_bitmap_first(core->cpuset) : cpu->number;
    cpu->node = hwloc_bitmap_first(at->nodeset);
    cpu->is_allowed = hwloc_bitmap_isset(allowed, at->os_index) != 0;
  }
  return 0;
}

int topo_tree_read(struct host *host, struct topo_machine *machine, char why[TOPO_WHY_BYTES])
{
  char cause[HOST_WHY_BYTES];
  hwloc_topology_t topology = host_topology(host, cause);
  int rc;

  if (!topology) {
    snprintf(why, TOPO_WHY_BYTES, "%s; hwloc's lstopo shows what it reads", cause);
    return -EINVAL;
  }
  if ((rc = tree_take_nodes(topology, machine)) < 0 ||
      (rc = tree_take_cpus(topology, machine)) < 0 ||
      (rc = tree_take_devices(topology, machine)) < 0)
    snprintf(why, TOPO_WHY_BYTES, "out of memory");
  hwloc_topology_destroy(topology);
  return rc;
}
