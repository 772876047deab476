/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, workers, rings and endpoints; and the operations. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-util.h>

#include "described.h"
#include "gate.h"
#include "map.h"
#include "mr.h"
#include "port.h"
#include "remote.h"

#define LB_PIECES_MAX 64u
#define LB_REQUESTS_MAX (1u << 20)
#define LB_WORKERS_MAX 1024u
#define LB_ENDPOINTS_MAX 4096u /* of one worker */

/* Copy the leading requests that are valid SENDs of one piece, up to n, all of which
 * have a credit. Returns how many. */
typedef uint32_t lb_send_fn(struct pst_endpoint *endpoint, const struct pst_request *requests,
                            uint32_t n);

struct pst_device {
  const struct pst_host *host;
  lb_send_fn *send_plain; /* for this CPU */
  struct pst_plan plan;
  enum lb_mode mode;
  bool shared; /* peers may be in other processes */
  bool sealed;
  struct lb_patience patience; /* of deregistrations */
};

#define LB_TAKE(local, from) pst_struct_read(&(local), sizeof(local), (from))
#define LB_GIVE(to, local) pst_struct_write((to), &(local), sizeof(local))

#define LB_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)
/* A line of the log that begins with the endpoint's label. */
#define LB_TELL(endpoint, level, text, ...)                                                        \
  LB_LOG((endpoint)->worker->device, level, "%s: " text,                                           \
         (endpoint)->label __VA_OPT__(, ) __VA_ARGS__)
#define LB_REFUSE(endpoint, code, ...) (LB_TELL(endpoint, PST_LOG_ERROR, __VA_ARGS__), (code))

#define LB_PLACES (UINT32_C(1) << 14) /* of rx of one worker */

struct pst_worker {
  struct pst_device *device;
  int epoll_fd;
  int timer_fd;      /* wakes for the deadline of a peer that is to connect, and to look again */
  uint64_t timer_ns; /* that it is set to; 0: none */
  uint64_t again_ns; /* after so long the last arm() looks again; 0: something has come since */
  bool armed;
  uint32_t guard_hits; /* lb_guard_hits when it was last looked at */
  uint32_t idle;       /* polls that brought nothing, one after the other */
  uint32_t polls;
  uint32_t next;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  uint32_t closed; /* endpoints freed in this poll */
  struct pst_places rx;
  uint32_t buffer_last; /* number of the last lent region */
  bool unlending;       /* some rx is over and has regions to give up */
  uint64_t wakeups;
};

/* A region of a sender's, lent to a receiver. */
struct lb_buffer {
  struct lb_mr *mr; /* NULL: free entry */
  uint32_t number;
  uint32_t out; /* tokens */
};

#define LB_PENDING 1
#define LB_NO_BUFFER UINT16_MAX
enum { LB_SLOT_PEER = 0, LB_SLOT_HELD = 1 };

/* A receiver's part of a ring. It lives as long as the ring, since tokens outlive
 * their endpoint. */
struct lb_rx {
  struct pst_endpoint *endpoint; /* NULL: closed */
  struct pst_ring *ring;
  struct lb_link *own;
  struct lb_link *peer; /* to wake; NULL: not connected */
  bool fenced;
  uint32_t index; /* its number among the worker's: upper half of its tokens */
  uint32_t part;  /* of the ring's */
  int process_fd; /* -1, or the peer's, of which nobody knows yet that it writes no more */
  uint64_t tail;
  uint64_t claimed; /* by reference: taken over up to here */
  uint64_t free_head;
  uint64_t payload_offset; /* of slot 0's payload in the mr */
  uint8_t *states;
  uint16_t *buffer_of; /* by reference: index into buffers, of each slot */
  struct lb_buffer *buffers;
  uint32_t buffer_count;
  uint32_t last_buffer;
  uint32_t in_slots; /* tokens out of messages that lie in the ring's own slots */
  bool over;         /* its regions are to be given up as their tokens come back */
  uint64_t messages;
  uint64_t bytes;
};

struct pst_ring {
  struct pst_worker *worker;
  struct pst_ring_params params;
  struct lb_mr *mr;
  struct lb_rx **parts; /* params.endpoints; NULL: never used */
};

struct lb_tx {
  /* Free slots, those back last on top, since they are the warmest; of them the first
   * on top, so that slots are written in the order in which they were before. */
  uint32_t *stack;
  uint32_t credits;
  bool blocked; /* the last post wanted credits */
  uint64_t free_tail;
  uint64_t head; /* SENDs so far: of descriptors and, by reference, of the arrays */
  uint64_t message_max;
  /* By reference: SENDs not yet done, [tail, head). */
  uint64_t tail;
  uint64_t *post_of; /* slot → which SEND */
  uint64_t *cookies; /* of SEND i at i & mask */
  int32_t *results;  /* likewise; LB_PENDING, 0 or -errno */
  uint64_t messages;
  uint64_t bytes;
};

/* What there is between an endpoint and its peer; README.md draws it. */
enum lb_stage_name {
  LB_NEW,          /* has no peer */
  LB_CONNECTING,   /* the peer has not mapped us */
  LB_CONNECTED,    /* CONNECTED has been polled */
  LB_RECONNECTING, /* connected, and CONNECTED is due once more */
  LB_ORPHANED,     /* the peer's process has ended; what it left is handed over */
  LB_LOST,         /* no more will come of the peer, or go to it; DISCONNECTED is due */
  LB_GONE,         /* DISCONNECTED has been polled */
  LB_SHUT,         /* our port says CLOSED; the peer is in a post still, or DONEs are due */
  LB_FREED,        /* CLOSED has been polled */
};

struct lb_stage {
  enum lb_stage_name name;
  union {
    struct {
      uint64_t deadline_ns; /* 0: none */
    } connecting;
    struct {
      int status; /* 0: orderly */
      bool was_connected;
    } lost; /* and of LB_GONE */
  };
};

struct pst_endpoint {
  struct lb_stage stage; /* changed by lb_enter() alone */
  struct pst_worker *worker;
  uint64_t cookie;
  uint32_t roles;
  char label[64];
  struct lb_link *own;
  struct lb_link *peer;
  struct pst_remote *remotes; /* open */
  struct lb_mr *near;         /* what it reaches others from; NULL: unknown */
  struct lb_copier *copiers;
  struct lb_pending *pending; /* a ring as long as `dones`, with copiers */
  uint64_t pending_head;
  uint64_t pending_tail;
  struct pst_ring *ring;
  struct lb_rx *rx;
  struct lb_tx tx;
  bool fenced;
  struct pst_closing closing;
  uint64_t timeout_ns; /* of connecting */
  uint32_t peer_pid;
  struct pst_dones dones;
  uint64_t mapped; /* bytes of its peer's */
  int peer_fd;     /* of the peer's process, watched; -1: this one, or it has ended */
  /* A pidfd of this process, for the peer to watch: its own for each endpoint, since
   * Linux lets 500 descriptors of epoll watch one file. -1: not shared. */
  int process_fd;
};

void lb_path_fill(struct pst_path_info *path, enum lb_mode mode, bool shared);

/* Endpoints, from the hot path. */

/* To write soon: where another core has the line, its way here takes longer than a
 * copy of a message. gcc's prefetch for writing asks for the line shared only. */
static inline void lb_prefetch_write(const void *line)
{
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
  __builtin_prefetch(line, 1);
#endif
}

/* Messages between asking for a line and writing to it. */
#define LB_AHEAD 4u

static inline void lb_desc_write(struct lb_desc *desc, uint32_t slot,
                                 const struct pst_request *request)
{
  desc->slot = slot;
  desc->length = (uint32_t)request->arg.length;
  memcpy(&desc->sequence, &request->u.send.sequence, sizeof(desc->sequence) + sizeof(desc->meta));
}
_Static_assert(offsetof(struct lb_desc, meta) == offsetof(struct lb_desc, sequence) + 8 &&
                   offsetof(struct pst_request, u.send.meta) ==
                       offsetof(struct pst_request, u.send.sequence) + 8,
               "copied as one");

/* Show the peer what was written up to `head`. */
static inline void lb_tx_publish(const struct pst_endpoint *endpoint, uint64_t head)
{
  struct lb_port *port = endpoint->peer->port;
  atomic_store_explicit(&port->desc_head, head, memory_order_release);
  lb_barrier_light(endpoint->fenced);
  if (__builtin_expect(atomic_load_explicit(&port->armed, memory_order_relaxed), 0) &&
      atomic_exchange(&port->armed, 0))
    lb_link_wake(endpoint->peer);
}

/* To a stage that may follow the one it is in. */
void lb_enter(struct pst_endpoint *endpoint, struct lb_stage stage);
/* Why it is lost or gone; 0 in all other stages, too. */
static inline int lb_lost_status(const struct pst_endpoint *endpoint)
{
  const struct lb_stage *stage = &endpoint->stage;
  return stage->name == LB_LOST || stage->name == LB_GONE ? stage->lost.status : 0;
}
/* Has it been connected, so that requests and messages of its may be there? */
static inline bool lb_was_connected(const struct pst_endpoint *endpoint)
{
  const struct lb_stage *stage = &endpoint->stage;
  return stage->name == LB_LOST || stage->name == LB_GONE ? stage->lost.was_connected
                                                          : stage->name >= LB_CONNECTED;
}
/* Is CONNECTED due as soon as the peer has mapped us? */
static inline bool lb_is_connecting(const struct pst_endpoint *endpoint)
{
  return endpoint->stage.name == LB_CONNECTING || endpoint->stage.name == LB_RECONNECTING;
}
/* Has the peer's process ended, which is another one? */
static inline bool lb_peer_is_dead(const struct pst_endpoint *endpoint)
{
  return endpoint->peer && !endpoint->peer->in_process && endpoint->peer_fd < 0;
}
/* The peer broke the rules, or is gone; logged here when status is -EPROTO. */
void lb_endpoint_fail(struct pst_endpoint *endpoint, int status, const char *what);
/* The slow part of poll: states, closing, events. Returns completions written. */
uint32_t lb_endpoint_progress(struct pst_endpoint *endpoint, struct pst_completion *out,
                              uint32_t max);
/* Is there something for poll() or post() that arm() must not sleep over? */
bool lb_endpoint_pending(struct pst_endpoint *endpoint);
void lb_endpoint_free(struct pst_endpoint *endpoint);
/* Credits that have come back; ends SENDs by reference. */
void lb_tx_reap(struct pst_endpoint *endpoint);
/* By reference: end with `untaken` what the receiver never took over, and with
 * `held` what it has not released; LB_PENDING: go on waiting for that. */
void lb_tx_settle(struct pst_endpoint *endpoint, int32_t untaken, int32_t held);
/* A part of the ring that is free, and a place in the worker's table. -ENOSPC: none is. */
int lb_rx_open(struct pst_ring *ring, struct lb_rx **rx);
void lb_rx_free(struct lb_rx *rx);
/* By reference: give back what was taken over and never handed to the host. */
void lb_rx_return(struct lb_rx *rx);
/* All that the peer has sent was handed over. */
bool lb_rx_drained(const struct lb_rx *rx);
/* UNLENT for regions that no token is out of, of every rx that is over. */
uint32_t lb_worker_unlend(struct pst_worker *worker, struct pst_completion *out, uint32_t max);
bool lb_worker_may_unlend(const struct pst_worker *worker);
/* Fail endpoints whose memory a peer has taken away. */
void lb_worker_lost(struct pst_worker *worker);
static inline bool lb_worker_is_hit(const struct pst_worker *worker)
{
  return atomic_load_explicit(&lb_guard_hits, memory_order_relaxed) != worker->guard_hits;
}
void lb_worker_watch(struct pst_worker *worker);
/* A peer's process; or, without an endpoint, what wakes the worker. */
int lb_worker_watch_fd(struct pst_worker *worker, int fd, struct pst_endpoint *endpoint);
void lb_worker_unwatch_fd(struct pst_worker *worker, int fd); /* -1 is legal */
static inline bool lb_copy_pending(const struct pst_endpoint *endpoint)
{
  return endpoint->pending_head != endpoint->pending_tail;
}

lb_send_fn *lb_send_plain(void); /* the best this CPU has */

/* The operations. */

int lb_open(const struct pst_host *host, const struct pst_open_params *params,
            struct pst_device **device);
void lb_close(struct pst_device *device);
int lb_limits(struct pst_device *device, struct pst_limits *limits);
int lb_start(struct pst_device *device);
int lb_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr);
void lb_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int lb_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int lb_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote);
void lb_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);
int lb_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void lb_worker_close(struct pst_worker *worker);
int lb_arm(struct pst_worker *worker);
int lb_event_fd(struct pst_worker *worker);
int lb_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
void lb_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int lb_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
int lb_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int lb_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int lb_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int lb_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int lb_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int lb_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int lb_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int lb_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int lb_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
