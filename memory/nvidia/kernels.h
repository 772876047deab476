/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of the kernels: each takes one of these structs by value. Shared by
 * the kernels (CUDA C++), the plugin, and the fake driver of the tests.
 */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include <stdint.h>

#include <penstock/memory.h>

#define CUDA_KERNEL_THREADS 256u /* a block of the kernels that give each message a warp */
#define CUDA_KERNEL_WIDE 1024u   /* a block of those that give each message a block */

/* A piece of a copy, and a message: rows laid out, since a kernel finds the i-th of many rows
 * slowly. */
struct cuda_piece {
  uint64_t source;
  uint64_t destination;
  uint64_t length;
  uint64_t reserved;
};
struct cuda_message {
  uint64_t address;
  uint64_t length;
  uint64_t sequence;
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct cuda_piece) == sizeof(struct cuda_message), "one ring has both");

/* "pst_gather": a warp a piece. */
struct cuda_gather_args {
  uint64_t pieces; /* of `count` struct cuda_piece, where the device reads them */
  uint32_t count;
  uint32_t reserved;
};

/* "pst_fill", "pst_verify": a warp a message; "pst_fill_wide", "pst_verify_wide": a
 * block a message. Message i is payloads[i], or, when payloads is 0, the i-th of the rows, whose
 * counts come to `count`. */
#define CUDA_PATTERN_ROWS 8u
struct cuda_pattern_args {
  uint64_t payloads; /* of `count` struct cuda_message, where the device reads them */
  uint64_t seed;
  uint64_t result; /* verify: a struct cuda_slot in pinned memory */
  uint32_t count;
  uint32_t rows;
  struct pst_payload_row row[CUDA_PATTERN_ROWS];
};

/* "pst_crc32c": the blocks share the range's tiles. */
struct cuda_sum_args {
  uint64_t address, length;
  uint64_t crc32c; /* a uint32_t in pinned memory, which begins as UINT32_MAX */
};

/* A block sums this many times CUDA_KERNEL_THREADS words at a time, counted from a range's end. */
#define CUDA_SUM_ROUNDS 64u
#define CUDA_SUM_TILE (4u * CUDA_KERNEL_THREADS * CUDA_SUM_ROUNDS)

/* Result of a kernel for a batch. The host sets the initial values beforehand. */
struct cuda_slot {
  uint64_t corrupted; /* verify: messages; from 0 */
  uint64_t first;     /* verify: the least mismatch, see below; from UINT64_MAX */
  uint32_t crc32c;    /* sum; from UINT32_MAX */
  uint32_t reserved;
};

/* A mismatch in one word, so that the least is the first: the message's place in the
 * batch, the offset in the message, the byte found. */
#define CUDA_MISMATCH_MESSAGES (UINT64_C(1) << 24)
#define CUDA_MISMATCH_LENGTH (UINT64_C(1) << 32)
#define CUDA_MISMATCH(message, offset, found)                                                      \
  ((uint64_t)(message) << 40 | (uint64_t)(offset) << 8 | (uint64_t)(found))
#define CUDA_MISMATCH_MESSAGE(m) ((uint32_t)((m) >> 40))
#define CUDA_MISMATCH_OFFSET(m) ((m) >> 8 & UINT32_MAX)
#define CUDA_MISMATCH_FOUND(m) ((uint8_t)(m))

/* The kernels as an image for cuModuleLoadData(), or no bytes where nvcc was not there
 * at build time; and nvcc's version, as 13000 for 13.0. */
#ifdef __cplusplus
extern "C" {
#endif
extern const unsigned char cuda_kernels_image[];
extern const unsigned long cuda_kernels_length;
extern const int cuda_kernels_version;
#ifdef __cplusplus
}
#endif

#endif
