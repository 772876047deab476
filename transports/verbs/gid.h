/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entry of a port's GID table packets leave from.
 *
 * A RoCE port has an entry for each address of its netdev and of the VLANs over it, once for
 * each RoCE version. An index by habit (3, 1) is right on one machine and wrong on the next,
 * and a wrong one shows as a peer that never answers.
 */
#ifndef VERBS_GID_H
#define VERBS_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct ifaddrs;

#define VB_GIDS_MAX 256u
#define VB_GID_TEXT 64u

/* As enum ibv_gid_type of rdma-core; older headers lack it. */
enum vb_gid_type { VB_GID_IB = 0, VB_GID_ROCE_V1 = 1, VB_GID_ROCE_V2 = 2 };

struct vb_gid {
  uint8_t raw[16];
  uint32_t index;
  uint32_t type;   /* enum vb_gid_type */
  uint32_t netdev; /* its index, in the namespace that has it; 0: unknown */
  bool is_here;    /* of RoCE: it is an address of this network namespace */
};

/* Conditions on an entry. */
struct vb_gid_request {
  bool is_ethernet; /* the port's link layer */
  bool has_address; /* the entry has to be this address; IPv4 as ::ffff:a.b.c.d */
  uint8_t address[16];
  uint32_t netdev; /* the entry has to be of this netdev; 0: any */
  int32_t index;   /* the entry has to be this one; -1: any */
};

/* 0 and *at, the place in `table`, or -ENOENT. `reason` says what decided, or what is missing and
 * what there is instead; always terminated. */
int vb_gid_choose(const struct vb_gid *table, uint32_t count,
                  const struct vb_gid_request *requested, uint32_t *at, char *reason, size_t size);

/* "192.0.2.1 (RoCE v2)" */
void vb_gid_print(const struct vb_gid *gid, char text[VB_GID_TEXT]);
/* "2001:db8::1", "192.0.2.1" of ::ffff:192.0.2.1 */
void vb_gid_address(const uint8_t raw[16], char text[VB_GID_TEXT]);
bool vb_gid_is_ipv4(const uint8_t raw[16]);
/* IPv4 or IPv6 in numbers, as a GID has it. */
bool vb_gid_parse(const char *text, uint8_t raw[16]);

/* The port's entries that are not empty. How many, at most VB_GIDS_MAX, or -errno. */
int vb_gid_read(struct ibv_context *context, uint32_t port, bool is_ethernet,
                struct vb_gid table[VB_GIDS_MAX]);

/* gid_netns.c: of these, which are addresses of this host, `all` being its own, and of which
 * netdev. */
void vb_gid_find_homes(struct vb_gid *table, uint32_t count, const struct ifaddrs *all);

#endif
