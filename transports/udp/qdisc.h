/* SPDX-License-Identifier: Apache-2.0 */
/* Queueing disciplines on the way to a peer. */
#ifndef UDP_QDISC_H
#define UDP_QDISC_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "../datagram/address.h"

#define UDP_QDISC_NAME_MAX 16u

struct udp_qdisc {
  char netdev[IF_NAMESIZE]; /* by which the route leaves */
  char root[UDP_QDISC_NAME_MAX];
  bool is_there;     /* one of the kind that was asked for, at the root or below */
  int32_t clock;     /* etf: clockid_t */
  uint64_t delta_ns; /* etf: how long before its time a message must have come */
};

/* Look for a queueing discipline of that kind. `netdev` is an index, 0: the route's to `peer`. 0,
 * or -errno: the kernel does not say. */
int udp_qdisc_find(uint32_t netdev, const union dg_address *peer, const char *kind,
                   struct udp_qdisc *found);

#endif
