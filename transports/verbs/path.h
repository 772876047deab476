/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes of a connection's path, which options set and both ends' ports bound.
 *
 * The hop limit is 64 by default: 1, which examples have, lets packets reach their own subnet
 * alone and shows as IBV_WC_RETRY_EXC_ERR behind a router.
 */
#ifndef VERBS_PATH_H
#define VERBS_PATH_H

#include <infiniband/verbs.h>
#include <penstock/plugin.h>
#include <stdbool.h>
#include <stdint.h>

#include "gid.h"

struct vb_path {
  uint32_t pkey_index;
  uint32_t service_level;
  uint32_t traffic_class;
  uint32_t hop_limit;
  bool hop_limit_is_set; /* by the user */
  uint32_t mtu;          /* bytes at most; 0: the port's */
  uint32_t timeout;
  uint32_t retry_cnt;
  uint32_t rnr_retry;
  uint32_t min_rnr_timer;
};

/* Where the other end is. */
struct vb_peer {
  bool is_ethernet;
  uint8_t gid[16];
  uint16_t lid;
};

/* Where this end is. */
struct vb_local_port {
  uint32_t port;
  bool needs_grh;
  const struct vb_gid *gid;
};

/* soft-RoCE has a timeout and a retry_cnt of its own where the user sets none: 7 retries are
 * endless there. */
void vb_path_read(const struct pst_host *host, const struct pst_options *options, bool is_soft,
                  struct vb_path *path);
uint32_t vb_mtu_bytes(enum ibv_mtu mtu);
/* The largest MTU of at most `bytes` bytes; 256 at least. */
enum ibv_mtu vb_mtu_of(uint32_t bytes);
/* 4.096 µs × 2^timeout; 0: for ever. */
uint64_t vb_ack_timeout_ns(uint32_t timeout);
/* The time of all tries of a request; 0: for ever. */
uint64_t vb_silence_ns(const struct vb_path *path);
/* Zeroed and filled: libraries read what they are not asked about. Within an InfiniBand subnet
 * packets have no GRH (40 bytes) unless the port requires it. */
void vb_address_vector(const struct vb_path *path, const struct vb_peer *peer,
                       const struct vb_local_port *own, struct ibv_ah_attr *attr);

#endif
