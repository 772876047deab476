/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which receiver takes a frame where several have one address and UDP port. Needs no DPDK.
 *
 * A frame goes to one of them: to the one that knows its sender, by the option `source` with a
 * port, by a Penstock's address, or since it follows that sender already. A sender that nobody
 * follows goes to a receiver without a sender, and with framing none to one that takes all. Where
 * RSS brought the frame by the queue of such a receiver's ring, that one has it, and nothing is
 * copied. A receiver whose option `source` names the sender goes before those without that option.
 */
#ifndef ETHERNET_MATCH_H
#define ETHERNET_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "../datagram/flow.h"

enum eth_match_kind {
  ETH_MATCH_UNMET = 0, /* has not met its peer: takes nothing yet */
  ETH_MATCH_KNOWN,     /* knows its sender */
  ETH_MATCH_FIRST,     /* follows who comes first */
  ETH_MATCH_ANY,       /* takes all that `wants` lets through */
};

struct eth_match {
  struct eth_match *next; /* of the same UDP port, in the order in which they were opened */
  uint8_t at[16];         /* where it receives */
  const void *queue;      /* by which frames need no copy; NULL: none */
  uint8_t kind;           /* enum eth_match_kind; written once, behind `wants` */
  struct dg_flow_params wants;
  /* FIRST: whom it follows. One is read while the other is written, DG_SILENCE_MAX_NS apart. */
  struct dg_source claims[2];
  const struct dg_source *claim; /* NULL: nobody yet */
  uint64_t heard_ns;             /* of whom it follows */
};

/* Sets what the flow wants from now on, since it has met its peer. */
void eth_match_meet(struct eth_match *match, const struct dg_flow_params *wants);
/* Do both name the same sender, or neither any? */
bool eth_match_is_same_source(const struct dg_flow_params *a, const struct dg_flow_params *b);
/* Is the sender known with its port? */
static inline bool eth_match_is_exact(const struct dg_flow_params *wants)
{
  return wants->address_is_fixed && wants->port_is_fixed;
}

/* Finds the match for a sender among the receivers of its UDP port; NULL: none is at that address.
 * `lock` is held while a receiver takes a sender. */
struct eth_match *eth_match_find(struct eth_match *chain, const uint8_t to[16],
                                 const struct dg_source *from, const void *queue, uint64_t now_ns,
                                 int *lock);

#endif
