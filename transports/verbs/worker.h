/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and their rings. */
#ifndef VERBS_WORKER_H
#define VERBS_WORKER_H

#include "slot_fifo.h"
#include "transport.h"

struct vb_srq;
struct vb_slab;
struct rc_counter_baseline;

struct pst_ring {
  struct pst_worker *worker;
  uint32_t place; /* its number among the worker's */
  struct pst_ring_params params;
  struct vb_mr verbs; /* of its slots alone: what a peer may write to */
  uint64_t base;      /* of slot 0's payload, as peers address it */
  uint32_t *free;
  uint32_t free_count;
  uint32_t open_count;       /* endpoints that use it */
  uint32_t *owners;          /* slot by slot: whose it is, by its place; PST_PLACE_NONE: nobody's */
  uint64_t *held;            /* bits: the host has them, and they are shared, or their endpoint is
                                closed */
  uint32_t idle, bases;      /* of shares that grow: the transport's */
  struct pst_endpoint *last; /* whose slot was released last */
  struct vb_srq *shared;     /* of SENDs: its free slots are entries of it; NULL: endpoints' */
};

/* Receives that are posted as a list, which is built once. */
struct vb_receives {
  struct ibv_recv_wr wrs[VB_POLL_BATCH];
  struct ibv_sge sges[VB_POLL_BATCH];
};

/* Where poll() puts completions. */
struct vb_out {
  struct pst_completion *at;
  uint32_t room;
};

#define VB_NUMBER_CHAINS 256u

/* A protection domain as the queue pairs of a worker have it: with the worker's thread domain. */
struct vb_thread_domain {
  struct vb_domain *domain;
  struct ibv_pd *pd;
  uint32_t users;
  struct vb_thread_domain *next;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_worker *next; /* of the device's */
  struct ibv_comp_channel *channel;
  void *own; /* the transport's; NULL: it has nothing of a worker's */
  struct ibv_cq *cq;
  struct ibv_td *td; /* NULL: the provider has none */
  struct vb_thread_domain *domains;
  struct vb_slab *slabs;
  uint32_t index;
  uint32_t cq_used; /* completions that there may be at a time */
  int epoll_fd;
  int timer_fd;
  int wake_fd;      /* of what other threads have left */
  uint8_t *scratch; /* what READs of a FLUSH bring; NULL until a peer's range can be read */
  struct ibv_mr *scratch_mr;
  struct pst_places endpoints;
  struct pst_places rings;
  struct pst_places shared; /* receives */
  struct vb_srq *shared_due;
  struct rc_counter_baseline *since;                /* the last; NULL: no endpoint has it */
  struct pst_endpoint *by_number[VB_NUMBER_CHAINS]; /* of queue pairs that share them */
  struct pst_endpoint *last_numbered;
  struct pst_ring *last_ring; /* that a token named: tokens of it begin so */
  uint64_t last_which;
  struct ibv_wc wc[VB_POLL_BATCH];
  uint32_t wc_at;
  uint32_t wc_count;
  struct pst_endpoint *pending; /* with something to tell, or to do */
  _Atomic uint32_t notices;     /* that other threads have left with endpoints */
  uint32_t notices_seen;
  uint32_t notice_at, notice_left, notice_room; /* of the walk that a notice begins */
  uint32_t told;                                /* endpoints with room that a post wanted */
  uint64_t empties;                             /* how often all that there was has been taken */
  uint64_t empties_seen;                        /* by the last look at the clock */
  uint32_t calls;                               /* of poll since the clock was looked at */
  uint64_t soonest_ns;                          /* when something is due, at the earliest */
  uint64_t walked_ns;                           /* when all endpoints were looked at */
  uint32_t looks;                               /* at the clock */
  uint64_t timer_ns;                            /* what the timer is set to */
  uint32_t events_unacked;
  bool has_all; /* since the look before: else what seems late may lie in the completion queue */
  bool armed;
  bool tells_lost; /* PST_EVENT_DEVICE, with the next poll */
  bool has_told_lost;
  int numa_node; /* of the thread that polls, as last seen, or VB_NUMA_UNKNOWN */
  bool has_told_numa;
  bool has_told_far; /* a ring on another node than the adapter */
  bool has_told_gpu; /* how far one is */
};

/* cq.c: creates a completion queue of at least `room` completions. NULL with errno. */
struct ibv_cq *vb_cq_create(const struct pst_worker *worker, uint32_t room);
/* Gives the worker a completion queue with room for `wanted`, which `label` asks for. 0, or -ENOSPC
 * after a log. */
int vb_cq_grow(struct pst_worker *worker, uint32_t wanted, const char *label);

/* domain.c: a protection domain for a queue pair of the worker. With it the provider takes no
 * locks, and no doorbells of other threads. Without thread domains: the domain's PD. */
struct ibv_pd *vb_thread_domain_take(struct pst_worker *worker, struct vb_domain *domain);
void vb_thread_domain_give(struct pst_worker *worker, const struct ibv_pd *pd);
void vb_thread_domains_close(struct pst_worker *worker);

/* ring.c */
/* Reserves the endpoint's share of the slots. 0 or -ENOMEM. */
int vb_ring_share(struct pst_ring *ring, struct pst_endpoint *endpoint);
void vb_ring_unshare(struct pst_ring *ring, struct pst_endpoint *endpoint);

/* events.c: has this or the next poll visit the endpoint. */
void vb_pend(struct pst_endpoint *endpoint);
void vb_unpend(struct pst_endpoint *endpoint);
/* No event about room follows. */
void vb_forget_room(struct pst_endpoint *endpoint);
/* Something is due then: a sleeper is woken for it. */
static inline void vb_due(struct pst_worker *worker, uint64_t at_ns)
{
  if (at_ns < worker->soonest_ns)
    worker->soonest_ns = at_ns;
}
/* There is room. */
static inline void vb_event_write(struct vb_out *out, uint64_t cookie, uint8_t code, int status)
{
  pst_event_write(out->at++, cookie, code, status);
  out->room--;
}
/* By any thread: something was left with it, or one of its endpoints. */
void vb_notify(struct pst_worker *worker);

/* worker.c */
void vb_disarm(struct pst_worker *worker);
/* Takes what other threads have left: deferred works that have ended, and the device's events. */
void vb_take_notices(struct pst_worker *worker);
/* At the clock, and at what is due by it; `at_all`: at the device's events and each endpoint, too,
 * as before and after a sleep. */
void vb_look(struct pst_worker *worker, bool at_all);

/* events.c: asynchronous events of the device. */
void vb_events(struct pst_device *device);
/* The caller holds device->events. */
void vb_take_events(struct pst_device *device);
/* An event in words. */
void vb_event_text(int event, char *text, size_t size);

#endif
