/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node: one device, one worker, and peers that come and go. All of it belongs to the node's
 * thread, but for the mailbox: the control thread leaves mail there and wakes the node.
 */
#ifndef PST_NODE_NODE_H
#define PST_NODE_NODE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "control/nodes.h"
#include "engine/engine.h"
#include "engine/region_data.h"
#include "engine/thread.h"
#include "engine/worker.h"
#include "events.h"
#include "util/clock.h"
#include "util/log.h"

#define CACHE_LINE 64

#define NODE_POLL_BATCH 64
#define NODE_UNPOLLED_MAX 32
#define NODE_CLOSE_NS PST_NS_PER_S /* for what is queued, and for closing an endpoint */
#define NODE_BUSY_PEERS 4u         /* that may have all of their messages under way at once */
#define NODE_PLACE_MAX sizeof(((struct pst_peer_info *)NULL)->local)
#define NODE_REMOTE_ACCESS                                                                         \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

#define NODE_SEED UINT64_C(0x6e6f6465) /* of the pattern in areas, the same on all nodes */

struct pst_peer;

/* Memory of the application's, for operations and offers. */
struct pst_area {
  struct pst_node *node;
  struct pst_area *next;
  struct region_data own;
  uint32_t uses; /* by offers; by operations: peer_rma_names() */
};

/* Devices see what peers have written into areas that were offered to them. 0 or -errno. */
int area_flush_offered(const struct pst_node *node);

/* Slots that messages arrive in. */
struct node_ring {
  struct region region;
  struct pst_ring *ring;
};

/*
 * Slots that messages are sent from, one each while it is under way. One free slot
 * is reserved for each peer that has none under way, so that a peer that does not read stops no
 * other peer. No peer has rights in the region.
 */
struct send_pool {
  struct region region;
  uint32_t *free; /* a stack */
  uint32_t free_count;
  uint32_t kept; /* for as many peers */
};

struct pst_node {
  struct engine engine;
  struct engine_device *device;
  const struct config_transport *transport;
  struct engine_worker worker;
  int timer_fd;
  uint64_t timer_ns; /* that it is set to; 0: not */
  bool insecure;
  bool is_bare;    /* it has no transport: control_transport.h */
  bool has_failed; /* the device */
  struct control *control;
  const struct pst_origins *origins;
  struct pst_config **configs; /* whose options are in use */
  uint32_t config_count;
  struct engine_memory *memory; /* of rings and messages */
  bool has_flush; /* a memory of an area must be called before it sees what was read into it */

  uint32_t peers_max;
  uint32_t messages;
  uint64_t message_max;
  uint64_t ring_stride, send_stride;
  uint32_t depth;
  uint32_t pieces;         /* of an operation */
  uint32_t request_pieces; /* of a request: an operation of more is several */
  uint32_t offers;
  uint64_t offer_bytes;
  uint64_t connect_timeout_ns, peer_timeout_ns;
  uint64_t grace_ns; /* for the other word of a peer that goes */

  struct pst_peer *peers;
  uint32_t peer_count;
  uint32_t silent;  /* peers that the application does not know */
  uint64_t id_last; /* of those that we connect to: even */
  bool shares_ring; /* of all peers; else each has its own */
  struct node_ring ring;
  struct pst_piece *batch; /* of the operations of one post, whichever peer's */
  struct send_pool sends; /* of all peers; where a transport lends what is sent, each has its own */
  struct pst_area *areas;
  struct node_events events;
  uint32_t unpolled; /* polls, one after the other, that gave completed operations alone */

  atomic_bool has_lost_mail; /* out of memory */
  struct engine_thread thread;
};

extern const struct engine_events node_worker_events;
/* The peer of that id that has not left; or NULL. */
struct pst_peer *node_peer(const struct pst_node *node, uint64_t id);

/* ---- open.c ---- */
/* The memory of that plugin (NULL: host), opened; `source` stands in error messages. */
int node_memory(struct pst_node *node, const char *name, const struct pst_setting *options,
                uint32_t option_count, const char *source, struct engine_memory **memory,
                struct pst_error *error);

static inline int node_no_memory(struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the node");
}

/* Slots for the messages of `peers` peers, in one direction. */
static inline uint32_t node_slots(const struct pst_node *node, uint32_t peers)
{
  const uint32_t busy = peers < NODE_BUSY_PEERS ? peers : NODE_BUSY_PEERS;

  return peers + busy * (node->messages - 1);
}

/* ---- ring.c ---- */
/* Do the peers of this node share one? Where the receiver picks the slot of each message. */
bool node_ring_is_shared(const struct pst_node *node);
/* For so many peers; domain: theirs, 0 if they share it. 0 or -errno; it is to be closed after
 * either. error may be NULL. */
int node_ring_open(struct pst_node *node, struct node_ring *ring, uint32_t peers, uint64_t domain,
                   struct pst_error *error);
void node_ring_close(struct pst_node *node, struct node_ring *ring);

/* ---- send_pool.c ---- */
/* 0 or -errno; it is to be closed after either. error may be NULL. */
int send_pool_open(struct pst_node *node, struct send_pool *pool, uint32_t peers,
                   struct pst_error *error);
/* Nothing is sent from it any more. */
void send_pool_close(struct send_pool *pool);
/* May a peer that holds `held` slots have one more? */
bool send_pool_has_room(const struct send_pool *pool, uint64_t held);
uint32_t send_pool_take(struct send_pool *pool, uint64_t held);
void send_pool_give(struct send_pool *pool, uint32_t slot, uint64_t held);

/* ---- control_adapter.c: what the control channel hears, on its way to the node's thread ---- */
/* Open the control channel. */
int mail_open(struct pst_node *node, const struct pst_node_params *params, struct pst_error *error);
void mail_close(struct pst_node *node);
/* Acts on all mail from the control thread. */
void mail_read(struct pst_node *node);

#endif
