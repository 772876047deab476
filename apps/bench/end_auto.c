/* SPDX-License-Identifier: Apache-2.0 */
/* Writes endpoints by the machine's adapters, GPUs and CPUs. */
#include "end_auto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "end_devices.h"
#include "topo/cores.h"
#include "topo/distance.h"
#include "topo/machine.h"

#define CORES_MAX 64

enum end_auto_names {
  END_AUTO_NONE, /* the transport uses no adapter */
  END_AUTO_NETDEV,
  END_AUTO_RDMA,
  END_AUTO_UCX,
};

static int bench_end_auto_names(const char *transport, enum end_auto_names *names)
{
  static const struct {
    const char *transport;
    enum end_auto_names names;
  } known[] = {{"loopback", END_AUTO_NONE},
               {"udp", END_AUTO_NETDEV},
               {"verbs_rc", END_AUTO_RDMA},
               {"verbs_dc", END_AUTO_RDMA},
               {"ucx", END_AUTO_UCX}};

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (strcmp(transport, known[i].transport) == 0)
      return *names = known[i].names, 0;
  return -EINVAL;
}

static bool bench_end_auto_has_address(const struct topo_adapter *adapter)
{
  for (size_t i = 0; adapter->netdev[0] && i < adapter->address_count; i++)
    if (!adapter->addresses[i].is_link_local)
      return true;
  return false;
}

static bool bench_end_auto_is_usable(const struct topo_adapter *adapter, enum end_auto_names names)
{
  return adapter->place.pci[0] && !adapter->over[0] && strcmp(adapter->state, "down") != 0 &&
         (names == END_AUTO_RDMA ? adapter->rdma[0] != '\0' : bench_end_auto_has_address(adapter));
}

/* adapter NULL: the transport uses none. cpu < 0: none is free for it. */
static void bench_end_auto_write(const struct topo_adapter *adapter, const struct topo_gpu *gpu,
                                 int cpu, enum end_auto_names names, char to[END_AUTO_BYTES])
{
  size_t used = 0;

  to[0] = '\0';
  if (adapter && bench_end_auto_has_address(adapter))
    used += (size_t)snprintf(to, END_AUTO_BYTES, "address=%s,", adapter->netdev);
  if (cpu >= 0)
    used += (size_t)snprintf(to + used, END_AUTO_BYTES - used, "cpu=%d,", cpu);
  if (adapter && names == END_AUTO_UCX && adapter->rdma[0])
    used += (size_t)snprintf(to + used, END_AUTO_BYTES - used, "transport.net_devices=%s:1,",
                             adapter->rdma);
  else if (adapter)
    used += (size_t)snprintf(to + used, END_AUTO_BYTES - used, "transport.%s=%s,",
                             names == END_AUTO_UCX ? "net_devices" : "device",
                             names == END_AUTO_RDMA ? adapter->rdma : adapter->netdev);
  if (gpu)
    used += (size_t)snprintf(to + used, END_AUTO_BYTES - used, "memory.device=%s,",
                             gpu->place.pci[0] ? gpu->place.pci : gpu->uuid);
  if (used > 0)
    to[used - 1] = '\0';
}

static int bench_end_auto_gpus(const struct topo_machine *machine, enum end_auto_names names,
                               char (*endpoints)[END_AUTO_BYTES], uint32_t most,
                               char why[END_AUTO_BYTES])
{
  const struct topo_gpu *gpu;
  uint32_t count = 0;

  snprintf(why, END_AUTO_BYTES, "no GPU of NVIDIA is here; `penstock topo` shows what is");
  while (count < most && (gpu = bench_end_devices_visible_gpu(machine, count))) {
    const struct topo_adapter *adapter =
        names == END_AUTO_NONE ? NULL : topo_distance_best_adapter(machine, gpu);
    struct topo_core core = {.cpu = -1};
    if (names != END_AUTO_NONE && (!adapter || !bench_end_auto_is_usable(adapter, names))) {
      snprintf(why, END_AUTO_BYTES,
               "the adapter nearest to %s is %s, which %s; `penstock topo` shows the others",
               gpu->name, adapter ? adapter->name : "none",
               names == END_AUTO_RDMA ? "is down or has no RDMA device"
                                      : "is down or has no address");
      return -ENODEV;
    }
    topo_cores_for_gpu(machine, (size_t)(gpu - machine->gpus),
                       adapter ? &adapter->place : &gpu->place, &core, 1);
    bench_end_auto_write(adapter, gpu, core.cpu, names, endpoints[count++]);
  }
  return count > 0 ? (int)count : -ENODEV;
}

static int bench_end_auto_adapters(const struct topo_machine *machine, enum end_auto_names names,
                                   char (*endpoints)[END_AUTO_BYTES], uint32_t most,
                                   char why[END_AUTO_BYTES])
{
  uint32_t count = 0;

  snprintf(why, END_AUTO_BYTES, "%s; `penstock topo` shows what is here",
           names == END_AUTO_NONE   ? "the transport uses no adapter"
           : names == END_AUTO_RDMA ? "no RDMA device on PCI is up"
                                    : "no adapter on PCI is up and has an address");
  for (size_t i = 0; names != END_AUTO_NONE && i < machine->adapter_count && count < most; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    struct topo_core cores[CORES_MAX];
    if (!bench_end_auto_is_usable(adapter, names))
      continue;
    const size_t alike =
        topo_cores_alike(cores, topo_cores_choose(machine, &adapter->place, cores, CORES_MAX));
    bench_end_auto_write(adapter, NULL, alike > 0 ? cores[count % alike].cpu : -1, names,
                         endpoints[count]);
    count++;
  }
  return count > 0 ? (int)count : -ENODEV;
}

int bench_end_auto(const struct topo_machine *machine, const char *transport, const char *memory,
                   char (*endpoints)[END_AUTO_BYTES], uint32_t most, char why[END_AUTO_BYTES])
{
  enum end_auto_names names = END_AUTO_NONE;

  if (bench_end_auto_names(transport, &names) < 0) {
    snprintf(why, END_AUTO_BYTES,
             "transport %.60s names its adapters in another way; give --endpoint "
             "address=...,transport.KEY=VALUE for each",
             transport);
    return -EINVAL;
  }
  return strcmp(memory, "cuda") == 0
             ? bench_end_auto_gpus(machine, names, endpoints, most, why)
             : bench_end_auto_adapters(machine, names, endpoints, most, why);
}
