/* SPDX-License-Identifier: Apache-2.0 */
/* Peers' registered ranges, and how they are reached. */
#ifndef LOOPBACK_REMOTE_H
#define LOOPBACK_REMOTE_H

#include <penstock/transport.h>

#include "access_guard.h"
#include "map.h"
#include "mr.h"

/* A queue of a memory's, for the requests of one endpoint that the CPU cannot do. */
struct lb_copier {
  struct lb_copier *next;
  const struct pst_memory_ops *ops;
  struct pst_memory *memory;
  struct pst_queue *queue;
  uint64_t done; /* ticket */
  uint32_t pending;
  bool failed;
};

/* A request of an endpoint with copiers, in post order, until its DONE. */
struct lb_pending {
  struct lb_copier *copier; /* NULL: done, behind others that are not */
  uint64_t ticket;
  uint64_t cookie;
  struct lb_gate *gate; /* to leave when it is done; NULL: another's */
  uint8_t opcode;
};

struct pst_remote {
  struct pst_endpoint *endpoint;
  struct pst_remote *next;  /* of the endpoint's */
  struct lb_mr *mr;         /* within this process */
  struct lb_copier *copier; /* for what the CPU cannot do; NULL: it can */
  uint64_t address;         /* as the copier's memory knows it */
  struct pst_region far;    /* imported for that; memory NULL: not so */
  const char *via;          /* of the copier's copies */
  bool counted;             /* among the gate's imports */
  uint8_t *base;            /* NULL: the CPU cannot touch it */
  uint64_t length;
  uint32_t access;
  uint32_t plain; /* bit PST_OP_WRITE, PST_OP_READ: it may be, by the CPU */
  struct lb_gate *gate;
  struct lb_seat *seat; /* NULL: it is counted in */
  struct lb_seat own_seat;
  struct pst_remote *seated; /* the next within this process */
  struct lb_map gate_map;
  struct lb_map region_map;
};

static inline void lb_seat_out(struct pst_remote *remote)
{
  if (__builtin_expect(remote->seat != NULL, 1))
    atomic_store_explicit(&remote->seat->inside, 0, memory_order_release);
  else
    atomic_fetch_sub(&remote->gate->inside, 1);
}

/* False: the gate is shut. */
static inline bool lb_seat_in(struct pst_remote *remote, bool fenced)
{
  if (__builtin_expect(!remote->seat, 0))
    return lb_gate_enter(remote->gate);
  atomic_store_explicit(&remote->seat->inside, 1, memory_order_relaxed);
  lb_barrier_light(fenced);
  if (__builtin_expect(atomic_load_explicit(&remote->gate->open, memory_order_acquire), 1))
    return true;
  lb_seat_out(remote);
  return false;
}

/* The peer's memory that this thread is inside of, for the requests of one post. It leaves after a
 * number of bytes, lest the owner wait long. */
struct lb_peer_access {
  struct pst_remote *inside; /* NULL: none */
  uint64_t bytes;
};
#define LB_PEER_ACCESS_BYTES (UINT64_C(1) << 20)
/* Checks request and ranges. *by_copy: the CPU does not reach both ends. */
int lb_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request,
                 bool *by_copy);
int lb_rma_execute(struct pst_endpoint *endpoint, const struct pst_request *request,
                   struct lb_peer_access *passage);
void lb_rma_leave(struct lb_peer_access *passage);

/* copy.c: copies by the memory's own plugin, which end later. */
bool lb_copies_by(const struct pst_device *device, const struct pst_region *region);
/* The endpoint's copier of that region's memory, opened where it has none. */
int lb_copier_open(struct pst_endpoint *endpoint, const struct pst_region *region,
                   struct lb_copier **copier);
/* Posts up to n requests that are no SENDs. Returns how many were taken; *why and *rc as post() has
 * them. */
uint32_t lb_copy_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                      uint32_t *why, int *rc);
/* DONEs of what has ended. */
void lb_copy_progress(struct pst_endpoint *endpoint);
/* Wait for the device, and end all that is pending: the memory is the host's again. */
void lb_copy_end(struct pst_endpoint *endpoint);
void lb_copy_free(struct pst_endpoint *endpoint);

int lb_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote);
void lb_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);

#endif
