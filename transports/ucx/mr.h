/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations. */
#ifndef UCX_MR_H
#define UCX_MR_H

#include <stdbool.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

struct pst_mr {
  struct pst_cpu_mr cpu; /* base is the device's address where the CPU reaches none */
  ucp_mem_h memh;
  ucs_memory_type_t type;
  bool by_cpu;
};

#endif
