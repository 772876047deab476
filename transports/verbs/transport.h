/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of transports of verbs: devices, registrations, limits, and the operations in
 * which the transports differ.
 *
 * A worker has a completion queue; an endpoint has queue pairs on it. A message is an RDMA WRITE
 * with immediate data (the low 32 bits of its sequence number) into a slot of the receiver. Slots
 * are filled in the order in which the receiver granted them, so that nothing else needs to travel.
 * Credits, hellos and farewells are SENDs: the completion's opcode tells them from messages, their
 * immediate data say which one it is.
 *
 * Locks: none on a worker. A device's asynchronous events are read by whichever worker finds them,
 * under the device's lock. The thread leaves a queue pair's event in atomics of its endpoint, and
 * wakes the endpoint's worker.
 */
#ifndef VERBS_TRANSPORT_H
#define VERBS_TRANSPORT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-util.h>

#include "counters.h"
#include "described.h"
#include "device.h"
#include "mr.h"
#include "numa.h"
#include "path.h"
#include "status.h"

#define VB_PLACES 65535u /* endpoints, and rings, of a worker */
#define VB_WORKERS_MAX 1024u
#define VB_POLL_BATCH 32u
#define VB_CONTROL_BYTES 512u   /* of a credit message, at most */
#define VB_CONTROL_RECEIVES 32u /* credit messages that a sender has receives for */
/* The same of shared receives: the buffer that many peers use is small. */
#define VB_SRQ_CREDIT_BYTES 64u
#define VB_SRQ_CREDITS 8u
#define VB_SPARE_RECEIVES 4u /* hello, farewell, and as many to be late */
#define VB_RECEIVES_BESIDE (VB_SRQ_CREDITS + VB_SPARE_RECEIVES) /* beside messages' */
#define VB_SPARE_SENDS 8u /* beside messages', with a keepalive */
#define VB_REMOTE_BYTES 40u
#define VB_SCRATCH_BYTES 64u
#define VB_REMOTE_ACCESS                                                                           \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)
#define VB_RING_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define VB_NEVER UINT64_MAX

#define VB_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

struct rc_cm_ops;
struct pst_endpoint;
struct pst_worker;
struct vb_out;

/* How many completions a worker's completion queue has room for when it is opened; and how many it
 * would need if all that is planned were on one worker. */
struct vb_planned {
  uint32_t first, all;
};

/* The calls in which the transports differ. Those with a worker are called on its thread. */
struct vb_transport {
  int (*limits)(struct pst_device *device, struct pst_limits *limits);
  struct vb_planned (*plan_completions)(const struct pst_device *device);
  /* A completion of a request; and of a receive. False: it needs more room than there is, or has
   * come too early, and is the first that the next poll takes. */
  void (*sent)(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
  bool (*received)(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out);
  /* Returns the endpoint of a shared receive; NULL: it is dropped. Without this call the number of
   * the queue pair says. */
  struct pst_endpoint *(*whose)(struct pst_worker *worker, const struct ibv_wc *wc);
  /* An endpoint that has something to tell, or to do: vb_pend(). */
  void (*work)(struct pst_endpoint *endpoint, struct vb_out *out);
  /* Takes what other threads have left with the endpoint: vb_notify(). */
  void (*notice)(struct pst_endpoint *endpoint);
  /* Checks the endpoint's deadlines. */
  void (*look)(struct pst_endpoint *endpoint, uint64_t now_ns);
  /* Fails the endpoint: `status` -errno, logged with `why`, unless NULL. Once. */
  void (*failed)(struct pst_endpoint *endpoint, int status, const char *why);
  /* Why an endpoint that is not connected takes no requests: -errno. */
  int (*refuses)(const struct pst_endpoint *endpoint);
  void (*free)(struct pst_endpoint *endpoint);
  /* For endpoints with several queue pairs: a row of messages, 0 where it is not of the queue pair
   * whose turn it is; those that waited for their turn, of
   * which there may be more than there was room for: false. */
  uint32_t (*arrived)(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t most,
                      struct vb_out *out);
  bool (*deliver)(struct pst_endpoint *endpoint, struct vb_out *out);
  /* Receives without buffers that are missing, of all queue pairs: 0 or -errno. */
  int (*restore)(struct pst_endpoint *endpoint);
  /* An event of a queue pair, by whichever thread finds it, under the device's lock. NULL: the
   * queue pair's context is its endpoint. */
  void (*queue_event)(struct pst_device *device, const struct ibv_async_event *event);
  /* Opens the transport's part of a worker (`worker->own`): 0 or -errno; closes it; is called with
   * each look at the clock; is called when all completions are taken. */
  int (*worker_open)(struct pst_worker *worker);
  void (*worker_close)(struct pst_worker *worker);
  void (*worker_look)(struct pst_worker *worker);
  void (*worker_empty)(struct pst_worker *worker);
};

/* A protection domain, domain.c: what the peer, or peers, of one number may reach. */
struct vb_domain {
  struct pst_device *device;
  uint64_t number; /* the host's; 0: the device's own */
  struct ibv_pd *pd;
  struct vb_mrs mrs; /* of pd */
  uint32_t users;    /* under the device's `domains_lock` */
  struct vb_domain *next;
};

struct pst_device {
  const struct pst_host *host;
  const struct vb_transport *transport;
  struct vb_domain own; /* of all that no peer reaches, and of what has no domain */
  struct pst_plan plan;
  struct vb_open open;
  struct vb_path path;
  struct ibv_device_attr attr;
  struct vb_domain *domains; /* of peers; under `domains_lock` */
  pthread_mutex_t domains_lock;
  atomic_uint registrations; /* in all domains */
  pthread_mutex_t place_lock;
  struct vb_port_address place; /* under it: where the port was when last looked at */
  atomic_bool place_changes;    /* an event has told of another */
  uint32_t message_max;
  uint32_t pieces_max;
  uint64_t capabilities;
  int relaxed;         /* IBV_ACCESS_RELAXED_ORDERING or 0: of what completions alone tell */
  int relaxed_offered; /* as `relaxed`, of ranges that a peer may write to and poll */
  uint64_t keepalive_ns;
  uint64_t reconnect_ns;      /* 0: a connection that failed is over */
  const struct rc_cm_ops *cm; /* connections by rdma_cm; NULL: by exchange */
  uint16_t cm_port;           /* that worker 0 listens at; 0: any */
  bool sends;                 /* messages are SENDs, not WRITEs */
  bool has_ece;               /* asked for, where both ends have it */
  bool runs;                  /* messages that follow one another are one WRITE */
  uint32_t qps;               /* of an endpoint that sends or receives */
  bool shares;                /* endpoints of a worker share receives */
  bool is_two_sided;          /* no peer writes into a ring */
  bool has_one_domain;        /* all that peers reach is in the device's own */
  int numa_node;              /* the adapter's, or VB_NUMA_UNKNOWN */
  bool is_soft;               /* soft-RoCE */
  uint64_t initial;           /* what sequence 0 travels as: a test's */
  char carrier[48];
  char counter_folder[320];
  const char *counter_host;                 /* NULL: none */
  struct vb_counters port_before, port_now; /* when it was opened, and when last asked */
  bool has_told_slow;                       /* rc_tell_slow() */
  atomic_bool has_lost_peer;                /* an endpoint failed, or its hello found nobody */
  pthread_mutex_t events;                   /* held by the reader of the asynchronous events */
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
  struct vb_domain *domain;
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

/* Rights of a ring's slots: what a peer writes itself has to be open to it. */
static inline int vb_ring_rights(const struct pst_device *device)
{
  return (device->is_two_sided ? IBV_ACCESS_LOCAL_WRITE : VB_RING_RIGHTS) | device->relaxed;
}

static inline uint32_t vb_smaller(uint64_t a, uint64_t b)
{
  return (uint32_t)(a < b ? a : b);
}

static inline uint64_t vb_now_ns(const struct pst_device *device)
{
  return device->host->clock_ns(device->host);
}

#endif
