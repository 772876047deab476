/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this plugin share.
 *
 * A sender's endpoint has an *engine*. Every SEND that the host posts gets an
 * *entry* in a ring, in post order; it is settled when nothing of it is
 * outstanding inside any more, and DONEs cover settled entries from the oldest on.
 * What goes to the inner transport, in which order and how often, is noted in a
 * FIFO of entry numbers; inner DONEs take from it by count, so that the inner
 * cookies of SENDs mean nothing. A SEND that is accepted but not posted yet lies in
 * a *hold*. All of it is allocated with the endpoint.
 *
 * Each endpoint's inner cookie is the address of ours.
 */
#ifndef FAULT_H
#define FAULT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-util.h>

#define FAULT_MILLION 1000000u
#define FAULT_NEVER UINT64_MAX
#define FAULT_COPIES 16u         /* corrupted messages of one sender under way at once */
#define FAULT_HOLDS_MAX 4096u    /* messages of one sender held back at once */
#define FAULT_INNER_COUNTERS 32u /* kept of an endpoint that was cut off */

enum fault_kind {
  FAULT_NONE = 0,
  FAULT_DROP,
  FAULT_DUPLICATE,
  FAULT_REORDER,
  FAULT_CORRUPT,
  FAULT_DELAY,
  FAULT_STALL,
  FAULT_KILL,
  FAULT_KINDS,
};

/* The options, once read. */
struct fault_plan {
  uint64_t seed;
  uint32_t below[FAULT_STALL]; /* a draw of a million below this is this kind or one before */
  uint32_t rates;              /* of all kinds together, per million */
  uint32_t corrupt;
  uint64_t distance;
  uint64_t reorder_ns;
  uint64_t delay_ns;
  uint64_t stall_at;
  uint64_t stall_ns;
  uint64_t kill_at;
  uint32_t ledger;
  bool active;
};

/* A registration that may be sent from. Entries are added and reused, never freed
 * before the device, so that senders look without a lock. */
struct fault_mr {
  _Atomic(struct pst_mr *) mr; /* NULL: free */
  const uint8_t *host;
  uint64_t length;
  struct fault_mr *next;
};

/* Memory of our own for corrupted copies. */
struct fault_pool {
  struct pst_region region;
  struct pst_mr *mr;
  uint64_t stride;
  uint32_t parts; /* of FAULT_COPIES each */
  _Atomic uint32_t parts_used;
};

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  struct fault_plan plan;
  uint32_t requests_max; /* the inner transport's */
  _Atomic(struct fault_mr *) mrs;
  struct fault_pool pool;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_worker *inner;
  struct pst_endpoint *endpoints;
};

struct fault_entry {
  uint64_t cookie;
  int32_t status;
  uint16_t pending; /* times it is still to be done inside */
  uint16_t copy;    /* of the part's copies, from 1; 0: none */
};

struct fault_hold {
  enum fault_kind kind;
  struct pst_request request;
  struct pst_piece *pieces;
  struct fault_hold *next;
  uint64_t entry;
  uint64_t due_count; /* REORDER: when so many have been accepted */
  uint64_t due_ns;    /* the latest; 0: at once */
};

/* Oldest first. */
struct fault_holds {
  struct fault_hold *first;
  struct fault_hold **last;
};

struct fault_record {
  uint32_t kind;
  uint64_t sequence;
};

struct fault_ledger {
  uint64_t counts[FAULT_KINDS];
  uint64_t delayed_late;   /* messages that are late because one was delayed */
  uint64_t reorder_missed; /* those that none has passed while they waited */
  uint64_t checksum;       /* of all records, in any order */
  struct fault_record *records;
  uint32_t record_count;
  uint32_t record_max;
};

/* README.md draws it. */
enum fault_stage {
  FAULT_NEW,       /* it has not met its peer */
  FAULT_CONNECTED, /* it has */
  FAULT_OVER,      /* the peer is gone */
  FAULT_CLOSING,   /* the host has closed, and the endpoint inside is told */
  FAULT_CLOSED,    /* which has closed */
  FAULT_KILLED,    /* cut off by us, and the endpoint inside is told; the host is to hear of it */
  FAULT_KILL_TOLD, /* it has heard */
  FAULT_KILL_OVER, /* and the endpoint inside has closed */
};

struct fault_engine {
  struct fault_entry *entries;
  uint64_t mask;
  uint64_t head; /* accepted so far */
  uint64_t tail; /* DONE so far */

  uint32_t *fifo; /* entry numbers, in the order of inner posts; twice the entries */
  uint64_t fifo_head;
  uint64_t fifo_tail;

  struct fault_hold *hold_memory;
  struct pst_piece *piece_memory;
  uint32_t pieces;          /* a hold has room for */
  struct fault_hold *spare; /* free holds */
  struct fault_holds again; /* the second half of a duplicate, to go next */
  struct fault_holds reordered;
  struct fault_holds delayed;
  uint32_t held;       /* in the three together */
  uint64_t next_due;   /* the least due_count; FAULT_NEVER */
  uint64_t distance;   /* the plan's, bounded by what can be outstanding */
  uint64_t passed;     /* one past the highest sequence number posted inside */
  uint64_t undelayed;  /* likewise, delayed ones aside: it does not depend on time */
  uint64_t stop_at;    /* of stall and kill the next: sequence number; FAULT_NEVER */
  uint64_t stalled_ns; /* until when; 0: not */
  bool stall_over;
  bool blocked; /* the inner transport took no hold */

  uint32_t part;                 /* of the pool */
  uint16_t copies[FAULT_COPIES]; /* free ones */
  uint32_t copy_count;

  enum fault_stage stage;
  struct pst_closing closing; /* the host's; CLOSING is when nothing is held any more */

  struct fault_ledger ledger;
  struct pst_counter inner_counters[FAULT_INNER_COUNTERS]; /* when it was cut off */
  uint32_t inner_counter_count;
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_endpoint *inner; /* NULL: closed inside */
  struct pst_endpoint *next;
  struct fault_engine *engine; /* NULL: everything passes as it is */
  uint64_t cookie;
};

#include "pass.h"

static inline bool fault_is_killed(const struct fault_engine *engine)
{
  return engine->stage >= FAULT_KILLED;
}

static inline uint64_t fault_now(const struct pst_endpoint *endpoint)
{
  const struct pst_host *host = endpoint->worker->device->host;
  return host->clock_ns(host);
}

/* The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators, OOPSLA 2014). */
static inline uint64_t fault_mix(uint64_t x)
{
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static inline uint64_t fault_draw(const struct fault_plan *plan, uint64_t sequence)
{
  return fault_mix(plan->seed + (sequence + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* stage.c: to a stage that may follow the one it is in. */
void fault_enter(struct fault_engine *engine, enum fault_stage stage);

/* memory.c: registrations, and copies of our own. */
int fault_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                      struct pst_mr **mr);
void fault_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int fault_pool_open(struct pst_device *device, const struct pst_plan *plan,
                    const struct pst_limits *limits);
void fault_pool_close(struct pst_device *device);
/* A part of the pool for one sender, and back as long as no other was taken. */
int fault_part_take(struct pst_device *device, uint32_t *part);
void fault_part_untake(struct pst_device *device, uint32_t part);
void fault_mrs_free(struct pst_device *device);
/* Copy the payload, one bit changed, and write the request that sends the copy.
 * false: the request is not one that could be sent. */
bool fault_corrupt(struct pst_endpoint *endpoint, const struct pst_request *request, uint16_t copy,
                   struct pst_request *corrupted);

/* endpoint.c */
int fault_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                        struct pst_endpoint **endpoint);
/* Take it off its worker's list too. */
void fault_endpoint_forget(struct pst_endpoint *endpoint);
void fault_endpoint_free(struct pst_endpoint *endpoint);

/* post.c */
int fault_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait);

/* hold.c: what is accepted and not posted. */
void fault_entry_push(struct fault_engine *engine, uint64_t cookie, uint16_t pending,
                      uint16_t copy);
void fault_fifo_push(struct fault_engine *engine, uint64_t entry);
/* One of the times that the entry is pending is over. */
void fault_entry_settle(struct fault_engine *engine, uint64_t entry, int32_t status);
/* Keep a copy of the request, pieces included, for the next entry. There is a spare one. */
void fault_hold_add(struct fault_engine *engine, const struct pst_request *request,
                    enum fault_kind kind, uint64_t due_ns, uint64_t due_count);
/* Post what is due; `early`: reordered ones too that still wait for others. false:
 * the inner transport takes no more now, *wait says why. */
bool fault_release(struct pst_endpoint *endpoint, bool early, uint32_t *wait);
/* Give up all holds: their requests end with the status. */
void fault_holds_drop(struct fault_engine *engine, int32_t status);

/* poll.c */
int fault_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int fault_arm(struct pst_worker *worker);

/* endpoint.c: how an endpoint ends. */
void fault_kill(struct pst_endpoint *endpoint, uint64_t sequence);
int fault_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
void fault_close_progress(struct pst_endpoint *endpoint);

/* ledger.c */
void fault_note(struct fault_ledger *ledger, enum fault_kind kind, uint64_t sequence);
int fault_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);

#endif
