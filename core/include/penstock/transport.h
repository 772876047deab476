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
 * This header declares what every transport implements. transport-rma.h declares what WRITE, READ
 * and ATOMIC add; transport-extra.h declares the other capabilities, plans, counters and filters.
 *
 * Order of calls.
 *   probe → open(plan) → mr_register → worker_open → ring_open → endpoint_open
 *   → endpoint_address → start → endpoint_connect → EVENT CONNECTED
 *   → post, poll, release … → endpoint_close → EVENT CLOSED
 *   → ring_close → worker_close → mr_deregister → close
 * After start() the host opens no worker, ring or endpoint, unless the transport announces
 * DYNAMIC. The plan gives the totals at open(), because completion queues, SRQs, DCI pools, EAL and
 * UCX must be sized first. With DYNAMIC the totals count what is open at one time.
 *
 * Threads. All workers share devices and registrations, which do not change once they exist. The
 * host serialises calls that take a device; they may run beside polling. A worker, its rings and
 * its endpoints belong to one thread at a time, and every call that takes one of them comes from
 * that thread. Only open, close, mr_register, mr_deregister and worker_close block. worker_open,
 * ring_open, endpoint_open and remote_open may take milliseconds but never wait for a peer. Other
 * work that blocks goes to host->defer. Set-up that must happen on the polling thread belongs in
 * its first poll. Calls leave the thread's current device context (CUDA) as they found it.
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

/* ---- Capabilities -------------------------------------------------------- */

/* types.h declares capabilities, paths, access rights and operations. */

struct pst_open_params {
  uint32_t struct_size;
  uint32_t reserved;
  /* Options of the scopes DEVICE and STREAM. A filter gets all of its own options here;
   * endpoint_open gets the options of the innermost transport. */
  const struct pst_options *options;
  const struct pst_plan *plan;           /* transport-extra.h */
  const struct pst_transport_ops *inner; /* these three are for filters: transport-extra.h */
  const struct pst_host *inner_host;
  const struct pst_open_params *inner_params;
  /* The numeric address that `control` listens on, where peers reach the receivers of this process.
   * A transport binds its sockets there, unless its options name another address.
   * NULL: every address of this host, or unknown. */
  const char *local_address;
  /* open() may call it once, with the speed of the device's link in bit/s. The host then gives
   * rings that nobody sized as many slots as 100 us of that speed fill: on return `plan` has them.
   * `params` are those of open(), or a copy with the same `plan`; after open() has returned, or
   * with another plan, the call does nothing. NULL: nobody asks. */
  void (*tell_link)(const struct pst_open_params *params, uint64_t link_bps);
};

/* Limits and requirements of an opened device. */
struct pst_limits {
  uint32_t struct_size;
  uint32_t sequence_bits; /* how many low bits of a SEND's sequence number travel: 0 to 64 */
  uint64_t capabilities;  /* enum pst_transport_capability; a subset of the ops' */
  uint64_t message_max;   /* bytes of one SEND, from 1; MESSAGE.length has 32 bits */
  uint64_t rma_max;       /* bytes of one WRITE or READ; 0: none */
  uint32_t
      slot_alignment; /* of the address of slot 0 and of the stride; a power of two, at least 1 */
  uint32_t headroom;  /* bytes it needs before the payload in a receive slot */
  uint32_t tailroom;  /* bytes it needs behind the payload in a receive slot */
  uint32_t send_headroom; /* bytes it needs before a payload that it sends; 0: none */
  uint32_t slots_min;     /* of a ring */
  uint32_t slots_max;
  uint32_t workers_max;   /* at least 1 */
  uint32_t endpoints_max; /* of one worker, at least 1 */
  uint32_t requests_max;  /* outstanding on one endpoint, at least 1; post takes no more */
  /* Pieces of one request. post() refuses more: -E2BIG. Core cuts a WRITE or READ of more pieces
   * into several requests, and posts no SEND of more. */
  uint32_t pieces_max;
  /* Properties that a region must have to receive (enum pst_memory_need); where it lacks one, core
   * stages. EXPORT_DMABUF tells the memory plugin that a NIC will reach the region. A region may
   * lack it: mr_register finds out, and may have another way. */
  uint32_t ring_needs;
  /* Properties that a region must have to be sent from (else core stages) or offered for one-sided
   * access. */
  uint32_t send_needs;
  uint64_t page_size; /* registrations round to it; 1: they need not */
  /* Bytes of endpoint_address, at least 1, and of mr_pack. open() measures sizes that are not
   * fixed. Where these bytes go to a peer, the host refuses a device with more than 16384. */
  uint32_t address_max;
  uint32_t remote_max;
  uint32_t rings_max; /* of the device; 0: no bound */
  uint32_t reserved;
  uint32_t domains_max;          /* of the device; 0: no bound */
  uint32_t device_endpoints_max; /* of all workers together; 0: no bound */
  /* The resource that bounds the endpoints, for error messages: "max_qp is 64, each endpoint takes
   * 2". May be empty. */
  char endpoints_reason[128];
};

/* ---- Registration and remote access -------------------------------------- */

struct pst_mr_params {
  uint32_t struct_size;
  uint32_t access;                 /* enum pst_access bits */
  const struct pst_region *region; /* stays allocated and unchanged until mr_deregister */
  uint64_t offset;                 /* of the registered range in the region */
  uint64_t length;
  /* Output, or NULL: `via` ("dma-buf", "peermem"); with -EOPNOTSUPP, `reason`. */
  struct pst_path_info *path;
  /* With RING or REMOTE rights: peers reach the range through endpoints of this domain alone, where
   * the transport can enforce that; requests then do not use it as their source.
   * 0: through any endpoint. */
  uint64_t domain;
  /* Only SENDs of at most so many bytes read the range. The host can stage them where the transport
   * answers -EOPNOTSUPP. 0: the range has other uses. */
  uint64_t send_max;
};

/* Opaque bytes for a peer, with up to four descriptors for a peer on this host. The caller sets
 * `bytes` and `capacity`; the plugin fills the rest. The plugin that made the descriptors keeps
 * them open as long as the object lives; the peer's plugin duplicates those it keeps. */
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
  struct pst_mr *mr;    /* has LOCAL_WRITE and RING; outlives the ring. NULL with BARE_RING alone */
  uint64_t base;        /* offset in the mr of slot 0; aligned to limits.slot_alignment */
  uint64_t stride;      /* bytes from slot to slot; aligned to limits.slot_alignment */
  uint64_t payload_max; /* bytes one message can have */
  uint32_t headroom;
  uint32_t tailroom;
  uint32_t endpoints; /* that will share the ring, at least 1; more than slots may be -EINVAL */
  /* The most slots that one endpoint may have, granted to its peer or handed over as MESSAGEs. At
   * least one slot is kept for each other endpoint. 0: an equal share. A transport without
   * TWO_SIDED always gives equal shares. */
  uint32_t endpoint_slots;
};

/* A transport with READ or WRITE accepts all three roles on one endpoint: nodes open such
 * endpoints. Other transports may refuse SENDER together with RECEIVER: -EINVAL. */
enum pst_role {
  PST_ROLE_SENDER = 1u << 0,
  PST_ROLE_RECEIVER = 1u << 1, /* needs a ring */
  PST_ROLE_RMA = 1u << 2,      /* initiates or serves READ, WRITE, atomics */
};

struct pst_endpoint_params {
  uint32_t struct_size;
  uint32_t roles;                    /* enum pst_role bits */
  struct pst_ring *ring;             /* RECEIVER: where messages land; else NULL */
  uint64_t cookie;                   /* not 0; every completion of this endpoint has it */
  const struct pst_options *options; /* of all scopes, for this stream and side */
  const char *label;                 /* the stream's name, for messages */
  /* The most requests outstanding, FLUSHes included: post() takes no more. 0: it posts nothing. */
  uint32_t requests;
  uint32_t pieces;      /* the most pieces of one request */
  uint64_t message_max; /* bytes */
  /* The peer counts as dead when its transport has owed an answer for so long, while connecting
   * too. Credits and lent slots are not such answers. 0: never. */
  uint64_t timeout_ns;
  struct pst_mr *mr; /* SENDER: what it will mostly send from; NULL: unknown */
  /* The peer may reach registrations of this domain, a number that the host chooses. With a ring it
   * is the domain of the ring's mr, except with TWO_SIDED. 0: registrations without a domain. Where
   * both ends post requests and have a ring or RMA, both have a domain or neither has. */
  uint64_t domain;
  uint32_t is_foreign; /* 1: the peer does not run Penstock; endpoint_connect() gets no address */
  uint32_t reserved;
};

/* ---- Requests --------------------------------------------------------------- */

/* A piece of local memory, for requests of several pieces. An array element. */
struct pst_piece {
  struct pst_mr *mr;
  uint64_t offset; /* in the mr */
  uint64_t length;
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_piece) == 32, "frozen");

/* One request. SEND and WRITE gather their pieces into one contiguous range at the peer; READ
 * scatters one contiguous range of the peer's into its pieces. */
struct pst_request {
  uint8_t opcode;       /* enum pst_opcode */
  uint8_t flags;        /* enum pst_request_flag */
  uint16_t piece_count; /* 0: the one piece {mr, offset, length}; else `pieces` */
  uint32_t reserved0;
  union {
    struct pst_mr *mr;              /* piece_count == 0 */
    const struct pst_piece *pieces; /* piece_count > 0; offset is 0 and length their sum */
  } local;
  uint64_t offset; /* in the mr. Atomics put the peer's old 8 bytes there */
  union {
    uint64_t length;  /* bytes; SEND and WRITE may have 0 */
    uint64_t compare; /* COMPARE_SWAP: swap if the peer's 8 bytes equal this */
  } arg;
  uint64_t cookie; /* comes back in the DONE */
  union {
    struct {
      /* Core counts from 0 and may leave gaps. A number is less than 2^(sequence_bits - 1) ahead of
       * the highest one posted before. A filter may repeat numbers and change their order. */
      uint64_t sequence;
      uint64_t meta; /* the application's; travels with META alone */
      /* With DEPARTURE: when the message leaves, by CLOCK_MONOTONIC (host->clock_ns). 0, or a time
       * in the past: at once. The times of an endpoint never decrease, unless a filter changes the
       * order. A DONE says nothing about departure. 0 without DEPARTURE. */
      uint64_t departure_ns;
    } send;
    struct pst_rma_target rma; /* transport-rma.h; FLUSH: remote NULL */
    struct pst_atomic_target atomic;
  } u;
};
PST_STATIC_ASSERT(sizeof(struct pst_request) == 64, "a cache line, frozen");

/* Why post() took fewer requests than it was given. An endpoint with nothing outstanding has room
 * for 16 requests of up to 64 bytes, or `requests` if that is less. Endpoints that share queues
 * have that room when their turn comes. */
enum pst_wait {
  PST_WAIT_NONE = 0,   /* the next request is invalid; posted alone, it gets the errno */
  PST_WAIT_CREDIT = 1, /* the peer has no free slot */
  PST_WAIT_QUEUE = 2,  /* this side's queue is full: poll */
  /* The host sets *wait to this before post(), if it accepts PST_POST_COMPLETED. */
  PST_POST_MAY_COMPLETE = 3,
  /* All requests taken have ended with status 0: no DONE covers them. Only where the host set
   * PST_POST_MAY_COMPLETE, and for a SEND or WRITE only once the DONEs of all earlier SENDs and
   * WRITEs have been polled. The host posts the requests that were not taken again. */
  PST_POST_COMPLETED = 4,
};

/* ---- Completions --------------------------------------------------------------- */

enum pst_completion_kind {
  PST_COMPLETION_DONE = 1,
  PST_COMPLETION_MESSAGE = 2,
  PST_COMPLETION_EVENT = 3,
};

enum pst_completion_flag {
  PST_HAS_SEQUENCE = 1u << 0, /* MESSAGE: `sequence` is set, all 64 bits of it */
  PST_HAS_META = 1u << 1,
  PST_HAS_TIME = 1u << 2,
  PST_IS_MARKED = 1u << 3, /* the framing's end-of-frame mark (RTP marker) */
  /* The first message of a sender that restarted. Its number follows the highest one so far. How
   * many messages were sent before is unknown; no lower number follows. */
  PST_IS_RESTART = 1u << 5,
};

enum pst_event {
  PST_EVENT_CONNECTED = 1, /* post is allowed; endpoint_path is known, and may only get worse */
  /* The peer has left, or its address no longer answers; `status` says why. DONEs may follow. */
  PST_EVENT_DISCONNECTED = 2,
  PST_EVENT_READDRESS = 3, /* endpoint_address has changed: the host sends it to the peer, which
                              calls endpoint_connect again */
  PST_EVENT_CLOSED = 4,    /* the endpoint is freed; no completion has its cookie any more */
  PST_EVENT_LENT = 5,      /* region.buffer now names *region.region */
  PST_EVENT_UNLENT = 6,    /* region.buffer is withdrawn; all of its tokens have been released */
  PST_EVENT_DEVICE = 7,    /* the device failed; all its endpoints will fail */
};

/*
 * One completion: a cache line, frozen.
 *
 * DONE ends requests. Exactly one DONE covers each request that post() took, also when the peer
 * dies (-ECONNRESET, -ETIMEDOUT) or the endpoint closes (-ECANCELED). No DONE covers requests that
 * post() completed. A DONE covers done.count requests of one opcode, in the order of their posts,
 * up to the request with done.cookie; requests of other opcodes between them do not count. All of
 * them have the status of the DONE. SENDs are covered in post order, lent ones too, and so are
 * WRITEs.
 *   SEND, WRITE     the local buffer may be written again; nothing more is known
 *   READ, atomics   the data is here
 *   FLUSH           everything posted before it is placed at the peer; of a datagram transport:
 *                   handed to the device
 * A SEND out of a region that is lent to the receiver is DONE when the receiver releases it. An
 * error status returns the buffer too, except -EBUSY: at the close's deadline the receiver still
 * held a lent SEND. That buffer must not be written or freed before the receiver's worker is
 * closed. An access that the peer's device refuses (-EACCES) may end the connection.
 *
 * MESSAGE: a message has arrived, with the bytes that were sent (status 0). Slots come in any
 * order. The bytes are valid until release() of the token.
 *
 * EVENT: has a status and the endpoint's cookie. LENT, UNLENT and DEVICE belong to the worker:
 * their cookie is 0, and UNLENT may follow CLOSED. CONNECTED precedes the MESSAGEs and DONEs of the
 * endpoint. DISCONNECTED follows every MESSAGE that arrived whole. Its status is 0 where the peer
 * drained and closed, and -ECONNRESET where it died; after the peer's ABORT it is any. It also
 * comes where the peer closes or dies while this side connects. Where only silence tells,
 * DISCONNECTED comes after timeout_ns, with -ETIMEDOUT.
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
      uint64_t token;  /* for release(); unique on the worker until then */
      uint64_t offset; /* of the payload, in the ring's mr or, lent, in the region */
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

/* A closing endpoint may deliver MESSAGEs that still arrive, or drop them. */
enum pst_close_mode {
  PST_CLOSE_DRAIN = 1, /* outstanding requests, FLUSHes too, may finish until the deadline */
  PST_CLOSE_ABORT = 2, /* outstanding requests are cancelled, by the deadline at the latest */
};

/* ---- The operations ------------------------------------------------------------------ */

/* NULL stands for a call that returns -EOPNOTSUPP. A capability needs its calls. Mandatory: open,
 * close, limits, mr_register, mr_deregister, worker_open, worker_close, endpoint_open,
 * endpoint_address, endpoint_connect, endpoint_path, endpoint_close, post, poll. */
struct pst_transport_ops {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capabilities; /* those that any device of this plugin may have */

  /* Open the device that the options name. Device thread; may block. plan.workers and
   * plan.requests are hints; limits() tells what the device has.
   * 0; -ENODEV: no device of that name (the log names those there are); -EACCES; -ENOMEM;
   * -ENOSPC: the device lacks endpoints, rings or slots; -EXDEV: with these options it reaches no
   * other process, and the plan is not IN_PROCESS; -EINVAL: an option has a value that is wrong for
   * any device. The run ends with status 2 after -EINVAL, with 3 after any other error. What
   * pst_description.rules can check (plugin.h) belongs there. */
  int (*open)(const struct pst_host *host, const struct pst_open_params *params,
              struct pst_device **device);
  /* Release what open() took: memory, descriptors, threads. NULL is legal. */
  void (*close)(struct pst_device *device);

  /* The limits do not change after open(). The caller sets limits->struct_size. */
  int (*limits)(struct pst_device *device, struct pst_limits *limits);

  /* Make a range usable by this device. May block (milliseconds for GPU memory).
   * 0; -EOPNOTSUPP: this transport cannot reach this kind of memory. It logs no error or warning;
   * params->path->reason says why. Under `path: auto` core then stages, as it does after
   * -EOPNOTSUPP of ring_open and after no other error. -ENOMEM: a limit of locked memory or of the
   * device; the log says which; -EINVAL: outside the region, or an unknown right. */
  int (*mr_register)(struct pst_device *device, const struct pst_mr_params *params,
                     struct pst_mr **mr);
  /* Revoke remote access. The host calls it once no request, ring or message uses the range, and
   * every UNLENT of the range has been polled or its worker is closed. After the return no device
   * and no peer touches the range. */
  void (*mr_deregister)(struct pst_device *device, struct pst_mr *mr);

  /* One-sided access (transport-rma.h): mandatory with WRITE, READ or ATOMIC. */
  pst_mr_pack_fn *mr_pack;
  pst_remote_open_fn *remote_open;
  pst_remote_close_fn *remote_close;

  /* `index` counts from 0 to plan.workers - 1. Before start() the thread that opened a worker hands
   * it to the thread that polls it. */
  int (*worker_open)(struct pst_device *device, uint32_t index, struct pst_worker **worker);
  void (*worker_close)(struct pst_worker *worker);

  /* WAKEUP: transport-extra.h. */
  pst_arm_fn *arm;
  pst_event_fd_fn *event_fd;

  /* *path says how messages get into the ring; the caller sets path->struct_size. The transport
   * says DIRECT for regions of any kind: the host turns that into MAPPED for a MAPPED region.
   * -EINVAL: alignment, slots or stride break the limits; -EOPNOTSUPP: it cannot receive into this
   * mr, for path->reason (core stages under `path: auto`). */
  int (*ring_open)(struct pst_worker *worker, const struct pst_ring_params *params,
                   struct pst_path_info *path, struct pst_ring **ring);
  /* Called once all endpoints of the ring are closed. Its tokens become void. NULL is legal. */
  void (*ring_close)(struct pst_worker *worker, struct pst_ring *ring);

  /* -EINVAL: no role or an unknown one, RECEIVER without a ring, cookie 0, a value beyond the
   * limits, or a wrong option as in open(); -EOPNOTSUPP: RMA, but the transport has none of READ,
   * WRITE and ATOMIC; -ENOSPC: no more endpoints. */
  int (*endpoint_open)(struct pst_worker *worker, const struct pst_endpoint_params *params,
                       struct pst_endpoint **endpoint);
  /* The address that the peer's endpoint_connect takes. Valid from endpoint_open on. */
  int (*endpoint_address)(struct pst_endpoint *endpoint, struct pst_blob *address);
  /* Begin to connect to a peer by its address. Both sides call it, in any order; it never blocks.
   * EVENT CONNECTED follows, or DISCONNECTED with the status. An endpoint has one peer, the one
   * that this call names. Another peer that names this endpoint gets DISCONNECTED, after its
   * timeout_ns at the latest, while both sides poll. `address` is NULL only with FOREIGN: the
   * options name the peer.
   * On a connected endpoint: the peer's address has changed. Requests taken stay taken, and
   * CONNECTED comes again. A transport whose addresses never change (no READDRESS) returns
   * -EALREADY and keeps the connection.
   * -EPROTO: not an address of this transport (every byte of it came over a network); -EALREADY:
   * still connecting; -EXDEV: it needs descriptors, but the peer is on another host; -EINVAL. */
  int (*endpoint_connect)(struct pst_endpoint *endpoint, const struct pst_blob *address);
  /* How bytes travel on this endpoint: known from CONNECTED on, for one-sided access once the
   * remotes are open. Core asks again with each heartbeat, and ends a stream whose path has become
   * worse than its `path` allows. `via` may be empty where mr_register has set it. */
  int (*endpoint_path)(struct pst_endpoint *endpoint, struct pst_path_info *path);

  /* Post requests in order. The arrays, pieces included, are the caller's again on return. A
   * request that was taken arrives even if this side never polls again.
   * Returns how many were taken, 1 to n; if fewer than n, *wait says why. -EAGAIN: none; *wait says
   * why. PST_POST_MAY_COMPLETE in *wait may become PST_POST_COMPLETED. After any other -errno the
   * first request is invalid, none was taken, and *wait is unchanged: -EINVAL (unknown opcode or
   * flag, outside the mr), -EMSGSIZE (over message_max or the peer's slots), -EOPNOTSUPP (an atomic
   * on memory that it does not reach), -E2BIG, -ENOTCONN, -ECONNRESET, -EACCES (bounds or rights of
   * the remote range, as far as this side knows them). */
  int (*post)(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
              uint32_t *wait);
  /* Get up to max completions, and make progress on everything of the worker. Never holds work back
   * for a later post; reaps sends even when nothing is posted.
   * Returns how many; 0: nothing now. Errors come as completions. */
  int (*poll)(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
  /* Return messages, in any order: their slots are the transport's again. Credits go to the sender
   * in the next poll; later polls are soon enough as long as the sender has other slots.
   * 0; -EINVAL: a token that is not out, which is a bug of the host. */
  int (*release)(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);

  /* Optional: transport-extra.h. */
  pst_counters_fn *counters;
  pst_describe_fn *describe;
  pst_start_fn *start;

  /* Begin to close: the remaining DONEs follow, then EVENT CLOSED, by deadline_ns of
   * CLOCK_MONOTONIC at the latest. Legal in every state, once. post() takes no more. MESSAGEs may
   * come until CLOSED. The tokens of its messages stay valid; the host releases them. 0; -EALREADY:
   * closed before; -EINVAL: unknown mode. */
  int (*endpoint_close)(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
};

#ifdef __cplusplus
}
#endif
#endif
