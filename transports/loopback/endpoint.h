/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: their stages, and what they send. */
#ifndef LOOPBACK_ENDPOINT_H
#define LOOPBACK_ENDPOINT_H

#include <penstock/transport-util.h>

#include "device.h"
#include "shm_port.h"
#include "worker.h"

/* A line of the log that begins with the endpoint's label. */
#define LB_TELL(endpoint, level, text, ...)                                                        \
  LB_LOG((endpoint)->worker->device, level, "%s: " text,                                           \
         (endpoint)->label __VA_OPT__(, ) __VA_ARGS__)
#define LB_REFUSE(endpoint, code, ...) (LB_TELL(endpoint, PST_LOG_ERROR, __VA_ARGS__), (code))

#define LB_PENDING 1

struct lb_tx {
  /* Free slots, those back last on top, since they are the warmest; of them the first
   * on top, so that slots are written in the order in which they were before. */
  uint32_t *stack;
  uint32_t credits;
  bool blocked; /* the last post wanted credits */
  uint64_t free_tail;
  uint64_t head; /* SENDs so far: of descriptors and, by reference, of the arrays */
  uint64_t message_max;
  /* By reference: SENDs not yet done, [tail, head): as many as the endpoint has requests, since
   * slots come back in any order. */
  uint64_t tail;
  uint64_t *post_of; /* slot → which SEND */
  uint64_t *cookies; /* of SEND i at i & dones.mask */
  int32_t *results;  /* of SEND i at i & dones.mask: LB_PENDING, 0 or -errno */
  uint64_t messages;
  uint64_t bytes;
};

/* Stages of an endpoint's relation to its peer; README.md draws them. */
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
/* Has lb_endpoint_progress() something to do? Of one that is connected or was; what is to be handed
 * over comes first. */
static inline bool lb_has_changed(const struct pst_endpoint *endpoint)
{
  const enum lb_stage_name stage = endpoint->stage.name;
  return endpoint->closing.mode || stage == LB_ORPHANED || stage == LB_LOST ||
         (stage == LB_CONNECTED && lb_link_is(endpoint->peer, LB_STATE_CLOSED));
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
static inline bool lb_copy_pending(const struct pst_endpoint *endpoint)
{
  return endpoint->pending_head != endpoint->pending_tail;
}

int lb_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
int lb_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int lb_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int lb_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int lb_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int lb_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int lb_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int lb_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
