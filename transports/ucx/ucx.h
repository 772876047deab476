/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, workers, links, rings and endpoints.
 *
 * A device is a ucp_context. An endpoint has a link: a ucp_worker of its own with one ucp_ep. Two
 * endpoints so never share a connection that UCX pairs by order of creation, a peer's messages need
 * no number that says whose they are, and what a dead peer leaves unfinished is freed with its
 * worker, at once. pst_worker is the list of links that one thread progresses.
 *
 * Who owns what. UCX reads headers, sources and destinations until a request's callback. All of
 * them lie in the link, or are the host's memory that the DONE gives back. A link outlives its
 * endpoint as a leaving link, until the peer has what was sent; and its worker, in the device's
 * keeper, where a peer that lives has had no room for the BYE.
 */
#ifndef UCX_H
#define UCX_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "described.h"
#include "stage.h"
#include "wire.h"

#define UCX_BATCH_MAX 128u   /* messages of one active message */
#define UCX_SOURCES_MAX 136u /* pieces of memory of one: a batch, or a request of 64 pieces */
#define UCX_WINDOW 32u       /* active messages with payload under way on a link */
#define UCX_CONTROLS 16u     /* others under way */
#define UCX_HELLO_BYTES 512u /* behind its header: more than UCX sends as a short one */
#define UCX_LINGER_NS                                                                              \
  UINT64_C(100000000)                    /* for the peer to answer a BYE, and for what is fetched */
#define UCX_TELL_NS UINT64_C(2000000000) /* more, for a peer that has no room for it */
/* Links of a worker, and of the keeper behind closed ones, that wait longer, for peers that are
 * seen to live. */
#define UCX_UNTOLD_MAX 64u

struct pst_device {
  const struct pst_host *host;
  ucp_context_h context;
  ucp_datatype_t gather; /* the datatype whose pack function copies an active message */
  struct ucx_identity identity;
  uint64_t memory_types; /* bits of ucs_memory_type_t that this UCX reaches */
  uint32_t address_max;
  uint32_t remote_max;
  enum ucx_peer_failure peer_failure;
  uint64_t batch_bytes;     /* option; 0: as the lanes take */
  uint64_t rendezvous_from; /* option; 0: as the lanes are best at */
  uint64_t direct_from;
  bool sleeps;
  bool has_rma;
  bool shares; /* has a transport of shared memory */
  char transports[256];
  char environment[192];     /* UCX's variables that are set, by name */
  struct ucx_keeper *keeper; /* of links that outlive their workers; NULL: there was none yet */
  pthread_mutex_t keeper_lock;
};

struct pst_mr {
  struct pst_cpu_mr cpu; /* base is the device's address where the CPU reaches none */
  ucp_mem_h memh;
  ucs_memory_type_t type;
  bool by_cpu;
};

struct pst_ring {
  struct pst_cpu_ring cpu;
  uint64_t released; /* slots given back, ever */
  bool by_cpu;
};

struct ucx_link;

/* A message that is arriving or has arrived, by its position. */
struct ucx_arrival {
  struct ucx_link *link; /* it is fetched; else NULL */
  uint64_t sequence;
  uint64_t meta;
  uint64_t left; /* bytes to come */
  uint32_t slot;
  uint32_t length;
  bool is_open; /* it has a slot */
};

/* An active message under way. UCX reads header and sources until it has ended. */
struct ucx_am {
  struct ucx_header header;
  struct ucx_link *link;
  struct ucx_am *next; /* in its pool */
  uint64_t bytes;      /* behind the header */
  uint64_t unit;       /* of the SENDs it carries */
  uint32_t source_count;
  bool has_unit;
  bool is_void; /* its sources are the host's again */
  ucp_dt_iov_t *sources;
  struct ucx_record *records;
};

/* Requests of one opcode that end together, in post order. */
struct ucx_unit {
  uint64_t cookie; /* of the last one */
  uint32_t count;
  uint32_t left; /* parts under way; 0: done */
  int32_t status;
};

struct ucx_units {
  struct ucx_unit *at; /* a ring of mask + 1 */
  uint64_t mask;
  uint64_t head, tail;
};

/* A peer's memory, and its key. */
struct pst_remote {
  struct pst_remote *next; /* of the link's */
  ucp_rkey_h rkey;
  uint64_t address;
  uint64_t length;
  uint32_t access; /* enum pst_access */
  const struct ucx_link *link;
};

/* A WRITE, READ, atomic or FLUSH under way. */
struct ucx_op {
  struct ucx_link *link;
  struct ucx_op *next;
  uint64_t cookie;
  uint64_t unit;     /* a WRITE's */
  uint64_t position; /* FLUSH: the SENDs that the peer has to have */
  uint64_t puts;     /* FLUSH: the WRITEs that are placed by then */
  uint64_t operand;  /* atomics: what UCX reads */
  uint32_t left;     /* parts that UCX has not ended */
  int32_t status;
  uint8_t opcode; /* 0: a flush that a FENCE waits for */
  bool is_taken;
};

/* A request that waits for a FENCE. */
struct ucx_held {
  struct pst_request request;
  struct pst_piece *pieces;
};

/* A message that is longer than an active message, while it is cut. */
struct ucx_cut {
  ucp_dt_iov_t sources[PST_CPU_PIECES_MAX];
  struct ucx_header header;
  uint64_t offset; /* bytes that went */
  uint64_t unit;
  uint32_t source, count; /* the piece that is next, of count */
  uint64_t source_offset;
  bool is_open;
};

/* The peer of a link, as endpoint_connect found it. */
struct ucx_peer {
  uint64_t nonce;
  ucp_address_t *address; /* for a herald */
  int pidfd;              /* of its process; -1: that is not watched */
  bool is_here;           /* on this host */
  bool by_ucx;            /* its failures are UCX's to notice */
  bool has_died;          /* its process has: ucx_tick() ends the link */
};

struct ucx_link {
  struct ucx_stage stage; /* changed by ucx_enter() alone */
  enum ucx_line line;     /* by ucx_enter_line() */
  struct pst_worker *worker;
  struct pst_endpoint *endpoint; /* NULL: it has been closed */
  struct ucx_link *next;         /* of the links that leave */
  ucp_worker_h ucp;
  ucp_ep_h ep;
  int efd;
  ucp_am_recv_callback_t receive;
  uint64_t nonce;
  struct ucx_peer peer;
  /* By the lanes, once it has joined. */
  bool is_shared;      /* what was sent lies in the receiver's memory */
  uint64_t part_max;   /* bytes of payload in one active message */
  uint64_t whole_from; /* messages of so many bytes go by rendezvous */
  char lanes[192];
  uint32_t controls_under_way, fetches, ops_under_way;
  struct ucx_am *free_ams, *free_controls;
  uint32_t ams_under_way, window;
  struct ucx_am *ams;
  ucp_dt_iov_t *sources;
  struct ucx_record *records;
  struct pst_ring *ring; /* that fetches write to */
  struct ucx_arrival *arrivals;
  uint64_t arrival_mask;
  struct ucx_op *ops, *free_ops;
  uint32_t op_count;
  struct pst_remote *remotes;
};

/* The connection is no more. */
static inline bool ucx_link_is_lost(const struct ucx_link *link)
{
  return link->stage.name >= UCX_LOST;
}
/* Why; 0: it is there, or its endpoint is closed. */
static inline int32_t ucx_link_status(const struct ucx_link *link)
{
  return link->stage.name == UCX_LOST || link->stage.name == UCX_GONE ? link->stage.lost.status : 0;
}
/* The peer's BYE has come, and the connection is there. */
static inline bool ucx_link_has_left(const struct ucx_link *link)
{
  const enum ucx_stage_name name = link->stage.name;
  return name == UCX_LEFT || name == UCX_DRAINED ||
         (name == UCX_LEAVING && link->stage.leaving.answer != UCX_NO_WORD);
}
static inline bool ucx_link_owes_greeting(const struct ucx_link *link)
{
  const enum ucx_stage_name name = link->stage.name;
  return (name == UCX_CONNECTING || name == UCX_JOINED) &&
         (link->stage.greeting.hello == UCX_OWED || link->stage.greeting.answer == UCX_OWED);
}
/* Its peer knows it, and the connection is there. */
static inline bool ucx_link_is_joined(const struct ucx_link *link)
{
  const enum ucx_stage_name name = link->stage.name;
  return name == UCX_JOINED ||
         ((name == UCX_LEFT || name == UCX_DRAINED) && link->stage.left.was_joined);
}
/* UCX has nothing for it but, perhaps, a BYE. */
static inline bool ucx_link_is_cut(const struct ucx_link *link)
{
  return link->line >= UCX_LINE_CUT;
}

struct pst_worker {
  struct pst_device *device;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count, endpoint_room;
  struct ucx_link *leaving;
  uint32_t untold_count; /* of them: peers that live and have no room for the BYE */
  struct pst_places rings;
  uint32_t turn;
  uint32_t idle_turns; /* polls until the clock is looked at */
  int watch_fd;        /* epoll: pidfds of peers */
  int sleep_fd;        /* epoll: watch_fd, timer_fd, event descriptors of UCX; -1 */
  int timer_fd;
  uint64_t ticked_ns;
};

/* Sends of an endpoint, and what it owes. */
struct ucx_tx {
  uint64_t position;   /* of the next SEND */
  uint64_t limit;      /* first that the peer has no slot for */
  uint64_t length_max; /* of the peer's slots */
  bool must_fetch;
  struct ucx_units sends, writes;
  struct ucx_cut cut;
  /* A ring of those that wait behind a FENCE. */
  struct ucx_held *held;
  struct pst_piece *held_pieces;
  uint64_t held_mask, held_head, held_tail;
  uint64_t held_sends;
  bool is_fencing;             /* a flush that a FENCE waits for is under way */
  uint64_t puts, puts_flushed; /* WRITEs that began, and that are known to be placed */
  uint32_t fetching;           /* READs and atomics under way */
  uint64_t flush_known;        /* position: the peer has all before it */
  struct ucx_op *flushing, **flushing_end;
  bool owes_flush;
  uint64_t messages, bytes; /* counters */
};

struct ucx_rx {
  uint64_t head;            /* position of the next MESSAGE */
  uint64_t limit_told;      /* position that the peer knows it may send up to */
  uint64_t share;           /* slots that were free when this endpoint came */
  uint64_t released_before; /* of the ring, at that time */
  uint64_t flush_asked;
  bool owes_flushed;
  uint64_t highest; /* position behind the last that has come */
  uint64_t messages, bytes;
};

struct pst_endpoint {
  struct pst_cpu_endpoint cpu;
  struct pst_worker *worker;
  struct ucx_link *link;
  char label[64];
  struct ucx_tx tx;
  struct ucx_rx rx;
  bool has_cancelled; /* its close has taken back requests */
  uint32_t waits_for; /* enum pst_wait: why post() took fewer than it was given */
  uint32_t pieces_max;
  uint64_t waits_since_ns; /* an answer of the peer's; 0: none is owed */
};

#define UCX_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)
#define UCX_TELL(endpoint, level, text, ...)                                                       \
  UCX_LOG((endpoint)->worker->device, level, "%s: " text,                                          \
          (endpoint)->label __VA_OPT__(, ) __VA_ARGS__)
#define UCX_REFUSE(endpoint, code, ...) (UCX_TELL(endpoint, PST_LOG_ERROR, __VA_ARGS__), (code))

static inline uint64_t ucx_now_ns(const struct pst_device *device)
{
  return device->host->clock_ns(device->host);
}

#endif
