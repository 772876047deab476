/* SPDX-License-Identifier: Apache-2.0 */
/* Reads frames of ARP and Neighbor Discovery: who claims which address, who asks for which. */
#ifndef ETHERNET_CLAIM_H
#define ETHERNET_CLAIM_H

#include "message.h"

enum eth_claim_verdict {
  ETH_CLAIM_NONE = 0,    /* neither ARP nor ND */
  ETH_CLAIM_IGNORED = 1, /* ND that is of no use here: routers, redirects */
  ETH_CLAIM_REFUSED = 2, /* against the rules of its RFC */
  ETH_CLAIM_TAKEN = 3,
};

struct eth_claim {
  bool has_sender;    /* `sender` is at `mac` */
  bool asks;          /* for `target`, to be answered to `reply_to` and `reply_mac` */
  bool overrides;     /* it may replace another MAC */
  uint8_t sender[16]; /* whose address */
  uint8_t mac[ETH_MAC_BYTES];
  uint8_t target[16];
  uint8_t reply_to[16]; /* asks: any address: one that looks for duplicates */
  uint8_t reply_mac[ETH_MAC_BYTES];
};

/* `frame` has been judged by eth_parse(). *claim is set with TAKEN only. */
enum eth_claim_verdict eth_claim_read(const struct eth_bytes *frame,
                                      const struct eth_packet *packet, struct eth_claim *claim);

#endif
