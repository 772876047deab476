/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory plugins: where bytes live.
 *
 * A memory plugin gives regions, exports them to transports and to other
 * processes, moves bytes between its memory and pinned host memory, marks
 * points in its own order of work by fences, and makes and checks the test
 * pattern where the memory is.
 *
 * Objects. `struct pst_memory` is one opened device of the plugin;
 * `struct pst_queue` is an order of asynchronous work on it (a CUDA stream);
 * `struct pst_fence` marks a point in such an order (a CUDA event). All three
 * are opaque, defined by the plugin.
 *
 * Threads. A pst_memory is shared by all threads: alloc, free, export and
 * import are serialised by the host and may run beside the work of queues. A
 * queue belongs to one thread. A fence may be queried and waited for by any one
 * thread at a time. Only what says so blocks.
 */
#ifndef PENSTOCK_MEMORY_H
#define PENSTOCK_MEMORY_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_memory;
struct pst_queue;
struct pst_fence;

/* ---- Regions ----------------------------------------------------------- */

enum pst_export_kind {
  /* A file descriptor that mmap() and another process take, sealed against shrinking
   * (F_SEAL_SHRINK of a memfd): peers refuse another, since who maps it would die of
   * SIGBUS where its maker cuts it. */
  PST_EXPORT_FD = 1u << 0,
  PST_EXPORT_DMABUF = 1u << 1, /* a dma-buf descriptor, for ibv_reg_dmabuf_mr() and the like */
  /* An opaque handle of the vendor's, at most 64 bytes (cuIpcGetMemHandle). It keeps nothing:
   * imports are closed before the exporter frees the region. */
  PST_EXPORT_IPC = 1u << 2,
  /* A descriptor of the vendor's (cuMemExportToShareableHandle), that his import alone takes:
   * it is not to be mapped. The memory stays while somebody has imported it. */
  PST_EXPORT_VENDOR_FD = 1u << 3,
};

enum pst_region_flag {
  PST_REGION_PINNED = 1u << 0, /* its pages do not move */
};

/* Memory got from a plugin. Written by the plugin, read by everyone; immutable
 * from alloc() to free(). */
struct pst_region {
  uint32_t struct_size;
  uint32_t kind;      /* enum pst_memory_kind */
  uint64_t address;   /* as its device knows it; for host memory the pointer */
  void *host;         /* where the CPU may touch it, or NULL */
  uint64_t length;    /* bytes usable, at least what was asked for */
  uint64_t page_size; /* of its backing; what a registration rounds to */
  uint32_t exports;   /* enum pst_export_kind bits that will work */
  uint32_t flags;     /* enum pst_region_flag */
  char device[48];    /* which device: "GPU-<uuid>", a PCI address; "" for host memory */
  char backing[48];   /* in words: "malloc", "memfd", "2 MiB pages", "cuMemAlloc"; for results */
  struct pst_memory *memory; /* whose it is; NULL: a transport's or filter's own, exports 0 */
  void *handle;              /* the plugin's own */
};

enum pst_alloc_purpose {
  PST_ALLOC_NORMAL = 0,  /* the plugin's own kind of memory */
  PST_ALLOC_STAGING = 1, /* host memory, pinned for this plugin's copies, registrable by a NIC */
};

/* What a transport wants of memory, matched by the host with what a region
 * has. Given to alloc() so that "auto" backings can choose. */
enum pst_memory_need {
  PST_NEED_CPU_ACCESS = 1u << 0, /* region.host is set */
  PST_NEED_EXPORT_FD = 1u << 1,
  PST_NEED_EXPORT_DMABUF = 1u << 2,
  PST_NEED_PINNED = 1u << 3,
};

struct pst_alloc_params {
  uint32_t struct_size;
  uint32_t purpose;   /* enum pst_alloc_purpose */
  uint64_t length;    /* bytes, > 0 */
  uint64_t alignment; /* of `address`; a power of two, up to 2 MiB; 0: the plugin's own */
  uint32_t needs;     /* enum pst_memory_need bits: wanted, not promised */
  uint32_t reserved;
  const char *label; /* what it is for, in words, for error messages */
  const char *lower; /* the user's options that size it, for the remedy in error messages: "`ring`
                        or `message`"; NULL: none */
};

/* Memory that the caller has already. */
struct pst_adopt_params {
  uint32_t struct_size;
  int32_t fd;         /* an open descriptor by which other processes can have it too; -1: none */
  uint64_t address;   /* as this memory's device knows it; of host memory the pointer */
  uint64_t length;    /* bytes, > 0 */
  uint64_t fd_offset; /* of `address` within what fd names; without one 0 */
  uint64_t reserved;
  const char *label; /* what it is for, in words, for error messages */
};

/* A region, or a part of it, on its way to somebody else. */
struct pst_export {
  uint32_t struct_size;
  uint32_t kind;            /* one of enum pst_export_kind */
  int32_t fd;               /* FD, DMABUF, VENDOR_FD: the receiver's to close; else -1 */
  uint32_t handle_length;   /* IPC: bytes of `handle` in use */
  uint64_t offset;          /* of the requested range within what fd or handle names */
  uint64_t length;          /* of the requested range */
  uint64_t base_address;    /* of the whole allocation that fd or handle names */
  uint64_t base_length;     /* of it */
  char device[48];          /* region.device of the exporter: where the memory is */
  unsigned char handle[64]; /* IPC */
};

/* ---- Work on a queue ---------------------------------------------------- */

/* `count` pieces of one length at equal distances, as the messages of a stream nearly always are:
 * piece i goes from source + i * source_stride to destination + i * destination_stride, modulo
 * 2^64, so that a stride may lead backward. source_stride may be 0. Of a lone piece strides mean
 * nothing: scattered pieces are rows of one. Addresses are as the plugin's device knows them; one
 * side at least is the plugin's own memory, the other may be pinned host memory. What is written
 * overlaps neither itself nor a source. An array element: its size is frozen. */
struct pst_copy_row {
  uint64_t source;
  uint64_t destination;
  uint64_t length; /* of each piece */
  uint64_t source_stride;
  uint64_t destination_stride;
  uint32_t count; /* > 0 */
  uint32_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_copy_row) == 48, "frozen");

/* The payloads of `count` messages, to fill or verify: of message i at address + i * stride,
 * and of sequence number sequence + i. An array element. */
struct pst_payload_row {
  uint64_t address;
  uint64_t length;   /* of each */
  uint64_t sequence; /* of the first in its stream */
  uint64_t stride;
  uint32_t count; /* > 0 */
  uint32_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_payload_row) == 40, "frozen");

/*
 * The pattern. A message of sequence number s in a stream of seed k is, as
 * 64-bit little-endian words counted from 0,
 *     word[i] = h + i * PST_PATTERN_STEP   (mod 2^64)
 *     h       = mix(k + s * PST_PATTERN_SEQUENCE)
 * with mix() the finaliser of SplitMix64 (Steele, Lea, Flood 2014):
 *     z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27;
 *     z *= 0x94d049bb133111eb; z ^= z >> 31
 * and the last word cut to the length. STEP is odd, so no two words of a
 * message are alike, and mix() is a bijection, so no two messages of a stream
 * begin alike: a byte at the wrong offset, slot, order or value does not pass.
 */
#define PST_PATTERN_STEP UINT64_C(0x9e3779b97f4a7c15)
#define PST_PATTERN_SEQUENCE UINT64_C(0xd1342543de82ef95)

struct pst_queue_params {
  uint32_t struct_size;
  uint32_t batches; /* submitted and not finished, at most */
  uint32_t pieces;  /* of one batch, at most */
  uint32_t reserved;
};

struct pst_memory_params {
  uint32_t struct_size;
  uint32_t reserved;
  const struct pst_options *options;
};

/* In words, for `penstock plugins`, banner and result. */
struct pst_memory_info {
  uint32_t struct_size;
  uint32_t kind;       /* enum pst_memory_kind of NORMAL regions */
  char device[48];     /* as in regions */
  char name[96];       /* "NVIDIA H100 80GB HBM3"; "" for host */
  uint64_t free_bytes; /* 0: unknown */
};

enum pst_memory_capability {
  PST_MEMORY_CAP_COPY = 1u << 0,          /* queues, copy_rows */
  PST_MEMORY_CAP_PATTERN = 1u << 1,       /* fill_rows, verify_rows, verify_result */
  PST_MEMORY_CAP_FENCE = 1u << 2,         /* fence_*; without it every fence is NULL, passed, and
                                             batches are finished when their call returns */
  PST_MEMORY_CAP_EXPORT = 1u << 3,        /* export_region */
  PST_MEMORY_CAP_IMPORT = 1u << 4,        /* import_region */
  PST_MEMORY_CAP_HOST_REGISTER = 1u << 5, /* host_register, host_unregister */
  PST_MEMORY_CAP_FLUSH = 1u << 6,         /* flush; without it nothing needs flushing */
  PST_MEMORY_CAP_CHECKSUM = 1u << 7,      /* sum_range */
  PST_MEMORY_CAP_ADOPT = 1u << 8,         /* adopt_region */
};

/* A call that is NULL is -EOPNOTSUPP; it must be there when its capability is announced. open,
 * close, alloc and free_region are mandatory. */
struct pst_memory_ops {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capabilities; /* enum pst_memory_capability */

  /* Open the device that the options name. May block.
   * 0; -ENODEV: no such device; -EINVAL: no name of one (usage); -EACCES; -ENOMEM. */
  int (*open)(const struct pst_host *host, const struct pst_memory_params *params,
              struct pst_memory **memory);
  /* All regions, queues and fences are gone by then. NULL is legal. What open() took is given
   * back: memory, descriptors, threads. */
  void (*close)(struct pst_memory *memory);
  int (*describe)(struct pst_memory *memory, struct pst_memory_info *info);

  /* A region of at least params->length bytes; its contents are undefined. The
   * caller sets region->struct_size. May block.
   * Refuse what is not there before a page is taken: penstock-contract asks for 1 PiB.
   * 0; -ENOMEM: says what was asked, what is free, and the remedy; -EINVAL: length 0,
   * alignment that is no power of two, unknown purpose or needs, reserved not zero. */
  int (*alloc)(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
  /* Every registration of it is gone by then. What alloc() took is given back. */
  void (*free_region)(struct pst_memory *memory, struct pst_region *region);

  /* Pin host memory of somebody else's so that this device's copies read it at
   * full speed, until host_unregister of the same range. Ranges may overlap, and a range may be
   * registered again: each call that returned 0 is undone by one of its own, after copies from
   * the range are through, and what several have pinned stays so until the last. 0; -EOPNOTSUPP:
   * not needed or not possible; copies work all the same. May block, and may come from any
   * thread. */
  int (*host_register)(struct pst_memory *memory, void *address, uint64_t length);
  void (*host_unregister)(struct pst_memory *memory, void *address, uint64_t length);

  /* Export [offset, offset + length) of a region. The fd is a new one, the
   * caller's to close. The plugin widens the range to whole pages where the
   * kind asks for it, and says by offset and base what it exported.
   * 0; -EOPNOTSUPP: not in region.exports, not logged; -EINVAL: out of the region, length
   * 0, not one known kind; -errno of the vendor's call. */
  int (*export_region)(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
  /* Map what another process exported, or this one; freed by free_region. The fd stays the
   * caller's. `from->device` is where the memory is and stays: region->device says the same.
   * The importer has to see that device, under this very name (a UUID), and to reach it: it
   * is this memory's own, or another of this machine to which this memory's has access as a
   * peer; copies on this memory's queues then go between the two without a stop in between.
   * 0; -EOPNOTSUPP: a kind that this memory does not import; -EXDEV: a device that this
   * process does not see, or that this memory's cannot reach; -EINVAL: a range that is not in
   * its base, a descriptor that is not sealed against shrinking; -ESTALE: an IPC handle whose
   * memory is gone; -errno of the mapping. */
  int (*import_region)(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region);

  /* -EINVAL: no batches or no pieces. */
  int (*queue_open)(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
  /* Waits for work under way; its results are lost. May block. */
  void (*queue_close)(struct pst_queue *queue);

  /* Each of the three submits n rows as one batch, in the queue's order, and returns
   * at once; the array is the caller's again. *ticket numbers the batch: 1, 2, 3, … over
   * all calls that submit to this queue. The rows' pieces together are the batch's: at
   * least 1, and at most params.pieces.
   * 0; -EAGAIN: params.batches are under way, or so many pieces that there is no room for the
   * batch's, which they are until queue_poll has told of them: poll first. Never where none is
   * under way; -EINVAL: no pieces, more than params.pieces, a row without pieces, or with a
   * reserved field that is not 0; -EIO: the device is lost. */
  int (*copy_rows)(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket);
  int (*fill_rows)(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
  int (*verify_rows)(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);
  /* *done = the last ticket T such that all batches up to T are finished; 0 when
   * none is. Never blocks, never waits. 0, or -EIO: the device is lost. */
  int (*queue_poll)(struct pst_queue *queue, uint64_t *done);
  /* What verify has found on a queue since queue_open(), of work that queue_poll() has reported
   * as done. */
  int (*verify_result)(struct pst_queue *queue, struct pst_verify_result *result);

  /* A fence behind all work now on `queue`, or, when queue is NULL, on the
   * application's own order of work `native` (a CUstream; NULL: the CPU, so that
   * the fence is passed at once). A fence of NULL is always passed, and may be what is
   * given. It outlives its queue.
   *
   * MAPPED memory, whose bytes a NIC or a CPU writes and a device reads: what was written before
   * poll() returned its MESSAGE is seen by all work that is submitted to the device after that,
   * fences or none, on every platform that has this kind of memory. A GPU behind PCIe and one of
   * Xavier, Orin or Thor read through the CPU's caches; Grace and GB10 are coherent; the driver
   * drops what the device itself has cached when a kernel starts. Write-combined memory: the CPU's
   * writes are drained by the submission.
   * A kernel that runs already sees such bytes only behind a load with acquire order in system
   * scope (cuda::thread_scope_system; ld.acquire.sys) of a word that was written after them: by
   * the CPU with release order, once it has polled the MESSAGE. Without, it may see old bytes for
   * as long as it runs. What the device writes the CPU, or a NIC, may read when a fence behind
   * that work has passed, and not before.
   * 0; -ENOMEM: too many unreleased fences; -EINVAL: `native`, but this memory has no such
   * orders; -EIO. */
  int (*fence_record)(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
  /* Later work on `queue`, or on `native`, waits for the fence on the device.
   * With both NULL the calling thread waits: that call alone may block. */
  int (*fence_wait)(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
  /* 0: passed; -EAGAIN: not yet; -EIO: the device is lost. Never blocks. */
  int (*fence_query)(struct pst_memory *memory, struct pst_fence *fence);
  /* The fence may be reused by the plugin; it need not have passed. */
  void (*fence_release)(struct pst_memory *memory, struct pst_fence *fence);

  /* Make visible to the device's later work what a NIC wrote into the region
   * (GPUs with flush-writes option "host" or "memops"). Called once a poll that
   * brought messages, before they are handed over. Never blocks. */
  int (*flush)(struct pst_memory *memory, const struct pst_region *region);

  /* The CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `length` bytes at `address`, computed
   * where the bytes are: a batch of one piece, its ticket of the three's count. *crc32c is written
   * by the queue_poll that tells of the ticket, or before, and is not touched after queue_close.
   * 0; -EAGAIN: as the three say it; -EINVAL: a range that this memory's device does not reach;
   * -EIO: the device is lost. */
  int (*sum_range)(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket);

  /* A region over memory that the caller has got elsewhere, and that stays his: free_region
   * ends the region and leaves the bytes. It has to stay where it is until then. With a
   * descriptor it can be exported as PST_EXPORT_FD, whole: who imports a part can reach all that
   * the descriptor names. The fd stays the caller's. The caller sets region->struct_size. May
   * block.
   * 0; -EINVAL: no range, a descriptor that could shrink, or one that is not mapped at
   * `address`; -EFAULT: not all of it is there; -ENOMEM; -EMFILE. A plugin without
   * PST_MEMORY_CAP_ADOPT may have this op all the same: it logs why it takes no such memory, and
   * returns -EOPNOTSUPP. */
  int (*adopt_region)(struct pst_memory *memory, const struct pst_adopt_params *params,
                      struct pst_region *region);
};

#ifdef __cplusplus
}
#endif
#endif
