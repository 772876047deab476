/* SPDX-License-Identifier: Apache-2.0 */
/* A ring: slots that one endpoint receives into. */
#ifndef UDP_RING_H
#define UDP_RING_H

#include <penstock/transport-cpu.h>

struct pst_ring {
  struct pst_cpu_ring cpu;
};

/* Bytes of a slot behind its headroom. */
static inline uint32_t udp_slot_room(const struct pst_ring *ring)
{
  return (uint32_t)(ring->cpu.params.payload_max + ring->cpu.params.tailroom);
}

#endif
