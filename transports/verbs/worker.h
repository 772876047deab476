/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and their rings. */
#ifndef VERBS_WORKER_H
#define VERBS_WORKER_H

#include "transport.h"

struct rc_cm_worker;
struct vb_srq;
struct rc_since;

/* A queue of slot numbers. */
struct vb_fifo {
  uint32_t *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
};

/* 0 or -ENOMEM. free(fifo->at) ends it. */
static inline int vb_fifo_open(struct vb_fifo *fifo, uint32_t room)
{
  uint32_t size = 1;

  while (size < room)
    size <<= 1;
  *fifo = (struct vb_fifo){.at = calloc(size, sizeof(*fifo->at)), .mask = size - 1};
  return fifo->at ? 0 : -ENOMEM;
}

static inline uint32_t vb_fifo_count(const struct vb_fifo *fifo)
{
  return fifo->head - fifo->tail;
}
static inline void vb_fifo_put(struct vb_fifo *fifo, uint32_t slot)
{
  fifo->at[fifo->head++ & fifo->mask] = slot;
}
static inline uint32_t vb_fifo_get(struct vb_fifo *fifo)
{
  return fifo->at[fifo->tail++ & fifo->mask];
}

/* Slots that may be filled, in their order: as runs, of which there may be as many as slots. */
struct vb_credit {
  uint32_t first, count;
};
struct vb_credits {
  struct vb_credit *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
  uint32_t count, max; /* slots; that there may be */
};

/* 0 or -ENOMEM. free(credits->at) ends it. */
static inline int vb_credits_open(struct vb_credits *credits, uint32_t max)
{
  uint32_t size = 1;

  while (size < max)
    size <<= 1;
  *credits =
      (struct vb_credits){.at = calloc(size, sizeof(*credits->at)), .mask = size - 1, .max = max};
  return credits->at ? 0 : -ENOMEM;
}

/* There is room for them. Behind their neighbours they are of one run. */
static inline void vb_credits_put(struct vb_credits *credits, uint32_t first, uint32_t count)
{
  struct vb_credit *last = &credits->at[(credits->head - 1) & credits->mask];

  if (count == 0)
    return;
  if (credits->count && last->first + last->count == first)
    last->count += count;
  else
    credits->at[credits->head++ & credits->mask] = (struct vb_credit){first, count};
  credits->count += count;
}

/* There is one. */
static inline uint32_t vb_credits_get(struct vb_credits *credits)
{
  struct vb_credit *credit = &credits->at[credits->tail & credits->mask];

  credits->tail += credit->count == 1;
  credits->count--;
  credit->count--;
  return credit->first++;
}

/* How a slot stands, and, unless it is free, whose it is: vb_slot(). */
enum vb_slot_state {
  VB_SLOT_FREE = 0,
  VB_SLOT_OWNED, /* credited, or to be */
  VB_SLOT_OUT,   /* the host has its token */
};
#define VB_SLOT_STATES UINT64_C(0xffff)
/* The number of its endpoint. */
static inline uint32_t vb_slot_place(uint64_t slot)
{
  return (uint32_t)(slot >> 32);
}

struct pst_ring {
  struct pst_worker *worker;
  uint32_t place; /* its number among the worker's */
  struct pst_ring_params params;
  struct vb_mr verbs; /* of its slots alone: what a peer may write to */
  uint64_t base;      /* of slot 0's payload, as peers address it */
  uint32_t *free;
  uint32_t free_count;
  uint32_t open_count;       /* endpoints that use it */
  uint64_t *slots;           /* vb_slot() */
  struct pst_endpoint *last; /* whose slot was released last */
  uint64_t last_out;         /* how its slots stand that are out; VB_NEVER: there is none */
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
  struct rc_cm_worker *cm; /* NULL: connections are not rdma_cm's */
  struct ibv_cq *cq;
  struct ibv_td *td; /* NULL: the provider has none */
  struct vb_thread_domain *domains;
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
  struct rc_since *since;                           /* the last; NULL: no endpoint has it */
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
  uint32_t told;         /* endpoints with room that a post wanted */
  uint64_t empties;      /* how often all that there was has been taken */
  uint64_t empties_seen; /* by the last look at the clock */
  uint32_t calls;        /* of poll since the clock was looked at */
  uint64_t soonest_ns;   /* when something is due, at the earliest */
  uint64_t walked_ns;    /* when all endpoints were looked at */
  uint32_t looks;        /* at the clock */
  uint64_t timer_ns;     /* what the timer is set to */
  uint32_t events_unacked;
  bool has_all; /* since the look before: else what seems late may lie in the completion queue */
  bool armed;
  bool tells_lost; /* PST_EVENT_DEVICE, with the next poll */
  bool has_told_lost;
  int numa_node; /* of the thread that polls, as last seen, or VB_NUMA_UNKNOWN */
  bool has_told_numa;
  bool has_told_far; /* a ring on another node than the adapter */
};

/* cq.c: a completion queue of `room` completions at least. NULL: errno. Then one that has room for
 * all `wanted`, of those who ask for `label`: 0, or -ENOSPC, logged. */
struct ibv_cq *vb_cq_create(const struct pst_worker *worker, uint32_t room);
int vb_cq_grow(struct pst_worker *worker, uint32_t wanted, const char *label);

/* domain.c: for a queue pair of the worker in that domain, until it is given back: so that the
 * provider takes no locks, or another thread's doorbells. Without thread domains: the domain's. */
struct ibv_pd *vb_thread_domain_take(struct pst_worker *worker, struct vb_domain *domain);
void vb_thread_domain_give(struct pst_worker *worker, const struct ibv_pd *pd);
void vb_thread_domains_close(struct pst_worker *worker);

/* ring.c */
void vb_ring_share(struct pst_ring *ring, struct pst_endpoint *endpoint);
void vb_ring_unshare(struct pst_ring *ring, struct pst_endpoint *endpoint);

/* events.c: it has something to tell, or to do, in this poll or the next. */
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
/* What other threads have left: deferred works that are through, the device's events. */
void vb_take_notices(struct pst_worker *worker);
/* At the clock, and at what is due by it; `at_all`: at the device's events and each endpoint, too,
 * as before and after a sleep. */
void vb_look(struct pst_worker *worker, bool at_all);

/* events.c: asynchronous events of the device. */
void vb_events(struct pst_device *device);
/* The caller holds device->events. */
void vb_take_events(struct pst_device *device);
/* One of them in words. */
void vb_event_text(int event, char *text, size_t size);

#endif
