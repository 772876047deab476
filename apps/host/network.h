/* SPDX-License-Identifier: Apache-2.0 */
/* Network devices of a machine, their addresses, routes and neighbours. */
#ifndef APP_HOST_NETWORK_H
#define APP_HOST_NETWORK_H

#include "host.h"

#define HOST_DSCPS 64

/* Texts belong to the host; "" where there is none. */
struct host_link {
  const char *name;
  unsigned index;
  const char *kind; /* "vlan", "bond", "macvlan", "veth", …; "": a device's own */
  const char *mac;
  const char *master; /* bond or bridge that it belongs to */
  const char *on;     /* device that a VLAN or the like is on */
  unsigned mtu;
  bool up, carrier, is_loopback;
  int64_t speed_mbps; /* -1: unknown, or no carrier */
  int vlan;           /* -1 */
  int phc;            /* number of its PTP clock; -1: none */
  int pfc;            /* bits of the priorities with priority flow control; -1: unknown */
  bool pause_known, pause_rx, pause_tx;
  bool trusts_dscp;         /* the DSCP of a packet gives its priority, by `dscp` */
  uint8_t dscp[HOST_DSCPS]; /* DSCP to priority */
  uint8_t egress[8];        /* a VLAN's: priority of a packet in the kernel to that on the wire */
  size_t address_count;
  const char *const *addresses; /* "192.0.2.1/24" */
};

struct host_route {
  const char *to; /* "10.9.2.0/24"; "0.0.0.0/0" */
  const char *gateway, *link, *source;
  unsigned metric;
  int hop_limit; /* -1: the system's */
};

struct host_neighbour {
  const char *address, *mac, *link, *state; /* "reachable", "stale", "failed", "permanent" */
};

struct host_network {
  bool known; /* else `why` says why not */
  const char *why;
  size_t link_count, route_count, neighbour_count;
  struct host_link *links; /* by index */
  struct host_route *routes;
  struct host_neighbour *neighbours;
};

void host_network_read(struct host *host, struct host_network *network);
void host_network_free(struct host_network *network);
/* NULL: there is none. */
const struct host_link *host_link_find(const struct host_network *network, const char *name);
/* The link that has this address, written without its prefix length; NULL. */
const struct host_link *host_link_with(const struct host_network *network, const char *address);
/* The route that packets to this address take, by the longest prefix. NULL: none, or no address. */
const struct host_route *host_route_to(const struct host_network *network, const char *address);

#endif
