/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining multicast groups: by the kernel, for a port that has a netdev; or by membership reports
 * of our own, IGMPv3 (RFC 3376) and MLDv2 (RFC 3810), which become those of older versions while a
 * querier speaks one of these.
 *
 * Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d. Times are nanoseconds of CLOCK_MONOTONIC, which
 * the caller gives. Nothing here blocks, and nothing is for the hot path.
 */
#ifndef ETHERNET_MULTICAST_H
#define ETHERNET_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "neighbour.h"

/* ---- By the kernel -------------------------------------------------------------------------- */

/*
 * Join on a netdev. `source` NULL: any source. A descriptor that holds the membership until it is
 * closed; -EINVAL: no multicast group, families that differ; -ENODEV; -ENOBUFS: the kernel's bound
 * on memberships or sources. `why` then has cause and remedy.
 */
int eth_join_kernel(uint32_t netdev, const uint8_t group[16], const uint8_t *source,
                    char why[ETH_WHY_MAX]);

/* ---- By reports of our own ------------------------------------------------------------------ */

#define ETH_GROUPS_MAX 64u  /* of a port */
#define ETH_SOURCES_MAX 16u /* of a group */

/* Memberships of a port. No I/O. */
struct eth_groups;

struct eth_groups_params {
  uint8_t mac[ETH_MAC_BYTES];
  uint16_t vlan;      /* tag of the frames that are made; ETH_UNTAGGED: none */
  uint8_t own_v4[16]; /* ours, or ::ffff:0.0.0.0: none yet (RFC 3376, 4.2.13); MLD's is the
                         link-local address of the MAC */
  uint64_t seed;      /* of random delays; any number */
};

struct eth_groups_counts {
  uint64_t reports; /* frames sent */
  uint64_t queries; /* taken */
  uint64_t refused; /* IGMP or MLD that breaks its RFC's rules: lengths; MLD's hop limit, source and
                       router alert (of IGMP they are not asked for, as Linux does not) */
  uint8_t igmp_version, mld_version; /* that is spoken now: 3, 2 or 1; 2 or 1 */
};

/* 0 or -ENOMEM. */
int eth_groups_open(const struct eth_groups_params *params, struct eth_groups **groups);
void eth_groups_close(struct eth_groups *groups);

/* Join: reported at once, and once more within a second. `source` NULL: any source. Joins are
 * counted: what two join, both leave. 0; -EINVAL: no multicast group, a multicast source, families
 * that differ; -ENOSPC: over one of the bounds above. A group that needs no report (224.0.0.1,
 * ff02::1, scopes of one node) is taken silently. */
int eth_groups_join(struct eth_groups *groups, const uint8_t group[16], const uint8_t *source,
                    uint64_t now_ns);
/* Leave what was joined so. 0; -ENOENT: it was not. */
int eth_groups_leave(struct eth_groups *groups, const uint8_t group[16], const uint8_t *source,
                     uint64_t now_ns);

/* A frame that eth_parse() calls ETH_IS_IGMP or ETH_IS_ICMPV6. False: it is neither IGMP nor MLD
 * (ND is neighbour.h's). */
bool eth_groups_take(struct eth_groups *groups, const struct eth_bytes *frame,
                     const struct eth_packet *packet, uint64_t now_ns);
/* The next frame to send, whole, unpadded: its length; 0: nothing is due. Call it until 0. */
uint32_t eth_groups_next(struct eth_groups *groups, uint64_t now_ns,
                         uint8_t frame[ETH_CONTROL_MAX]);
/* When next() has something to send; UINT64_MAX: not before a query arrives. */
uint64_t eth_groups_due(const struct eth_groups *groups);
void eth_groups_counts(const struct eth_groups *groups, struct eth_groups_counts *counts);

#endif
