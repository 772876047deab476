/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this plugin share.
 *
 * A worker has a completion queue; an endpoint has a queue pair on it. Messages are RDMA WRITEs
 * with immediate data (the low 32 bits of the sequence) into the receiver's slots, in the order in
 * which the receiver gave those slots out, so that nothing else needs to travel. Credits, hellos
 * and farewells are SENDs, told apart from messages by the completion's opcode; what one is, its
 * immediate data say.
 *
 * Of two ends the one with the lower GID and number says hello. The other may not be there yet: the
 * hello is repeated, by the device and then by a new beginning, in which nothing can be lost, since
 * nobody has heard it. It is connected when it is answered, and the other end when it hears it.
 *
 * Locks: none on a worker. A device's asynchronous events are read by whichever worker finds them,
 * under the device's lock; what they say of a queue pair is left in its endpoint's atomics.
 */
#ifndef RC_H
#define RC_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport.h>

#include "../verbs/counters.h"
#include "../verbs/device.h"
#include "../verbs/mr.h"
#include "../verbs/path.h"
#include "../verbs/status.h"

#define RC_CAPABILITIES                                                                            \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_SHARED_RING | PST_CAP_WAKEUP | PST_CAP_DYNAMIC |   \
   PST_CAP_IN_PROCESS)

#define RC_PLACES 65535u /* endpoints, and rings, of a worker */
#define RC_WORKERS_MAX 1024u
#define RC_SLOTS_MAX (1u << 22)
#define RC_REQUESTS_MAX 65536u
#define RC_PIECES_MAX 30u
#define RC_INLINE_WISH 128u
#define RC_POLL_BATCH 32u
#define RC_CONTROL_BYTES 512u   /* of a credit message, at most */
#define RC_CONTROL_RECEIVES 32u /* credit messages that a sender has receives for */
#define RC_SPARE_RECEIVES 4u    /* hello, farewell, and as many to be late */
#define RC_SPARE_SENDS 8u       /* likewise, with a keepalive */
#define RC_BLOB_RUNS 16u
#define RC_BLOB_BYTES 256u
#define RC_REMOTE_BYTES 40u
#define RC_SCRATCH_BYTES 64u /* behind the control buffers */
#define RC_REMOTE_ACCESS                                                                           \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)
#define RC_RING_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define RC_NEVER UINT64_MAX

#define RC_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

struct pst_device {
  const struct pst_host *host;
  struct pst_plan plan;
  struct vb_open open;
  struct vb_path path;
  struct ibv_device_attr attr;
  struct ibv_pd *pd;
  struct vb_mrs mrs; /* of pd */
  enum ibv_mtu mtu;
  uint32_t message_max;
  uint32_t pieces_max;
  uint64_t capabilities;
  int relaxed; /* IBV_ACCESS_RELAXED_ORDERING or 0 */
  uint64_t keepalive_ns;
  uint64_t reconnect_ns; /* 0: a connection that failed is over */
  bool uses_cm;          /* connections by rdma_cm */
  uint16_t cm_port;      /* that worker 0 listens at; 0: any */
  bool sends;            /* messages are SENDs, not WRITEs */
  uint64_t initial;      /* what sequence 0 travels as: a test's */
  char carrier[48];
  char counter_folder[320];
  struct vb_counters counters; /* as they were at open() */
  pthread_mutex_t events;      /* who reads the asynchronous ones */
  _Atomic bool is_lost;
};

/* A peer's registered range. */
struct pst_remote {
  struct pst_endpoint *endpoint;
  uint64_t address;
  uint64_t length;
  uint32_t rkey;
  uint32_t access; /* enum pst_access: the remote ones */
  struct pst_remote *next;
};

struct pst_mr {
  struct pst_device *device;
  struct vb_mr verbs;
  uint64_t length;
  uint64_t offset; /* in the region */
  uint32_t access; /* enum pst_access */
  bool is_cpu_readable;
  const struct pst_region *region; /* the host's: it outlives this */
};

/* ---- Rings, ring.c --------------------------------------------------------------------- */

enum rc_slot_state {
  RC_SLOT_FREE = 0, /* no endpoint's */
  RC_SLOT_OWNED,    /* an endpoint's: credited, or to be */
  RC_SLOT_OUT,      /* the host has its token */
};

struct rc_slot {
  uint32_t owner; /* place of its endpoint */
  uint16_t owner_generation;
  uint16_t state;
};

struct pst_ring {
  struct pst_worker *worker;
  uint32_t place;
  uint16_t generation;
  struct pst_ring_params params;
  struct vb_mr verbs; /* of its slots alone: what a peer may write to */
  uint64_t base;      /* of slot 0's payload, as peers address it */
  uint32_t *free;
  uint32_t free_count;
  uint32_t open_count; /* endpoints that use it */
  struct rc_slot *slots;
};

/* ---- Workers, worker.c ----------------------------------------------------------------- */

struct rc_place {
  void *at; /* NULL: free */
  uint16_t generation;
};

struct rc_places {
  struct rc_place *all;
  uint32_t room;
  uint32_t next; /* where to look for a free one */
};

struct pst_worker {
  struct pst_device *device;
  struct ibv_comp_channel *channel;
  struct rc_cm_worker *cm; /* NULL: connections are not rdma_cm's */
  struct ibv_cq *cq;
  uint32_t cq_used; /* completions that there may be at a time */
  int epoll_fd;
  int timer_fd;
  int wake_fd; /* of works that are through */
  struct rc_places endpoints;
  struct rc_places rings;
  struct ibv_wc wc[RC_POLL_BATCH];
  uint32_t wc_at;
  uint32_t wc_count;
  struct pst_endpoint *pending; /* with something to tell, or to do */
  _Atomic uint32_t notices;     /* that other threads have left with endpoints */
  uint32_t notices_seen;
  uint32_t told;       /* endpoints with room that a post wanted */
  uint32_t calls;      /* of poll since the clock was looked at */
  uint64_t soonest_ns; /* when something is due, at the earliest */
  uint64_t timer_ns;   /* what the timer is set to */
  uint32_t events_unacked;
  bool armed;
};

/* ---- Endpoints --------------------------------------------------------------------------- */

/* A work request in the send queue. */
struct rc_sent {
  uint64_t cookie;
  uint8_t opcode; /* enum pst_opcode; 0: the transport's own */
};

/* What the transport's own SENDs say, in their immediate data. */
enum rc_control {
  RC_HELLO = 1,
  RC_FAREWELL = 2, /* drained */
  RC_ABORTED = 3,
  RC_CREDIT = 4, /* struct rc_run, one after the other */
};

struct rc_run {
  uint32_t first; /* slot; big-endian, both */
  uint32_t count;
};

/* What a peer's address says, blob.c. */
struct rc_blob {
  bool is_ethernet;
  uint8_t gid_type;
  uint8_t mtu; /* enum ibv_mtu */
  uint8_t rd_atomic;
  uint16_t lid;
  uint32_t qpn;
  uint32_t psn;
  uint8_t gid[16];
  bool is_cm;
  uint16_t cm_port;  /* that it is asked at; 0: it is not */
  uint64_t cm_token; /* tells its requests from others' */
  bool is_receiver;
  bool is_sender;
  bool is_rma;
  bool sends;       /* SENDs into receives that name the slots */
  uint64_t initial; /* sender */
  uint32_t control_receives;
  uint64_t address; /* receiver: of slot 0's payload; and so on */
  uint32_t rkey;
  uint64_t stride;
  uint64_t payload_max;
  uint32_t slots; /* of the ring */
  uint32_t share; /* of them, for us */
  uint32_t run_count;
  struct rc_run runs[RC_BLOB_RUNS]; /* what it begins with; the rest comes as credit */
};

/* A queue of slot numbers. */
struct rc_fifo {
  uint32_t *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
};

struct rc_tx {
  struct rc_fifo credits;
  uint64_t address, stride, payload_max;
  uint32_t rkey;
  uint32_t slots;
  enum ibv_wr_opcode opcode;
  uint64_t messages, bytes, credit_messages;
};

struct rc_rx {
  struct pst_ring *ring;
  uint32_t share;
  bool sends;
  uint32_t ungranted; /* of SENDs: slots that are posted and not yet granted */
  struct ibv_sge sges[RC_POLL_BATCH];
  struct rc_fifo granted;                 /* slots in the order in which they are filled */
  struct rc_fifo back;                    /* released, not yet granted again */
  uint32_t control_receives;              /* that the peer has */
  uint64_t grants;                        /* slots ever granted by messages */
  uint64_t before;                        /* slots granted by the address */
  uint64_t arrived;                       /* messages */
  uint64_t first_of[RC_CONTROL_RECEIVES]; /* by credit message: its first slot in `grants` */
  uint64_t credits_sent;                  /* messages */
  uint64_t credits_taken;                 /* of them, known to have arrived */
  uint64_t highest;                       /* sequence + initial */
  uint64_t initial;
  uint64_t bytes;
};

enum rc_state {
  RC_NEW,        /* the queue pair is in INIT */
  RC_SETTING_UP, /* a deferred work takes it to RTS */
  RC_GREETING,   /* in RTS, hello posted */
  RC_CONNECTED,
  RC_MENDING, /* failed, and gives everything back to begin anew */
  RC_OVER,    /* failed, or the peer said farewell */
};

/* A connection that is to be had again, mend.c. */
struct rc_mend {
  uint64_t by_ns;    /* 0: there is none */
  uint64_t again_ns; /* when to try again, at the earliest */
  uint64_t began_ns;
  uint64_t flushed;         /* of the send queue: what the device has given back */
  uint32_t hellos;          /* that it has not */
  uint64_t count, repeated; /* connections had again, messages sent again */
  bool is_greeted;          /* a hello comes before all else, from either end */
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_device *device;
  uint32_t place;
  uint16_t generation;
  uint32_t roles;
  uint64_t cookie;
  uint64_t timeout_ns;
  uint64_t message_max;
  uint32_t requests_max;
  uint32_t pieces_max;
  char label[64];
  struct pst_mr *mostly; /* what a sender will mostly send from */

  struct ibv_qp *qp;
  struct rc_cm *cm; /* NULL: the connection is not rdma_cm's */
  uint32_t psn;
  uint32_t max_inline;
  struct rc_blob own, peer;
  enum rc_state state;
  _Atomic int setup; /* of the deferred work: 0 none, 1 under way, 2 through */
  int setup_rc;
  _Atomic int event; /* enum ibv_event_type + 1 of this queue pair, 0: none */

  /* The send queue. Indices run freely; those before sq_done are complete, before sq_told told. */
  uint32_t sq_size, sq_mask;
  uint64_t sq_head, sq_done, sq_told;
  struct rc_sent *sent;
  struct ibv_send_wr *wrs;
  struct ibv_sge *sges;
  uint32_t outstanding; /* requests taken and not told */
  uint64_t failed_from; /* this one failed with first_error, those behind it with `error` */
  int first_error;
  int error;

  uint32_t rq_size;
  uint32_t rq_posted;
  struct ibv_recv_wr again[RC_POLL_BATCH]; /* receives without buffers, linked */
  uint8_t *control;         /* a receiver's credit messages, a sender's receive buffers, scratch */
  uint32_t receive_buffers; /* a sender has one for each receive; else none */
  struct ibv_mr *control_mr;

  struct rc_tx *tx;
  struct rc_rx *rx;
  struct pst_remote *remotes;
  struct pst_remote *written; /* the last that a WRITE named and that may be read */

  struct rc_mend mend;
  uint64_t connect_by_ns;
  uint32_t hellos_lost;  /* that the device has given up */
  uint32_t hello_vendor; /* the vendor's code of the last */
  uint64_t heard_ns;     /* when the peer was last known to be there */
  uint64_t heard_done;   /* sq_done and arrivals by then */
  uint64_t heard_arrivals;
  uint64_t arrivals;
  uint64_t over_ns;  /* when it was over */
  uint64_t farewell; /* index of ours + 1; 0: none */
  uint64_t close_by_ns;
  uint32_t close_mode;
  int gone_status;
  bool owed; /* by then: whether the peer owed an answer */
  bool tell_connected, tell_gone;
  bool is_failed;
  bool is_cut;    /* completions that still come are of nothing */
  bool peer_left; /* by farewell */
  bool is_erred;  /* the queue pair is in ERR */
  bool wants_room, wants_queue, has_told_room;
  bool has_place;
  bool greets_again; /* once what was posted is flushed */
  bool is_pending;
  struct pst_endpoint *next_pending;
};

/* ---- verbs_rc's operations ----------------------------------------------------------------- */

int rc_open(const struct pst_host *host, const struct pst_open_params *params,
            struct pst_device **device);
void rc_close(struct pst_device *device);
int rc_limits(struct pst_device *device, struct pst_limits *limits);
int rc_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr);
void rc_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int rc_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void rc_worker_close(struct pst_worker *worker);
int rc_arm(struct pst_worker *worker);
int rc_event_fd(struct pst_worker *worker);
int rc_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
void rc_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int rc_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int rc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint);
int rc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int rc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int rc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int rc_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait);
int rc_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int rc_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int rc_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote);
void rc_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);
int rc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max);
int rc_describe(struct pst_endpoint *endpoint, char *text, size_t size);

/* ---- Between the files ------------------------------------------------------------------------
 */

static inline uint64_t rc_now_ns(const struct pst_device *device)
{
  return device->host->clock_ns(device->host);
}

/* places.c: numbers of endpoints and rings. -ENOSPC, -ENOMEM. */
int rc_place_take(struct rc_places *places, void *at, uint32_t *place, uint16_t *generation);
void rc_place_give(struct rc_places *places, uint32_t place);
static inline void *rc_place_find(const struct rc_places *places, uint32_t place,
                                  uint16_t generation)
{
  if (place >= places->room || places->all[place].generation != generation)
    return NULL;
  return places->all[place].at;
}

int rc_fifo_open(struct rc_fifo *fifo, uint32_t room);
static inline uint32_t rc_fifo_count(const struct rc_fifo *fifo)
{
  return fifo->head - fifo->tail;
}
static inline void rc_fifo_put(struct rc_fifo *fifo, uint32_t slot)
{
  fifo->at[fifo->head++ & fifo->mask] = slot;
}
static inline uint32_t rc_fifo_get(struct rc_fifo *fifo)
{
  return fifo->at[fifo->tail++ & fifo->mask];
}

/* wr_id: whose, and which: an index of the send queue, a control buffer. */
#define RC_RECEIVE (UINT64_C(1) << 63)
#define RC_SPARE 1u /* of SENDs: a receive without a slot */
static inline uint64_t rc_wr_id(const struct pst_endpoint *endpoint, uint32_t index)
{
  return (uint64_t)(endpoint->generation & 0x7fffu) << 48 | (uint64_t)endpoint->place << 32 | index;
}

/* ring.c */
void rc_ring_share(struct pst_ring *ring, struct pst_endpoint *endpoint);
void rc_ring_unshare(struct pst_ring *ring, struct pst_endpoint *endpoint);
uint64_t rc_ring_token(struct pst_ring *ring, uint32_t slot);

/* worker.c */
void rc_pend(struct pst_endpoint *endpoint);
void rc_unpend(struct pst_endpoint *endpoint);
/* Something is due then: a sleeper is woken for it. */
static inline void rc_due(struct pst_worker *worker, uint64_t at_ns)
{
  if (at_ns < worker->soonest_ns)
    worker->soonest_ns = at_ns;
}
void rc_disarm(struct pst_worker *worker);
/* What other threads have left: deferred works that are through, the device's events. */
void rc_take_notices(struct pst_worker *worker);
/* At the clock, and at what is due by it. */
void rc_look(struct pst_worker *worker);
/* Asynchronous events of the device. */
void rc_events(struct pst_device *device);

/* queue.c: the queue pair and its send queue. */
int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces);
void rc_queue_close(struct pst_endpoint *endpoint);
int rc_queue_init(struct pst_endpoint *endpoint);
/* Receives: `n` without buffers; or, of who sends and is sent credit, the one with that buffer.
 * 0 or -errno. */
int rc_receives_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_receive_again(struct pst_endpoint *endpoint, uint32_t buffer);
/* Of SENDs: for the last `n` of rx->granted; what was released, into receives; the next one. */
int rc_slots_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_slots_post_back(struct pst_endpoint *endpoint);
int rc_slot_again(struct pst_endpoint *endpoint, uint32_t slot);
static inline uint32_t rc_queue_room(const struct pst_endpoint *endpoint)
{
  return endpoint->sq_size - (uint32_t)(endpoint->sq_head - endpoint->sq_told);
}
/* Hand the requests [from, to) of the send queue over. How many went, or -errno for none. */
int rc_queue_ring(struct pst_endpoint *endpoint, uint64_t from, uint64_t to);
/* One of the transport's own: a SEND with `control` and perhaps bytes of `control` memory, or,
 * with 0, an empty RDMA WRITE. `cookie`, `opcode`: of what it ends, 0 for nothing. */
int rc_queue_own(struct pst_endpoint *endpoint, uint32_t control, const struct ibv_sge *bytes,
                 unsigned int flags, uint8_t opcode, uint64_t cookie);
void rc_queue_error(struct pst_endpoint *endpoint);
/* What hellos and farewells travel by: a receive that names a slot is for messages' SENDs. */
static inline enum ibv_wr_opcode rc_control_opcode(const struct pst_endpoint *endpoint)
{
  return endpoint->own.sends && endpoint->tx ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
}

static inline uint8_t *rc_send_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return endpoint->control + (size_t)buffer * RC_CONTROL_BYTES;
}
static inline uint8_t *rc_receive_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return rc_send_buffer(endpoint, (endpoint->rx ? RC_CONTROL_RECEIVES : 0) + buffer);
}
static inline uint8_t *rc_scratch(const struct pst_endpoint *endpoint)
{
  return rc_receive_buffer(endpoint, endpoint->receive_buffers);
}

/* rma.c: 0 or -errno; and what was checked, as a work request. */
int rc_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_rma_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                  const struct pst_request *request);
int rc_flush_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_flush_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                    const struct pst_request *request);
/* post.c: is it a range of local memory with that right; a piece of it for a work request. */
bool rc_is_within(const struct pst_endpoint *endpoint, const struct pst_mr *mr, uint64_t offset,
                  uint64_t length, uint32_t right);
int rc_check_local(const struct pst_endpoint *endpoint, const struct pst_request *request,
                   uint32_t right);
/* True: all of it is memory that the CPU reads. */
bool rc_add_local(struct ibv_send_wr *wr, const struct pst_request *request);

/* blob.c */
void rc_blob_write(const struct rc_blob *blob, uint8_t bytes[RC_BLOB_BYTES]);
bool rc_blob_read(const uint8_t *bytes, uint32_t length, struct rc_blob *blob);

/* connect.c: to be called by poll. */
int rc_set_up_soon(struct pst_endpoint *endpoint);
void rc_greet(struct pst_endpoint *endpoint);
void rc_greet_again(struct pst_endpoint *endpoint);
void rc_connected(struct pst_endpoint *endpoint);

bool rc_says_hello(const struct pst_endpoint *endpoint);

/* mend.c. True: it is tried to have the connection again, and has not failed. */
bool rc_mend_begin(struct pst_endpoint *endpoint, int status, const char *why);
bool rc_mend_for(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
void rc_mend_again(struct pst_endpoint *endpoint, uint64_t in_ns);
void rc_mend_step(struct pst_endpoint *endpoint);
void rc_mend_greet(struct pst_endpoint *endpoint);
/* A hello that is not of the send queue. */
void rc_mend_said(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
void rc_mend_heard(struct pst_endpoint *endpoint, uint32_t said);
void rc_mend_look(struct pst_endpoint *endpoint, uint64_t now_ns);
/* What is under way fails. */
void rc_mend_end(struct pst_endpoint *endpoint);

/* credit.c */
void rc_credit_send(struct pst_endpoint *endpoint);
/* What a credit message holds. False: it makes no sense. */
bool rc_credit_take(struct pst_endpoint *endpoint, const uint8_t *bytes, uint32_t length);

/* close.c: the end. `status` -errno; logged with `why` unless NULL. Once. */
void rc_fail(struct pst_endpoint *endpoint, int status, const char *why);
void rc_say_failed(const struct pst_endpoint *endpoint, enum pst_log_level level, int status,
                   const char *why, const char *then);
void rc_left(struct pst_endpoint *endpoint, int status);
/* No post will be told of room. */
void rc_forget_room(struct pst_endpoint *endpoint);
/* A step further. True: it can be freed. */
bool rc_close_step(struct pst_endpoint *endpoint, uint64_t now_ns);
/* Likewise: the end can be told. */
bool rc_gone_step(struct pst_endpoint *endpoint, uint64_t now_ns);
void rc_endpoint_free(struct pst_endpoint *endpoint);

#endif
