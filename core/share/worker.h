/* SPDX-License-Identifier: Apache-2.0 */
/* A client's worker with its rings and endpoints, which belong to the worker's thread. */
#ifndef PST_SHARE_WORKER_H
#define PST_SHARE_WORKER_H

#include "router.h"

#define SHARE_CLOSING_NS PST_NS_PER_S /* that a transport has to close an endpoint */

struct share_ring {
  struct pst_ring *ring;
  struct share_mr *mr;
  struct pst_slots slots; /* `out`: the client has the slot */
  uint64_t *tokens;       /* the transport's tokens, by slot */
  uint32_t number;
  uint32_t endpoints;
  uint32_t slots_asked; /* counted in client->slots */
};

struct share_remote {
  struct pst_remote *remote;
  struct share_endpoint *endpoint;
  uint32_t uses;
  uint32_t number;
};

/* A request that is queued or under way. */
struct share_pending {
  struct share_mr *mr; /* of the one piece, or NULL */
  struct share_remote *remote;
  uint32_t pieces;
  bool is_done;
};

/* Does the process of an endpoint live? The endpoint and its peer share this, if both belong to
 * this router. */
struct share_life {
  struct share_life *next;
  uint64_t address; /* a hash of the endpoint's address */
  uint32_t uses;
  atomic_bool has_died;
};

/* An endpoint of a client. Its requests lie in [head, tail); those before `posted` were passed to
 * the transport. */
struct share_endpoint {
  struct share_worker *worker;
  struct pst_endpoint *inner; /* NULL: CLOSED has come */
  struct share_ring *ring;
  struct share_endpoint *next; /* of the worker's endpoints */
  struct share_life *life, *peer;
  struct pst_request *requests;
  struct share_pending *pending;
  struct pst_piece *pieces;
  struct share_mr **piece_mrs;
  uint32_t head, posted, tail, mask;
  uint32_t requests_max, pieces_max;
  uint64_t queued;     /* of client->queued */
  uint32_t under_way;  /* passed to the transport and not done */
  uint32_t number;     /* the client's number for it */
  bool is_active;      /* in worker->active */
  uint32_t close_mode; /* 0: open */
  bool is_closing;     /* the transport's endpoint closes */
  uint64_t deadline_ns;
  char label[64];
};

struct share_worker {
  struct share_client *client;
  struct pst_worker *inner;
  const struct pst_transport_ops *ops;
  struct pst_share_page *page;
  struct pst_share_entry *submit;
  struct pst_completion *complete;
  uint32_t submit_head, complete_tail, complete_head; /* complete_head: as last read */
  /* The client has router_event and client_event too, and may do anything to them. */
  int memory_fd, router_event, client_event, epoll_fd;
  int own_event; /* an eventfd of this process alone */
  pthread_t thread;
  bool has_thread;
  atomic_bool is_stopping;
  _Atomic(struct share_command *) command;
  pthread_mutex_t lock; /* of is_answered */
  pthread_cond_t answered;
  bool is_answered;
  struct pst_places endpoints, rings, remotes;
  struct share_endpoint *all;     /* a list */
  struct share_endpoint **active; /* with something to post, or closing */
  uint32_t active_count, endpoint_count;
};

/* life.c. Note the endpoint's address, or its peer's address; forget the endpoint. */
void share_life_address(struct share_endpoint *endpoint, const void *bytes, uint32_t length);
void share_life_connect(struct share_endpoint *endpoint, const void *bytes, uint32_t length);
void share_life_end(struct share_endpoint *endpoint);

/* endpoint.c. Makes an endpoint of the worker that has no queue yet. 0 or -errno, logged. */
int share_endpoint_alloc(struct share_worker *worker, struct share_endpoint **made);
void share_endpoint_free(struct share_endpoint *endpoint);
/* Allocates the queue, for requests_max requests of pieces_max pieces. */
int share_endpoint_make_room(struct share_endpoint *endpoint);
/* Release the memory and the remote of the request at this index of the queue. */
void share_endpoint_forget(struct share_endpoint *endpoint, uint32_t at);
/* Note that the oldest `count` requests of this opcode are done. False: there are fewer. */
bool share_endpoint_done(struct share_endpoint *endpoint, uint32_t opcode, uint64_t count);
/* Let share_submit_post() look at the endpoint, which has something to post, or closes. */
static inline void share_endpoint_activate(struct share_endpoint *endpoint)
{
  struct share_worker *worker = endpoint->worker;

  if (!endpoint->is_active) {
    endpoint->is_active = true;
    worker->active[worker->active_count++] = endpoint;
  }
}

/* call.c */
void share_call_run(struct share_worker *worker, struct share_command *command);
void share_call_close_all(struct share_worker *worker);

/* submit.c. Take what the client has submitted; returns how many entries. */
uint32_t share_submit_take(struct share_worker *worker);
/* Give to the transport what it takes, and end what has to end; returns how many requests. */
uint32_t share_submit_post(struct share_worker *worker);

/* complete.c. Returns how many completions the transport gave. */
uint32_t share_complete_poll(struct share_worker *worker);
/* Room for so many completions? */
bool share_complete_has_room(struct share_worker *worker, uint32_t count);
void share_complete_push(struct share_worker *worker, const struct pst_completion *completion);
void share_complete_push_done(struct share_endpoint *endpoint, uint32_t opcode, int32_t status,
                              uint64_t count);
void share_complete_push_event(struct share_endpoint *endpoint, uint8_t event, int32_t status);
/* Wakes the client if it sleeps. */
void share_complete_publish(struct share_worker *worker);

#endif
