/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a node: one device, one worker, and peers that come and go.
 *
 * Everything belongs to the node's thread, but for the mailbox: the control thread leaves
 * mail there and wakes the node. A peer's life:
 *
 *   JOINING  the control channels meet (WELCOME), then the transport's endpoints (CONNECTED)
 *   JOINED
 *   LEAVING  one side has had enough, or is dead: the endpoint is closed. What ends by that
 *            becomes events
 *   LEFT     its last event is told; it is freed once that has been handed out
 *
 * Who goes tells so by two ways, the control channel and the transport. After the first word
 * the other is waited for, so that nothing that had arrived is lost, and the better reason told.
 */
#ifndef PST_NODE_NODE_H
#define PST_NODE_NODE_H

#include "control/nodes.h"
#include "stream/rma.h"
#include "stream/session.h"

#define NODE_POLL_BATCH 64
#define NODE_GRACE_NS PST_NS_PER_S /* for the other word, and for closing */
#define NODE_NAP_NS (100 * PST_NS_PER_US)
#define NODE_TEXT_MAX 512
#define NODE_SEED UINT64_C(0x6e6f6465) /* of the pattern in areas, the same on all nodes */

/* An event on its way to the application, and what goes once it was looked at. */
struct node_entry {
  struct pst_node_event event;
  uint64_t token; /* MESSAGE */
  char *text;     /* its own, or NULL */
};

enum node_peer_state { NODE_PEER_JOINING, NODE_PEER_JOINED, NODE_PEER_LEAVING, NODE_PEER_LEFT };

/* A region of ours on offer. */
struct node_offer {
  struct node_offer *next;
  struct pst_area *area;
  struct pst_mr *mr;
  uint32_t id;
};

/* A region of the peer's. */
struct node_remote {
  struct node_remote *next;
  uint32_t id;
  uint32_t access;
  uint64_t length;
  uint32_t uses; /* operations under way */
  bool is_withdrawn;
  bool is_told;              /* WITHDRAWN is on its way to the application */
  struct pst_remote *remote; /* NULL: not opened yet */
  struct pst_blob blob;      /* until then; bytes and descriptors are ours */
};

/* What the operation in a slot names. */
struct node_use {
  struct node_remote *remote; /* FLUSH: NULL */
  uint32_t area_count;
};

struct pst_peer {
  struct pst_node *node;
  struct pst_peer *next;
  uint64_t id; /* of the control channel */
  void *context;
  enum node_peer_state state;
  bool control_over;    /* nothing comes from there any more, or is wanted */
  bool transport_over;  /* EVENT DISCONNECTED has come, or its word is not waited for */
  bool is_connected;    /* CONNECTED has come, and no address to be connected to since */
  bool is_closing;      /* endpoint_close was called */
  bool is_closed;       /* CLOSED has come */
  uint64_t deadline_ns; /* JOINING: of the transport; on one word: of the other; 0: none */
  int rank;             /* of who gave the reason, which is `code` with `end_text`; 0: nobody */
  int code;
  char end_text[NODE_TEXT_MAX];
  char text[192];

  struct pst_endpoint *endpoint;
  struct pst_blob address; /* to connect to once it is connected; bytes and descriptors are ours */

  struct pst_region ring_region;
  struct pst_mr *ring_mr;
  struct pst_ring *ring;

  /* Messages from us: [done, posted) are under way, [posted, queued) wait for credit. */
  struct pst_region send_region;
  struct pst_mr *send_mr;
  uint32_t *lengths;
  uint64_t queued, posted, done;
  uint64_t message_max; /* the lesser of both sides' */
  bool wants_send_room;

  struct rma rma;
  struct node_use *uses;    /* of each slot */
  struct pst_area **areas;  /* of each slot, node->pieces of them */
  struct pst_piece *pieces; /* of a batch of operations */
  bool wants_post_room;

  struct node_offer *offers;
  uint32_t offer_last;
  struct node_remote *remotes;
  uint64_t remote_bytes;
  uint32_t takens; /* TAKENs that are still to come */
  bool is_room_told;
  bool is_silent; /* the application does not know it */
};

struct pst_area {
  struct pst_node *node;
  struct pst_area *next;
  struct session_region own;
  uint32_t uses; /* by operations under way, and offers */
};

enum node_mail_type {
  NODE_MAIL_JOIN,
  NODE_MAIL_WELCOME,
  NODE_MAIL_REGION,
  NODE_MAIL_TAKEN,
  NODE_MAIL_WITHDRAW,
  NODE_MAIL_READDRESS,
  NODE_MAIL_GONE,
};

struct node_mail {
  struct node_mail *next;
  enum node_mail_type type;
  uint64_t peer;
  uint32_t region;
  uint32_t access;
  uint64_t length;
  uint64_t message_max;
  int code;
  char text[NODE_TEXT_MAX];
  struct pst_blob blob; /* bytes and descriptors are ours */
};

struct pst_node {
  struct pst_session base; /* memories, device and plugins, as setup.c keeps them */
  struct session_device *device;
  const struct pst_transport_ops *ops;
  const struct config_transport *transport;
  struct pst_worker *worker;
  int event_fd; /* of the worker; -1: cannot wake */
  int epoll_fd;
  int wake_fd;
  int timer_fd;
  uint64_t timer_ns; /* that it is set to; 0: not */
  bool insecure;
  bool has_failed; /* the device */
  struct control *control;
  const struct pst_origins *origins;
  struct pst_config **configs; /* whose options are in use */
  uint32_t config_count;
  struct session_memory *memory; /* of rings and messages */
  const void *lent[SESSION_LENT_MAX];

  uint32_t peers_max;
  uint32_t messages;
  uint64_t message_max;
  uint64_t ring_stride, send_stride;
  uint32_t depth;
  uint32_t pieces;         /* of an operation */
  uint32_t request_pieces; /* of a request: an operation of more is several */
  uint32_t offers;
  uint64_t offer_bytes;
  uint64_t connect_timeout_ns;

  struct pst_peer *peers;
  uint32_t peer_count;
  uint64_t id_last; /* of those that we connect to: even */
  struct pst_area *areas;

  /* A ring of entries: [released, head) were handed out by the last poll, [head, tail) are to be.
   */
  struct node_entry *entries;
  uint32_t entry_mask;
  uint32_t reserved; /* entries that may be needed at a time */
  uint32_t released, head, tail;

  atomic_bool has_mail;
  atomic_bool is_woken;
  atomic_bool has_lost_mail; /* out of memory */
  pthread_mutex_t mail_lock;
  struct node_mail *mail_first, *mail_last;
};

/* open.c */
struct node_memory_params {
  const char *memory;
  const struct pst_setting *options;
  uint32_t option_count;
};
/* The memory that these name, opened; `source` stands in error messages. */
int node_memory(struct pst_node *node, const struct node_memory_params *params, const char *source,
                struct session_memory **memory, struct pst_error *error);

/* node.c. Room for so many entries more, until node_unreserve(). */
int node_reserve(struct pst_node *node, uint32_t entries);
void node_unreserve(struct pst_node *node, uint32_t entries);
/* Room for it is reserved. */
struct node_entry *node_tell(struct pst_peer *peer, enum pst_node_event_kind kind);
uint32_t node_entries(const struct pst_node *node); /* that one peer may need */
struct pst_peer *node_peer(const struct pst_node *node, uint64_t id);

/* mail.c */
int mail_open(struct pst_node *node, const struct pst_node_params *params, struct pst_error *error);
void mail_close(struct pst_node *node);
void mail_read(struct pst_node *node);
/* One whose bytes and descriptors are ours. */
void mail_free_blob(struct pst_blob *blob);

/* peer.c */
int peer_open(struct pst_node *node, uint64_t id, const char *text, struct pst_peer **peer);
/* With its objects; the endpoint is closed. */
void peer_forget(struct pst_peer *peer);
int peer_address(struct pst_peer *peer, void *bytes, struct pst_blob *blob);
void peer_meet(struct pst_peer *peer, const struct pst_blob *address, uint64_t message_max);
/* The peer's endpoint has another address now; takes the blob over. */
void peer_meet_again(struct pst_peer *peer, struct pst_blob *address);
void peer_take(struct pst_peer *peer, const struct pst_completion *completion);
/* Leave now, for this reason if there is none yet; the other side is told by the control channel
 * unless that is over. mode: enum pst_close_mode. */
void peer_leave(struct pst_peer *peer, uint32_t mode, int code, const char *text);
/* What would name the endpoint could not be made, or not be sent. */
void peer_leave_untold(struct pst_peer *peer, int code);
/* "; raise …" when that is what helps against -errno, else "". */
const char *node_limit_remedy(int code);
/* One of its two words. */
void peer_control_over(struct pst_peer *peer, int code, const char *text);
void peer_transport_over(struct pst_peer *peer, int status);
void peer_progress(struct pst_peer *peer, uint64_t now);
bool peer_is_due(const struct pst_peer *peer); /* progress would do something */

/* message.c */
void message_push(struct pst_peer *peer);
void message_took(struct pst_peer *peer, const struct pst_completion *completion);
bool message_has_room(const struct pst_peer *peer);

/* offer.c */
void offer_taken(struct pst_peer *peer, uint32_t id, int code, const char *text);
void offer_drop_all(struct pst_peer *peer);
void remote_offered(struct pst_peer *peer, struct node_mail *mail);
void remote_open_all(struct pst_peer *peer); /* those that came before the transport was there */
void remote_withdrawn(struct pst_peer *peer, uint32_t id);
void remote_unuse(struct pst_peer *peer, struct node_remote *remote);
void remote_drop(struct pst_peer *peer, struct node_remote *remote);
void remote_drop_all(struct pst_peer *peer);
struct node_remote *remote_find(const struct pst_peer *peer, uint32_t id);

/* operate.c */
int operate_open(struct pst_peer *peer);
void operate_close(struct pst_peer *peer);
bool operate_has_room(const struct pst_peer *peer);

#endif
