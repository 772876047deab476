/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MAC that frames for an address go to: asked of the kernel, for a port that has a netdev with
 * addresses; or by ARP (RFC 826) and Neighbor Discovery (RFC 4861) of our own. For multicast groups
 * it is eth_multicast_mac() instead, and nobody is asked.
 *
 * Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d. Times are nanoseconds of CLOCK_MONOTONIC, which
 * the caller gives. Nothing here blocks. Not for the hot path: a worker calls due(), and the rest
 * when that time has come, or a frame or a change.
 */
#ifndef ETHERNET_NEIGHBOUR_H
#define ETHERNET_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"

#define ETH_WHY_MAX 256u      /* bytes of a reason, its end included */
#define ETH_CONTROL_MAX 1298u /* bytes that a frame of ours of ARP, ND, IGMP or MLD can have */

/* ---- By the kernel -------------------------------------------------------------------------- */

/* One destination, by way of one netdev. It holds a netlink socket and a UDP socket. */
struct eth_kernel;

/* A route of the kernel. */
struct eth_route {
  uint8_t next_hop[16]; /* the destination itself, where it is on the link */
  uint8_t source[16];   /* what the kernel would send from; :: : it says nothing */
  uint32_t mtu;         /* of the route or of the netdev */
};

/*
 * `netdev` is an index. The route is looked up with it as the way out. *route may be NULL.
 * 0; -ENETUNREACH: no route by that netdev; -EHOSTUNREACH: the address is one of this host's own,
 * or the kernel answers for none (NOARP, a tunnel); -ENODEV; -ENETDOWN; another errno of a socket.
 * `why` then has cause and remedy for the log.
 */
int eth_kernel_open(uint32_t netdev, const uint8_t address[16], struct eth_route *route,
                    struct eth_kernel **kernel, char why[ETH_WHY_MAX]);
void eth_kernel_close(struct eth_kernel *kernel); /* NULL is legal */
/* Make the kernel ask where it must, and take in what it has found since.
 * 1: *mac is what to send to, and may be another one than before; 0: no answer yet; -EHOSTUNREACH:
 * the kernel gave up for now (it asks again at the next step after due()), `why` says who did not
 * answer. Once there was a MAC it stays 1: a peer that only sends may stop answering. */
int eth_kernel_step(struct eth_kernel *kernel, uint64_t now_ns, uint8_t mac[ETH_MAC_BYTES],
                    char why[ETH_WHY_MAX]);
/* When step() has something to do, if no descriptor says so before. */
uint64_t eth_kernel_due(const struct eth_kernel *kernel);
/* Readable when the kernel has news; for epoll. It stays the kernel's object. */
int eth_kernel_fd(const struct eth_kernel *kernel);

/* The MAC of a netdev, its MTU and whether it is up. 0; -ENODEV; another errno. */
int eth_netdev_look(uint32_t netdev, uint8_t mac[ETH_MAC_BYTES], uint32_t *mtu, bool *is_up);

/* ---- By ARP and ND of our own --------------------------------------------------------------- */

#define ETH_NEIGHBOURS_MAX 64u /* asked for at a time */
#define ETH_OWN_MAX 8u         /* addresses of ours */

/* The addresses that a port answers for, and the ones it asks for. No I/O. */
struct eth_neighbours;

struct eth_neighbours_params {
  uint8_t mac[ETH_MAC_BYTES];
  uint16_t vlan; /* tag of the frames that are made; ETH_UNTAGGED: none */
  /* Ours, all unicast; the link-local one of IPv6 is added by itself. Without one of the family,
   * nothing of that family is asked for: -EADDRNOTAVAIL. */
  uint32_t own_count;
  uint8_t own[ETH_OWN_MAX][16];
  uint64_t seed; /* of random delays; any number */
};

enum eth_neighbour_state {
  ETH_NEIGHBOUR_ASKED = 0,      /* no answer yet */
  ETH_NEIGHBOUR_KNOWN = 1,      /* its MAC is known */
  ETH_NEIGHBOUR_SILENT = 2,     /* its MAC is known, but it answers no more; it is asked again */
  ETH_NEIGHBOUR_UNANSWERED = 3, /* three requests, a second apart, had no answer; asked again at
                                   growing distances, up to a minute */
};

/* Events for the operator: at most one a minute for an address. */
enum eth_neighbour_event_kind {
  ETH_NEIGHBOUR_MOVED = 1, /* the address has another MAC now: `mac`, `before` the old one */
  ETH_NEIGHBOUR_TWO = 2,   /* two answer for the address: `before` is used, `mac` is the other */
  ETH_NEIGHBOUR_OURS = 3,  /* `mac` claims our own address (RFC 5227, RFC 4862) */
};

struct eth_neighbour_event {
  uint32_t kind; /* enum eth_neighbour_event_kind */
  uint8_t address[16];
  uint8_t mac[ETH_MAC_BYTES];
  uint8_t before[ETH_MAC_BYTES];
};

struct eth_neighbours_counts {
  uint64_t asked, answered; /* frames sent: requests; answers */
  uint64_t taken;           /* frames that were understood */
  uint64_t refused; /* ARP or ND that breaks its RFC's rules: hop limit, lengths, addresses */
  uint64_t unsent;  /* answers that were owed beyond the 16 that wait */
};

/* 0; -EINVAL: an address of ours that is none (multicast, any, loopback), or more than ETH_OWN_MAX;
 * -ENOMEM. Our addresses are announced at first: twice, two seconds apart. */
int eth_neighbours_open(const struct eth_neighbours_params *params, uint64_t now_ns,
                        struct eth_neighbours **neighbours);
void eth_neighbours_close(struct eth_neighbours *neighbours);

/* Ask for an address on the link. *index is its, for look() and forget(); asking twice gives one
 * index, and forget() is called twice. 0; -EINVAL: no unicast address; -EADDRNOTAVAIL; -ENOSPC. */
int eth_neighbours_ask(struct eth_neighbours *neighbours, const uint8_t address[16],
                       uint64_t now_ns, uint32_t *index);
void eth_neighbours_forget(struct eth_neighbours *neighbours, uint32_t index);
/* *mac is written in KNOWN and SILENT. */
enum eth_neighbour_state eth_neighbours_look(const struct eth_neighbours *neighbours,
                                             uint32_t index, uint8_t mac[ETH_MAC_BYTES]);

/* A frame that eth_parse() calls ETH_IS_ARP or ETH_IS_ICMPV6. False: it is neither ARP nor ND of
 * this link's (MLD is multicast.h's). The caller has compared its VLAN. */
bool eth_neighbours_take(struct eth_neighbours *neighbours, const struct eth_bytes *frame,
                         const struct eth_packet *packet, uint64_t now_ns);
/* The next frame to send, whole, unpadded: its length; 0: nothing is due. Call it until 0. */
uint32_t eth_neighbours_next(struct eth_neighbours *neighbours, uint64_t now_ns,
                             uint8_t frame[ETH_CONTROL_MAX]);
/* When next() has something to send; UINT64_MAX: not before a frame arrives. */
uint64_t eth_neighbours_due(const struct eth_neighbours *neighbours);
bool eth_neighbours_event(struct eth_neighbours *neighbours, struct eth_neighbour_event *event);
void eth_neighbours_counts(const struct eth_neighbours *neighbours,
                           struct eth_neighbours_counts *counts);
/* Returns the address to resolve: `to`, or `gateway` if `to` is not in the network of `own`, of
 * `prefix` bits (of 32 or 128). NULL: there is no gateway, and `to` is not in the network. */
const uint8_t *eth_next_hop(const uint8_t own[16], uint32_t prefix, const uint8_t *gateway,
                            const uint8_t to[16]);

#endif
