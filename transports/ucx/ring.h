/* SPDX-License-Identifier: Apache-2.0 */
/* Rings. */
#ifndef UCX_RING_H
#define UCX_RING_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport-cpu.h>

#include "ring_share.h"

struct pst_ring {
  struct pst_cpu_ring cpu;
  struct ucx_shares shares; /* of its endpoints */
  bool by_cpu;
  bool in_turn;  /* slots.h */
  uint32_t next; /* in slots.free: where the free ones begin */
};

#endif
