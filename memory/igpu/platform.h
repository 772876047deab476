/* SPDX-License-Identifier: Apache-2.0 */
/* Which machine the GPU is in, and what a NIC can reach there. */
#ifndef IGPU_PLATFORM_H
#define IGPU_PLATFORM_H

#include "device.h"

enum igpu_platform {
  IGPU_DISCRETE,
  IGPU_XAVIER,
  IGPU_ORIN,
  IGPU_THOR,
  IGPU_GB10,
  IGPU_GRACE, /* a discrete GPU that shares the host's page tables */
  IGPU_OTHER, /* integrated, and not known */
};

/* Facts from the driver, the device tree and /sys/module. */
struct igpu_facts {
  bool integrated;     /* shares the host's memory */
  bool page_tables;    /* reads the host's memory by the host's page tables, coherently */
  bool rdma, dmabuf;   /* of cuMemAlloc's memory */
  bool host_dmabuf;    /* of cuMemHostAlloc's memory; CUDA 13 */
  bool peermem;        /* module nvidia-peermem is loaded */
  bool nvidia_p2p;     /* module nvidia-p2p of JetPack is loaded */
  int capability;      /* 87 for 8.7 */
  char compatible[96]; /* the chip in the device tree, as "nvidia,tegra234"; "" without one */
};

/* `root`: "", or the folder of a test that stands for "/". */
void igpu_facts_read(const struct cuda_driver *driver, cuda_device device,
                     const struct cuda_place *place, const char *root, struct igpu_facts *facts);
enum igpu_platform igpu_platform_of(const struct igpu_facts *facts);
const char *igpu_platform_name(enum igpu_platform platform);
/* In a line: what it is, how a NIC reaches this plugin's memory, and why not cuMemAlloc's. */
void igpu_platform_text(const struct igpu_facts *facts, char *out, size_t size);

#endif
