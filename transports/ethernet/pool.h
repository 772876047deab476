/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of slots as the pool that a queue receives into.
 *
 * Each slot has an mbuf whose buffer is the slot (an external one, pinned). Free slots are given to
 * the driver in the order in which they became free, so that messages lie in slots of rising
 * numbers as long as they are released in order: one row for whoever copies them on. Slots that a
 * driver takes and gives back unused are taken next. Whenever all slots are free, those that were
 * in use are next again: a consumer that releases each message soon has the same few slots, and so
 * a cache has them, however long the ring is.
 *
 * Drivers that take a bulk at a time (memif: 32) receive nothing when fewer are free. So the pool
 * has a bulk of *spares* beside the slots, which it hands out when slots run short: all slots can
 * be out, and nothing stalls. A frame in a spare is copied into a slot as soon as one is free.
 *
 * A mempool with operations of its own, for one thread, or guarded by a lock for several.
 */
#ifndef ETHERNET_POOL_H
#define ETHERNET_POOL_H

#include "ethernet.h"

struct eth_pool {
  struct rte_mempool *mempool;
  struct pst_ring *ring;
  uint8_t *first;          /* buffer of slot 0 */
  uint64_t reciprocal;     /* of the stride */
  struct rte_mbuf **mbufs; /* by slot */
  uint8_t *spare_memory;
  uint32_t buffer; /* bytes of each */
};

struct eth_pool_params {
  uint32_t lead; /* bytes of a buffer before the payload's place, RTE_PKTMBUF_HEADROOM included */
  uint32_t spares;
  bool is_shared;   /* several threads */
  bool is_physical; /* the device has physical addresses */
  int socket;
};

/* 0; -ENOMEM; -EINVAL: a slot is too short or too long for a buffer (64 KiB). Logged. */
int eth_pool_open(struct pst_ring *ring, const struct eth_pool_params *params,
                  struct eth_pool **pool);
/* Closes a pool to which the driver has given all back. */
void eth_pool_close(struct eth_pool *pool);

/* The slot of an mbuf; UINT32_MAX: it is a spare. */
static inline uint32_t eth_pool_slot(const struct eth_pool *pool, const struct rte_mbuf *mbuf)
{
  const uint64_t distance = (uint64_t)((const uint8_t *)mbuf->buf_addr - pool->first);
  const uint64_t slot = (uint64_t)(((__uint128_t)distance * pool->reciprocal) >> 64);

  return slot < pool->ring->cpu.params.slots ? (uint32_t)slot : UINT32_MAX;
}

/* A frame in a spare, or in other memory, is copied into the next free slot, and its mbuf given
 * back. NULL: there is no free slot, and nothing has happened. */
struct rte_mbuf *eth_pool_swap(struct eth_pool *pool, struct rte_mbuf *spare);
/* The next free slot, empty, for a frame whose payload is; NULL: there is none. */
struct rte_mbuf *eth_pool_take(struct eth_pool *pool);
bool eth_pool_has_slot(const struct eth_pool *pool);
/* The ring has its slots again, all free; the pool is its pool no more. No frame is under way. */
void eth_pool_leave(struct eth_pool *pool);
/* Moves released slots, pst_slots.free of the ring, back to the pool. */
void eth_pool_refill(struct eth_pool *pool);

#endif
