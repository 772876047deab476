/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, what is registered with them, and bounds.
 *
 * A worker has a completion queue; an endpoint has queue pairs on it. A message is an RDMA WRITE
 * with immediate data (the low 32 bits of its sequence number) into a slot of the receiver. Slots
 * are filled in the order in which the receiver granted them, so that nothing else needs to travel.
 * Credits, hellos and farewells are SENDs: the completion's opcode tells them from messages, their
 * immediate data say which one it is.
 *
 * Locks: none on a worker. A device's asynchronous events are read by whichever worker finds them,
 * under the device's lock. What an event says of a queue pair is left in atomics of its endpoint,
 * whose worker is woken.
 */
#ifndef RC_DEVICE_H
#define RC_DEVICE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-util.h>

#include "../verbs/counters.h"
#include "../verbs/device.h"
#include "../verbs/mr.h"
#include "../verbs/numa.h"
#include "../verbs/path.h"
#include "../verbs/status.h"
#include "described.h"

#define RC_PLACES 65535u /* endpoints, and rings, of a worker */
#define RC_WORKERS_MAX 1024u
/* Under way on an endpoint, however many slots there are: 2048 messages of 1462 bytes are 60 us of
 * 400 Gb/s, and mlx5 has room for as many of 30 pieces. */
#define RC_REQUESTS_MAX 2048u
#define RC_PIECES_MAX 30u
#define RC_INLINE_WISH 64u /* two blocks of mlx5's, which gives 92 of them, or 76 with atomics */
#define RC_POLL_BATCH 32u
#define RC_CONTROL_BYTES 512u   /* of a credit message, at most */
#define RC_CONTROL_RECEIVES 32u /* credit messages that a sender has receives for */
/* Likewise of receives that are shared: a buffer of many peers is small. */
#define RC_SHARED_CREDIT_BYTES 64u
#define RC_SHARED_CREDITS 8u
#define RC_SPARE_RECEIVES 4u /* hello, farewell, and as many to be late */
#define RC_RECEIVES_BESIDE (RC_SHARED_CREDITS + RC_SPARE_RECEIVES) /* beside messages' */
#define RC_SPARE_SENDS 8u                                          /* likewise, with a keepalive */
#define RC_BLOB_RUNS 16u
#define RC_BLOB_BYTES 384u
#define RC_LANES_MAX 8u
#define RC_TURN_MAX 32u /* messages that go by one queue pair before the next one's turn */
#define RC_LANE_OWN 2u  /* a hello and a farewell under way */
#define RC_REMOTE_BYTES 40u
#define RC_SCRATCH_BYTES 64u
#define RC_REMOTE_ACCESS                                                                           \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)
#define RC_RING_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define RC_NEVER UINT64_MAX
#define RC_EVENT_NS UINT64_C(500000000)  /* who knows why a queue pair failed may be late */
#define RC_FLUSH_NS UINT64_C(1000000000) /* a failed queue pair may take to give all back */

#define RC_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

struct rc_cm_ops;

/* A protection domain, domain.c: what the peer, or peers, of one number may reach. */
struct rc_domain {
  struct pst_device *device;
  uint64_t number; /* the host's; 0: the device's own */
  struct ibv_pd *pd;
  struct vb_mrs mrs; /* of pd */
  uint32_t users;    /* under the device's `domains_lock` */
  struct rc_domain *next;
};

struct pst_device {
  const struct pst_host *host;
  struct rc_domain own; /* of all that no peer reaches, and of what has no domain */
  struct pst_plan plan;
  struct vb_open open;
  struct vb_path path;
  struct ibv_device_attr attr;
  struct rc_domain *domains; /* of peers; under `domains_lock` */
  pthread_mutex_t domains_lock;
  atomic_uint registrations; /* in all domains */
  pthread_mutex_t place_lock;
  struct vb_place place;     /* under it: where the port was when last looked at */
  atomic_bool place_changes; /* an event has told of another */
  uint32_t message_max;
  uint32_t pieces_max;
  uint64_t capabilities;
  int relaxed;         /* IBV_ACCESS_RELAXED_ORDERING or 0: of what completions alone tell */
  int relaxed_offered; /* likewise, of ranges that a peer may write to and poll */
  uint64_t keepalive_ns;
  uint64_t reconnect_ns;      /* 0: a connection that failed is over */
  const struct rc_cm_ops *cm; /* connections by rdma_cm; NULL: by exchange */
  uint16_t cm_port;           /* that worker 0 listens at; 0: any */
  bool sends;                 /* messages are SENDs, not WRITEs */
  uint32_t qps;               /* of an endpoint that sends or receives */
  bool shares;                /* endpoints of a worker share receives */
  int numa_node;              /* the adapter's, or VB_NUMA_UNKNOWN */
  bool is_soft;               /* soft-RoCE */
  uint64_t initial;           /* what sequence 0 travels as: a test's */
  char carrier[48];
  char counter_folder[320];
  const char *counter_host;                 /* NULL: none */
  struct vb_counters port_before, port_now; /* when it was opened, and when last asked */
  bool has_told_slow;                       /* rc_tell_slow() */
  atomic_bool has_lost_peer;                /* an endpoint failed, or its hello found nobody */
  pthread_mutex_t events;                   /* who reads the asynchronous ones */
  _Atomic uint64_t events_ns;               /* when that was last done by a worker that polls */
  struct pst_worker *workers;               /* that are open; under `events` */
  _Atomic bool is_lost;
};

/* A peer's registered range. */
struct pst_remote {
  struct pst_endpoint *endpoint;
  uint64_t address;
  uint64_t length;
  uint32_t rkey;
  uint32_t flush_rkey; /* of its first byte, to be read by a FLUSH */
  bool has_flush;
  bool is_relaxed; /* WRITEs into it may pass one another */
  uint32_t access; /* enum pst_access: the remote ones */
  struct pst_remote *next;
  struct pst_remote *next_unflushed;
  bool is_unflushed;
};

struct pst_mr {
  struct rc_domain *domain;
  struct vb_mr verbs;
  struct vb_mr flush; /* of its first byte, which a FLUSH reads where the rest may not be read */
  bool has_flush;
  uint64_t length;
  uint64_t offset; /* in the region */
  uint32_t lkey;
  uint32_t access; /* enum pst_access */
  bool is_cpu_readable;
  const struct pst_region *region; /* the host's: it outlives this */
};

static inline uint32_t rc_smaller(uint64_t a, uint64_t b)
{
  return (uint32_t)(a < b ? a : b);
}

static inline uint64_t rc_now_ns(const struct pst_device *device)
{
  return device->host->clock_ns(device->host);
}

#endif
