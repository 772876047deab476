/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's NUMA nodes, CPUs, adapters and GPUs, and where in the PCI tree each device is. */
#ifndef APP_TOPO_MACHINE_H
#define APP_TOPO_MACHINE_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPO_DEPTH 12 /* bridges between the CPU and a device, at most */
#define TOPO_PCI_BYTES 16
#define TOPO_NAME_BYTES 64
#define TOPO_WHY_BYTES 512

/* Where a device is. All zero but `node`: nowhere in the PCI tree. */
struct topo_place {
  int node;                                 /* number of its NUMA node; -1: nothing says which */
  cpu_set_t cpus;                           /* those nearest to it */
  char pci[TOPO_PCI_BYTES];                 /* "0000:03:00.0"; "": it is no PCI device */
  uint32_t depth;                           /* of `bridges` */
  char bridges[TOPO_DEPTH][TOPO_PCI_BYTES]; /* the host bridge, "0000:00", then PCI bridges */
};

struct topo_node {
  int number;
  uint64_t memory_bytes;
  cpu_set_t cpus;
};

struct topo_cpu {
  int number;
  int core; /* the lowest CPU of its core: hyperthreads have one */
  int node;
  bool is_isolated; /* isolcpus= of the kernel's command line */
  bool is_allowed;  /* by the cgroup of this process */
};

struct topo_address {
  char text[64]; /* "192.0.2.1/24" */
  bool is_ipv6, is_link_local;
};

struct topo_neighbour {
  char address[64], mac[24];
  char state[16]; /* "reachable", "stale", … as `ip neighbour` has them */
};

/* A port: a network interface with the RDMA device on it, or either alone, or a card that no driver
 * of the kernel has. */
struct topo_adapter {
  struct topo_place place;
  char name[TOPO_NAME_BYTES];                   /* netdev, else RDMA device, else PCI address */
  char netdev[IFNAMSIZ], rdma[TOPO_NAME_BYTES]; /* "": none */
  char model[128];
  char over[IFNAMSIZ]; /* a VLAN's or a bond's lower interface, whose place it has; "": none */
  char state[16];      /* "up", "down", "unknown", as the kernel says; "" without a netdev */
  bool is_loopback, is_infiniband;
  uint32_t mtu;        /* 0: unknown */
  uint64_t speed_mbps; /* 0: unknown */
  struct topo_address *addresses;
  size_t address_count;
  struct topo_neighbour *neighbours;
  size_t neighbour_count;
};

struct topo_gpu {
  struct topo_place place;
  char name[TOPO_NAME_BYTES]; /* "gpu0", NVIDIA's first, each vendor's in the order of PCI */
  char model[128];
  char uuid[64]; /* "GPU-…" by NVML; "": unknown */
  bool is_nvidia;
  bool is_integrated; /* its memory is the host's, and `place` that of the CPU */
};

struct topo_machine {
  struct topo_node *nodes;
  size_t node_count;
  struct topo_cpu *cpus;
  size_t cpu_count;
  struct topo_adapter *adapters; /* those of PCI first, in its order */
  size_t adapter_count;
  struct topo_gpu *gpus;
  size_t gpu_count;
};

/* Reads this machine, or the one that `penstock doctor --record` wrote to `root`, by its
 * penstock/topology.xml, sys/ and proc/. NULL: this machine. 0; -EOPNOTSUPP: built without hwloc;
 * -ENOENT: `root` is no recording; -errno with `why`, cause and remedy. topo_machine_close() in any
 * case. */
int topo_machine_read(const char *root, struct topo_machine **machine, char why[TOPO_WHY_BYTES]);
void topo_machine_close(struct topo_machine *machine);

/* NULL: there is none of that name. An adapter has those of its netdev, RDMA device and PCI
 * address, and each of its addresses. */
const struct topo_adapter *topo_adapter_find(const struct topo_machine *machine, const char *name);
/* By name, UUID or PCI address. */
const struct topo_gpu *topo_gpu_find(const struct topo_machine *machine, const char *name);

/* "0-3,8", "none". Returns `text`. */
const char *topo_cpus_text(const cpu_set_t *cpus, char *text, size_t size);

#endif
