/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering packets out of pinned host memory, the test pattern of memory.h, and checksums. */
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

/* The index of this warp in the grid, and the number of warps. */
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

__device__ cuda_message payload_of(const cuda_pattern_args &args, uint32_t i)
{
  if (args.payloads)
    return ((const cuda_message *)args.payloads)[i];
  uint32_t k = 0;
  while (i >= args.row[k].count)
    i -= args.row[k++].count;
  const pst_payload_row &row = args.row[k];
  return cuda_message{row.address + i * row.stride, row.length, row.sequence + i, 0};
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
__device__ void fill_message(const cuda_message &p, uint64_t seed, unsigned int me,
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
__device__ uint64_t verify_message(const cuda_message &p, uint64_t seed, unsigned int me,
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
__device__ void note(const cuda_pattern_args &args, const cuda_message &p, uint32_t i,
                     uint64_t offset)
{
  cuda_slot *slot = (cuda_slot *)args.result;
  const uint8_t found = ((const uint8_t *)p.address)[offset];
  atomicAdd((unsigned long long *)&slot->corrupted, 1ull);
  atomicMin((unsigned long long *)&slot->first,
            (unsigned long long)CUDA_MISMATCH(i, offset, found));
}

/* CRC-32C. Polynomials modulo Castagnoli's, bit 31 for x^0. A range's remainder is the sum
 * (XOR) of its words', each times a power of x for what lies behind it; so words are counted
 * from the range's end, and it does not matter who takes which. */
constexpr uint32_t CRC_POLYNOMIAL = 0x82f63b78u, CRC_ONE = 0x80000000u;
/* Four bytes whose remainder is UINT32_MAX: put before a range, they are what the CRC begins
 * with, however short the range. */
constexpr uint32_t CRC_PREFIX = 0x641f6454u;
constexpr unsigned int CRC_PERIOD = 31; /* x^(2^31) is x */
/* x^(2^i) */
__constant__ const uint32_t crc_powers[CRC_PERIOD] = {
    0x40000000, 0x20000000, 0x08000000, 0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c, 0x18b8ea18,
    0x510ac59a, 0xb82be955, 0xb8fdb1e7, 0x88e56f72, 0x74c360a4, 0xe4172b16, 0x0d65762a, 0x35d73a62,
    0x28461564, 0xbf455269, 0xe2ea32dc, 0xfe7740e6, 0xf946610b, 0x3c204f8f, 0x538586e3, 0x59726915,
    0x734d5309, 0xbc1ac763, 0x7d0722cc, 0xd289cabe, 0xe94ca9bc, 0x05b74f3f, 0xa51e1f42};
constexpr unsigned int CRC_ROUND_LOG = 13; /* a round of a block's words is 2^13 bits, */
constexpr unsigned int CRC_TILE_LOG = 19;  /* and a tile 2^19 */
static_assert(CUDA_KERNEL_THREADS * 32u == 1u << CRC_ROUND_LOG &&
                  CUDA_SUM_TILE * 8u == 1u << CRC_TILE_LOG,
              "as crc_powers are taken");

__device__ uint32_t crc_times(uint32_t a, uint32_t b)
{
  uint32_t product = 0;
  for (int i = 31; i >= 0; i--) {
    product ^= (a >> i & 1) ? b : 0;
    b = b >> 1 ^ ((b & 1) ? CRC_POLYNOMIAL : 0);
  }
  return product;
}

/* x^(2^log * n). All of a warp get it, and share the work. */
__device__ uint32_t crc_power(uint32_t n, unsigned int log)
{
  uint32_t product = (n >> lane() & 1) ? crc_powers[(log + lane()) % CRC_PERIOD] : CRC_ONE;
  for (unsigned int step = WARP / 2; step; step /= 2)
    product = crc_times(product, __shfl_xor_sync(ALL, product, step));
  return product;
}

/* Word `from_end` of a range with its prefix, and zeros before that. */
__device__ uint32_t word_slow(const uint8_t *bytes, uint64_t length, uint64_t from_end)
{
  uint32_t word = 0;
  for (unsigned int i = 0; i < 4; i++) {
    const int64_t at = (int64_t)length - 4 * ((int64_t)from_end + 1) + i;
    const uint32_t byte = at >= 0 ? bytes[at] : at >= -4 ? CRC_PREFIX >> 8 * (at + 4) & 0xff : 0;
    word |= byte << 8 * i;
  }
  return word;
}

/* At any address; reads the aligned words that have a byte of it. */
__device__ uint32_t word_at(uint64_t address)
{
  const uint32_t *words = (const uint32_t *)(address / 4 * 4);
  const unsigned int bits = address % 4 * 8;
  return bits ? __funnelshift_r(words[0], words[1], bits) : words[0];
}

/* Returns this thread's part of a tile's sum: every CUDA_KERNEL_THREADS-th word, as one
 * remainder. */
__device__ uint32_t sum_tile(const cuda_sum_args &sum, uint64_t tile, const uint32_t (*round)[256])
{
  const uint64_t first = tile * (CUDA_SUM_TILE / 4) + threadIdx.x, words = sum.length / 4;
  const bool whole = (tile + 1) * (CUDA_SUM_TILE / 4) <= words;
  const uint64_t last = sum.address + sum.length - 4 * (first + 1);
  uint32_t crc = 0;
#pragma unroll 8
  for (unsigned int i = CUDA_SUM_ROUNDS; i-- > 0;) {
    const uint64_t from_end = first + i * CUDA_KERNEL_THREADS;
    const uint32_t word = whole || from_end < words
                              ? word_at(last - i * (4 * CUDA_KERNEL_THREADS))
                              : word_slow((const uint8_t *)sum.address, sum.length, from_end);
    crc = round[0][crc & 0xff] ^ round[1][crc >> 8 & 0xff] ^ round[2][crc >> 16 & 0xff] ^
          round[3][crc >> 24] ^ word;
  }
  return crc;
}
} // namespace

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_THREADS) pst_gather(cuda_gather_args args)
{
  const cuda_piece *pieces = (const cuda_piece *)args.pieces;
  for (uint32_t i = warp_index(); i < args.count; i += warp_count()) {
    const cuda_piece piece = pieces[i];
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
    const cuda_message p = payload_of(args, i);
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
    const cuda_message p = payload_of(args, i);
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

extern "C" __global__ void __launch_bounds__(CUDA_KERNEL_THREADS) pst_crc32c(cuda_sum_args args)
{
  __shared__ uint32_t round[4][256], all;
  for (unsigned int i = threadIdx.x; i < 4 * 256; i += blockDim.x)
    round[i / 256][i % 256] = crc_times((i % 256) << i / 256 * 8, crc_powers[CRC_ROUND_LOG]);
  uint32_t own = CRC_ONE; /* x^32 for this thread's word and for each behind it in a round */
  for (unsigned int bit = 0; bit < 9; bit++)
    own = ((threadIdx.x + 1) >> bit & 1) ? crc_times(own, crc_powers[5 + bit]) : own;
  const uint64_t tiles = (args.length + 4 - 1) / CUDA_SUM_TILE + 1;
  uint32_t crc = 0;
  if (threadIdx.x == 0)
    all = 0;
  __syncthreads();
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    uint32_t part = crc_times(sum_tile(args, tile, round), own);
    for (unsigned int step = WARP / 2; step; step /= 2)
      part ^= __shfl_xor_sync(ALL, part, step);
    crc ^= crc_times(part, crc_power((uint32_t)tile, CRC_TILE_LOG));
  }
  if (lane() == 0)
    atomicXor(&all, crc);
  __syncthreads();
  if (threadIdx.x == 0 && all)
    atomicXor((uint32_t *)args.crc32c, all);
}
