/* SPDX-License-Identifier: Apache-2.0 */
/* Mempools whose objects are a stack: what was freed last is taken first, still in the cache. */
#ifndef ETHERNET_STACK_H
#define ETHERNET_STACK_H

#include <stdbool.h>

#include <rte_mempool.h>

#define ETH_STACK_OPS "penstock stack"

/* Made with these operations, it is for several threads; false: for one at a time. */
void eth_stack_share(struct rte_mempool *mempool, bool is_shared);

#endif
