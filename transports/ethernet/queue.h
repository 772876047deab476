/* SPDX-License-Identifier: Apache-2.0 */
/* A port's queues, and which endpoint receives a frame. */
#ifndef ETHERNET_QUEUE_H
#define ETHERNET_QUEUE_H

#include <rte_spinlock.h>

#include "ethernet.h"

struct eth_port;

#define ETH_QUEUES_MAX 64u

/*
 * Without rules a port has one queue, the first: it has a ring as its pool where there is one ring
 * and the sizes fit, else memory of its own. With rules the first queue has memory of its own, and
 * what no rule takes comes by it; behind it stands a queue for each ring.
 */
struct eth_rxq {
  struct eth_port *port;
  uint16_t index;
  rte_spinlock_t lock;
  bool is_shared;       /* the port has several workers */
  bool is_over;         /* its ring is gone */
  uint32_t descriptors; /* asked for */
  /* One of: the ring that is its pool; memory of its own. */
  struct pst_ring *ring;
  struct rte_mempool *own;
  struct rte_mempool *headers; /* of a ring whose frames are split: where they begin */
  struct pst_endpoint *only;   /* the one receiver on it; NULL: none, or several */
  uint32_t receivers;
  /* Received and not yet dispatched, from `at`. */
  struct rte_mbuf *batch[ETH_BURST];
  uint32_t at, count;
  struct eth_header_cache seen; /* the last one that was dispatched */
  uint64_t not_ours, other, damaged;
};

struct eth_txq {
  struct eth_port *port;
  uint16_t index;
  rte_spinlock_t lock;
  bool is_shared;
};

/* Receivers by their UDP port. */
struct eth_table {
  struct eth_match *chains[65536];
  int lock; /* held while one of several takes a sender */
};

/* Burst and dispatch on behalf of a worker: completions of its endpoints whose frames lie in slots;
 * the others' frames go to their inboxes. Returns how many completions. */
uint32_t eth_rxq_poll(struct eth_rxq *queue, struct pst_worker *worker, struct pst_completion *out,
                      uint32_t max);
/* Returns what a driver says of a frame's checksums, by its ol_flags; `link` is what its link says
 * of all frames. */
static inline uint32_t eth_rxq_known(uint32_t link, uint64_t ol_flags)
{
  uint32_t known = link;

  if ((ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD)
    known |= ETH_IP_IS_GOOD;
  if ((ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
    known |= ETH_UDP_IS_GOOD;
  if ((ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD)
    known |= ETH_UDP_IS_BAD;
  return known;
}

/* Frees frames that were received and not dispatched. */
static inline void eth_rxq_drop(struct eth_rxq *queue)
{
  while (queue->at < queue->count)
    rte_pktmbuf_free(queue->batch[queue->at++]);
}

#endif
