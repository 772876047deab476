/* SPDX-License-Identifier: Apache-2.0 */
/* Rings, each of one endpoint at a time. */
#ifndef UCX_RING_H
#define UCX_RING_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport-cpu.h>

struct pst_ring {
  struct pst_cpu_ring cpu;
  uint64_t released; /* slots given back, ever */
  bool by_cpu;
};

#endif
