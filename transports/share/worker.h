/* SPDX-License-Identifier: Apache-2.0 */
/* Workers, their rings and endpoints: each stands for one of the router. */
#ifndef SHARE_WORKER_H
#define SHARE_WORKER_H

#include "device.h"

#define SHARE_OPCODES (PST_OP_FLUSH + 1u)
#define SHARE_KEPT_FDS 16u
#define SHARE_NO_RING UINT32_MAX

struct pst_remote {
  struct pst_remote *next; /* of the endpoint */
  struct pst_endpoint *endpoint;
  uint32_t number;
};

struct pst_ring {
  struct pst_ring *next; /* of the worker */
  struct pst_mr *mr;
  struct pst_share_ring asked; /* for `mr` */
  uint32_t number;             /* in its tokens; SHARE_NO_RING: the router has no such ring */
  uint32_t slots;
  uint64_t base, length; /* of the slots in the mr */
  uint64_t payload_max;
  uint8_t *out; /* by slot; 1: the host has the token */
};

/* Requests of one opcode that are outstanding: their cookies, in post order. */
struct share_cookies {
  uint64_t *at; /* NULL: the endpoint posts no such request */
  uint32_t head, tail;
};

/* A peer's address, until this end has an endpoint of its epoch. */
struct share_address {
  struct share_hello hello;
  struct pst_blob blob; /* the transport's */
  unsigned char bytes[];
};

struct pst_endpoint {
  struct pst_endpoint *next; /* of the worker */
  struct pst_worker *worker;
  struct pst_remote *remotes;
  struct pst_ring *ring; /* NULL: it receives nothing */
  struct pst_mr *mr;
  struct pst_share_endpoint asked; /* for `ring` and `mr` */
  uint64_t cookie;
  uint32_t number; /* 0: the router has no such endpoint */
  uint32_t opened; /* how often */
  uint32_t roles;
  bool returns;       /* reconnects; else the first loss ends it */
  bool is_renewing;   /* the router closes its endpoint, another follows */
  bool was_connected; /* the host posts */
  bool has_left; /* the peer closed in good order: its router was stopped, or its stream is over */
  bool tells_address;    /* READDRESS is to be polled */
  uint32_t kept_flushes; /* of epochs before, which are done now */
  uint64_t epoch;
  uint64_t away_ns; /* since when it has been without its peer; 0: it is not */
  struct share_address *peer;
  uint64_t sent, sent_bytes, next_sequence;
  uint64_t received, received_bytes, highest_sequence;
  uint64_t lost;         /* messages of its sender, between two epochs */
  uint64_t counted_next; /* of a transport that loses: `lost` counts the numbers below */
  struct share_kept kept;
  uint32_t requests, pieces, mask;
  uint32_t outstanding;
  uint64_t message_max;
  bool is_connecting, is_connected, is_disconnected, is_closing;
  struct share_cookies cookies[SHARE_OPCODES];
  int fds[SHARE_KEPT_FDS]; /* of its addresses; the host uses them */
  uint32_t fd_count;
};

/* A worker's memory at a router, from its answer. */
struct share_memory {
  uint32_t number; /* of the worker; 0: none */
  int fds[3];
};

struct pst_worker {
  struct pst_worker *next; /* of the device */
  struct pst_device *device;
  struct share_memory coming; /* at the new router; device->lock */
  struct pst_endpoint *all;
  struct pst_ring *all_rings;
  uint32_t index;
  uint32_t link;     /* the connection of its memory; another than the device's: away */
  bool is_lost;      /* the host's objects do not stand for any of the router's */
  bool is_unsettled; /* some endpoint is without its peer, or has an event to tell */
  struct share_kept kept;
  struct pst_share_page *page;
  struct pst_share_entry *submit;
  const struct pst_completion *complete;
  uint32_t submit_tail, submit_head; /* submit_head: as last read */
  uint32_t complete_head;
  uint32_t number;
  int router_event, client_event, epoll_fd;
  bool is_armed, wants_room, has_told;
  uint64_t looked_ns;                                  /* when the connection was last checked */
  struct pst_endpoint *endpoints[PST_SHARE_ENDPOINTS]; /* by place; NULL: none */
  struct pst_ring **rings;                             /* the same */
  uint32_t ring_room;
  uint64_t *released; /* tokens not yet passed to the router */
  uint32_t released_count, released_room;
};

/* Whether the worker's memory is that of the router that serves now. */
static inline bool share_is_up(const struct pst_worker *worker)
{
  return atomic_load_explicit(&worker->device->link, memory_order_acquire) == worker->link;
}

/* The link for calls about this endpoint. */
static inline uint32_t share_endpoint_link(const struct pst_endpoint *endpoint)
{
  return endpoint->number ? endpoint->worker->link : UINT32_MAX;
}

/* reconnect.c: a router that was started again */

/* Looks for a router, and takes its memory; for a worker that is away. False: the old router has
 * left completions, which are to be polled first. */
bool share_worker_away(struct pst_worker *worker);

/* renew.c: endpoints whose connection was lost */

/* Takes the peer's address, of this epoch or of a later one. */
int share_renew_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
/* Leaves the router's endpoint for another one of this epoch. */
void share_renew(struct pst_endpoint *endpoint, uint64_t epoch);
/* The router has ended, and its endpoint with it. */
void share_renew_lost(struct pst_endpoint *endpoint);
/* Ends requests, opens endpoints again and tells their events. Returns the completions. */
uint32_t share_renew_settle(struct pst_worker *worker, struct pst_completion *out, uint32_t max);
/* Forgets the address of the peer that was kept. */
void share_renew_forget(struct pst_endpoint *endpoint);

/* counters.c */
int share_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);

/* worker.c */
int share_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void share_worker_close(struct pst_worker *worker);
int share_arm(struct pst_worker *worker);
int share_event_fd(struct pst_worker *worker);
/* Opens the worker at a router that was started again, on another thread. */
int share_worker_reopen(struct pst_worker *worker);
/* Takes its new memory, and opens its rings there; no message may be out. 0 or -errno; -ENOTCONN:
 * the router has ended again. */
int share_worker_restore(struct pst_worker *worker);
/* Whether the host has messages of the worker's rings. */
bool share_worker_has_messages(const struct pst_worker *worker);
int share_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                    struct pst_path_info *path, struct pst_ring **ring);
void share_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int share_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
/* Pass released tokens to the router, as far as the ring has room. */
void share_release_flush(struct pst_worker *worker);

/* endpoint.c */
int share_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                        struct pst_endpoint **endpoint);
/* Opens the endpoint at the router, and stores its number. */
int share_endpoint_ask_open(struct pst_endpoint *endpoint);
/* Connects to this address of the transport. */
int share_endpoint_ask_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int share_endpoint_ask_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int share_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int share_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int share_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int share_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
/* Removes `count` requests that are done, and fills in the cookie of the last. False: there are
 * fewer. */
bool share_endpoint_done(struct pst_endpoint *endpoint, struct pst_completion *done);
/* Ends requests of one opcode: those that are outstanding, one for each if the opcode is not SEND
 * or WRITE. Returns the completions. */
uint32_t share_endpoint_end(struct pst_endpoint *endpoint, uint32_t opcode, int status,
                            struct pst_completion *out, uint32_t max);
static inline uint32_t share_outstanding(const struct pst_endpoint *endpoint, uint32_t opcode)
{
  return endpoint->cookies[opcode].tail - endpoint->cookies[opcode].head;
}
int share_describe(struct pst_endpoint *endpoint, char *text, size_t size);
int share_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                      struct pst_remote **remote);
void share_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);
/* Free an endpoint for which CLOSED has come. */
void share_endpoint_free(struct pst_endpoint *endpoint);

/* rings.c */
int share_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait);
/* Returns how many entries the submission ring has room for. */
uint32_t share_submit_room(struct pst_worker *worker);
/* Publish to the router what was written to the submission ring. */
void share_submit_publish(struct pst_worker *worker);

int share_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
#endif
