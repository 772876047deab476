/* SPDX-License-Identifier: Apache-2.0 */
/* Mempools whose objects are a stack: what was freed last is taken first, still in the cache; and
 * one that keeps nothing. */
#ifndef ETHERNET_STACK_H
#define ETHERNET_STACK_H

#include <stdbool.h>

#include <rte_mempool.h>

#define ETH_STACK_OPS "penstock stack"
#define ETH_KEEPER_OPS "penstock keeper"

/* Made with these operations, it is for several threads; false: for one at a time. */
void eth_stack_share(struct rte_mempool *mempool, bool is_shared);

/* A mempool without objects. An mbuf whose `pool` it is stays with its user where a driver frees
 * it, attached to its buffer and without an atomic operation. NULL: see rte_errno. */
struct rte_mempool *eth_keeper_make(const char *name, int socket);

#endif
