/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which free slot the next message gets.
 *
 * The one that was last back, as pst_slots has it: the CPU's caches have that one. In a ring that
 * a device copies out of, slots go in turn instead: what one copy takes lies side by side, and is
 * one row of it.
 */
#ifndef UCX_SLOTS_H
#define UCX_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport-cpu.h>

#include "ring.h"

/* All are free, and go in turn from now on. */
static inline void ucx_slots_turn(struct pst_ring *ring)
{
  struct pst_slots *slots = &ring->cpu.slots;

  ring->in_turn = true;
  ring->next = 0;
  for (uint32_t i = 0; i < slots->count; i++)
    slots->free[i] = i;
}

/* A free one, of which there is one at least. */
static inline uint32_t ucx_slots_take(struct pst_ring *ring)
{
  struct pst_slots *slots = &ring->cpu.slots;
  uint32_t slot;

  if (!ring->in_turn)
    return pst_slots_take(slots);
  slot = slots->free[ring->next++];
  if (ring->next == slots->count)
    ring->next = 0;
  slots->free_count--;
  return slot;
}

/* Frees a slot that was taken, and not given to the host. */
static inline void ucx_slots_give(struct pst_ring *ring, uint32_t slot)
{
  struct pst_slots *slots = &ring->cpu.slots;
  uint32_t at = ring->next + slots->free_count;

  if (!ring->in_turn) {
    pst_slots_give(slots, slot);
    return;
  }
  slots->free[at < slots->count ? at : at - slots->count] = slot;
  slots->free_count++;
}

/* False: the host does not have it. */
static inline bool ucx_slots_release(struct pst_ring *ring, uint32_t slot)
{
  struct pst_slots *slots = &ring->cpu.slots;

  if (slot >= slots->count || !slots->out[slot])
    return false;
  slots->out[slot] = 0;
  ucx_slots_give(ring, slot);
  return true;
}

#endif
