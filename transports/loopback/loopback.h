/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this plugin share.
 *
 * An endpoint owns a *port*: the part of it that its peer sees, on the heap
 * within a process, in a sealed memfd between processes. A port has the flags of
 * its owner and, for a receiver, two single-producer rings: descriptors, written
 * by the peer, and free slot numbers (the credits), written by the owner. A
 * *link* is a port as this process sees it, with the receive slots behind it.
 *
 * Nothing read from a port that another process can write is trusted: it is read
 * once and checked before use, and what the owner needs again it keeps privately.
 */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

#include "described.h"

#define LB_VERSION 3u
#define LB_CACHE_LINE 64
#define LB_PIECES_MAX 64u
#define LB_REQUESTS_MAX (1u << 20)
#define LB_WORKERS_MAX 1024u
#define LB_ENDPOINTS_MAX 4096u /* of one worker */
/* A token's upper half: below, the place of its rx in the worker's table; above, the count
 * of those opened before, so that a token of one that had the place earlier is told apart. */
#define LB_PLACE_BITS 14u
#define LB_PLACES (UINT32_C(1) << LB_PLACE_BITS)

/* ---- Ports ---------------------------------------------------------------- */

struct lb_desc {
  uint32_t slot;
  uint32_t length;
  uint64_t sequence;
  uint64_t meta;
  uint64_t offset; /* by reference: of the payload in the lent region; else unused */
};
_Static_assert(sizeof(struct lb_desc) == 32, "two descriptors a cache line");

enum lb_state {
  LB_STATE_ATTACHED = 1u << 0, /* the owner has mapped its peer */
  LB_STATE_CLOSED = 1u << 1,   /* the owner posts, polls and answers no more */
  LB_STATE_VOID = 1u << 2,     /* its ring is gone, tokens that were out included */
};

enum lb_armed {
  LB_ARMED_ARRIVAL = 1u << 0, /* wake the owner for messages and changes of state */
  LB_ARMED_CREDIT = 1u << 1,  /* and for credits */
};

#define LB_CLAIM_ABORT (UINT64_C(1) << 63)

/* One cache line for each writer, so that neither end's publishing disturbs what
 * the other writes. */
struct lb_port {
  alignas(LB_CACHE_LINE) _Atomic uint32_t state;     /* enum lb_state; the owner's */
  _Atomic uint32_t armed;                            /* enum lb_armed; set by the owner */
  _Atomic uint64_t claimant;                         /* id of the one endpoint that attached */
  alignas(LB_CACHE_LINE) _Atomic uint64_t desc_head; /* the peer's */
  alignas(LB_CACHE_LINE) _Atomic uint64_t free_head; /* the owner's */
  /* By reference: how many messages the receiver has taken over, and whether the
   * sender has cancelled the others. */
  alignas(LB_CACHE_LINE) _Atomic uint64_t claimed;
};

/* ---- What a peer can take away ------------------------------------------------ */

/* guard.c: SIGBUS in such a range is the end of a connection, not of the process. */
struct lb_guard;
/* How often it has happened, in any range of this process. */
extern _Atomic uint32_t lb_guard_hits;
/* The range, rounded to pages of `page` bytes, all of which is mapped until lb_guard_close(). */
int lb_guard_open(void *at, uint64_t bytes, uint64_t page, struct lb_guard **guard);
void lb_guard_close(struct lb_guard *guard);
bool lb_guard_hit(const struct lb_guard *guard);

/* map.c: of a file that a peer has, too. */
struct lb_map {
  void *at; /* NULL: nothing is mapped */
  uint64_t bytes;
  struct lb_guard *guard;
};
/* Seals on fd that keep its maker from cutting it short under our feet, and at
 * least `bytes` in it. */
int lb_fd_check(int fd, uint64_t bytes, const char **why);
/* The pages of [offset, offset + length). *at: where offset is. */
int lb_map_open(int fd, uint64_t offset, uint64_t length, int prot, struct lb_map *map, void **at);
void lb_map_close(struct lb_map *map);
/* Pages that exist already are made known to the CPU; none is made, on our account, that does not.
 * -ENOMEM with *why: they cannot be had. */
int lb_map_populate(const struct lb_map *map, int fd, const char **why);
/* Of one peer's memory, at most so much is mapped at a time. */
uint64_t lb_mapped_max(void);

struct lb_link {
  _Atomic uint32_t refs;
  bool in_process; /* seen by both ends through this very object */
  bool wake_adds;  /* wake_fd counts, else a write of 0 wakes */
  int wake_fd;     /* an eventfd that wakes the owner */
  uint64_t id;
  struct lb_port *port;
  struct lb_desc *desc;
  uint32_t *free_slots;
  uint64_t mask; /* of both rings */
  uint64_t port_bytes;
  struct lb_map port_map;
  int port_fd; /* -1: heap, or the peer's */
  uint32_t slots;
  uint8_t *slot0; /* payload of slot 0 */
  uint64_t stride;
  uint64_t payload_max;
  struct lb_map ring_map; /* of the peer's ring region; at NULL: plain pointers */
  struct lb_mr **lent;    /* by reference: whose each slot's message is; NULL: in the slot itself */
  struct lb_link *next;   /* in the registry */
  /* Within a process: the peer is between its look at `state` and its last
   * write into the slots. */
  alignas(LB_CACHE_LINE) _Atomic uint32_t posting;
};

uint64_t lb_port_bytes(uint32_t slots, uint64_t *capacity);
/* A port of one's own; shared: in a sealed memfd. NULL: errno. */
struct lb_link *lb_link_new(uint64_t id, uint32_t slots, bool shared, bool lends);
/* Another process's, of `most` bytes. The descriptors stay the caller's. -EPROTO with *why. */
struct lb_address;
int lb_link_map(const struct lb_address *address, const int32_t *fds, uint64_t most,
                struct lb_link **link, const char **why);
void lb_link_unref(struct lb_link *link);
void lb_link_wake(struct lb_link *link);

static inline struct lb_link *lb_link_ref(struct lb_link *link)
{
  atomic_fetch_add_explicit(&link->refs, 1, memory_order_relaxed);
  return link;
}

/* ---- Process-wide ------------------------------------------------------------ */

/* Links and registrations that others in this process may find by number. */
int lb_process_open(int *fd);
uint64_t lb_id_new(void);
void lb_process_nonce(uint64_t nonce[2]);
void lb_registry_add_link(struct lb_link *link);
void lb_registry_remove_link(struct lb_link *link);
struct lb_link *lb_registry_find_link(uint64_t id); /* a new reference, or NULL */
void lb_registry_add_mr(struct lb_mr *mr);
void lb_registry_remove_mr(struct lb_mr *mr);
struct lb_mr *lb_registry_find_mr(uint64_t id); /* a new reference, or NULL */
/* Has a range of the device's that others have been offered been taken away? */
bool lb_registry_lost(const struct pst_device *device);

/* "I store a flag, then look at yours", against the same on the other side. The
 * hot side has the light barrier, which costs nothing when the cold side's can
 * reach into running threads (membarrier(2), expedited). */
bool lb_barrier_expedited(void);
void lb_barrier_heavy(void);
static inline void lb_barrier_light(bool fenced)
{
  if (fenced)
    atomic_thread_fence(memory_order_seq_cst);
  else
    atomic_signal_fence(memory_order_seq_cst);
}

/* ---- What peers exchange ------------------------------------------------------- */

/* Within one host, so in its own byte order. */
struct lb_address {
  uint64_t magic;
  uint32_t version;
  uint32_t mode;
  uint64_t nonce[2]; /* of the process */
  uint64_t id;
  uint32_t roles;
  uint32_t expedited; /* lb_barrier_expedited() there */
  uint32_t slots;
  uint32_t pid; /* for people */
  uint64_t port_bytes;
  uint64_t ring_offset; /* of slot 0's payload in the ring's descriptor */
  uint64_t stride;
  uint64_t payload_max;
};
#define LB_ADDRESS_MAGIC UINT64_C(0x7078626c5f747370) /* "pst_lbxp" */
enum { LB_FD_PROCESS, LB_FD_WAKE, LB_FD_PORT, LB_FD_RING };

#define LB_REMOTE_ACCESS                                                                           \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)
struct lb_remote_blob {
  uint64_t magic;
  uint32_t version;
  uint32_t access;
  uint64_t nonce[2];
  uint64_t id;
  uint64_t offset; /* of the range in what the region's descriptor or handle names */
  uint64_t length;
  /* How another process gets at it, as in struct pst_export. */
  uint32_t kind; /* 0: it does not */
  uint32_t handle_length;
  uint64_t base_address;
  uint64_t base_length;
  char device[48];
  unsigned char handle[64];
};
#define LB_REMOTE_MAGIC UINT64_C(0x72786d725f747370) /* "pst_rmxr" */
enum { LB_FD_VALID, LB_FD_REGION };

/* ---- Objects -------------------------------------------------------------------- */

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
  uint32_t workers;
};

/* What one-sided operations pass. Who has a seat says there that it is inside, then looks whether
 * the gate is open; its owner shuts it, then looks at all seats. The barrier between is the light
 * one for whoever goes in and the heavy one for the owner. Copies that end later, and who came when
 * all seats were taken, are counted in. */
struct lb_gate {
  _Atomic uint32_t open;
  _Atomic uint32_t inside;
  _Atomic uint32_t imports; /* by handles that keep nothing: how many have it mapped */
};

struct lb_seat {
  _Atomic uint32_t inside;
  _Atomic uint32_t taken; /* between processes: somebody has it */
};

/* Between processes, in a sealed memfd of one page. */
#define LB_SEATS 63u
struct lb_gate_page {
  struct lb_gate gate;
  struct {
    alignas(LB_CACHE_LINE) struct lb_seat seat;
  } seats[LB_SEATS];
};
_Static_assert(sizeof(struct lb_gate_page) == 4096, "a page");

struct lb_mr {
  _Atomic uint32_t refs;
  struct lb_gate gate; /* for this process */
  struct pst_device *device;
  uint64_t id;
  struct pst_region region; /* a copy: receivers hold it until they have polled UNLENT */
  uint64_t offset;
  uint64_t length;
  uint32_t access;
  uint8_t *base;                    /* NULL: the CPU cannot touch it */
  struct pst_remote *seated;        /* of this process; gate.c's */
  struct lb_gate_page *shared_gate; /* for other processes; NULL: not packed */
  struct lb_guard *gate_guard;
  struct lb_guard *guard; /* of the range, once others have its descriptor */
  int valid_fd;
  struct pst_export out; /* for other processes; kind 0: not packed */
  struct lb_mr *next;
};
/* The export by which others reach a region, or 0. */
uint32_t lb_export_kind(const struct pst_region *region);
/* In words: "cuda-vmm"; device: where it is reached from. */
const char *lb_via(const struct pst_region *region, uint32_t kind, const char *device);
struct pst_mr; /* is a struct lb_mr */
static inline struct lb_mr *lb_mr_of(struct pst_mr *mr)
{
  return (struct lb_mr *)mr;
}
void lb_mr_unref(struct lb_mr *mr);
/* Others will have the descriptor of its region. */
int lb_mr_guard(struct lb_mr *mr);

/* A queue of a memory's, for the requests of one endpoint that the CPU cannot do. */
struct lb_copier {
  struct lb_copier *next;
  const struct pst_memory_ops *ops;
  struct pst_memory *memory;
  struct pst_queue *queue;
  uint64_t done; /* ticket */
  uint32_t pending;
  bool failed;
};

/* A request of an endpoint with copiers, in post order, until its DONE. */
struct lb_pending {
  struct lb_copier *copier; /* NULL: done, behind others that are not */
  uint64_t ticket;
  uint64_t cookie;
  struct lb_gate *gate; /* to leave when it is done; NULL: another's */
  uint8_t opcode;
};

struct pst_remote {
  struct pst_endpoint *endpoint;
  struct pst_remote *next;  /* of the endpoint's */
  struct lb_mr *mr;         /* within this process */
  struct lb_copier *copier; /* for what the CPU cannot do; NULL: it can */
  uint64_t address;         /* as the copier's memory knows it */
  struct pst_region far;    /* imported for that; memory NULL: not so */
  const char *via;          /* of the copier's copies */
  bool counted;             /* among the gate's imports */
  uint8_t *base;            /* NULL: the CPU cannot touch it */
  uint64_t length;
  uint32_t access;
  struct lb_gate *gate;
  struct lb_seat *seat; /* NULL: it is counted in */
  struct lb_seat own_seat;
  struct pst_remote *seated; /* the next within this process */
  struct lb_map gate_map;
  struct lb_map region_map;
};

enum lb_watch_kind { LB_WATCH_WORKER, LB_WATCH_WAKE, LB_WATCH_PROCESS, LB_WATCH_TIMER };
struct lb_watch {
  enum lb_watch_kind kind;
  int fd;
  struct pst_endpoint *endpoint;
};

struct pst_worker {
  struct pst_device *device;
  uint32_t index;
  int epoll_fd;
  int event_fd; /* wakes from within the process */
  struct lb_watch watch;
  struct lb_watch timer; /* wakes for the deadline of a peer that is to connect */
  uint64_t timer_ns;     /* that it is set to; 0: none */
  bool armed;
  uint32_t guard_hits; /* lb_guard_hits when it was last looked at */
  uint32_t idle;       /* polls that brought nothing, one after the other */
  uint32_t polls;
  uint32_t next;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  uint32_t closed;      /* endpoints freed in this poll */
  struct lb_rx **rx;    /* by place; NULL: free, its ring is closed */
  uint32_t rx_count;    /* places there are */
  uint32_t rx_opened;   /* ever */
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
  uint32_t index; /* upper half of its tokens */
  uint32_t part;  /* of the ring's */
  int process_fd; /* -1, or the peer's, of which nobody knows yet that it writes no more */
  uint32_t first; /* its slot 0 in the ring */
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
  int fd;               /* of the region, for peers; -1: this process only */
  uint64_t fd_offset;   /* of the mr's range in it */
};

struct lb_done {
  uint64_t cookie;
  uint64_t count;
  uint32_t opcode;
  int32_t status;
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

struct pst_endpoint {
  struct pst_worker *worker;
  uint64_t cookie;
  uint32_t roles;
  char label[64];
  struct lb_link *own;
  struct lb_link *peer;
  struct pst_remote *remotes; /* open */
  struct lb_mr *near;         /* what it reaches others from; NULL: unknown */
  struct lb_copier *copiers;
  struct lb_pending *pending; /* a ring of done_mask + 1, with copiers */
  uint64_t pending_head;
  uint64_t pending_tail;
  struct pst_ring *ring;
  struct lb_rx *rx;
  struct lb_tx tx;
  bool fenced;
  bool attention; /* the slow part of poll has something to look at */
  bool connecting;
  bool connected; /* CONNECTED has been polled */
  bool dead;      /* the peer's process has ended */
  bool gone;      /* DISCONNECTED has been polled */
  bool freed;
  bool shut;           /* our port says CLOSED */
  bool over;           /* no more will come of the peer, or go to it */
  int over_status;     /* why; 0: orderly */
  uint32_t close_mode; /* 0: not closing */
  uint64_t close_deadline_ns;
  uint64_t timeout_ns;
  uint64_t connect_deadline_ns; /* of a peer that has not connected; 0: none */
  uint32_t peer_pid;
  uint32_t request_max;
  uint32_t outstanding;
  struct lb_done *done; /* a ring of done_mask + 1 */
  uint64_t done_mask;
  uint64_t done_head;
  uint64_t done_tail;
  int wake_fd;     /* an eventfd, also the peer's; -1: not shared */
  uint64_t mapped; /* bytes of its peer's */
  struct lb_watch wake_watch;
  struct lb_watch process_watch;
  /* A pidfd of this process, for the peer to watch: its own for each endpoint, since
   * Linux lets 500 descriptors of epoll watch one file. -1: not shared. */
  int process_fd;
};

#define LB_TAKE(local, from) pst_struct_read(&(local), sizeof(local), (from))
#define LB_GIVE(to, local) pst_struct_write((to), &(local), sizeof(local))

#define LB_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

void lb_path_fill(struct pst_path_info *path, enum lb_mode mode, bool shared);

/* ---- Endpoints, from the hot path -------------------------------------------------- */

/* Merges with the last DONE where it can; there is always room, since every
 * entry covers an outstanding request. */
static inline void lb_done_push(struct pst_endpoint *endpoint, uint32_t opcode, int32_t status,
                                uint64_t cookie, uint64_t count)
{
  struct lb_done *last = &endpoint->done[(endpoint->done_head - 1) & endpoint->done_mask];
  if (endpoint->done_head != endpoint->done_tail && last->opcode == opcode &&
      last->status == status && (opcode == PST_OP_SEND || opcode == PST_OP_WRITE)) {
    last->cookie = cookie;
    last->count += count;
    return;
  }
  struct lb_done *entry = &endpoint->done[endpoint->done_head++ & endpoint->done_mask];
  *entry = (struct lb_done){cookie, count, opcode, status};
}

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
int lb_worker_add_watch(struct pst_worker *worker, struct lb_watch *watch);
void lb_worker_drop_watch(struct pst_worker *worker, struct lb_watch *watch);
/* One request that is not a SEND: done on return, 0 or the error. */
/* Which peer's memory this thread is in, of the requests of one post. It comes out
 * after so many bytes, lest the owner wait long. */
struct lb_passage {
  struct pst_remote *inside; /* NULL: none */
  uint64_t bytes;
};
#define LB_PASSAGE_BYTES (UINT64_C(1) << 20)
/* Are request and ranges right? *by_copy: the CPU does not reach both ends. */
int lb_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request,
                 bool *by_copy);
/* The leading READs and WRITEs that are plain, up to n, and their DONEs. Returns how many. */
uint32_t lb_rma_plain(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                      struct lb_passage *passage);
int lb_rma_execute(struct pst_endpoint *endpoint, const struct pst_request *request,
                   struct lb_passage *passage);
void lb_rma_leave(struct lb_passage *passage);

/* gate.c */
bool lb_gate_enter(struct lb_gate *gate); /* counted in; false: it is shut */
/* A seat of the page's or, NULL, of the remote's mr, which is this process's. */
void lb_seat_take(struct pst_remote *remote, struct lb_gate_page *page);
void lb_seat_leave(struct pst_remote *remote);
/* When this returns, nobody is inside, or comes in. */
void lb_gates_shut(struct lb_mr *mr, uint64_t patience_ns);

static inline void lb_seat_out(struct pst_remote *remote)
{
  if (__builtin_expect(remote->seat != NULL, 1))
    atomic_store_explicit(&remote->seat->inside, 0, memory_order_release);
  else
    atomic_fetch_sub(&remote->gate->inside, 1);
}

/* False: the gate is shut. */
static inline bool lb_seat_in(struct pst_remote *remote, bool fenced)
{
  if (__builtin_expect(!remote->seat, 0))
    return lb_gate_enter(remote->gate);
  atomic_store_explicit(&remote->seat->inside, 1, memory_order_relaxed);
  lb_barrier_light(fenced);
  if (__builtin_expect(atomic_load_explicit(&remote->gate->open, memory_order_acquire), 1))
    return true;
  lb_seat_out(remote);
  return false;
}

/* copy.c: copies by the memory's own plugin, which end later. */
bool lb_copies_by(const struct pst_device *device, const struct pst_region *region);
/* The endpoint's copier of that region's memory, opened where it has none. */
int lb_copier_open(struct pst_endpoint *endpoint, const struct pst_region *region,
                   struct lb_copier **copier);
/* Of requests that are no SENDs, up to n. Returns how many were taken; *why and *rc as
 * post() has them. */
uint32_t lb_copy_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                      uint32_t *why, int *rc);
/* DONEs of what has ended. */
void lb_copy_progress(struct pst_endpoint *endpoint);
/* Wait for the device, and end all that is pending: the memory is the host's again. */
void lb_copy_end(struct pst_endpoint *endpoint);
void lb_copy_free(struct pst_endpoint *endpoint);
static inline bool lb_copy_pending(const struct pst_endpoint *endpoint)
{
  return endpoint->pending_head != endpoint->pending_tail;
}

lb_send_fn *lb_send_plain(void); /* the best this CPU has */

/* ---- The operations ------------------------------------------------------------------ */

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
