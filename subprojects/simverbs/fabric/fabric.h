/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric: one sparse file that every process maps whole, at whatever address. Everything in it
 * is named by offset, index or number, never by a pointer that another process would follow.
 *
 * A process may be killed between any two instructions, so: whatever is written is written before
 * the index or number that publishes it; every lock is robust, and what its holder may have left
 * half done is harmless or repaired by whoever takes the lock next (fab_lock).
 *
 * Order of locks: a send queue's (of its process alone), the fabric's, a queue pair's, a shared
 * receive queue's, a region's (one at a time), a device's atomics, a completion queue's.
 */
#ifndef FABRIC_H
#define FABRIC_H

#include "sim.h"

#include <stdatomic.h>
#include <sys/types.h>

#define FAB_MAGIC 0x7642665374736e50u
/* A fabric of another layout is refused, rather than misread. */
#define FAB_VERSION (1u << 28 | (uint32_t)sizeof(struct fabric))
#define FAB_SIZE (UINT64_C(2) << 30)
#define FAB_PAGE 4096u
#define FAB_PAGES (FAB_SIZE / FAB_PAGE)

enum {
  FAB_NAME = 32,
  FAB_PROCESSES = 1024,
  FAB_HOSTS = 64,
  FAB_DEVICES = 256,
  FAB_PORTS = SIM_PORTS,
  FAB_GIDS = 16,
  FAB_PKEYS = 4,
  FAB_SUBNETS = 64,
  FAB_ROUTERS = 64,
  FAB_FAULTS = 128,
  FAB_MCAST = 256,
  FAB_QP_BITS = 16,
  FAB_MR_BITS = 18,
  FAB_QPS = 1 << FAB_QP_BITS,
  FAB_CQS = 1 << 16,
  FAB_SRQS = 1 << 14,
  FAB_MRS = 1 << FAB_MR_BITS,
  FAB_NO_ROUTE = 255,
};

/* Counters of a port or of the fabric; fab_counter_names has their names. */
enum fab_counter {
  FAB_TX_MESSAGES,
  FAB_RX_MESSAGES,
  FAB_TX_BYTES,
  FAB_RX_BYTES,
  FAB_LOST_PORT_DOWN,
  FAB_LOST_NO_PATH,
  FAB_LOST_HOP_LIMIT,
  FAB_LOST_GID_TYPE,
  FAB_LOST_VLAN,
  FAB_LOST_MTU,
  FAB_LOST_NO_QP,
  FAB_LOST_QP_STATE,
  FAB_LOST_PEER,
  FAB_LOST_PSN,
  FAB_LOST_PKEY,
  FAB_LOST_ECE,
  FAB_LOST_KEY, /* DC access key, Q_Key */
  FAB_LOST_FAULT,
  FAB_LOST_DEAD,
  FAB_LOST_NO_RECEIVE, /* of UD and UC */
  FAB_RNR_NAKS,
  FAB_RETRIES,
  FAB_ACCESS_ERRORS,
  FAB_CQ_OVERRUNS,
  FAB_STRICT_REPORTS,
  FAB_COUNTERS
};
extern const char *const fab_counter_names[FAB_COUNTERS];

struct fab_gid {
  union ibv_gid gid;
  uint8_t used;
  uint8_t type; /* enum ibv_gid_type */
  uint16_t vlan;
  uint32_t ifindex; /* of its netdev, in the namespace that has it; 0: of the port's */
};

struct fab_port {
  uint8_t used;
  uint8_t link_layer;
  uint8_t grh_required; /* IBV_QPF_GRH_REQUIRED: without a GRH nothing leaves */
  _Atomic uint8_t up;
  _Atomic uint8_t cut; /* nothing gets through, and no event is raised */
  uint8_t mtu;         /* enum ibv_mtu: max and active */
  uint16_t lid;
  uint16_t subnet;
  uint16_t pkeys[FAB_PKEYS];
  char netdev[FAB_NAME];
  struct fab_gid gids[FAB_GIDS];
  _Atomic uint32_t told[SIM_EVENTS]; /* how often it was made to tell of one */
  _Atomic uint64_t counters[FAB_COUNTERS];
};

struct fab_caps {
  uint32_t max_qp, max_cq, max_mr, max_pd, max_srq, max_ah, max_mw;
  uint32_t max_qp_wr, max_sge, max_sge_rd, max_inline, max_cqe, max_srq_wr, max_srq_sge;
  uint32_t max_rd_atomic, max_dest_rd_atomic, max_dc_rd_atomic;
  uint32_t max_msg_size;
  uint32_t wqe_blocks; /* of 64 bytes, that a send queue has at most, as on mlx5; 0: by requests */
  uint8_t scatter_to_cqe; /* SENDs of up to so many bytes come in the completion; 0: none */
  uint8_t dmabuf, dc, log_max_streams, log_max_errored;
  uint8_t late_writes;      /* WRITEs are placed after their acknowledgement, not in their order */
  uint8_t resize_cq;        /* ibv_resize_cq is there */
  uint8_t last_wqe;         /* IBV_EVENT_QP_LAST_WQE_REACHED is raised */
  uint8_t retries_for_ever; /* a retry_cnt of 7 does not run out */
  uint32_t ece;             /* options of mlx5; 0: it has none */
  uint32_t command_us;      /* that a command of the firmware's takes; 0: none */
  uint8_t atomic_cap; /* enum ibv_atomic_cap; NONE: atomics are refused, here and by who is asked */
  /* Rules for requested sizes: those of a queue pair and of a shared receive queue are rounded up
   * to powers of two; and never more than these are given, whatever was asked for. */
  uint8_t rounds_up;
  uint32_t gives_sends, gives_receives, gives_pieces, gives_inline, gives_shared, gives_cqe;
};

enum fab_vendor { FAB_VENDOR_MELLANOX = 0x02c9, FAB_VENDOR_SOFT_ROCE = 0xffffff };

struct fab_device {
  char name[FAB_NAME];
  uint8_t used;
  _Atomic uint8_t removed;
  uint16_t host;
  uint16_t number; /* of the host's: uverbsN */
  __be64 guid;
  uint32_t vendor_id; /* enum fab_vendor */
  uint8_t transport;  /* enum ibv_transport_type */
  int open_error;     /* errno of ibv_open_device; 0: it opens */
  struct fab_caps caps;
  struct fab_port ports[FAB_PORTS]; /* port 1 first */
  pthread_mutex_t atomics;
  _Atomic uint32_t objects[8]; /* alive, by enum fab_kind */
};

struct fab_subnet {
  char name[FAB_NAME];
  uint8_t used;
  uint8_t mtu;
};

struct fab_router {
  char name[FAB_NAME];
  uint8_t used;
  _Atomic uint8_t up;
  uint8_t mtu;
  uint64_t subnets; /* a bit each */
  _Atomic uint64_t died_of_hop_limit;
};

enum fab_process_state { FAB_SLOT_FREE, FAB_SLOT_USED, FAB_SLOT_DYING };

struct fab_process {
  _Atomic uint32_t state;
  pid_t pid;
  uint16_t host;
  uint64_t serial;           /* never used twice */
  _Atomic uint32_t doorbell; /* futex: rung for its NIC thread */
  _Atomic uint32_t asleep;
  _Atomic uint32_t serves;     /* it has a NIC thread */
  _Atomic uint32_t served;     /* the doorbell up to which that thread has done what was due */
  _Atomic uint32_t unanswered; /* send queues with requests that were not done then */
};

/* Tables' entries: `number` is 0 while free, and is what a peer or a key names. */
struct fab_pd {
  _Atomic uint32_t number;
  uint16_t owner;
  uint16_t device;
};

struct fab_mr {
  pthread_mutex_t lock;    /* held while bytes move, so that deregistration waits for that */
  _Atomic uint32_t number; /* the key */
  uint32_t last_key;       /* of the entry's last user: the next gets another */
  uint16_t owner;
  uint16_t device;
  uint32_t pd;
  uint32_t access;
  uint64_t iova, length;
  uint64_t address;   /* in the owner */
  uint32_t windows;   /* bound to it */
  uint32_t window_of; /* a bound window's region: its index + 1; else 0 */
  uint32_t window_qp; /* type 2: the QP that it is bound to */
  uint8_t is_window;  /* enum ibv_mw_type, or 0 */
  uint8_t valid;      /* a window's: bound; a region's: not invalidated */
};

/* A posted receive; its scatter entries follow. */
struct fab_recv {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t hash; /* of its bytes as they were posted: strict; 0: none */
  struct ibv_sge sges[];
};

struct fab_ring {
  uint64_t offset; /* of the block */
  uint32_t size;   /* entries, a power of two */
  uint32_t stride; /* bytes */
  uint32_t max_sge;
  uint32_t room;          /* entries that may be posted and not yet polled */
  _Atomic uint32_t head;  /* next to be posted */
  _Atomic uint32_t tail;  /* next to be taken */
  _Atomic uint32_t freed; /* taken, completed and polled */
};

enum fab_arm { FAB_ARM_NONE, FAB_ARM_SOLICITED, FAB_ARM_ANY };

struct fab_cq {
  pthread_mutex_t lock;
  _Atomic uint32_t number;
  uint16_t owner;
  uint16_t device;
  struct fab_ring ring; /* of struct sim_entry */
  uint8_t armed;
  uint8_t ignore_overrun;
  _Atomic uint8_t overrun;
  _Atomic uint32_t event;      /* its channel is to be told */
  _Atomic uint32_t async_bits; /* 1 << enum ibv_event_type */
  uint32_t users;
  /* While the completion of a taken receive is put in: of which QP (index + 1), at which place. */
  uint32_t finisher;
  uint32_t finisher_head;
};

struct fab_srq {
  pthread_mutex_t lock;
  _Atomic uint32_t number;
  uint16_t owner;
  uint16_t device;
  uint32_t pd;
  struct fab_ring ring;
  uint32_t limit; /* 0: not armed */
  /* While a receive is taken: by which QP (index + 1), from which place. */
  uint32_t taker, taker_tail;
  _Atomic uint32_t async_bits;
  uint32_t users;
};

struct fab_qp {
  pthread_mutex_t lock;
  _Atomic uint32_t number;
  uint32_t last_number;
  uint16_t owner;
  uint16_t device;
  uint8_t kind;          /* enum sim_qp_kind */
  _Atomic uint8_t state; /* enum ibv_qp_state */
  uint8_t port;
  uint8_t path_mtu;
  uint8_t min_rnr_timer;
  uint8_t max_dest_rd_atomic;
  uint8_t communicated; /* IBV_EVENT_COMM_EST was given */
  uint8_t flushed;      /* since it is in ERR */
  uint8_t solicited;
  uint32_t ece;    /* options that this connection uses */
  uint8_t scatter; /* SENDs of up to so many bytes come in the completion */
  uint16_t pkey;
  uint32_t pd;
  uint32_t access;
  uint32_t qkey;
  uint32_t dest_qpn;
  uint32_t rq_psn; /* expected next */
  uint64_t dct_key;
  struct ibv_ah_attr ah;
  uint32_t srq, send_cq, recv_cq; /* index + 1, or 0 */
  struct fab_ring rq;
  _Atomic uint32_t sq_freed; /* send requests whose room was given back by polling */
  _Atomic uint32_t async_bits;
  _Atomic uint32_t attention; /* its owner has its send queue to flush */
  /* The receive being delivered, for the repair of a lock whose holder died in it. */
  uint32_t taken;      /* 1 while there is one */
  uint32_t taken_tail; /* its place in the queue */
  uint64_t taken_wr_id;
};

enum fab_clock_kind { FAB_CLOCK_REAL, FAB_CLOCK_SCALED, FAB_CLOCK_MANUAL };
enum fab_engine { FAB_ENGINE_EAGER, FAB_ENGINE_DEFERRED };

enum fab_fault_kind {
  FAB_FAULT_NONE,
  FAB_FAULT_CLAIMED, /* being written */
  /* Asked for where data passes or memory is registered: fab_fault_hits. */
  FAB_FAULT_DROP,
  FAB_FAULT_DELAY,
  FAB_FAULT_RNR,
  FAB_FAULT_REG_MR,
  FAB_FAULT_DMABUF,
  FAB_FAULT_QP_ERROR,
  FAB_FAULT_TARGET_ERROR,
  FAB_FAULT_CQ_ERROR,
  FAB_FAULT_QP_EVENT,
  /* Done once, to `on`. */
  FAB_FAULT_PORT_DOWN,
  FAB_FAULT_PORT_UP,
  FAB_FAULT_LOSE_PEER,
  FAB_FAULT_RESTORE_PEER,
  FAB_FAULT_REMOVE_DEVICE,
  FAB_FAULT_RESTORE_DEVICE,
  FAB_FAULT_ROUTER_DOWN,
  FAB_FAULT_ROUTER_UP,
  FAB_FAULT_PORT_EVENT,
  FAB_FAULT_PORT_SET,
};

/* A host, a device or a port, what is 0 being any; or a router. */
struct fab_target {
  uint16_t host, device; /* index + 1 */
  uint16_t port;         /* from 1 */
  uint16_t router;       /* index + 1 */
};

struct fab_fault {
  _Atomic uint32_t kind;
  struct fab_target of; /* who sends (RNR, TARGET: receives; the refusals: registers) */
  struct fab_target on; /* of what is done once */
  uint32_t qpn;         /* 0: any */
  uint32_t per_million;
  int value; /* errno of FAB_FAULT_REG_MR and _DMABUF; the event of _QP_ and _PORT_EVENT */
  _Atomic int64_t after; /* so many pass first; what is done once is done as the next one comes */
  _Atomic int64_t left;  /* so many are hit, then it is over; negative: no end */
  uint64_t delay_ns;
  uint64_t at_ns;    /* not before, by the fabric's clock */
  uint64_t until_ns; /* 0: no end */
  uint64_t for_ns;   /* of what is done once: undone so much later; 0: never */
  /* For FAB_FAULT_PORT_SET: 0 and none leave it as it is. */
  uint16_t lid;
  uint8_t mtu; /* enum ibv_mtu */
  uint8_t gid_index;
  struct fab_gid gid;
};

struct fab_mcast {
  union ibv_gid gid;
  uint32_t qpn; /* 0: free */
  uint32_t device;
};

enum fab_kind { FAB_KIND_PD, FAB_KIND_MR, FAB_KIND_CQ, FAB_KIND_SRQ, FAB_KIND_QP, FAB_KINDS };

struct fabric {
  uint64_t magic;
  uint32_t version;
  _Atomic uint32_t ready;
  uint64_t size;
  pthread_mutex_t lock;
  char name[FAB_NAME];
  _Atomic uint64_t next_serial;
  /* Changes with anything that a path depends on. */
  _Atomic uint32_t topology;

  uint32_t clock_kind;
  uint32_t engine;
  uint64_t engine_delay_ns; /* FAB_ENGINE_DEFERRED: at random up to this */
  uint32_t strict;
  double clock_scale;
  _Atomic int64_t clock_base_ns; /* manual: the time; else added to the scaled time */
  int64_t clock_start_ns;        /* CLOCK_MONOTONIC */
  _Atomic uint64_t counters[FAB_COUNTERS];

  uint32_t hosts, devices, subnets, routers;
  char host[FAB_HOSTS][FAB_NAME];
  struct fab_device device[FAB_DEVICES];
  struct fab_subnet subnet[FAB_SUBNETS];
  struct fab_router router[FAB_ROUTERS];
  uint8_t hops[FAB_SUBNETS][FAB_SUBNETS];     /* routers between; FAB_NO_ROUTE */
  uint8_t path_mtu[FAB_SUBNETS][FAB_SUBNETS]; /* the least on the way */
  uint8_t first_router[FAB_SUBNETS][FAB_SUBNETS];
  _Atomic uint32_t faults;      /* entries from here on were never used */
  _Atomic uint32_t script_bell; /* futex: rung when something new is to be done at a time */
  uint64_t description;         /* hash of the file it was made from; 0: there was none */
  struct fab_fault fault[FAB_FAULTS];
  struct fab_mcast mcast[FAB_MCAST];

  struct fab_process process[FAB_PROCESSES];

  uint32_t cursor[FAB_KINDS]; /* where the search for a free entry begins */
  uint32_t high[FAB_KINDS];   /* entries from here on were never used */
  uint32_t page_cursor;
  struct fab_pd pd[FAB_QPS];
  struct fab_mr mr[FAB_MRS];
  struct fab_cq cq[FAB_CQS];
  struct fab_srq srq[FAB_SRQS];
  struct fab_qp qp[FAB_QPS];
  uint16_t page_owner[FAB_PAGES]; /* slot + 1; 0: free. The fabric's own pages are never free. */
};

/* ---- of this process ---- */

/* The fabric that this process has mapped; NULL before fab_attach. */
extern struct fabric *fab;
extern uint32_t fab_slot;
extern uint16_t fab_host;

/* Makes the file of a fabric (EEXIST: there is one) and maps it, with `describe` to fill in hosts
 * and devices before others may attach. No slot is taken. */
int fab_create(const char *path, int (*describe)(struct fabric *f, void *argument), void *argument);
/* Maps the fabric in this file without taking a slot: for tools. ENOENT, EPROTO (another version).
 */
int fab_open(const char *path);
/* Maps it and takes a slot on host `host` (NULL: the first). ENOENT: no such host; EUSERS: full. */
int fab_attach(const char *path, const char *host);
/* Frees what the slot has, and unmaps. */
void fab_detach(void);
/* In a forked child: it is attached to nothing. */
void fab_forget(void);
/* Is the process in this slot dead? Reaps it if it is; no lock but a send queue's may be held. */
bool fab_is_dead(uint32_t slot);
/* The same, but looks at most once in a tick of the coarse clock (some milliseconds). */
bool fab_seems_dead(uint32_t slot);
/* Looks at one process more, each time: what nobody else notices is noticed so. */
void fab_patrol(void);
/* Reaps all that are dead. */
void fab_reap_all(void);
/* Does another process live in this slot? */
bool fab_slot_held(uint32_t slot);
/* Frees everything that a slot owns, and the slot: one's own, or that of a process that died. */
void fab_reap(uint32_t slot);

/* fab_lock returns true if its last holder died in it: what it guards is then to be repaired. */
void fab_lock_init(pthread_mutex_t *lock);
bool fab_lock(pthread_mutex_t *lock);
void fab_unlock(pthread_mutex_t *lock);

/* A block of whole pages, which may hold what their last owner wrote; 0 if there is no room. */
uint64_t fab_block_alloc(size_t bytes);
void fab_block_free(uint64_t offset, size_t bytes);
/* Has the file's room behind these bytes, so that touching them cannot fail later. */
bool fab_back(uint64_t offset, uint64_t bytes);
static inline void *fab_at(uint64_t offset)
{
  return (char *)fab + offset;
}

/* A free entry of a table, its number not yet set; -1 if there is none. The fabric's lock is
 * held. */
int64_t fab_entry(enum fab_kind kind);
/* Counts an object of a device: false beyond `max`. */
bool fab_count(struct fab_device *device, enum fab_kind kind, uint32_t max);
void fab_uncount(struct fab_device *device, enum fab_kind kind);

static inline struct fab_qp *fab_qp_of(uint32_t qpn)
{
  struct fab_qp *qp = &fab->qp[qpn & (FAB_QPS - 1)];
  return qpn && atomic_load_explicit(&qp->number, memory_order_acquire) == qpn ? qp : NULL;
}

static inline uint32_t fab_mr_index(uint32_t key)
{
  return (key >> 8) & (FAB_MRS - 1);
}

static inline struct fab_mr *fab_mr_of(uint32_t key)
{
  struct fab_mr *mr = &fab->mr[fab_mr_index(key)];
  return key && atomic_load_explicit(&mr->number, memory_order_acquire) == key ? mr : NULL;
}

/* Wakes the NIC thread of a process. */
void fab_kick(uint32_t slot);
/* Sleeps until kicked since `seen` was read, until the time comes (0: no time), or a second: then,
 * nothing having happened, false. */
bool fab_sleep(uint32_t seen, uint64_t until_ns);
/* Waits until no NIC thread of a living process has anything to do now. A process may stand still:
 * after 20 s the wait ends, with a line in the log. */
void fab_await_idle(void);
/* Waits until all that was posted is done, too: what is to be tried later included. False, with a
 * line in the log: it was not within 20 s of real time. */
bool fab_await_answers(void);

uint64_t fab_clock_ns(const struct fabric *f);
/* Nanoseconds of real time until the fabric's clock shows `at`; UINT64_MAX on a manual clock. */
uint64_t fab_clock_real_ns(const struct fabric *f, uint64_t at);

static inline void fab_counted(struct fab_port *port, enum fab_counter counter)
{
  atomic_fetch_add_explicit(&fab->counters[counter], 1, memory_order_relaxed);
  if (port)
    atomic_fetch_add_explicit(&port->counters[counter], 1, memory_order_relaxed);
}

/* One line on stderr, if PENSTOCK_SIMVERBS_LOG asks for as much: 0 nothing, 1 errors (default),
 * 2 also what is lost and why, 3 also states. */
void fab_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern int fab_log_level;

/* ---- paths ---- */

struct fab_path {
  uint32_t device, port; /* where it leads; port counts from 1 */
  enum fab_counter lost; /* why it does not, if it does not */
  bool found;
};
/* Where a message from this port with this address vector comes out. */
struct fab_path fab_route(uint32_t device, unsigned port, const struct ibv_ah_attr *ah,
                          uint8_t mtu);
/* Does a port of the fabric have it? */
bool fab_gid_is_somewhere(const union ibv_gid *gid);
/* Computes hops from the routers that are up, and counts the topology on. The fabric's lock is
 * held, or nobody else has the fabric yet. */
void fab_routes_changed(struct fabric *f);
/* Returns the device's port, counted from 1; NULL if it has no such port. */
struct fab_port *fab_port_of(uint32_t device, unsigned port);

/* ---- faults ---- */

/* The first armed fault of a kind that hits; its delay_ns or value. Each try of a message asks once
 * for FAB_FAULT_DROP, which also counts it for what is done after so many. Takes no lock. */
bool fab_fault_hits(enum fab_fault_kind kind, uint32_t device, uint32_t qpn, uint64_t *delay_ns,
                    int *value);
/* Arms it; what is to be done at once is done. ENOSPC: the table is full. */
int fab_fault_plant(const struct fab_fault *fault);
/* Disarms all. Effects of faults so far stay. */
void fab_fault_clear(void);
/* Does what is due, and returns the clock's time of the next step; 0: there is none. A process that
 * makes or joins a fabric as a launcher calls it at that time; several may. */
uint64_t fab_script_run(void);
/* Advances a manual clock, doing on the way what comes due. */
void fab_clock_advance(uint64_t ns);
/* Wakes the NIC threads of all processes. */
void fab_kick_all(void);
/* From the simulator's own generator: programs' rand() is not to be disturbed. */
uint64_t fab_random(void);
/* "real", "manual" or how many times as fast; the time shown goes on from where it is. NULL: only
 * looks whether it is one. 0 or EINVAL. */
int fab_clock_set(struct fabric *f, const char *text);

/* ---- description ---- */

void fab_describe_default(struct fabric *f);
void fab_caps_default(struct fab_caps *caps, enum fab_vendor vendor);
__be64 fab_guid(uint32_t host, uint32_t device);
/* The table of an Ethernet port with an IPv4 address (host order), and of an InfiniBand port. */
void fab_gids_roce(struct fab_port *port, __be64 guid, uint32_t address);
void fab_gids_ib(struct fab_port *port, __be64 guid);

#endif
