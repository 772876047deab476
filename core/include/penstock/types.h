/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that applications and plugins share: errors, log levels, options, paths,
 * operations. It declares no function.
 */
#ifndef PENSTOCK_TYPES_H
#define PENSTOCK_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PST_EXPORT __attribute__((visibility("default")))
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define PST_INLINE static inline __attribute__((unused))
#else
#define PST_EXPORT
#define PST_PRINTF(fmt, args)
#define PST_INLINE static inline
#endif

#ifdef __cplusplus
#define PST_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define PST_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* Plugins cross between compilers on one host: pointers and size_t are 8
 * bytes. */
PST_STATIC_ASSERT(sizeof(void *) == 8, "Penstock's ABI is defined for 64-bit machines");

/* ---- Errors and log levels ------------------------------------------------------- */

/* Exit status of a program, by the meaning of a failure. */
enum pst_exit {
  PST_EXIT_OK = 0,
  PST_EXIT_FAILED = 1, /* the run failed: loss on a reliable transport, corruption, dead peer */
  PST_EXIT_USAGE = 2,  /* usage or configuration, an unknown plugin name included */
  PST_EXIT_UNAVAILABLE = 3, /* not available here: the plugin cannot load, no such device */
  PST_EXIT_EXPECT = 4,      /* an `expect` was not met */
};

struct pst_error {
  uint32_t struct_size;
  int32_t code;        /* -errno */
  int32_t exit_status; /* enum pst_exit */
  uint32_t reserved;
  char text[2048]; /* may have several lines, each for one finding */
};
#define PST_ERROR_INIT                                                                             \
  {                                                                                                \
    sizeof(struct pst_error), 0, 0, 0,                                                             \
    {                                                                                              \
      0                                                                                            \
    }                                                                                              \
  }

enum pst_log_level {
  PST_LOG_ERROR = 0, /* something asked for will not happen; says the remedy */
  PST_LOG_WARN = 1,  /* it happens, but not as one would want */
  PST_LOG_INFO = 2,
  PST_LOG_DEBUG = 3,
};

/* ---- Options of plugins ----------------------------------------------------- */

enum pst_plugin_kind {
  PST_KIND_TRANSPORT = 1, /* how bytes travel: ops is struct pst_transport_ops */
  PST_KIND_MEMORY = 2,    /* where bytes live: ops is struct pst_memory_ops */
  PST_KIND_FILTER = 3,    /* wraps a transport: ops is struct pst_transport_ops */
};

enum pst_option_type {
  PST_OPTION_BOOL = 1,     /* true | false; getter: 0 or 1 */
  PST_OPTION_UINT = 2,     /* 4096 */
  PST_OPTION_SIZE = 3,     /* 8 KiB, 1462 B; getter: bytes */
  PST_OPTION_DURATION = 4, /* 250 ms; getter: nanoseconds */
  PST_OPTION_RATE = 5,     /* 68.75 Gbps; getter: bits per second */
  PST_OPTION_STRING = 6,
  PST_OPTION_ENUM = 7, /* one of `choices`; getter: its index, or the string */
  PST_OPTION_LIST = 8, /* list of strings */
};

/* Where in a configuration an option may stand, and so who has to agree on it.
 * The `options` of a plugin given for the whole run or a whole stream may hold
 * any of them; those given under `sender` or `receiver` only what that side
 * uses. */
enum pst_option_scope {
  PST_SCOPE_DEVICE = 1u << 0,   /* belongs to the opened device: handed to open() */
  PST_SCOPE_STREAM = 1u << 1,   /* both ends must agree: compared when they connect */
  PST_SCOPE_SENDER = 1u << 2,   /* handed to endpoint_open() of a sender */
  PST_SCOPE_RECEIVER = 1u << 3, /* handed to endpoint_open() of a receiver */
};

enum pst_option_flag {
  PST_OPTION_REQUIRED = 1u << 0, /* no default; leaving it out is an error */
  PST_OPTION_TESTING = 1u << 1,  /* for tests; documented as such */
  PST_OPTION_PAIRS = 1u << 2,    /* a LIST of NAME=VALUE; YAML may have {NAME: VALUE}, too */
};

/* One option. An array element: its size is frozen. */
struct pst_option {
  const char *name;           /* lower case, words joined by '_' */
  const char *help;           /* whole sentences; says units and consequences */
  const char *default_value;  /* as it would stand in YAML; NULL: empty or required */
  const char *const *choices; /* ENUM only: NULL-terminated */
  uint64_t min;               /* inclusive, for UINT, SIZE, DURATION, RATE */
  uint64_t max;               /* inclusive; 0: no bound. STRING: longest length */
  uint32_t type;              /* enum pst_option_type */
  uint32_t scope;             /* one or more of enum pst_option_scope */
  uint32_t flags;             /* enum pst_option_flag */
  uint32_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_option) == 64, "frozen");

/* An option's value, as it would stand in YAML ("8 KiB"). */
struct pst_setting {
  const char *name;
  const char *value;
};

/* ---- Where bytes are, and how they travel ------------------------------------ */

enum pst_memory_kind {
  PST_MEMORY_HOST = 1,   /* ordinary host memory */
  PST_MEMORY_CUDA = 2,   /* CUDA device memory */
  PST_MEMORY_MAPPED = 3, /* host memory that a device sees by a mapping (iGPU, cudaHostAlloc) */
};

enum pst_path {
  PST_PATH_NONE = 0,
  /* The transport itself places bytes in the final memory: a device does, the kernel, or the
   * plugin's own last copy out of a socket's buffer; `via` says which. */
  PST_PATH_DIRECT = 1,
  PST_PATH_MAPPED = 2, /* the final memory is host memory that its device sees by a mapping */
  PST_PATH_STAGED = 3, /* they bounce: in core's staging, or inside a library */
};

/* How bytes get there, in words for banner, statistics and result. */
struct pst_path_info {
  uint32_t struct_size;
  uint32_t path;    /* enum pst_path; for an endpoint the worse of its ring's and its own */
  char via[48];     /* "memcpy", "reference", "dma-buf", "peermem", "cuda-ipc" */
  char carrier[48]; /* memory, shm, unix, tcp, udp, soft-roce, rdma, ethernet, … */
  char reason[160]; /* why this path and not a better one; "" when there is no better */
};

/* Where an area's bytes are. */
struct pst_range {
  uint32_t struct_size;
  uint32_t memory_kind; /* enum pst_memory_kind */
  uint64_t address;     /* as the memory's device knows it */
  void *host;           /* where the CPU may touch it, or NULL */
  uint64_t length;      /* bytes */
};

enum pst_transport_capability {
  PST_CAP_SEND = 1u << 0,         /* SEND, ring_open, release: streams */
  PST_CAP_WRITE = 1u << 1,        /* one-sided; needs mr_pack, remote_open, remote_close */
  PST_CAP_READ = 1u << 2,         /* one-sided, as WRITE */
  PST_CAP_ATOMIC = 1u << 3,       /* FETCH_ADD, COMPARE_SWAP of 8 bytes; one-sided, as WRITE */
  PST_CAP_RELIABLE = 1u << 4,     /* an accepted SEND arrives once, or the endpoint fails */
  PST_CAP_ORDERED = 1u << 5,      /* MESSAGEs of an endpoint come in the order of their SENDs */
  PST_CAP_SEQUENCE = 1u << 6,     /* carries limits.sequence_bits of each SEND's sequence */
  PST_CAP_META = 1u << 7,         /* carries 64 bits of the application's with each SEND */
  PST_CAP_TIME = 1u << 8,         /* MESSAGE.time_ns comes from the device or kernel */
  PST_CAP_LEND = 1u << 9,         /* may hand over messages in regions of its own or the sender's */
  PST_CAP_SHARED_RING = 1u << 10, /* several endpoints may name one ring */
  PST_CAP_WAKEUP = 1u << 11,      /* arm and event_fd */
  PST_CAP_DYNAMIC = 1u << 12,     /* rings and endpoints may be opened after start */
  PST_CAP_FOREIGN = 1u << 13,     /* speaks to peers without Penstock: `control: none` */
  /* READ and WRITE reach memory that the CPU cannot touch: PST_NEED_CPU_ACCESS of send_needs
   * is for SENDs alone. */
  PST_CAP_DEVICE_RMA = 1u << 14,
  /* A ring may be opened without memory (its mr NULL): every message is lent, and nothing lies in
   * slots of its own. A SEND of several pieces to such a ring is refused: -E2BIG. With LEND. */
  PST_CAP_BARE_RING = 1u << 15,
  /* endpoint_address has descriptors, and endpoint_connect takes no address without: -EXDEV. So
   * the host turns a peer that passes none away before it opens an endpoint. */
  PST_CAP_DESCRIPTORS = 1u << 16,
  PST_CAP_DEPARTURE = 1u << 17, /* keeps the time at which a SEND is to leave */
  /* No peer reaches the memory of a ring: the receiver picks each message's slot as it arrives.
   * With SHARED_RING endpoints of all domains may name a ring whose mr has none, and peers of a
   * node share one. */
  PST_CAP_TWO_SIDED = 1u << 18,
  /* post() takes SENDs for which the peer has no slot yet: they wait in the transport. A SEND that
   * the transport, the device or the peer refuses later ends with that errno in its DONE. */
  PST_CAP_QUEUES = 1u << 19,
};

/* ---- Operations -------------------------------------------------------------- */

enum pst_access {
  PST_ACCESS_LOCAL_READ = 1u << 0,  /* sent from, source of WRITE */
  PST_ACCESS_LOCAL_WRITE = 1u << 1, /* ring, destination of READ and atomics */
  /* Asked for only of a transport with READ, WRITE, ATOMIC. */
  PST_ACCESS_REMOTE_READ = 1u << 2,
  PST_ACCESS_REMOTE_WRITE = 1u << 3,
  PST_ACCESS_REMOTE_ATOMIC = 1u << 4,
  /* Will hold a ring: the transport adds the remote rights that its peers' sends
   * need; mr_pack serves none of them. */
  PST_ACCESS_RING = 1u << 5,
};

enum pst_opcode {
  PST_OP_SEND = 1,
  PST_OP_WRITE = 2,
  PST_OP_READ = 3,
  PST_OP_FETCH_ADD = 4,    /* 8 bytes, aligned to 8 at the peer */
  PST_OP_COMPARE_SWAP = 5, /* 8 bytes, aligned to 8 at the peer */
  /* No buffers; u.rma.remote: the range meant, or NULL: all written since. Every transport
   * takes it, one with SEND alone, too. */
  PST_OP_FLUSH = 6,
};

/* Every transport takes these. */
enum pst_request_flag {
  /* Start only when all earlier READs and atomics of this endpoint are done (IBV_SEND_FENCE;
   * InfiniBand Architecture Specification 1.4, 10.8.3.3), and take effect at the peer after all its
   * earlier WRITEs: who has the message, or sees in memory what this WRITE or atomic changed, sees
   * what they wrote. Without it, SENDs and WRITEs have no order among each other. */
  PST_REQUEST_FENCE = 1u << 0,
  /* SEND: no other request names these bytes until DONE, so the limits.send_headroom
   * bytes before them may be written. Without it a transport gathers its header. */
  PST_REQUEST_EXCLUSIVE = 1u << 1,
};

/* ---- Counters ---------------------------------------------------------------- */

enum pst_counter_flag {
  PST_COUNTER_DROP = 1u << 0,  /* messages lost on this side; `cause` is the key in `dropped` */
  PST_COUNTER_GAUGE = 1u << 1, /* a level, not a count */
  /* DROP | GAUGE: an upper bound on losses that the transport cannot count exactly, behind the last
   * MESSAGE or without sequence numbers. The host takes the exact number from the sender's total,
   * if there is one. */
  /* For a peer that gives no total. A level: messages that DROP counters have, and that left no
   * gap in the sequence numbers, since none arrived behind them. */
  PST_COUNTER_NO_GAP = 1u << 2,
  /* For such a peer. A count: gaps in the sequence numbers that were no messages of the stream. */
  PST_COUNTER_NO_MESSAGE = 1u << 3,
  /* For such a peer. A count: data that became no MESSAGE. While it grows there is no silence. */
  PST_COUNTER_HEARD = 1u << 4,
  /* One entry of a list, whose others have the same name. */
  PST_COUNTER_ENTRY = 1u << 5,
};

/* Value of a transport's counter. An array element. */
struct pst_counter_value {
  char name[48];
  char cause[32]; /* of a drop; "" */
  uint64_t value;
  uint64_t flags; /* enum pst_counter_flag */
};
PST_STATIC_ASSERT(sizeof(struct pst_counter_value) == 96, "frozen");

/* Result of the checks of the test pattern until now. */
struct pst_verify_result {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t checked;   /* messages */
  uint64_t corrupted; /* messages with at least one wrong byte */
  /* The first mismatch found, meaningful when corrupted > 0. */
  uint64_t sequence; /* of the message */
  uint64_t offset;   /* of the first wrong byte in it */
  uint8_t expected;
  uint8_t found;
  uint8_t pad[6];
};

#ifdef __cplusplus
}
#endif
#endif
