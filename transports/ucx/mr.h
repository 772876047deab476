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
  bool is_pinned;      /* a device may copy out of it */
  struct pst_mr *next; /* of the device's */
};

/* Until ucx_mr_leave() the memory stays: deregistration waits. NULL: no registration with this
 * access that the CPU reaches holds the range. */
void *ucx_mr_enter(struct pst_device *device, uint64_t address, uint64_t length, uint32_t access);
void ucx_mr_leave(struct pst_device *device);

#endif
