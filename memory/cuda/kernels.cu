/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering packets out of pinned host memory, and the test pattern of memory.h. */
#include <stdint.h>

#include <penstock/memory.h>

#include "kernels.h"

namespace
{
constexpr unsigned int WARP = 32, ALL = 0xffffffffu;

__device__ unsigned int lane()
{
  return threadIdx.x % WARP;
}

/* Of this warp among the grid's, and how many there are. */
__device__ uint32_t warp_index()
{
  return (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
}

__device__ uint32_t warp_count()
{
  return gridDim.x * blockDim.x / WARP;
}

/* Bytes [shift, shift + 16) of the 32 that a and b are, little-endian. */
__device__ uint4 funnel(uint4 a, uint4 b, unsigned int shift)
{
  const uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  uint32_t out[4];
  const unsigned int skip = shift / 4, bits = shift % 4 * 8;
#pragma unroll
  for (unsigned int i = 0; i < 4; i++) {
    uint32_t low = 0, high = 0;
#pragma unroll
    for (unsigned int k = 0; k < 4; k++) {
      low = skip == k ? words[i + k] : low;
      high = skip == k ? words[i + k + 1] : high;
    }
    out[i] = __funnelshift_r(low, high, bits);
  }
  return make_uint4(out[0], out[1], out[2], out[3]);
}

/* Both aligned to 16 bytes; four loads a lane are on their way at a time. */
__device__ void copy_vectors(uint4 *to, const uint4 *from, uint64_t vectors)
{
  uint64_t at = lane();
  for (; at + 3 * WARP < vectors; at += 4 * WARP) {
    const uint4 a = from[at], b = from[at + WARP], c = from[at + 2 * WARP], d = from[at + 3 * WARP];
    to[at] = a;
    to[at + WARP] = b;
    to[at + 2 * WARP] = c;
    to[at + 3 * WARP] = d;
  }
  for (; at < vectors; at += WARP)
    to[at] = from[at];
}

/* The source begins `shift` bytes into from[0]: whole words of it are read once, and
 * shifted over to the destination's. from[vectors] is read too. */
__device__ void copy_shifted(uint4 *to, const uint4 *from, uint64_t vectors, unsigned int shift)
{
  for (uint64_t base = 0; base < vectors; base += WARP) {
    const uint64_t at = base + lane();
    uint4 a = at <= vectors ? from[at] : make_uint4(0, 0, 0, 0);
    uint4 b;
    b.x = __shfl_down_sync(ALL, a.x, 1);
    b.y = __shfl_down_sync(ALL, a.y, 1);
    b.z = __shfl_down_sync(ALL, a.z, 1);
    b.w = __shfl_down_sync(ALL, a.w, 1);
    if (at >= vectors)
      continue;
    if (lane() == WARP - 1)
      b = from[at + 1];
    to[at] = funnel(a, b, shift);
  }
}

/* By one warp. Heads and tails are at most 31 bytes, one a lane; no byte outside of
 * the piece is read. */
__device__ void copy_piece(uint8_t *to, const uint8_t *from, uint64_t length)
{
  uint64_t head = (16 - (uintptr_t)to % 16) % 16;
  const unsigned int shift = ((uintptr_t)from + head) % 16;
  if (head < shift)
    head += 16;
  if (head > length)
    head = length;
  uint64_t vectors = (length - head) / 16;
  if (shift && vectors && length - head - 16 * vectors < 16 - shift)
    vectors--;
  const uint64_t tail = head + 16 * vectors;
  for (uint64_t at = lane(); at < head; at += WARP)
    to[at] = from[at];
  if (shift == 0)
    copy_vectors((uint4 *)(to + head), (const uint4 *)(from + head), vectors);
  else
    copy_shifted((uint4 *)(to + head), (const uint4 *)(from + head - shift), vectors, shift);
  for (uint64_t at = tail + lane(); at < length; at += WARP)
    to[at] = from[at];
}

__device__ pst_payload payload_of(const cuda_pattern_args &args, uint32_t i)
{
  if (args.payloads)
    return ((const pst_payload *)args.payloads)[i];
  return pst_payload{args.base + i * args.stride, args.length, args.sequence + i, 0};
}

__device__ uint64_t first_word(uint64_t seed, uint64_t sequence)
{
  uint64_t z = seed + sequence * PST_PATTERN_SEQUENCE;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* The pattern's bytes [offset, offset + 8). */
__device__ uint64_t pattern_at(uint64_t first, uint64_t offset)
{
  const uint64_t word = first + offset / 8 * PST_PATTERN_STEP;
  const unsigned int bits = offset % 8 * 8;
  return bits ? word >> bits | (word + PST_PATTERN_STEP) << (64 - bits) : word;
}

/* A message's unaligned head, its 16-byte vectors, and where its tail begins. */
struct cut {
  uint64_t head, vectors, tail;
};

__device__ cut cut_of(uint64_t address, uint64_t length)
{
  cut c;
  c.head = (16 - address % 16) % 16;
  if (c.head > length)
    c.head = length;
  c.vectors = (length - c.head) / 16;
  c.tail = c.head + 16 * c.vectors;
  return c;
}

/* `me` of `threads` that share the message. */
__device__ void fill_message(const pst_payload &p, uint64_t seed, unsigned int me,
                             unsigned int threads)
{
  const uint64_t first = first_word(seed, p.sequence);
  const cut c = cut_of(p.address, p.length);
  uint8_t *bytes = (uint8_t *)p.address;
  for (uint64_t at = me; at < c.head; at += threads)
    bytes[at] = (uint8_t)pattern_at(first, at);
  ulonglong2 *vectors = (ulonglong2 *)(bytes + c.head);
  for (uint64_t i = me; i < c.vectors; i += threads)
    vectors[i] =
        make_ulonglong2(pattern_at(first, c.head + 16 * i), pattern_at(first, c.head + 16 * i + 8));
  for (uint64_t at = c.tail + me; at < p.length; at += threads)
    bytes[at] = (uint8_t)pattern_at(first, at);
}

/* The first byte that differs among the 8 at `offset`, or `least`. */
__device__ uint64_t differs(uint64_t is, uint64_t expected, uint64_t offset, uint64_t least)
{
  if (is == expected)
    return least;
  const uint64_t at = offset + (unsigned int)(__ffsll((long long)(is ^ expected)) - 1) / 8;
  return at < least ? at : least;
}

/* The least offset of those that `me` looks at whose byte is wrong, or UINT64_MAX. */
__device__ uint64_t verify_message(const pst_payload &p, uint64_t seed, unsigned int me,
                                   unsigned int threads)
{
  const uint64_t first = first_word(seed, p.sequence);
  const cut c = cut_of(p.address, p.length);
  const uint8_t *bytes = (const uint8_t *)p.address;
  const ulonglong2 *vectors = (const ulonglong2 *)(bytes + c.head);
  uint64_t least = UINT64_MAX;
  for (uint64_t at = me; at < c.head; at += threads)
    if (bytes[at] != (uint8_t)pattern_at(first, at) && at < least)
      least = at;
#pragma unroll 4
  for (uint64_t i = me; i < c.vectors; i += threads) {
    const ulonglong2 v = vectors[i];
    const uint64_t at = c.head + 16 * i;
    least = differs(v.x, pattern_at(first, at), at, least);
    least = differs(v.y, pattern_at(first, at + 8), at + 8, least);
  }
  for (uint64_t at = c.tail + me; at < p.length; at += threads)
    if (bytes[at] != (uint8_t)pattern_at(first, at) && at < least)
      least = at;
  return least;
}

__device__ uint64_t warp_least(uint64_t value)
{
  for (unsigned int step = WARP / 2; step; step /= 2) {
    const uint64_t other = __shfl_xor_sync(ALL, (unsigned long long)value, step);
    value = other < value ? other : value;
  }
  return value;
}

/* By one thread. Rare, so it may go to host memory one message at a time. */
__device__ void note(const cuda_pattern_args &args, const pst_payload &p, uint32_t i,
                     uint64_t offset)
{
  cuda_verify_slot *slot = (cuda_verify_slot *)args.result;
  const uint8_t found = ((const uint8_t *)p.address)[offset];
  atomicAdd((unsigned long long *)&slot->corrupted, 1ull);
  atomicMin((unsigned long long *)&slot->first,
            (unsigned long long)CUDA_MISMATCH(i, offset, found));
}
} // namespace

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_THREADS) pst_gather(cuda_gather_args args)
{
  const pst_copy *pieces = (const pst_copy *)args.pieces;
  for (uint32_t i = warp_index(); i < args.count; i += warp_count()) {
    const pst_copy piece = pieces[i];
    copy_piece((uint8_t *)piece.destination, (const uint8_t *)piece.source, piece.length);
  }
}

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_THREADS) pst_fill(cuda_pattern_args args)
{
  for (uint32_t i = warp_index(); i < args.count; i += warp_count())
    fill_message(payload_of(args, i), args.seed, lane(), WARP);
}

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_WIDE) pst_fill_wide(cuda_pattern_args args)
{
  for (uint32_t i = blockIdx.x; i < args.count; i += gridDim.x)
    fill_message(payload_of(args, i), args.seed, threadIdx.x, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_THREADS) pst_verify(cuda_pattern_args args)
{
  for (uint32_t i = warp_index(); i < args.count; i += warp_count()) {
    const pst_payload p = payload_of(args, i);
    const uint64_t mine = verify_message(p, args.seed, lane(), WARP);
    if (!__any_sync(ALL, mine != UINT64_MAX))
      continue;
    const uint64_t least = warp_least(mine);
    if (lane() == 0)
      note(args, p, i, least);
  }
}

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_WIDE)
    pst_verify_wide(cuda_pattern_args args)
{
  __shared__ unsigned long long least;
  for (uint32_t i = blockIdx.x; i < args.count; i += gridDim.x) {
    const pst_payload p = payload_of(args, i);
    const uint64_t mine = verify_message(p, args.seed, threadIdx.x, blockDim.x);
    if (!__syncthreads_or(mine != UINT64_MAX))
      continue;
    if (threadIdx.x == 0)
      least = UINT64_MAX;
    __syncthreads();
    if (mine != UINT64_MAX)
      atomicMin(&least, (unsigned long long)mine);
    __syncthreads();
    if (threadIdx.x == 0)
      note(args, p, i, least);
    __syncthreads();
  }
}
