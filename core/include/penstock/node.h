/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes: peers that come and go, short messages, and regions to read and write.
 *
 * A *node* has one device of a transport, optionally a listener, and *peers* that connect and leave
 * at any time. (Streams, in contrast, are fixed by a configuration.) With each peer a node
 * exchanges short messages, and regions that one side offers and the other reads and writes.
 *
 *     server                                   client
 *     pst_node_open({.listen = …}, &node)      pst_node_open({0}, &node)
 *                                              pst_node_connect(node, "host:port", &peer)
 *     event JOINED                             event JOINED
 *                                              pst_node_alloc(node, {.length = …}, &area)
 *                                              pst_peer_offer(peer, area, 0, length, access, &id)
 *     event OFFERED {id, length, access}       event TAKEN {id}
 *     event MESSAGE                      <-    pst_peer_send(peer, bytes, n)
 *     pst_peer_post(peer, operations, n)
 *     event DONE {cookie, status}
 *     pst_peer_send(peer, answer, n)     ->    event MESSAGE
 *     event LEFT                               pst_peer_close(peer, 0, NULL)
 *
 * The transport must have SEND, RELIABLE, DYNAMIC, and READ or WRITE. Both ends need the same
 * transport with the same STREAM options. A peer may be in the same process.
 *
 * Threads. All calls on a node, its peers and areas come from one thread at a time, except
 * pst_node_wake(). Only the joining of peers makes progress by itself; everything else does so
 * while that thread calls pst_node_poll(). Only calls whose comment says so block.
 *
 * Events. pst_node_poll() reports events in the order in which they happen. Every operation that
 * was taken ends with exactly one DONE, also when its peer dies. A peer's LEFT is its last event.
 */
#ifndef PENSTOCK_NODE_H
#define PENSTOCK_NODE_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_node;
struct pst_peer;
struct pst_area;

/* A filter around the transport, on this end alone. The outermost filter comes first. An array
 * element. */
struct pst_filter_params {
  const char *name;
  const struct pst_setting *options;
  uint32_t option_count;
  uint32_t reserved;
};

struct pst_node_params {
  uint32_t struct_size;
  uint32_t insecure;     /* 1: allow `listen` and pst_node_connect() beyond loopback, without
                            credentials, and other users on loopback: anybody who reaches the
                            address can join */
  const char *listen;    /* "host:port", port 0: any that is free; NULL: it only connects */
  const char *transport; /* plugin name; NULL: loopback; "none": messages alone, at most 48 KiB
                            each, over the control connection */
  const struct pst_setting *transport_options;
  uint32_t transport_option_count;
  uint32_t filter_count;
  const struct pst_filter_params *filters;
  /* Limits; 0 is the default in brackets. The node refuses what exceeds a limit, and tells the peer
   * which limit it was. */
  uint32_t peers;       /* at a time, joining and leaving ones included [64]; a client of one
                           server saves memory with 1 */
  uint32_t messages;    /* on their way to one peer, and from it [64]; a node sends at most
                           `peers` + 4 * (messages - 1) at a time, at least one to each */
  uint32_t depth;       /* operations under way with one peer [256] */
  uint32_t pieces;      /* of one operation, at most 64 [16]; an operation of more pieces than
                           the transport takes in a request becomes several requests */
  uint32_t offers;      /* regions that one peer may offer to this node at a time [16] */
  uint32_t in_process;  /* 1: all peers are nodes of this process; a transport may use that */
  uint64_t offer_bytes; /* of one peer's offered regions together [no bound] */
  uint64_t message_max; /* bytes of a message, either way; a peer's may be less [4096] */
  uint64_t connect_timeout_ns; /* from pst_node_connect(), or from a peer's connecting, to JOINED;
                                  also for an operation without an answer of the peer [10 s] */
  uint64_t peer_timeout_ns;    /* a peer that is silent for so long counts as dead [10 s] */
  /* Where the options of the transport and of its areas' memory were written, for error messages;
   * valid as long as the node. NULL: error messages name the label instead. */
  const struct pst_origins *origins;
  const struct pst_tls_params *tls; /* of peers that come, and of those that it connects to; NULL:
                                       no TLS; excludes `insecure` */
};

/* Load the transport, open a device, listen. May block (seconds, for GPUs).
 * In *error: -EOPNOTSUPP: the transport lacks a capability, which the text names; -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES: it cannot listen at `listen`; -EPERM: `listen` is beyond loopback, and
 * there is neither `tls` nor `insecure`; -EINVAL: an option or a limit is wrong; -ENOSPC: the
 * device has room for fewer `peers` or `messages`. Errors of the plugin are passed on. */
PST_EXPORT int pst_node_open(const struct pst_node_params *params, struct pst_node **node,
                             struct pst_error *error);
/* Tell all peers and leave them at once, without events, and free all areas. Blocks until the
 * device is closed, some seconds at most. NULL is legal. */
PST_EXPORT void pst_node_close(struct pst_node *node);
/* The port of the listener's first address; 0: the node does not listen. */
PST_EXPORT uint16_t pst_node_port(const struct pst_node *node);
/* The most bytes of one request of the transport; longer operations are cut. */
PST_EXPORT uint64_t pst_node_transfer_max(const struct pst_node *node);
/* The most operations under way with one peer: `depth`, or fewer if the transport has fewer. */
PST_EXPORT uint32_t pst_node_depth(const struct pst_node *node);
/* The capabilities of the device: bits of enum pst_transport_capability. */
PST_EXPORT uint64_t pst_node_capabilities(const struct pst_node *node);
/* The plugins in use, as pst_session_plugin(). */
PST_EXPORT uint32_t pst_node_plugins(const struct pst_node *node);
PST_EXPORT int pst_node_plugin(const struct pst_node *node, uint32_t index,
                               struct pst_plugin_info *info);
/* Get the device of the node's transport. -ENOENT: it has none (`transport` is "none"). */
PST_EXPORT int pst_node_device(const struct pst_node *node, struct pst_device_info *info);
/* The transport's counters of the device (may block for some ms) and of the node's worker. Returns
 * how many there are; writes up to max. -ENOENT: the node has no device. */
PST_EXPORT int pst_node_device_counters(struct pst_node *node, struct pst_counter_value *values,
                                        uint32_t max);
PST_EXPORT int pst_node_worker_counters(struct pst_node *node, struct pst_counter_value *values,
                                        uint32_t max);

enum pst_node_event_kind {
  /* The peer is connected: messages, offers and operations may begin. text: who the peer is. */
  PST_NODE_JOINED = 1,
  /* The last event of a peer or of an attempt to connect. The peer is void from the next
   * pst_node_poll() on. status 0: the peer or this side has closed with code 0; else -errno, and
   * text says why: -EUSERS: the peer has as many peers as its limit allows; -EPROTO: its transport
   * or options differ, or it broke the protocol; -EACCES: a region was withdrawn too early, see
   * pst_peer_withdraw(); -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET; or the code that the peer gave to
   * pst_peer_close(). */
  PST_NODE_LEFT = 2,
  /* bytes, length: a message, valid until the next pst_node_poll(). Work that the devices of
   * offered areas begin after this poll sees what was DONE at the peer before it sent the message.
   */
  PST_NODE_MESSAGE = 3,
  /* There is room again, after pst_peer_send() or pst_peer_post() had none. */
  PST_NODE_ROOM = 4,
  /* The peer offers its region `id` of `length` bytes for `access`; operations may use it. */
  PST_NODE_OFFERED = 5,
  /* The peer has withdrawn its region `id`. Operations on it have ended, perhaps with -EACCES; new
   * ones may not name it. */
  PST_NODE_WITHDRAWN = 6,
  /* The peer knows this side's offer `id`. status 0; or -errno and text: it cannot or will not use
   * the region, and the offer is withdrawn. -ENOSPC: over its limits. */
  PST_NODE_TAKEN = 7,
  /* The operation with `cookie` has ended; op and length are as posted. WRITE: the local range may
   * be written again, nothing more; READ and atomics: the data is here; FLUSH: everything posted
   * before it is placed at the peer. status: 0; -ECANCELED: by pst_peer_cancel() or
   * pst_peer_close(); -EACCES: the region was withdrawn; -ECONNRESET, -ETIMEDOUT: the peer has
   * died, or the connection ended because of such a refusal. */
  PST_NODE_DONE = 8,
};

/* An array element: its size is frozen. Members that an event's kind does not name are 0. */
struct pst_node_event {
  uint8_t kind; /* enum pst_node_event_kind */
  uint8_t op;   /* enum pst_opcode */
  uint16_t reserved0;
  int32_t status;
  struct pst_peer *peer;
  void *context; /* the peer's, as pst_peer_set_context() left it */
  uint64_t cookie;
  uint64_t length;
  uint32_t id;
  uint32_t access;   /* PST_ACCESS_REMOTE_* */
  const void *bytes; /* valid until the next pst_node_poll(), as is text */
  const char *text;  /* never NULL */
};
PST_STATIC_ASSERT(sizeof(struct pst_node_event) == 64, "frozen");

/* Make progress on everything, and return up to max events. Operations that ended while they were
 * posted come first; other events may wait for 31 polls then. Returns how many; 0: none now; -EIO:
 * the device has failed, and all peers have left. */
PST_EXPORT int pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max);
/* Sleep until pst_node_poll() has something to do, until_ns (CLOCK_MONOTONIC, or NULL for no
 * bound), or pst_node_wake(). It may return early. With a transport without WAKEUP it sleeps 100
 * µs. Returns 1 if it slept, 0 if there was something to do already. */
PST_EXPORT int pst_node_wait(struct pst_node *node, const uint64_t *until_ns);
/* For an application that sleeps in poll(2), epoll or io_uring: after pst_node_arm() has returned
 * 0, the descriptor becomes readable when pst_node_poll() has something to do. -EAGAIN: poll now;
 * -EOPNOTSUPP: the transport has no WAKEUP. */
PST_EXPORT int pst_node_arm(struct pst_node *node);
PST_EXPORT int pst_node_fd(const struct pst_node *node);
/* End a sleep. Any thread, or a signal handler. */
PST_EXPORT void pst_node_wake(struct pst_node *node);

/* Begin to connect to a node that listens at `address` ("host:port", "[::1]:4791"). *peer is set
 * at once; the event JOINED or LEFT reports the outcome. Blocks while it looks up a name.
 * In *error: -EINVAL: not an address; -ENOENT: no such host; -EHOSTUNREACH: no route to it; -EPERM:
 * the address is beyond loopback, and the node has neither `tls` nor `insecure`; -EUSERS: the node
 * has as many peers as `peers` allows; -ENOMEM; -EMFILE. */
PST_EXPORT int pst_node_connect(struct pst_node *node, const char *address, struct pst_peer **peer,
                                struct pst_error *error);
/* Close the connection to a peer. Messages sent before are still delivered. Operations under way
 * end with -ECANCELED, and messages of the peer that nobody has polled are dropped. Then LEFT comes
 * on both sides with this code; 0 and NULL are for an orderly close. Legal in every state; a second
 * call does nothing. */
PST_EXPORT void pst_peer_close(struct pst_peer *peer, int code, const char *text);
/* Keep a pointer for the application with a peer: pst_peer_context() returns it, and each event of
 * the peer has it. It is NULL before the first call. */
PST_EXPORT void pst_peer_set_context(struct pst_peer *peer, void *context);
PST_EXPORT void *pst_peer_context(const struct pst_peer *peer);
/* Describes the peer: "host, pid 4711, 127.0.0.1:41000". */
PST_EXPORT const char *pst_peer_text(const struct pst_peer *peer);
/* Both ends of the connection to it, numeric: "127.0.0.1:41000", "[::1]:41000". */
struct pst_peer_info {
  uint32_t struct_size;
  uint32_t reserved;
  char local[72];
  char remote[72];
};
/* Get both addresses of the connection to a peer. 0; -ENOTCONN: the peer has not answered yet. */
PST_EXPORT int pst_peer_info(const struct pst_peer *peer, struct pst_peer_info *info);
/* How bytes travel to the peer. 0; -ENOTCONN: the peer has not joined, has left, or its transport
 * is connecting to a changed address. */
PST_EXPORT int pst_peer_path(const struct pst_peer *peer, struct pst_path_info *path);

/* The length of the longest message to this peer, in bytes; 0: the peer has not joined yet. */
PST_EXPORT uint64_t pst_peer_message_max(const struct pst_peer *peer);
/* Send a message; the bytes are copied. Messages arrive once and in order, but have no
 * order with WRITEs: send when these are DONE. 0; -EAGAIN: no room, and the event ROOM
 * will come; -EMSGSIZE: longer than pst_peer_message_max(); -ENOTCONN: the peer has not joined yet,
 * or has left. */
PST_EXPORT int pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length);

/* Memory that a memory plugin allocates for operations and offers. */
struct pst_area_params {
  uint32_t struct_size;
  uint32_t memory_option_count;
  const char *memory; /* plugin name; NULL: host */
  const struct pst_setting *memory_options;
  uint64_t length;   /* bytes, > 0; the area may be longer */
  const char *label; /* what it is for, in words, for error messages; NULL: "area" */
  const char *lower; /* the user's options that size it, for the remedy in error messages: "`--size`
                        or `--depth`"; NULL: none */
  uint32_t access;   /* PST_ACCESS_REMOTE_*: what it will be offered for; memory that cannot be
                        offered so is refused here, with the reason. 0: no check */
  uint32_t reserved; /* 0 */
};
/* Allocate an area. Memory that the CPU cannot touch (a GPU's) must be allocated before the peers
 * join whose regions are written from it or read into it.
 * May block (milliseconds, for GPU memory). In *error: -ENOMEM; -EOPNOTSUPP: the transport cannot
 * reach this memory. Errors of the memory plugin are passed on. */
PST_EXPORT int pst_node_alloc(struct pst_node *node, const struct pst_area_params *params,
                              struct pst_area **area, struct pst_error *error);

/* Memory that the application owns already. It becomes an area, which pst_area_free() ends without
 * touching the bytes. It must stay mapped where it is until then. */
struct pst_register_params {
  uint32_t struct_size;
  uint32_t memory_option_count;
  const char *memory; /* the plugin that knows this kind of memory; NULL: host */
  const struct pst_setting *memory_options;
  uint64_t address; /* as its device knows it; for host memory the pointer, of any alignment */
  uint64_t length;  /* bytes, > 0 */
  /* A descriptor through which other processes can map the memory, and the offset of `address` in
   * its file. Transports over shared memory need it before the area can be offered. For host memory
   * it is a memfd, sealed with F_SEAL_SHRINK and mapped at `address` with MAP_SHARED. A peer that
   * is offered a part of the area can reach the whole file. The fd stays the caller's. -1: none. */
  int32_t fd;
  uint32_t reserved; /* 0 */
  uint64_t fd_offset;
  const char *label; /* in error messages; NULL: "area" */
};
/* Make an area of memory that the application owns. May block (milliseconds a GiB, where a device
 * pins it). In *error: -EINVAL: the length is 0, or the descriptor does not fit; -EFAULT: a part of
 * the range is not mapped; -EOPNOTSUPP: the memory plugin takes only memory of its own (no
 * PST_MEMORY_CAP_ADOPT), or the transport cannot reach the memory; -ENOMEM. Errors of the plugins
 * are passed on. */
PST_EXPORT int pst_node_register(struct pst_node *node, const struct pst_register_params *params,
                                 struct pst_area **area, struct pst_error *error);
/* Free an area. NULL is legal. 0; -EBUSY: an operation uses the area, or an offer of it is not
 * withdrawn. */
PST_EXPORT int pst_area_free(struct pst_area *area);
/* Get where an area lies: its memory, address and length. Always returns 0. */
PST_EXPORT int pst_area_range(const struct pst_area *area, struct pst_range *range);
/* Returns the backing of the area, in the memory plugin's words: "memfd", "cuMemAlloc". */
PST_EXPORT const char *pst_area_backing(const struct pst_area *area);
/* Get how the transport reaches the area in READs and WRITEs, by its latest registration: the one
 * that its allocation made, or one for an offer. pst_peer_path() has the `carrier`. Always returns
 * 0. */
PST_EXPORT int pst_area_path(const struct pst_area *area, struct pst_path_info *path);
/* Compute the CRC-32C (Castagnoli; RFC 3720, appendix B.4) of a range where the bytes are: a GPU
 * computes that of its memory. Blocks. 0; -ERANGE; -EOPNOTSUPP: the memory plugin has no
 * PST_MEMORY_CAP_CHECKSUM. */
PST_EXPORT int pst_area_checksum(struct pst_area *area, uint64_t offset, uint64_t length,
                                 uint32_t *crc32c);
/* Copy between the area and the CPU's memory, also if the CPU cannot touch the area. Both block. 0;
 * -ERANGE; -EOPNOTSUPP. */
PST_EXPORT int pst_area_read(struct pst_area *area, uint64_t offset, uint64_t length, void *to);
PST_EXPORT int pst_area_write(struct pst_area *area, uint64_t offset, uint64_t length,
                              const void *from);

/* Offer exactly [offset, offset + length) of an area to this peer, for `access`:
 * PST_ACCESS_REMOTE_READ | _WRITE | _ATOMIC. The offer ends when it is withdrawn or the peer
 * leaves.
 * `*id` names it on both sides, from 1 on. May block (milliseconds, for GPU memory). 0; -ERANGE;
 * -EINVAL; -EOPNOTSUPP: the transport cannot offer this memory, or not for this access; -ENOTCONN;
 * -ENOMEM. */
PST_EXPORT int pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset,
                              uint64_t length, uint32_t access, uint32_t *id);
/* Withdraw an offer: after the return the peer cannot reach the range, whether it agrees or not.
 * Over shared memory the call waits for copies under way there, some seconds at most where the peer
 * died in the middle of one. Over a network it does not wait: the device refuses what the peer has
 * under way. Where such a refusal ends the transport's connection, as with verbs_rc, both sides get
 * LEFT with -EACCES. So withdraw when the peer has said that it is finished: when its READs are
 * DONE, and a FLUSH behind its last WRITE or atomic to the range is, because a FLUSH may read the
 * range. 0; -ENOENT: no such offer. */
PST_EXPORT int pst_peer_withdraw(struct pst_peer *peer, uint32_t id);

/* A piece of an area. An array element: its size is frozen. */
struct pst_area_piece {
  struct pst_area *area;
  uint64_t offset;
  uint64_t length;
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_area_piece) == 32, "frozen");

/* One operation on a region that a peer offers. An array element: its size is frozen. Members that
 * an operation does not use are 0. */
struct pst_operation {
  uint8_t op;                          /* PST_OP_WRITE | READ | FETCH_ADD | COMPARE_SWAP | FLUSH */
  uint8_t flags;                       /* PST_REQUEST_FENCE */
  uint16_t piece_count;                /* 0: `area` and `offset`; else `pieces` (WRITE, READ) */
  uint32_t id;                         /* the peer's region; FLUSH: 0 */
  uint64_t cookie;                     /* the application's; comes back in the DONE */
  struct pst_area *area;               /* atomics: where the 8 bytes found before are put */
  const struct pst_area_piece *pieces; /* the caller's again on return */
  uint64_t offset;                     /* in the area */
  uint64_t remote_offset;              /* in the peer's region; atomics: a multiple of 8 */
  uint64_t length;  /* bytes; READ: at least 1; atomics: 8; FLUSH: 0; with pieces: their sum */
  uint64_t compare; /* COMPARE_SWAP: swap if the peer's 8 bytes equal this */
  uint64_t operand; /* FETCH_ADD: the addend; COMPARE_SWAP: the new value */
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_operation) == 80, "frozen");

/* Begin up to n operations, in order; they may take effect and end in any order. While one is under
 * way the contents of its ranges are undefined. An operation that is longer, or has more pieces,
 * than a request of the transport is cut into several requests, which begin in the order of their
 * bytes and may end in any. It ends with one DONE, whose status is that of the first request that
 * failed; other requests may have moved their bytes.
 * Returns how many were taken; 0: no room, and ROOM will come. After -errno none was taken, because
 * of the first: -ENOENT: no such region; -ERANGE: outside the area or region; -EACCES: not offered
 * for this access; -EINVAL; -E2BIG: more pieces than the node's params allow; -EOPNOTSUPP: the
 * transport lacks the operation; -ENOTCONN: the peer has not joined, or has left. */
PST_EXPORT int pst_peer_post(struct pst_peer *peer, const struct pst_operation *operations,
                             uint32_t n);
/* Cancel the operations with this cookie: requests of them that have not begun will not. Each
 * operation still ends with its DONE (-ECANCELED, or 0 if all of it was under way). The local range
 * may be in use until that DONE. Returns how many operations there were. */
PST_EXPORT int pst_peer_cancel(struct pst_peer *peer, uint64_t cookie);

#ifdef __cplusplus
}
#endif
#endif
