/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes: peers that come and go, short messages, and regions to read and write.
 *
 * Streams are set up by a file and sealed. On demand, peers come and go: a *node* has one
 * device of a transport, a listener perhaps, and *peers*. With each peer there are short
 * messages both ways, and regions that either side offers and the other reads and writes.
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
 * The transport must have SEND, RELIABLE, DYNAMIC, and READ or WRITE; both ends need the
 * same one, with the same options of a stream. A peer may be in the same process, too.
 *
 * Threads. All calls on a node, its peers and areas come from one thread at a time, but
 * pst_node_wake(). Nothing but the joining of peers happens unless that thread calls
 * pst_node_poll(). Calls block only where they say so.
 *
 * Events. pst_node_poll() reports all that comes, in the order of its coming. Every
 * operation that was taken ends by exactly one DONE, also when its peer dies; all of a
 * peer's events come before its LEFT.
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

/* A filter around the transport, on this end alone: outermost first. An array element. */
struct pst_filter_params {
  const char *name;
  const struct pst_setting *options;
  uint32_t option_count;
  uint32_t reserved;
};

struct pst_node_params {
  uint32_t struct_size;
  uint32_t insecure;     /* 1: allow `listen` and pst_node_connect() beyond loopback, without
                            credentials, and other users on loopback: whoever reaches the address
                            can take part */
  const char *listen;    /* "host:port", port 0: any that is free; NULL: it only connects */
  const char *transport; /* plugin name; NULL: loopback; "none": messages alone, at most 48 KiB
                            each, over the control connection */
  const struct pst_setting *transport_options;
  uint32_t transport_option_count;
  uint32_t filter_count;
  const struct pst_filter_params *filters;
  /* What one node bears, 0 meaning the default in brackets. What goes beyond is refused,
   * and the peer told which limit it was. */
  uint32_t peers;              /* at a time, those that are joining or leaving included [64]; a
                                  client of one server spares memory by 1 */
  uint32_t messages;           /* on their way with one peer, each way [64]; a node sends at most
                                  `peers` + 4 * (messages - 1) at a time, one of each peer among
                                  them */
  uint32_t depth;              /* operations under way with one peer [256] */
  uint32_t pieces;             /* of one operation, at most 64 [16]; where the transport takes
                                  fewer in a request, an operation of more is several requests */
  uint32_t offers;             /* regions that one peer may have on offer to us [16] */
  uint32_t in_process;         /* 1: all peers are nodes of this process, of which a transport may
                                  make use */
  uint64_t offer_bytes;        /* of them together [no bound] */
  uint64_t message_max;        /* bytes of a message, either way; a peer's may be less [4096] */
  uint64_t connect_timeout_ns; /* from pst_node_connect() or a peer's coming to JOINED; of an
                                  operation that the peer's side does not answer [10 s] */
  uint64_t peer_timeout_ns;    /* nothing heard for so long: the peer is dead [10 s] */
  /* Of the transport's options, and of those of the memory of its areas: valid as long as the
   * node. Of the rest the label says it. NULL: so it does of options. */
  const struct pst_origins *origins;
};

/* Load the transport, open a device, listen. May block (seconds, for GPUs).
 * In *error: -EOPNOTSUPP: the transport lacks a capability, which is named; -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES, -EPERM (beyond loopback without `insecure`): `listen`;
 * -EINVAL: an option or a limit; -ENOSPC: the device has room for fewer `peers` or `messages`;
 * what the plugin says. */
PST_EXPORT int pst_node_open(const struct pst_node_params *params, struct pst_node **node,
                             struct pst_error *error);
/* Tell all peers, and leave them at once, without events; areas are freed. Blocks until
 * the device is closed, at most some seconds. Closing NULL is legal. */
PST_EXPORT void pst_node_close(struct pst_node *node);
/* Of the listener, the first address of it; 0: there is none. */
PST_EXPORT uint16_t pst_node_port(const struct pst_node *node);
/* Bytes that move as one request of the transport, at most; longer operations are cut. */
PST_EXPORT uint64_t pst_node_transfer_max(const struct pst_node *node);
/* Operations that may be under way with one peer: `depth`, or less where the transport has less. */
PST_EXPORT uint32_t pst_node_depth(const struct pst_node *node);
/* enum pst_transport_capability of the device. */
PST_EXPORT uint64_t pst_node_capabilities(const struct pst_node *node);
/* The plugins in use, as pst_session_plugin(). */
PST_EXPORT uint32_t pst_node_plugins(const struct pst_node *node);
PST_EXPORT int pst_node_plugin(const struct pst_node *node, uint32_t index,
                               struct pst_plugin_info *info);
/* The device of its transport. -ENOENT: it has none (`transport` "none"). */
PST_EXPORT int pst_node_device(const struct pst_node *node, struct pst_device_info *info);
/* What the transport has counted of the device, which may block for some ms, and of the node's
 * worker. Returns how many there are; writes up to max. -ENOENT: as above. */
PST_EXPORT int pst_node_device_counters(struct pst_node *node, struct pst_counter_value *values,
                                        uint32_t max);
PST_EXPORT int pst_node_worker_counters(struct pst_node *node, struct pst_counter_value *values,
                                        uint32_t max);

enum pst_node_event_kind {
  /* Messages, offers and operations may begin. text: who it is. */
  PST_NODE_JOINED = 1,
  /* The last of this peer, or of an attempt to connect. status 0: it has closed, or we
   * have, with code 0; else -errno and text: why. The peer is void from the next
   * pst_node_poll() on. -EUSERS: it has as many peers as it bears; -EPROTO: its transport
   * or options differ, or it broke the protocol; -EACCES: a region was withdrawn too early,
   * see pst_peer_withdraw(); -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET; the code that the other
   * side gave to pst_peer_close(). */
  PST_NODE_LEFT = 2,
  /* bytes, length: a message, valid until the next pst_node_poll(). The devices of areas that are
   * offered see, in work that begins after this poll, what was DONE at the peer before it sent. */
  PST_NODE_MESSAGE = 3,
  /* After pst_peer_send() or pst_peer_post() had no room: there is some again. */
  PST_NODE_ROOM = 4,
  /* The peer offers its region `id` of `length` bytes for `access`: it can be used. */
  PST_NODE_OFFERED = 5,
  /* It has withdrawn region `id`. Operations on it have ended (some with -EACCES,
   * perhaps); no other may name it. */
  PST_NODE_WITHDRAWN = 6,
  /* Our offer `id` is known to the peer; status: 0, or -errno and text: it cannot or will
   * not use it, and the offer is withdrawn. -ENOSPC: over its limits. */
  PST_NODE_TAKEN = 7,
  /* The operation of `cookie` has ended; op, status, length as posted. WRITE: the local
   * range is reusable, nothing more; READ and atomics: the data is here; FLUSH: all that was
   * posted before it is placed at the peer. -ECANCELED: by pst_peer_cancel() or _close();
   * -EACCES: the region was withdrawn; -ECONNRESET, -ETIMEDOUT: the peer has died, or the
   * connection ended by such a refusal. */
  PST_NODE_DONE = 8,
};

/* An array element: its size is frozen. What a kind does not name is 0. */
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

/* Make progress of everything and hand out up to max events. Operations that had ended when they
 * were posted come first; whatever else there is may then wait for 31 polls. Returns how many; 0:
 * none now; -EIO: the device has failed, and all peers have left. */
PST_EXPORT int pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max);
/* Sleep until there is something for pst_node_poll(), until_ns (CLOCK_MONOTONIC; NULL: no
 * bound) or pst_node_wake(); may return early for no reason. Naps of 100 µs where the
 * transport has no WAKEUP. Returns 1 when it slept, 0 when there was something already. */
PST_EXPORT int pst_node_wait(struct pst_node *node, const uint64_t *until_ns);
/* For an application that sleeps by itself, in poll(2), epoll or io_uring: after arm
 * has returned 0, fd becomes readable when pst_node_poll() has something to do.
 * -EAGAIN: poll now; -EOPNOTSUPP: the transport has no WAKEUP. */
PST_EXPORT int pst_node_arm(struct pst_node *node);
PST_EXPORT int pst_node_fd(const struct pst_node *node);
/* End the sleep. Any thread, or a signal handler. */
PST_EXPORT void pst_node_wake(struct pst_node *node);

/* Begin to connect; JOINED or LEFT tells how it went. Blocks for the look-up of a name.
 * In *error: -EINVAL, -ENOENT, -EHOSTUNREACH (address); -EPERM (beyond loopback without
 * `insecure`); -EUSERS: `peers`; -ENOMEM, -EMFILE. */
PST_EXPORT int pst_node_connect(struct pst_node *node, const char *address, struct pst_peer **peer,
                                struct pst_error *error);
/* Stop with this peer. What was sent is still delivered; operations end (-ECANCELED where
 * they had not), then LEFT comes with this code, which the other side's LEFT has too. What it
 * had sent and nobody polled is dropped. 0 and NULL: in order. Legal in every state; a second
 * one does nothing. */
PST_EXPORT void pst_peer_close(struct pst_peer *peer, int code, const char *text);
PST_EXPORT void pst_peer_set_context(struct pst_peer *peer, void *context);
PST_EXPORT void *pst_peer_context(const struct pst_peer *peer);
/* Who it is, in words: "host, pid 4711, 127.0.0.1:41000". */
PST_EXPORT const char *pst_peer_text(const struct pst_peer *peer);
/* Both ends of the connection to it, numeric: "127.0.0.1:41000", "[::1]:41000". */
struct pst_peer_info {
  uint32_t struct_size;
  uint32_t reserved;
  char local[72];
  char remote[72];
};
/* 0; -ENOTCONN: it has not answered yet. */
PST_EXPORT int pst_peer_info(const struct pst_peer *peer, struct pst_peer_info *info);
/* How bytes get to it. 0; -ENOTCONN: it has not joined, has left, or its transport's address has
 * changed and is being connected to. */
PST_EXPORT int pst_peer_path(const struct pst_peer *peer, struct pst_path_info *path);

/* Bytes of the longest message to this peer; 0: not joined yet. */
PST_EXPORT uint64_t pst_peer_message_max(const struct pst_peer *peer);
/* Send a message; the bytes are copied. Messages arrive once and in order, but have no
 * order with WRITEs: send when these are DONE. 0; -EAGAIN: no room, ROOM will come;
 * -EMSGSIZE; -ENOTCONN: not joined yet, or it has left. */
PST_EXPORT int pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length);

/* Memory of the application's, got from a memory plugin, for operations and offers. */
struct pst_area_params {
  uint32_t struct_size;
  uint32_t memory_option_count;
  const char *memory; /* plugin name; NULL: host */
  const struct pst_setting *memory_options;
  uint64_t length;   /* bytes, > 0; at least so many are there */
  const char *label; /* what it is for, in words, for error messages; NULL: "area" */
  const char *lower; /* the user's options that size it, for the remedy in error messages: "`--size`
                        or `--depth`"; NULL: none */
  uint32_t access; /* PST_ACCESS_REMOTE_*: what it will be offered for, so that memory which cannot
                      be is refused here, with the reason; 0: it is not asked */
  uint32_t reserved; /* 0 */
};
/* What the CPU cannot touch (a GPU's) is allocated before those peers join whose regions are
 * written from it, or read into it.
 * May block (milliseconds, for GPU memory). In *error: -ENOMEM; -EOPNOTSUPP: the transport
 * cannot reach this memory; what the plugin says. */
PST_EXPORT int pst_node_alloc(struct pst_node *node, const struct pst_area_params *params,
                              struct pst_area **area, struct pst_error *error);

/* Memory that the application has already: an area like the others, which pst_area_free() ends
 * without touching the bytes. It stays mapped where it is until then. */
struct pst_register_params {
  uint32_t struct_size;
  uint32_t memory_option_count;
  const char *memory; /* the plugin that knows this kind of memory; NULL: host */
  const struct pst_setting *memory_options;
  uint64_t address; /* as its device knows it; of host memory the pointer, to any byte */
  uint64_t length;  /* bytes, > 0 */
  /* A descriptor by which other processes can have it, and where in it `address` is: what
   * transports over shared memory ask for before it can be offered. Of host memory a memfd,
   * sealed with F_SEAL_SHRINK, and mapped there shared; peers that are offered a part of it
   * can reach all that the descriptor names. The fd stays the caller's. -1: there is none. */
  int32_t fd;
  uint32_t reserved; /* 0 */
  uint64_t fd_offset;
  const char *label; /* in error messages; NULL: "area" */
};
/* May block (milliseconds a GiB, where a device pins it). In *error: -EINVAL: no range, or a
 * descriptor that is not what it should be; -EFAULT: not all of it is mapped; -EOPNOTSUPP: the
 * memory plugin takes none but its own (no PST_MEMORY_CAP_ADOPT), or the transport cannot reach
 * it; -ENOMEM; what the plugins say. */
PST_EXPORT int pst_node_register(struct pst_node *node, const struct pst_register_params *params,
                                 struct pst_area **area, struct pst_error *error);
/* 0; -EBUSY: an operation names it, or an offer of it stands. NULL is legal. */
PST_EXPORT int pst_area_free(struct pst_area *area);
PST_EXPORT int pst_area_range(const struct pst_area *area, struct pst_range *range);
/* What it lies in, in words, as the memory plugin says: "memfd", "cuMemAlloc". */
PST_EXPORT const char *pst_area_backing(const struct pst_area *area);
/* How the transport reaches it in READs and WRITEs, as the newest registration of it says: that of
 * an offer, or its own. `carrier` is the peer's: pst_peer_path(). */
PST_EXPORT int pst_area_path(const struct pst_area *area, struct pst_path_info *path);
/* The CRC-32C (Castagnoli; RFC 3720, appendix B.4) of a range, computed where the bytes are: by
 * a GPU, of a GPU's. Blocks. 0; -ERANGE; -EOPNOTSUPP: the memory plugin has no
 * PST_MEMORY_CAP_CHECKSUM. */
PST_EXPORT int pst_area_checksum(struct pst_area *area, uint64_t offset, uint64_t length,
                                 uint32_t *crc32c);
/* Copy between the area and the CPU's memory, also where the CPU cannot touch the area. Both
 * block. 0; -ERANGE; -EOPNOTSUPP. */
PST_EXPORT int pst_area_read(struct pst_area *area, uint64_t offset, uint64_t length, void *to);
PST_EXPORT int pst_area_write(struct pst_area *area, uint64_t offset, uint64_t length,
                              const void *from);

/* Offer [offset, offset + length) of an area to this peer, and nothing besides: for
 * `access`, PST_ACCESS_REMOTE_READ | _WRITE | _ATOMIC, as far as the transport has them. It
 * stands until it is withdrawn or the peer has left. `*id` names it on both sides, from 1 on.
 * May block (milliseconds, for GPU memory). 0; -ERANGE; -EINVAL; -EOPNOTSUPP: the transport
 * cannot offer this memory, or not so; -ENOTCONN; -ENOMEM. */
PST_EXPORT int pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset,
                              uint64_t length, uint32_t access, uint32_t *id);
/* When it returns, the peer cannot reach the range any more; nobody asks it before. Waits for
 * what is being copied there over shared memory; where the peer died in the middle of that, at
 * most some seconds. Over a network it does not wait: what the peer has under way there is
 * refused, and where the transport's connection ends by that, as verbs_rc's does, both sides
 * have LEFT with -EACCES. So withdraw once the peer has said that it is through. It is, when its
 * READs are done, and a FLUSH behind its last WRITE or atomic there: until then any FLUSH may
 * read the range. 0; -ENOENT: no such offer. */
PST_EXPORT int pst_peer_withdraw(struct pst_peer *peer, uint32_t id);

/* A piece of an area. An array element: its size is frozen. */
struct pst_area_piece {
  struct pst_area *area;
  uint64_t offset;
  uint64_t length;
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_area_piece) == 32, "frozen");

/* One operation on a region that a peer offers. An array element: its size is frozen. What
 * an operation does not use is 0. */
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
  uint64_t length;  /* bytes; READ: at least 1; atomics: 8; FLUSH: 0; of pieces: their sum */
  uint64_t compare; /* COMPARE_SWAP: swap if the peer's 8 bytes equal this */
  uint64_t operand; /* FETCH_ADD: the addend; COMPARE_SWAP: the new value */
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_operation) == 80, "frozen");

/* Begin up to n operations, in order; they may take effect and end in any order. What the
 * ranges hold while one is under way is undefined. One that is longer, or in more pieces, than the
 * transport takes in a request is cut into several, which begin in the order of their bytes and may
 * end in any; it ends by one DONE, of the status of the first that failed, and bytes of others may
 * be moved all the same.
 * Returns how many were taken; 0: no room, ROOM will come. -errno: the first one cannot be
 * taken, none was: -ENOENT: no such region; -ERANGE: out of the area or region; -EACCES: not
 * offered for this; -EINVAL; -E2BIG: more pieces than the node's params say; -EOPNOTSUPP: the
 * transport lacks the operation; -ENOTCONN: not joined yet, or it has left. */
PST_EXPORT int pst_peer_post(struct pst_peer *peer, const struct pst_operation *operations,
                             uint32_t n);
/* Cancel operations with this cookie: what is not begun of them will not be. Each still ends
 * by its DONE (-ECANCELED, or 0 if all of it was under way), and only from then on does
 * nobody touch the local range. Returns how many there were. */
PST_EXPORT int pst_peer_cancel(struct pst_peer *peer, uint64_t cookie);

#ifdef __cplusplus
}
#endif
#endif
