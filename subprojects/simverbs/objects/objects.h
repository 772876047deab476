/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the objects of this process share with each other and with the engine. */
#ifndef OBJECTS_H
#define OBJECTS_H

#include "fabric/fabric.h"
#include "list.h"

/* Objects of this process. The NIC thread goes through them under the lock, and takes a send
 * queue's lock only by trying: a program may hold a send queue's lock between ibv_wr_start and
 * ibv_wr_complete. */
struct sim_self {
  pthread_mutex_t lock;
  struct sim_list contexts, qps, cqs, srqs;
  struct sim_device **devices;
  unsigned device_count;
  int attach_error; /* of the only try */
  bool tried;
  bool nic_runs;
  pthread_t nic;
  _Atomic bool nic_stop;
};
extern struct sim_self sim_self;

/* By index in the fabric; only of this process. */
extern _Atomic(struct sim_qp *) sim_qp_at[FAB_QPS];

/* Attaches, once. */
int sim_attach(void);

/* ---- events ---- */
/* A completion event, in a channel's list: element.cq. */
#define SIM_EVENT_COMPLETION ((enum ibv_event_type) - 1)
int sim_events_open(struct sim_events *events);
void sim_events_close(struct sim_events *events);
void sim_events_push(struct sim_events *events, const struct ibv_async_event *event);
/* Also counts it as given, under the same lock. */
int sim_events_next(struct sim_events *events, struct ibv_async_event *event);
/* Forgets those about an object: a CQ, QP or SRQ. */
void sim_events_forget(struct sim_events *events, const void *object);
/* Waits until *completed has come up to `given`. */
void sim_await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                    uint32_t given);

/* ---- counts of what is alive ---- */
void sim_alive(unsigned *count, int by);

/* Destroys the queue pairs, queues, windows and regions that a context still has. */
void sim_reclaim(struct sim_context *context);

/* Sets errno: for functions that give a pointer. */
void *sim_fail(int error);

/* ---- rings ---- */
/* Room for `entries` of `stride` bytes (both are rounded up). ENOMEM. */
/* grant.c: changes the sizes that a program asks for to those that the device grants. */
void sim_grant_qp(const struct fab_caps *caps, struct ibv_qp_cap *cap);
void sim_grant_srq(const struct fab_caps *caps, struct ibv_srq_attr *attr);
uint32_t sim_grant_cqe(const struct fab_caps *caps, uint32_t asked);
/* wqe.c: what a send queue becomes on mlx5, by what its requests may be (`ops`: IBV_QP_EX_WITH_*;
 * 0: not said). 0, or EINVAL for more than there is. */
int sim_wqe_size(const struct fab_caps *caps, enum sim_qp_kind kind, uint64_t ops,
                 struct ibv_qp_cap *cap);
int sim_ring_alloc(struct fab_ring *ring, uint32_t entries, uint32_t stride);
void sim_ring_free(struct fab_ring *ring);
static inline void *sim_ring_at(const struct fab_ring *ring, uint32_t i)
{
  return (char *)fab + ring->offset + (size_t)(i & (ring->size - 1)) * ring->stride;
}
/* Posts to a receive ring whose lock is held; `view` has its owner, device and domain. */
int sim_ring_post(const struct fab_qp *view, struct fab_ring *ring, const struct ibv_recv_wr *wr);

/* The fabric's end of an object of ours. */
#define sim_fab_cq(c) (&fab->cq[(c)->index])
#define sim_fab_srq(s) (&fab->srq[(s)->index])
#define sim_fab_qp(q) (&fab->qp[(q)->index])
#define sim_fab_device(context) (&fab->device[sim_context_of(context)->device->number])
#define sim_device_number(context) (sim_context_of(context)->device->number)

/* The states' attribute masks, and the ranges of what they bring: 0, EINVAL, or what the two below
 * say. */
int sim_modify_check(const struct sim_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
                     const struct ibv_qp_attr *attr, int mask);
/* EINVAL, or ENODATA for a GID index that is empty. */
int sim_ah_check(struct ibv_context *context, const struct ibv_ah_attr *attr);
/* Resolves an address as the kernel does above any RoCE NIC, before it asks the NIC: EINVAL for an
 * address of another family than the source's, ETIMEDOUT for one that nobody answers to. */
int sim_ah_resolve(struct ibv_context *context, const struct ibv_ah_attr *attr);

/* Takes a window off its region. */
void sim_mw_unbind(struct fab_mr *window);

/* Removes a queue pair's completions from a CQ. */
void sim_cq_purge(struct ibv_cq *cq, uint32_t qpn);

#endif
