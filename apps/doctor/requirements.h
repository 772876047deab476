/* SPDX-License-Identifier: Apache-2.0 */
/* Requirements of the streams of `penstock doctor --for FILE` on the machine. */
#ifndef APP_DOCTOR_REQUIREMENTS_H
#define APP_DOCTOR_REQUIREMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requirements of a stream. A check has such bits, too: it runs if a stream requires one of
 * them. */
enum doctor_need {
  NEED_RDMA = 1u << 0, /* an RDMA device */
  NEED_GPU = 1u << 1,  /* a GPU of NVIDIA */
  NEED_DPDK = 1u << 2,
  NEED_UCX = 1u << 3,
  NEED_IGPU = 1u << 4,   /* an integrated GPU */
  NEED_PINNED = 1u << 5, /* memory that is locked */
  NEED_HUGE = 1u << 6,   /* huge pages */
};

#define DOCTOR_NAMES 16
#define DOCTOR_CPUS 64

/* Settings that give the packets of a stream by RDMA their priority. */
struct doctor_class {
  unsigned traffic_class, service_level;
  bool by_cm;  /* rdma_cm takes the service level of the traffic class */
  char at[96]; /* where traffic_class is written, or "default" */
};

/* Rings that streams have in a GPU. */
struct doctor_gpu_rings {
  char device[64]; /* as in the file: index, UUID or PCI address; "": the first */
  uint64_t bytes;
};

struct doctor_requirements {
  const char *file; /* NULL: everything that this machine has */
  uint32_t needs;
  uint64_t pinned_bytes; /* of the rings at one end, the largest */
  uint64_t huge_bytes;
  char devices[DOCTOR_NAMES][64]; /* RDMA devices, netdevs or addresses that streams name */
  size_t device_count;
  char ports[DOCTOR_NAMES][64]; /* PCI addresses for DPDK, whose driver says whether they need huge
                                 * pages */
  size_t port_count;
  char frame_devices[DOCTOR_NAMES][64]; /* PCI addresses or netdevs of the transport ethernet */
  size_t frame_device_count;
  char peers[DOCTOR_NAMES][64]; /* addresses or names of other hosts */
  size_t peer_count;
  unsigned hop_limit; /* the smallest that a stream sets; 0: none does */
  char hop_limit_at[128];
  bool asks_routes; /* a stream connects by rdma_cm, which takes the hop limit of routes */
  struct doctor_class classes[DOCTOR_NAMES];
  size_t class_count;
  struct doctor_gpu_rings gpus[DOCTOR_NAMES];
  size_t gpu_count;
  unsigned cpus[DOCTOR_CPUS]; /* of `threads.cpus` */
  size_t cpu_count;
  char cpus_at[128];
  unsigned stream_count;
};

/* Read what the streams of a configuration require; file NULL: nothing. 0, or an exit status after
 * logging. */
int doctor_requirements_read(struct doctor_requirements *required, const char *file,
                             char const *const *plugin_paths, size_t count);

/* Note that the streams' rings and DPDK's own memory are in huge pages. */
void doctor_requirements_add_huge(struct doctor_requirements *required);

#endif
