/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory plugins: where bytes live.
 *
 * A memory plugin allocates regions, exports them to transports and other processes, copies between
 * its memory and pinned host memory, records fences in its queues, and fills and verifies the test
 * pattern where the memory is.
 *
 * Objects. `struct pst_memory` is one opened device of the plugin; `struct pst_queue` is a queue of
 * asynchronous work on it (a CUDA stream); `struct pst_fence` marks a point in such a queue (a CUDA
 * event). All three are opaque, defined by the plugin.
 *
 * Threads. All threads share a pst_memory. The host serialises alloc, free, export and import; they
 * may run beside the work of queues. A queue belongs to one thread. One thread at a time may query
 * a fence or wait for it. Only calls whose comment says so block.
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
  /* A file descriptor for mmap(), in other processes too. It is sealed against shrinking
   * (F_SEAL_SHRINK of a memfd). Peers refuse an unsealed one: its owner could shrink it, and a
   * process that has it mapped would die of SIGBUS. */
  PST_EXPORT_FD = 1u << 0,
  PST_EXPORT_DMABUF = 1u << 1, /* a dma-buf descriptor, for ibv_reg_dmabuf_mr() and the like */
  /* An opaque handle of the vendor, at most 64 bytes (cuIpcGetMemHandle). It does not keep the
   * memory: importers close it before the exporter frees the region. */
  PST_EXPORT_IPC = 1u << 2,
  /* A descriptor of the vendor (cuMemExportToShareableHandle) that only the vendor's import takes;
   * mmap() does not. The memory lives as long as an import of it. */
  PST_EXPORT_VENDOR_FD = 1u << 3,
};

enum pst_region_flag {
  PST_REGION_PINNED = 1u << 0, /* its pages do not move */
};

/* A range of memory of a plugin. The plugin writes the struct; it does not change from alloc() to
 * free_region(). */
struct pst_region {
  uint32_t struct_size;
  uint32_t kind;      /* enum pst_memory_kind */
  uint64_t address;   /* as its device knows it; for host memory the pointer */
  void *host;         /* where the CPU may touch it, or NULL */
  uint64_t length;    /* bytes usable, at least what was asked for */
  uint64_t page_size; /* of its backing; registrations round to it */
  uint32_t exports;   /* enum pst_export_kind bits that will work */
  uint32_t flags;     /* enum pst_region_flag */
  char device[48];    /* which device: "GPU-<uuid>", a PCI address; "" for host memory */
  char backing[48];   /* in words: "malloc", "memfd", "2 MiB pages", "cuMemAlloc"; for results */
  struct pst_memory *memory; /* its owner; NULL: a transport's or filter's own region, exports 0 */
  void *handle;              /* for the plugin */
};

enum pst_alloc_purpose {
  PST_ALLOC_NORMAL = 0,  /* the plugin's own kind of memory */
  PST_ALLOC_STAGING = 1, /* host memory, pinned for this plugin's copies, registrable by a NIC */
};

/* Requirements of a transport on memory. The host compares them with what a region offers, and
 * passes them to alloc() so that an "auto" backing can choose. */
enum pst_memory_need {
  PST_NEED_CPU_ACCESS = 1u << 0, /* region.host is set */
  /* A descriptor for another process: PST_EXPORT_FD of memory that the CPU may touch; of other
   * memory PST_EXPORT_DMABUF or PST_EXPORT_VENDOR_FD. mr_register finds out whether that serves. */
  PST_NEED_EXPORT_FD = 1u << 1,
  PST_NEED_EXPORT_DMABUF = 1u << 2,
  PST_NEED_PINNED = 1u << 3,
};

struct pst_alloc_params {
  uint32_t struct_size;
  uint32_t purpose;   /* enum pst_alloc_purpose */
  uint64_t length;    /* bytes, > 0 */
  uint64_t alignment; /* of `address`; a power of two, up to 2 MiB; 0: the plugin's own */
  uint32_t needs;     /* enum pst_memory_need bits: hints; the region may lack them */
  uint32_t reserved;
  const char *label; /* what it is for, in words, for error messages */
  const char *lower; /* the user's options that size it, for the remedy in error messages: "`ring`
                        or `message`"; NULL: none */
};

/* Memory that the caller owns already. */
struct pst_adopt_params {
  uint32_t struct_size;
  int32_t fd;         /* an open descriptor by which other processes can have it too; -1: none */
  uint64_t address;   /* as this memory's device knows it; of host memory the pointer */
  uint64_t length;    /* bytes, > 0 */
  uint64_t fd_offset; /* of `address` in the file of fd; 0 without a descriptor */
  uint64_t reserved;
  const char *label; /* what it is for, in words, for error messages */
};

/* An exported region, or a part of one. */
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

/* `count` pieces of one length at equal distances, the usual layout of a stream's messages: piece i
 * goes from source + i * source_stride to destination + i * destination_stride, modulo 2^64, so
 * that a stride may lead backward. source_stride may be 0. Scattered pieces are rows of one piece,
 * whose strides mean nothing. Addresses are those of the plugin's device. At least one side is the
 * plugin's own memory; the other may be pinned host memory. Destinations overlap neither each other
 * nor a source. An array element: its size is frozen. */
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

/* The payloads of `count` messages, to fill or verify: message i has the sequence number sequence +
 * i and lies at address + i * stride. An array element. */
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
  uint32_t batches; /* the most submitted and not finished */
  uint32_t pieces;  /* the most of one batch */
  uint32_t reserved;
};

struct pst_memory_params {
  uint32_t struct_size;
  uint32_t reserved;
  const struct pst_options *options;
};

/* Description of an opened memory, which `penstock plugins`, banner and result show. */
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
  PST_MEMORY_CAP_FENCE = 1u << 2,         /* fence_*; without it every fence is NULL and passed, and
                                             a batch is finished when its call returns */
  PST_MEMORY_CAP_EXPORT = 1u << 3,        /* export_region */
  PST_MEMORY_CAP_IMPORT = 1u << 4,        /* import_region */
  PST_MEMORY_CAP_HOST_REGISTER = 1u << 5, /* host_register, host_unregister */
  PST_MEMORY_CAP_FLUSH = 1u << 6,         /* flush; without it nothing needs flushing */
  PST_MEMORY_CAP_CHECKSUM = 1u << 7,      /* sum_range */
  PST_MEMORY_CAP_ADOPT = 1u << 8,         /* adopt_region */
};

/* NULL stands for a call that returns -EOPNOTSUPP. A capability needs its calls. Mandatory: open,
 * close, alloc, free_region. */
struct pst_memory_ops {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capabilities; /* enum pst_memory_capability */

  /* Open the device that the options name. May block.
   * 0; -ENODEV: no such device; -EINVAL: not a name of a device (usage); -EACCES; -ENOMEM. */
  int (*open)(const struct pst_host *host, const struct pst_memory_params *params,
              struct pst_memory **memory);
  /* Release what open() took: memory, descriptors, threads. Called when all regions, queues and
   * fences are released. NULL is legal. */
  void (*close)(struct pst_memory *memory);
  int (*describe)(struct pst_memory *memory, struct pst_memory_info *info);

  /* Allocate a region of at least params->length bytes with undefined contents. The caller sets
   * region->struct_size. May block. The plugin refuses more than there is before it takes a page:
   * penstock-contract asks for 1 PiB.
   * 0; -ENOMEM: the log says what was asked, what is free, and the remedy; -EINVAL: length 0, an
   * alignment that is no power of two, an unknown purpose or need, a reserved member not zero. */
  int (*alloc)(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
  /* Release what alloc(), import_region() or adopt_region() took. Called when the region has no
   * registration any more. */
  void (*free_region)(struct pst_memory *memory, struct pst_region *region);

  /* Pin host memory of another owner so that this device's copies read it at full speed, until
   * host_unregister of the same range. Ranges may overlap, and a range may be registered again:
   * each call that returned 0 is undone by one host_unregister, when copies from the range are
   * finished. Memory that several calls pinned stays pinned until the last is undone.
   * 0; -EOPNOTSUPP: not needed or not possible; copies work all the same. May block. Any thread. */
  int (*host_register)(struct pst_memory *memory, void *address, uint64_t length);
  void (*host_unregister)(struct pst_memory *memory, void *address, uint64_t length);

  /* Export [offset, offset + length) of a region. The fd is new; the caller closes it. Where the
   * kind needs whole pages the plugin widens the range, and reports it in offset and base.
   * 0; -EOPNOTSUPP: not in region.exports, not logged; -EINVAL: outside the region, length 0, or
   * not exactly one known kind; -errno of the vendor's call. */
  int (*export_region)(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
  /* Map what this or another process exported; free_region unmaps it. The fd stays the caller's.
   * The memory stays on `from->device`, and region->device is the same. This process must see that
   * device under this name (a UUID). It is this memory's own device, or a device of this machine
   * that this memory's device can access as a peer; copies between the two are then direct.
   * 0; -EOPNOTSUPP: a kind that this memory does not import; -EXDEV: this process does not see the
   * device, or this memory's device cannot access it; -EINVAL: a range outside its base, or a
   * descriptor not sealed against shrinking; -ESTALE: an IPC handle whose memory is freed; -errno
   * of the mapping. */
  int (*import_region)(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region);

  /* -EINVAL: no batches or no pieces. */
  int (*queue_open)(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
  /* Wait for work under way, and drop its results. May block. */
  void (*queue_close)(struct pst_queue *queue);

  /* The next three submit n rows as one batch, in the queue's order, and return at once; the array
   * is the caller's again. *ticket numbers the batch: 1, 2, 3, … over all calls that submit to this
   * queue. The pieces of all rows together number at least 1 and at most params.pieces. A batch is
   * under way until queue_poll reports it.
   * 0; -EAGAIN: params.batches are under way, or too many pieces: poll first; never if nothing is
   * under way; -EINVAL: no pieces, more than params.pieces, a row without pieces, or a reserved
   * member that is not 0; -EIO: the device is lost. */
  int (*copy_rows)(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket);
  int (*fill_rows)(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
  int (*verify_rows)(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);
  /* *done = the last ticket up to which all batches are finished, or 0. Never blocks. 0, or -EIO:
   * the device is lost. */
  int (*queue_poll)(struct pst_queue *queue, uint64_t *done);
  /* Writes what verify_rows has found on a queue since queue_open(), in batches that queue_poll()
   * has reported. */
  int (*verify_result)(struct pst_queue *queue, struct pst_verify_result *result);

  /* Record a fence behind all work now on `queue`; if queue is NULL, on the application's own
   * `native` queue (a CUstream); if both are NULL, on the CPU, whose fence has passed at once. The
   * fence may be NULL, which has always passed. A fence outlives its queue.
   *
   * MAPPED memory, whose bytes a NIC or CPU writes and a device reads: all work submitted to the
   * device after poll() returned a MESSAGE sees what was written before, with fences or without, on
   * every platform that has this kind of memory. A GPU behind PCIe and the GPUs of Xavier, Orin and
   * Thor read through the CPU's caches; Grace and GB10 are coherent; the driver drops the device's
   * own cached lines when a kernel starts. Submitting work drains the CPU's write-combining
   * buffers.
   * A kernel that is running already sees such bytes only behind a load with acquire order at
   * system scope (cuda::thread_scope_system; ld.acquire.sys) of a word written after them. The CPU
   * writes that word with release order once it has polled the MESSAGE. Without such a load the
   * kernel may see old bytes as long as it runs. The CPU or a NIC may read what the device writes
   * only when a fence behind that work has passed.
   * 0; -ENOMEM: too many unreleased fences; -EINVAL: `native`, but this memory has no such queues;
   * -EIO. */
  int (*fence_record)(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
  /* Make later work on `queue`, or on `native`, wait for the fence on the device. If both are NULL
   * the calling thread waits; only that call may block. */
  int (*fence_wait)(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
  /* 0: passed; -EAGAIN: not yet; -EIO: the device is lost. Never blocks. */
  int (*fence_query)(struct pst_memory *memory, struct pst_fence *fence);
  /* Give the fence back to the plugin; it need not have passed. */
  void (*fence_release)(struct pst_memory *memory, struct pst_fence *fence);

  /* Make what a NIC wrote into the region visible to the device's later work (GPUs with the
   * flush-writes option "host" or "memops"). Called once after each poll that returned messages,
   * before they are handed over. Never blocks. */
  int (*flush)(struct pst_memory *memory, const struct pst_region *region);

  /* Compute the CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `length` bytes at `address`, where
   * the bytes are. It is a batch of one piece, whose ticket continues the count of copy_rows,
   * fill_rows and verify_rows. *crc32c is written before queue_poll reports the ticket, and never
   * after queue_close.
   * 0; -EAGAIN: as copy_rows; -EINVAL: a range that this memory's device does not reach; -EIO: the
   * device is lost. */
  int (*sum_range)(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket);

  /* Make a region of memory that the caller owns and keeps: free_region ends the region and leaves
   * the bytes. The memory must stay mapped where it is until then. With a descriptor the region can
   * be exported as PST_EXPORT_FD; a process that imports a part of it can reach the whole file. The
   * fd stays the caller's. The caller sets region->struct_size. May block.
   * 0; -EINVAL: no range, or a descriptor that could shrink or is not mapped at `address`; -EFAULT:
   * a part of the range is not mapped; -ENOMEM; -EMFILE. A plugin without PST_MEMORY_CAP_ADOPT may
   * have this call too: it logs why it takes no such memory, and returns -EOPNOTSUPP. */
  int (*adopt_region)(struct pst_memory *memory, const struct pst_adopt_params *params,
                      struct pst_region *region);
};

#ifdef __cplusplus
}
#endif
#endif
