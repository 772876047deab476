/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport plugins: how bytes travel. Filters, which wrap a transport, have
 * the same operations.
 *
 * Objects, all opaque and defined by the plugin:
 *   pst_device    what open() gives: a NIC, a shared-memory domain
 *   pst_mr        a range of a region registered with a device
 *   pst_worker    what one thread polls: a completion queue, a ucp_worker
 *   pst_ring      receive slots; endpoints of one worker may share it
 *   pst_endpoint  one peer of a worker
 *
 * This header has what every transport does. What one adds that announces a capability stands in
 * transport-rma.h, for WRITE, READ and ATOMIC, and in transport-extra.h, for the others, with
 * plans, counters and filters.
 *
 * Order of life.
 *   probe → open(plan) → mr_register → worker_open → ring_open → endpoint_open
 *   → endpoint_address → start → endpoint_connect → EVENT CONNECTED
 *   → post, poll, release … → endpoint_close → EVENT CLOSED
 *   → ring_close → worker_close → mr_deregister → close
 * start() seals workers, rings and endpoints: after it none is opened unless
 * the capability DYNAMIC is there. The plan gives the totals at open(), because
 * completion queues, SRQs, DCI pools, EAL and UCX must be sized first; with DYNAMIC they
 * are what is open at one time.
 *
 * Threads. Devices and registrations are shared by all workers and immutable
 * once made; the host serialises calls that take a device, and they may run
 * beside polling. A worker with its rings and endpoints belongs to one thread
 * at a time: every call that takes one comes from there. Only open,
 * close, mr_register, mr_deregister and worker_close block; worker_open,
 * ring_open, endpoint_open and remote_open may take milliseconds but never wait
 * for a peer; what would block elsewhere goes to host->defer. Set-up that must
 * happen on the polling thread belongs in its first poll. Calls leave the thread's
 * current device context (CUDA) as they found it.
 *
 * Hot path: post, poll, release. No lock, allocation, system call or log line
 * per message.
 */
#ifndef PENSTOCK_TRANSPORT_H
#define PENSTOCK_TRANSPORT_H

#include "memory.h"
#include "plugin.h"
#include "transport-extra.h"
#include "transport-rma.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_device;
struct pst_mr;
struct pst_worker;
struct pst_ring;
struct pst_endpoint;
struct pst_transport_ops;

/* ---- What a transport can do --------------------------------------------- */

/* types.h has the capabilities, the paths, the rights of access and the operations. */

struct pst_open_params {
  uint32_t struct_size;
  uint32_t reserved;
  /* Scopes DEVICE and STREAM are meaningful here. A filter gets all of its own
   * options here; those of endpoint_open are the innermost transport's. */
  const struct pst_options *options;
  const struct pst_plan *plan;           /* transport-extra.h */
  const struct pst_transport_ops *inner; /* the three are filters': transport-extra.h */
  const struct pst_host *inner_host;
  const struct pst_open_params *inner_params;
  /* Where peers reach the receivers of this process: the address that `control` listens on, in
   * numbers. A transport that binds sockets binds them there, unless its options say where.
   * NULL: every address of this host, or not known. */
  const char *local_address;
};

/* What an opened device demands and allows. */
struct pst_limits {
  uint32_t struct_size;
  uint32_t sequence_bits; /* carried of each SEND's sequence number: 0 to 64 */
  uint64_t capabilities;  /* enum pst_transport_capability; never more than the ops' */
  uint64_t message_max;   /* bytes of one SEND, from 1; MESSAGE.length has 32 bits */
  uint64_t rma_max;       /* bytes of one WRITE or READ; 0: none */
  uint32_t
      slot_alignment; /* of the address of slot 0 and of the stride; a power of two, at least 1 */
  uint32_t headroom;  /* bytes it needs before the payload in a receive slot */
  uint32_t tailroom;  /* and behind it */
  uint32_t send_headroom; /* bytes it needs before a payload it sends from; 0: none */
  uint32_t slots_min;     /* of a ring */
  uint32_t slots_max;
  uint32_t workers_max;   /* at least 1 */
  uint32_t endpoints_max; /* of one worker, at least 1 */
  uint32_t requests_max;  /* outstanding on one endpoint, at least 1; post takes no more */
  /* Of one request; more are refused: -E2BIG. Core cuts a WRITE or READ of more into several
   * requests, and hands over no SEND of more. */
  uint32_t pieces_max;
  /* enum pst_memory_need of regions that receive; unmet: core stages. EXPORT_DMABUF is told to
   * the memory (a NIC will reach the region) and never counts as unmet: mr_register finds out,
   * and may have another way. */
  uint32_t ring_needs;
  /* Of regions that are sent from (unmet: core stages), or offered for one-sided access. */
  uint32_t send_needs;
  uint64_t page_size; /* registrations round to it; 1: they need not */
  /* Bytes of endpoint_address, at least 1, and of mr_pack. open() measures what has no fixed size.
   * The host refuses a device of which either has more than 16384, if it has to tell a peer. */
  uint32_t address_max;
  uint32_t remote_max;
  uint32_t rings_max; /* of the device; 0: no bound */
  uint32_t reserved;
  uint32_t domains_max;          /* of the device; 0: no bound */
  uint32_t device_endpoints_max; /* of all workers together; 0: no bound */
  /* What bounds endpoints, for whoever has too many: "max_qp is 64, each endpoint takes 2".
   * Empty: there is nothing to say. */
  char endpoints_reason[128];
};

/* ---- Registration and remote access -------------------------------------- */

struct pst_mr_params {
  uint32_t struct_size;
  uint32_t access;                 /* enum pst_access bits */
  const struct pst_region *region; /* stays allocated and unchanged until mr_deregister */
  uint64_t offset;                 /* of the registered range in the region */
  uint64_t length;
  /* NULL, or written: `via` ("dma-buf", "peermem"); with -EOPNOTSUPP, `reason`. */
  struct pst_path_info *path;
  /* With RING or REMOTE rights: peers reach it by endpoints of this domain and no others, where
   * the transport can hold them to it; it is then no source of requests. 0: by any endpoint. */
  uint64_t domain;
  /* SENDs alone read the range, of at most so many bytes each, so that the host can stage them
   * where the transport answers -EOPNOTSUPP. 0: it has other uses. */
  uint64_t send_max;
};

/* Opaque bytes for a peer, with up to four descriptors for one on this host.
 * Who fills it finds `bytes` and `capacity` set by the caller. Descriptors stay
 * the property of who made them: the maker keeps them open while the object
 * lives, the taker duplicates what it keeps. */
struct pst_blob {
  uint32_t struct_size;
  uint32_t length;   /* bytes in use */
  uint32_t capacity; /* limits.address_max or limits.remote_max at least */
  uint32_t fd_count; /* of `fds` in use */
  void *bytes;
  int32_t fds[4];
};

/* ---- Rings and endpoints --------------------------------------------------- */

/* slot i is [base + i * stride, base + i * stride + headroom + payload + tailroom)
 * of the mr. A MESSAGE's payload starts anywhere at or behind the headroom. */
struct pst_ring_params {
  uint32_t struct_size;
  uint32_t slots;       /* at least limits.slots_min */
  struct pst_mr *mr;    /* with LOCAL_WRITE and RING, as the host sees to; outlives the ring.
                           BARE_RING: or NULL */
  uint64_t base;        /* offset in the mr of slot 0; aligned to limits.slot_alignment */
  uint64_t stride;      /* bytes from slot to slot; aligned as base */
  uint64_t payload_max; /* bytes one message can have */
  uint32_t headroom;
  uint32_t tailroom;
  uint32_t endpoints; /* that will share the ring, at least 1; more than slots may be -EINVAL */
  /* What one endpoint has of the slots, at most: granted to its peer, or out. At least one is kept
   * for each of the others, so that none starves. 0: its equal share. A transport without TWO_SIDED
   * gives equal shares, whatever this is. */
  uint32_t endpoint_slots;
};

/* A transport with READ or WRITE takes all three roles on one endpoint, as nodes open them.
 * Another may refuse SENDER together with RECEIVER: -EINVAL. */
enum pst_role {
  PST_ROLE_SENDER = 1u << 0,
  PST_ROLE_RECEIVER = 1u << 1, /* needs a ring */
  PST_ROLE_RMA = 1u << 2,      /* initiates or serves READ, WRITE, atomics */
};

struct pst_endpoint_params {
  uint32_t struct_size;
  uint32_t roles;                    /* enum pst_role bits */
  struct pst_ring *ring;             /* RECEIVER: where messages land; else NULL */
  uint64_t cookie;                   /* not 0; comes back in every completion of this endpoint */
  const struct pst_options *options; /* all scopes of this stream and side */
  const char *label;                 /* the stream's name, for messages */
  /* Outstanding here, at most, FLUSHes included: post takes no more; 0: it posts nothing. */
  uint32_t requests;
  uint32_t pieces;      /* of one request, at most */
  uint64_t message_max; /* bytes */
  /* A peer whose transport owes an answer (not a credit, not a lent slot) for so
   * long is dead, one that connects included; 0: never. */
  uint64_t timeout_ns;
  struct pst_mr *mr; /* SENDER: what it will mostly send from; NULL: unknown */
  /* What its peer may reach: memory of this number, any that the host chooses for a peer; with a
   * ring, the domain of the ring's mr, unless TWO_SIDED. 0: what has no domain. Where both ends
   * post requests and have a ring or RMA, both have a domain or neither has. */
  uint64_t domain;
  uint32_t is_foreign; /* 1: the peer is no Penstock: endpoint_connect() gets no address */
  uint32_t reserved;
};

/* ---- Requests --------------------------------------------------------------- */

/* A piece of local memory, for requests of several. An array element. */
struct pst_piece {
  struct pst_mr *mr;
  uint64_t offset; /* in the mr */
  uint64_t length;
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_piece) == 32, "frozen");

/* One request: a cache line, frozen. Several pieces are gathered into (SEND,
 * WRITE) or scattered from (READ) one contiguous range at the peer. */
struct pst_request {
  uint8_t opcode;       /* enum pst_opcode */
  uint8_t flags;        /* enum pst_request_flag */
  uint16_t piece_count; /* 0: the one piece {mr, offset, length}; else `pieces` */
  uint32_t reserved0;
  union {
    struct pst_mr *mr;              /* piece_count == 0 */
    const struct pst_piece *pieces; /* piece_count > 0; offset is 0 and length their sum */
  } local;
  uint64_t offset; /* in the mr. Atomics: where the 8 bytes found before are put */
  union {
    uint64_t length;  /* bytes; SEND and WRITE may have 0 */
    uint64_t compare; /* COMPARE_SWAP: swap if the peer's 8 bytes equal this */
  } arg;
  uint64_t cookie; /* comes back in the DONE */
  union {
    struct {
      /* Core's, from 0, gaps legal; less than 2^(sequence_bits - 1) ahead of the
       * highest posted before. A filter may repeat or reorder: a transport relies
       * on no more. */
      uint64_t sequence;
      uint64_t meta; /* the application's; travels where META is */
      /* With DEPARTURE, else 0: when it is to leave, by CLOCK_MONOTONIC (host->clock_ns). 0, or a
       * time that is over: at once. Times of an endpoint never become less, but where a filter
       * reorders. A DONE says nothing of it. */
      uint64_t departure_ns;
    } send;
    struct pst_rma_target rma; /* transport-rma.h; FLUSH: remote NULL */
    struct pst_atomic_target atomic;
  } u;
};
PST_STATIC_ASSERT(sizeof(struct pst_request) == 64, "a cache line, frozen");

/* Why post() took fewer than it was given. An endpoint with nothing outstanding has room in its
 * queue for 16 requests of up to 64 bytes, as far as `requests` allows. Where endpoints share
 * queues, that is so once it is the endpoint's turn. */
enum pst_wait {
  PST_WAIT_NONE = 0,   /* the next one cannot be taken at all; alone, it gets the errno */
  PST_WAIT_CREDIT = 1, /* the peer has no free slot */
  PST_WAIT_QUEUE = 2,  /* this side's queue is full: poll */
  /* The host sets *wait to this before post(): it accepts PST_POST_COMPLETED. */
  PST_POST_MAY_COMPLETE = 3,
  /* The requests that were taken have ended, with status 0: no DONE covers them, and they are not
   * outstanding. A SEND or WRITE only where DONEs of all earlier ones have been polled. Optional,
   * and only after PST_POST_MAY_COMPLETE. The host posts those that were not taken again. */
  PST_POST_COMPLETED = 4,
};

/* ---- Completions --------------------------------------------------------------- */

enum pst_completion_kind {
  PST_COMPLETION_DONE = 1,
  PST_COMPLETION_MESSAGE = 2,
  PST_COMPLETION_EVENT = 3,
};

enum pst_completion_flag {
  PST_HAS_SEQUENCE = 1u << 0, /* MESSAGE: `sequence` holds all 64 bits, rebuilt */
  PST_HAS_META = 1u << 1,
  PST_HAS_TIME = 1u << 2,
  PST_IS_MARKED = 1u << 3, /* the framing's end-of-frame mark (RTP marker) */
  /* The first of a sender that has started anew: its number goes on behind the highest, but what
   * was sent before it is not known, and nothing less than it comes any more. */
  PST_IS_RESTART = 1u << 5,
};

enum pst_event {
  PST_EVENT_CONNECTED = 1, /* post is allowed; endpoint_path is known, and may only get worse */
  /* The peer is gone, or its address answers no more; `status` says how; DONEs still follow. */
  PST_EVENT_DISCONNECTED = 2,
  PST_EVENT_READDRESS = 3, /* endpoint_address has changed: tell the peer, who connects again */
  PST_EVENT_CLOSED = 4,    /* the endpoint is freed; its cookie comes no more */
  PST_EVENT_LENT = 5,      /* region.buffer now names *region.region */
  PST_EVENT_UNLENT = 6,    /* region.buffer is withdrawn; none of its tokens is out */
  PST_EVENT_DEVICE = 7,    /* the device failed; all endpoints will */
};

/*
 * One completion: a cache line, frozen.
 *
 * DONE ends requests. Every request that post() took is covered by exactly one
 * DONE, also when the peer dies (-ECONNRESET; -ETIMEDOUT) or the endpoint
 * closes (-ECANCELED). Those that post() completed have none. It covers the done.count requests of
 * `opcode` that were posted one after the other (others of other opcodes between them not counted)
 * and end with the one of done.cookie; their status is the same. An error status gives the buffer
 * back too; only -EBUSY (a lent SEND that the receiver still holds at the close's deadline) does
 * not: do not write or free it before the receiver's worker is closed. An access that the peer's
 * device refuses
 * (-EACCES) may end the connection. SENDs are covered in post order, lent
 * ones too, and so are WRITEs. DONE of SEND and WRITE: the local buffer is
 * reusable, nothing more. Of READ and atomics: the data is here. Of FLUSH: what
 * was posted before it is placed at the peer (a datagram transport: handed to
 * the device). A SEND out of a region that was lent to the receiver is done
 * when the receiver releases it.
 *
 * MESSAGE: one has arrived, with the bytes that were sent (status 0). Slots come in any order. The
 * bytes are valid until release() of the token.
 *
 * EVENT: status, and the endpoint's cookie; LENT, UNLENT and DEVICE are the
 * worker's: cookie 0, and UNLENT may follow CLOSED. CONNECTED precedes the
 * endpoint's MESSAGEs and DONEs. DISCONNECTED follows every MESSAGE that arrived
 * whole; its status 0: the peer has drained and closed. After the peer's ABORT its status is
 * any. It comes, too, where the peer
 * closes (after an ABORT or before it connected, any status) or dies (-ECONNRESET)
 * while this side still connects; where nothing but its silence tells, by timeout_ns, with
 * -ETIMEDOUT.
 */
struct pst_completion {
  uint8_t kind;      /* enum pst_completion_kind */
  uint8_t code;      /* DONE: enum pst_opcode; EVENT: enum pst_event; MESSAGE: 0 */
  uint16_t flags;    /* enum pst_completion_flag */
  int32_t status;    /* 0 or -errno; MESSAGE: 0, or -EBADMSG: damaged on the way */
  uint64_t endpoint; /* its cookie */
  union {
    struct {
      uint64_t cookie; /* of the last request covered */
      uint64_t count;  /* requests covered, at least 1; READ, atomics, FLUSH: 1 */
    } done;
    struct {
      uint64_t token;  /* what release() takes; unique on the worker while out */
      uint64_t offset; /* of the payload. Buffer 0: in the ring's mr; lent: in the region */
      uint32_t length; /* bytes of payload */
      uint32_t buffer; /* 0: the endpoint's ring; else a lent region's number */
      uint64_t sequence;
      uint64_t meta;
      uint64_t time_ns; /* of arrival, CLOCK_REALTIME as the device stamped it */
    } message;
    struct pst_lent region; /* transport-extra.h */
  } u;
};
PST_STATIC_ASSERT(sizeof(struct pst_completion) == 64, "a cache line, frozen");

/* ---- Closing ------------------------------------------------------------------------ */

/* An endpoint that closes may give the MESSAGEs that still arrive, or drop them. */
enum pst_close_mode {
  PST_CLOSE_DRAIN = 1, /* let outstanding requests, FLUSHes too, finish until the deadline */
  PST_CLOSE_ABORT = 2, /* cancel them; may take until the deadline, too */
};

/* ---- The operations ------------------------------------------------------------------ */

/* A call that is NULL is -EOPNOTSUPP; it must be there when a capability that needs it is
 * announced. Mandatory: open, close, limits, mr_register, mr_deregister, worker_open, worker_close,
 * endpoint_open, endpoint_address, endpoint_connect, endpoint_path, endpoint_close, post, poll. */
struct pst_transport_ops {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capabilities; /* what any device of this plugin may have */

  /* Open the device that the options name. Device thread; may block.
   * 0; -ENODEV: none of that name (names those there are); -EACCES; -ENOMEM;
   * -ENOSPC: the device has not so many endpoints, rings or slots. plan.workers and
   * plan.requests are wishes; limits says what there is. -EXDEV: as its options are, it
   * reaches no peer of another process, and the plan is not IN_PROCESS. -EINVAL: an option
   * has a value that cannot be meant, whatever devices there are: the run ends with
   * status 2, with any other error with 3. What rules (plugin.h) can say belongs there. */
  int (*open)(const struct pst_host *host, const struct pst_open_params *params,
              struct pst_device **device);
  /* NULL is legal. What open() took is given back: memory, descriptors, threads. */
  void (*close)(struct pst_device *device);

  /* Final from open() on. The caller sets limits->struct_size. */
  int (*limits)(struct pst_device *device, struct pst_limits *limits);

  /* Make a range usable by this device. May block (milliseconds for GPU
   * memory).
   * 0; -EOPNOTSUPP: this transport cannot reach this kind of memory at all: no
   * error or warning is logged, params->path->reason says why, and with ring_open's the only answer
   * that lets core stage under `path: auto`; -ENOMEM: locked-memory limit or device
   * table, says which; -EINVAL: outside the region, or an unknown right. */
  int (*mr_register)(struct pst_device *device, const struct pst_mr_params *params,
                     struct pst_mr **mr);
  /* Revokes remote access. No request, ring or message uses it any more; every
   * UNLENT of the range has been polled, or that worker is closed. When this
   * returns, no device and no peer touches the range. */
  void (*mr_deregister)(struct pst_device *device, struct pst_mr *mr);

  /* One-sided access, and mandatory where it is announced: transport-rma.h. */
  pst_mr_pack_fn *mr_pack;
  pst_remote_open_fn *remote_open;
  pst_remote_close_fn *remote_close;

  /* `index` counts from 0 to plan.workers - 1. The thread that opens a worker
   * hands it over to the one that polls it before start(). */
  int (*worker_open)(struct pst_device *device, uint32_t index, struct pst_worker **worker);
  void (*worker_close)(struct pst_worker *worker);

  /* WAKEUP: transport-extra.h. */
  pst_arm_fn *arm;
  pst_event_fd_fn *event_fd;

  /* -EINVAL: alignment, slots or stride break the limits; -EOPNOTSUPP: cannot
   * receive into this mr (core stages under `path: auto`). *path says how
   * messages get into the ring, and with -EOPNOTSUPP, by its reason, why not; the
   * caller sets path->struct_size. DIRECT in a region of any kind: the host makes it MAPPED
   * where the region's kind is. */
  int (*ring_open)(struct pst_worker *worker, const struct pst_ring_params *params,
                   struct pst_path_info *path, struct pst_ring **ring);
  /* All its endpoints are closed; tokens still out are void. NULL is legal. */
  void (*ring_close)(struct pst_worker *worker, struct pst_ring *ring);

  /* -EINVAL: no role or an unknown one, RECEIVER without a ring, cookie 0, more than limits
   * says, or an option as with open; -EOPNOTSUPP: RMA without READ, WRITE and ATOMIC; -ENOSPC: no
   * more endpoints. */
  int (*endpoint_open)(struct pst_worker *worker, const struct pst_endpoint_params *params,
                       struct pst_endpoint **endpoint);
  /* What the peer's endpoint_connect needs. Valid from endpoint_open on. */
  int (*endpoint_address)(struct pst_endpoint *endpoint, struct pst_blob *address);
  /* Begin to connect to a peer by its address; called on both sides, in any
   * order; never blocks. Its outcome is EVENT CONNECTED, or DISCONNECTED with
   * the status. -EPROTO: not an address of this transport: each byte of it came over a
   * network; -EALREADY: still connecting. -EXDEV: needs descriptors, but the peer is on another
   * host. On a connected endpoint: the peer's address has changed; accepted requests stay accepted,
   * and CONNECTED comes again; -EALREADY, and the connection stays, where addresses never change
   * (no READDRESS). An endpoint has one peer, which its own endpoint_connect names: another
   * that names this endpoint gets DISCONNECTED, at the latest after its timeout_ns, while both
   * sides poll. `address` NULL (FOREIGN only, else -EINVAL): the peer is in the
   * options. */
  int (*endpoint_connect)(struct pst_endpoint *endpoint, const struct pst_blob *address);
  /* How bytes travel on it, known with CONNECTED; of one-sided access, once the remotes are
   * open. Core asks again with each heartbeat, and a path that only got worse meanwhile counts:
   * one that is worse than the stream's `path` allows ends the stream. `via` may be empty where
   * mr_register has told it. */
  int (*endpoint_path)(struct pst_endpoint *endpoint, struct pst_path_info *path);

  /* Post requests in order; the arrays, pieces included, are the caller's again
   * on return. What was taken starts by itself: it arrives though this side polls no more.
   * Returns how many were taken, 1 to n; fewer than n: *wait says why. -EAGAIN: none,
   * *wait says why. Where *wait was PST_POST_MAY_COMPLETE, it may become PST_POST_COMPLETED. Any
   * other -errno: the first one cannot be taken, none was, *wait stays as it was: -EINVAL (unknown
   * opcode or flag, out of the mr), -EMSGSIZE (over message_max, or the peer's slots), -EOPNOTSUPP
   * (an atomic on memory that it does not reach), -E2BIG, -ENOTCONN, -ECONNRESET, -EACCES (bounds
   * or rights of the remote range, as far as they are known here). */
  int (*post)(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
              uint32_t *wait);
  /* Up to max completions. Makes progress of everything on the worker; never
   * holds work back for a later post; reaps sends also when nothing is posted.
   * Returns how many; 0: nothing now. Errors come as completions. */
  int (*poll)(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
  /* Give messages back, in any order: their slots are the transport's again,
   * and credits go to the sender at the latest in the next poll, or in a later one
   * as long as the sender has other slots to go on with. Returns 0;
   * -EINVAL: a token that is not out, which is a bug of the host. */
  int (*release)(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);

  /* Optional: transport-extra.h. */
  pst_counters_fn *counters;
  pst_describe_fn *describe;
  pst_start_fn *start;

  /* Asynchronous: the remaining DONEs, then EVENT CLOSED, by deadline_ns of
   * CLOCK_MONOTONIC at the latest. Legal in every state, once. post() takes no more
   * from then on. MESSAGEs may come until CLOSED, and need not. Tokens of its messages stay
   * valid and are to be released.
   * -EALREADY: closed before; -EINVAL: unknown mode. */
  int (*endpoint_close)(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
};

#ifdef __cplusplus
}
#endif
#endif
