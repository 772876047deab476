/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA GPUs of a machine, by the kernel and by NVML. */
#ifndef APP_HOST_GPU_H
#define APP_HOST_GPU_H

#include "pci.h"

enum host_answer_of { HOST_NO, HOST_YES, HOST_UNKNOWN };

/* Causes that hold a GPU's clocks down, as in nvmlClocksThrottleReasons of nvml.h; NVML has more
 * bits. */
enum host_throttle {
  HOST_THROTTLE_HARDWARE = 0x08, /* a slowdown by hardware: one of the two of hardware below */
  HOST_THROTTLE_HEAT = 0x20,     /* a slowdown by the driver */
  HOST_THROTTLE_HARDWARE_HEAT = 0x40,
  HOST_THROTTLE_POWER_BRAKE = 0x80, /* a signal of the power supply */
};

struct host_gpu {
  char name[96]; /* "NVIDIA H100 80GB HBM3" */
  char uuid[64]; /* "GPU-…"; "" */
  char pci[16];  /* address; "": integrated, on no PCI bus */
  int index;     /* NVML's; -1: unknown */
  bool is_integrated;
  uint64_t memory_bytes;          /* 0: unknown */
  uint64_t bar1_bytes, bar1_used; /* BAR1 as NVML tells; else of the PCI region; 0: unknown */
  enum host_answer_of persistence, ecc, ecc_pending, mig;
  int64_t throttled;  /* bits of enum host_throttle; -1: unknown */
  int64_t ecc_errors; /* uncorrected, since the driver was loaded; -1: unknown */
};

struct host_gpus {
  char driver[48];   /* version, "550.54.15"; "": none is loaded */
  bool open_modules; /* the open kernel modules, which dma-buf needs */
  int cuda;          /* 12040 for 12.4; 0: unknown */
  bool nvml_known;   /* else nvml_why says why not */
  const char *nvml_why;
  size_t count;
  struct host_gpu *all;
};

void host_gpu_list(struct host *host, const struct host_pcis *pcis, struct host_gpus *gpus);
void host_gpu_free(struct host_gpus *gpus);
/* The chip of a Tegra, "nvidia,tegra234"; "": this is none. */
void host_tegra_chip(struct host *host, char *chip, size_t size);

#endif
