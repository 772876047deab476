/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and findings of `penstock doctor`. */
#ifndef APP_DOCTOR_DOCTOR_H
#define APP_DOCTOR_DOCTOR_H

#include "host/gpu.h"
#include "host/network.h"
#include "host/pci.h"
#include "host/rdma.h"
#include "requirements.h"
#include "topo/distance.h"
#include "verdict.h"

/* Texts are copied; NULL: none. */
struct doctor_finding {
  const char *subject; /* "mlx5_0", "GPU 0000:3b:00.0"; NULL: the host */
  enum doctor_verdict verdict;
  const char *where;  /* what was read: "sys/class/net/eth0/mtu" */
  const char *why;    /* of UNKNOWN */
  const char *remedy; /* a command, or what to do */
  bool is_lost;       /* what the remedy does is lost at reboot */
  bool is_beyond;     /* of UNKNOWN: no privilege lets the doctor tell */
  /* Set by doctor_add(). */
  const char *check, *area;
  char *read; /* what was found there, in words */
};

struct doctor {
  struct host *host;
  struct host_pcis pcis;
  struct host_rdmas rdmas;
  struct host_gpus gpus;
  struct host_network network;
  struct doctor_requirements required;
  const struct doctor_check *check; /* that runs */
  struct doctor_finding *findings;
  size_t count;
};

struct doctor_check {
  const char *id;   /* "memlock" */
  const char *area; /* "host" */
  const char *asks; /* "may this user lock as much memory as an adapter needs?" */
  uint32_t needs;   /* enum doctor_need: runs where all of them are here; 0: always */
  void (*look)(struct doctor *doctor);
};

extern const struct doctor_check doctor_host_checks[], doctor_adapter_checks[],
    doctor_network_checks[], doctor_gpu_checks[], doctor_software_checks[];
extern const size_t doctor_host_check_count, doctor_adapter_check_count, doctor_network_check_count,
    doctor_gpu_check_count, doctor_software_check_count;

/* Adds a finding of the check that runs. `format` says what was read. */
void doctor_add(struct doctor *doctor, const struct doctor_finding *finding, const char *format,
                ...) PST_PRINTF(3, 4);

/* Is it one that `--for` names, or does it name none? */
bool doctor_wants_rdma(const struct doctor *doctor, const struct host_rdma *rdma);
/* Is there an RDMA device of that name, PCI address, network device or address? */
bool doctor_has_rdma(const struct doctor *doctor, const char *name);
/* Is this a software RDMA device, which has neither a PCI address nor firmware? */
bool doctor_is_soft(const struct host_rdma *rdma);
/* The nearest adapter of a GPU; NULL: none is on a PCI bus. */
const struct host_rdma *doctor_nearest(const struct doctor *doctor, const struct host_pci *gpu,
                                       enum topo_distance *distance);
/* Does --for name DPDK, UCX and so on? Without --for: false. */
bool doctor_is_asked(const struct doctor *doctor, uint32_t need);

#endif
