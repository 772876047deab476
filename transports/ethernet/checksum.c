/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of words, by the widest loads that the CPU has. Each function is compiled for its
 * instruction set by attribute and called only when the CPU has it. */
#include "checksum.h"

/* 32-bit halves add up in 64 bits: no carry is lost in 2^32 of them. */
static uint64_t eth_checksum_add_halves(uint64_t sum, uint64_t word)
{
  return sum + (word & UINT32_MAX) + (word >> 32);
}

static uint64_t eth_checksum_load64(const uint8_t *at)
{
  uint64_t word;

  memcpy(&word, at, sizeof(word));
  return word;
}

static uint32_t eth_checksum_load16(const uint8_t *at)
{
  uint16_t word;

  memcpy(&word, at, sizeof(word));
  return word;
}

/* Less than 32 bytes. */
static inline uint64_t eth_checksum_sum_rest(const uint8_t *bytes, size_t length, uint64_t sum)
{
  for (; length >= 8; bytes += 8, length -= 8)
    sum = eth_checksum_add_halves(sum, eth_checksum_load64(bytes));
  if (length & 4) {
    sum += eth_sum_words(bytes, 4);
    bytes += 4;
  }
  if (length & 2) {
    sum += eth_checksum_load16(bytes);
    bytes += 2;
  }
  if (length & 1)
    sum += eth_checksum_load16((const uint8_t[2]){bytes[0], 0});
  return sum;
}

static uint64_t eth_checksum_sum_portable(const uint8_t *bytes, size_t length, uint64_t sum)
{
  uint64_t other = 0;

  for (; length >= 16; bytes += 16, length -= 16) {
    sum = eth_checksum_add_halves(sum, eth_checksum_load64(bytes));
    other = eth_checksum_add_halves(other, eth_checksum_load64(bytes + 8));
  }
  return eth_checksum_sum_rest(bytes, length, sum + other);
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Four sums at a time: the lower halves of a load's words, and the upper ones. */
__attribute__((target("avx2"))) static inline __m256i eth_checksum_add_avx2(__m256i sum,
                                                                            const uint8_t *at)
{
  const __m256i words = _mm256_loadu_si256((const void *)at);
  const __m256i low = _mm256_blend_epi32(words, _mm256_setzero_si256(), 0xaa);

  return _mm256_add_epi64(sum, _mm256_add_epi64(low, _mm256_srli_epi64(words, 32)));
}

__attribute__((target("avx2"))) static uint64_t eth_checksum_sum_avx2(const uint8_t *bytes,
                                                                      size_t length, uint64_t sum)
{
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  uint64_t lanes[4];

  for (; length >= 128; bytes += 128, length -= 128) {
    a = eth_checksum_add_avx2(a, bytes);
    b = eth_checksum_add_avx2(b, bytes + 32);
    c = eth_checksum_add_avx2(c, bytes + 64);
    d = eth_checksum_add_avx2(d, bytes + 96);
  }
  for (; length >= 32; bytes += 32, length -= 32)
    a = eth_checksum_add_avx2(a, bytes);
  a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  _mm256_storeu_si256((void *)lanes, a);
  return eth_checksum_sum_rest(bytes, length, sum + lanes[0] + lanes[1] + lanes[2] + lanes[3]);
}

__attribute__((target("avx512f"))) static inline __m512i eth_checksum_add_avx512(__m512i sum,
                                                                                 __m512i words)
{
  const __m512i low = _mm512_maskz_mov_epi32(0x5555, words);

  return _mm512_add_epi64(sum, _mm512_add_epi64(low, _mm512_srli_epi64(words, 32)));
}

/* A masked load takes the rest, and touches no byte beyond it. */
__attribute__((target("avx512f,avx512bw"))) static uint64_t
eth_checksum_sum_avx512(const uint8_t *bytes, size_t length, uint64_t sum)
{
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;

  for (; length >= 256; bytes += 256, length -= 256) {
    a = eth_checksum_add_avx512(a, _mm512_loadu_si512(bytes));
    b = eth_checksum_add_avx512(b, _mm512_loadu_si512(bytes + 64));
    c = eth_checksum_add_avx512(c, _mm512_loadu_si512(bytes + 128));
    d = eth_checksum_add_avx512(d, _mm512_loadu_si512(bytes + 192));
  }
  for (; length >= 64; bytes += 64, length -= 64)
    a = eth_checksum_add_avx512(a, _mm512_loadu_si512(bytes));
  if (length)
    b = eth_checksum_add_avx512(b, _mm512_maskz_loadu_epi8((UINT64_C(1) << length) - 1, bytes));
  a = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
  return sum + (uint64_t)_mm512_reduce_add_epi64(a);
}
#elif defined(__aarch64__)
#include <arm_neon.h>

static inline uint64x2_t eth_checksum_add_neon(uint64x2_t sum, const uint8_t *at)
{
  return vpadalq_u32(sum, vreinterpretq_u32_u8(vld1q_u8(at)));
}

static uint64_t eth_checksum_sum_neon(const uint8_t *bytes, size_t length, uint64_t sum)
{
  uint64x2_t a = vdupq_n_u64(0), b = a, c = a, d = a;

  for (; length >= 64; bytes += 64, length -= 64) {
    a = eth_checksum_add_neon(a, bytes);
    b = eth_checksum_add_neon(b, bytes + 16);
    c = eth_checksum_add_neon(c, bytes + 32);
    d = eth_checksum_add_neon(d, bytes + 48);
  }
  for (; length >= 16; bytes += 16, length -= 16)
    a = eth_checksum_add_neon(a, bytes);
  a = vaddq_u64(vaddq_u64(a, b), vaddq_u64(c, d));
  return eth_checksum_sum_rest(bytes, length, sum + vaddvq_u64(a));
}
#endif

eth_sum_fn *eth_sum_variant(unsigned index, const char **name)
{
#if defined(__x86_64__)
  if (index == 1 && __builtin_cpu_supports("avx2")) {
    *name = "AVX2";
    return eth_checksum_sum_avx2;
  }
  if (index == 2 && __builtin_cpu_supports("avx512bw")) {
    *name = "AVX-512";
    return eth_checksum_sum_avx512;
  }
#elif defined(__aarch64__)
  if (index == 1) {
    *name = "NEON";
    return eth_checksum_sum_neon;
  }
#endif
  *name = "portable";
  return index == 0 ? eth_checksum_sum_portable : NULL;
}

static eth_sum_fn *chosen; /* by the thread that sums first; every thread would choose this one */

static eth_sum_fn *eth_checksum_choose(void)
{
  eth_sum_fn *best = eth_checksum_sum_portable, *variant;
  const char *name;

  for (unsigned i = 1; i < 3; i++)
    if ((variant = eth_sum_variant(i, &name)))
      best = variant;
  __atomic_store_n(&chosen, best, __ATOMIC_RELAXED);
  return best;
}

uint64_t eth_sum(const void *bytes, size_t length, uint64_t sum)
{
  eth_sum_fn *fn;

  if (length < 32)
    return eth_checksum_sum_rest(bytes, length, sum);
  fn = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  return (fn ? fn : eth_checksum_choose())(bytes, length, sum);
}
