/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that peers exchange. */
#ifndef LOOPBACK_ADDRESS_H
#define LOOPBACK_ADDRESS_H

#include <stdint.h>

#define LB_VERSION 4u

/* Within one host, so in its own byte order. */
struct lb_address {
  uint64_t magic;
  uint32_t version;
  uint32_t mode;
  uint64_t nonce[2]; /* of the process */
  uint64_t id;
  uint32_t roles;
  uint32_t expedited; /* lb_barrier_expedited() there */
  uint32_t slots;
  uint32_t pid; /* for people */
  uint64_t port_bytes;
  uint64_t ring_offset; /* of slot 0's payload in the ring's descriptor */
  uint64_t stride;
  uint64_t payload_max;
};
#define LB_ADDRESS_MAGIC UINT64_C(0x7078626c5f747370) /* "pst_lbxp" */
enum { LB_FD_PROCESS, LB_FD_WAKE, LB_FD_PORT, LB_FD_RING };

struct lb_remote_blob {
  uint64_t magic;
  uint32_t version;
  uint32_t access;
  uint64_t nonce[2];
  uint64_t id;
  uint64_t offset; /* of the range in what the region's descriptor or handle names */
  uint64_t length;
  /* How another process gets at it, as in struct pst_export. */
  uint32_t kind; /* 0: it does not */
  uint32_t handle_length;
  uint64_t base_address;
  uint64_t base_length;
  char device[48];
  unsigned char handle[64];
};
#define LB_REMOTE_MAGIC UINT64_C(0x72786d725f747370) /* "pst_rmxr" */
enum { LB_FD_VALID, LB_FD_REGION };

#endif
