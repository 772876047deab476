/* SPDX-License-Identifier: Apache-2.0 */
/* The pattern in x86 vectors. Each function is compiled for its instruction set
 * by attribute and called only when the CPU has it: the plugin itself runs on
 * every x86-64. No target_clones: its resolver runs before TSan is up. */
#include "pattern.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define STEP PST_PATTERN_STEP
/* Between two looks at the accumulated differences: long enough to cost nothing,
 * short enough for the slow search that follows a difference. */
#define BLOCK_BYTES 4096u

static const uint64_t lanes[8] = {0,        STEP,     2 * STEP, 3 * STEP,
                                  4 * STEP, 5 * STEP, 6 * STEP, 7 * STEP};

bool pattern_has_sse2(void)
{
  return __builtin_cpu_supports("sse2");
}

bool pattern_has_avx2(void)
{
  return __builtin_cpu_supports("avx2");
}

bool pattern_has_avx512(void)
{
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

/* Where the next look is due: whole strides of the rest, a block at most. */
static size_t host_pattern_x86_block_end(size_t at, size_t length, size_t stride_bytes)
{
  size_t rest = length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;
  return at + rest / stride_bytes * stride_bytes;
}

__attribute__((target("sse2"))) void pattern_fill_sse2(uint8_t *bytes, size_t length,
                                                       uint64_t first)
{
  const __m128i step = _mm_set1_epi64x((long long)(2 * STEP));
  const __m128i leap = _mm_set1_epi64x((long long)(8 * STEP));
  __m128i a =
      _mm_add_epi64(_mm_set1_epi64x((long long)first), _mm_loadu_si128((const void *)lanes));
  __m128i b = _mm_add_epi64(a, step);
  __m128i c = _mm_add_epi64(b, step);
  __m128i d = _mm_add_epi64(c, step);
  size_t at = 0;
  for (; length - at >= 64; at += 64) {
    _mm_storeu_si128((void *)(bytes + at), a);
    _mm_storeu_si128((void *)(bytes + at + 16), b);
    _mm_storeu_si128((void *)(bytes + at + 32), c);
    _mm_storeu_si128((void *)(bytes + at + 48), d);
    a = _mm_add_epi64(a, leap);
    b = _mm_add_epi64(b, leap);
    c = _mm_add_epi64(c, leap);
    d = _mm_add_epi64(d, leap);
  }
  for (; length - at >= 16; at += 16) {
    _mm_storeu_si128((void *)(bytes + at), a);
    a = _mm_add_epi64(a, step);
  }
  pattern_fill_plain(bytes + at, length - at, first + at / 8 * STEP);
}

static inline __attribute__((target("sse2"))) __m128i
host_pattern_x86_differ_sse2(__m128i wrong, __m128i expected, const uint8_t *bytes)
{
  return _mm_or_si128(wrong, _mm_xor_si128(expected, _mm_loadu_si128((const void *)bytes)));
}

static inline __attribute__((target("sse2"))) bool host_pattern_x86_any_sse2(__m128i wrong)
{
  return _mm_movemask_epi8(_mm_cmpeq_epi8(wrong, _mm_setzero_si128())) != 0xffff;
}

/* Offset of the first byte that differs from the pattern, or `length`. Compares 64 bytes a round.
 */
__attribute__((target("sse2"))) size_t pattern_verify_sse2(const uint8_t *bytes, size_t length,
                                                           uint64_t first)
{
  const __m128i step = _mm_set1_epi64x((long long)(2 * STEP));
  const __m128i leap = _mm_set1_epi64x((long long)(8 * STEP));
  __m128i a =
      _mm_add_epi64(_mm_set1_epi64x((long long)first), _mm_loadu_si128((const void *)lanes));
  __m128i b = _mm_add_epi64(a, step);
  __m128i c = _mm_add_epi64(b, step);
  __m128i d = _mm_add_epi64(c, step);
  __m128i wrong = _mm_setzero_si128();
  size_t at = 0;
  while (length - at >= 64) {
    size_t from = at;
    for (size_t end = host_pattern_x86_block_end(at, length, 64); at < end; at += 64) {
      wrong = host_pattern_x86_differ_sse2(wrong, a, bytes + at);
      wrong = host_pattern_x86_differ_sse2(wrong, b, bytes + at + 16);
      wrong = host_pattern_x86_differ_sse2(wrong, c, bytes + at + 32);
      wrong = host_pattern_x86_differ_sse2(wrong, d, bytes + at + 48);
      a = _mm_add_epi64(a, leap);
      b = _mm_add_epi64(b, leap);
      c = _mm_add_epi64(c, leap);
      d = _mm_add_epi64(d, leap);
    }
    if (host_pattern_x86_any_sse2(wrong))
      return from;
  }
  size_t from = at;
  for (; length - at >= 16; at += 16) {
    wrong = host_pattern_x86_differ_sse2(wrong, a, bytes + at);
    a = _mm_add_epi64(a, step);
  }
  if (host_pattern_x86_any_sse2(wrong))
    return from;
  return at + pattern_verify_plain(bytes + at, length - at, first + at / 8 * STEP);
}

__attribute__((target("avx2"))) void pattern_fill_avx2(uint8_t *bytes, size_t length,
                                                       uint64_t first)
{
  const __m256i step = _mm256_set1_epi64x((long long)(4 * STEP));
  const __m256i leap = _mm256_set1_epi64x((long long)(16 * STEP));
  __m256i a = _mm256_add_epi64(_mm256_set1_epi64x((long long)first),
                               _mm256_loadu_si256((const void *)lanes));
  __m256i b = _mm256_add_epi64(a, step);
  __m256i c = _mm256_add_epi64(b, step);
  __m256i d = _mm256_add_epi64(c, step);
  size_t at = 0;
  for (; length - at >= 128; at += 128) {
    _mm256_storeu_si256((void *)(bytes + at), a);
    _mm256_storeu_si256((void *)(bytes + at + 32), b);
    _mm256_storeu_si256((void *)(bytes + at + 64), c);
    _mm256_storeu_si256((void *)(bytes + at + 96), d);
    a = _mm256_add_epi64(a, leap);
    b = _mm256_add_epi64(b, leap);
    c = _mm256_add_epi64(c, leap);
    d = _mm256_add_epi64(d, leap);
  }
  for (; length - at >= 32; at += 32) {
    _mm256_storeu_si256((void *)(bytes + at), a);
    a = _mm256_add_epi64(a, step);
  }
  pattern_fill_plain(bytes + at, length - at, first + at / 8 * STEP);
}

static inline __attribute__((target("avx2"))) __m256i
host_pattern_x86_differ_avx2(__m256i wrong, __m256i expected, const uint8_t *bytes)
{
  return _mm256_or_si256(wrong,
                         _mm256_xor_si256(expected, _mm256_loadu_si256((const void *)bytes)));
}

static inline __attribute__((target("avx2"))) bool host_pattern_x86_any_avx2(__m256i wrong)
{
  return !_mm256_testz_si256(wrong, wrong);
}

/* Offset of the first byte that differs from the pattern, or `length`. Compares 128 bytes a round.
 */
__attribute__((target("avx2"))) size_t pattern_verify_avx2(const uint8_t *bytes, size_t length,
                                                           uint64_t first)
{
  const __m256i step = _mm256_set1_epi64x((long long)(4 * STEP));
  const __m256i leap = _mm256_set1_epi64x((long long)(16 * STEP));
  __m256i a = _mm256_add_epi64(_mm256_set1_epi64x((long long)first),
                               _mm256_loadu_si256((const void *)lanes));
  __m256i b = _mm256_add_epi64(a, step);
  __m256i c = _mm256_add_epi64(b, step);
  __m256i d = _mm256_add_epi64(c, step);
  __m256i wrong = _mm256_setzero_si256();
  size_t at = 0;
  while (length - at >= 128) {
    size_t from = at;
    for (size_t end = host_pattern_x86_block_end(at, length, 128); at < end; at += 128) {
      wrong = host_pattern_x86_differ_avx2(wrong, a, bytes + at);
      wrong = host_pattern_x86_differ_avx2(wrong, b, bytes + at + 32);
      wrong = host_pattern_x86_differ_avx2(wrong, c, bytes + at + 64);
      wrong = host_pattern_x86_differ_avx2(wrong, d, bytes + at + 96);
      a = _mm256_add_epi64(a, leap);
      b = _mm256_add_epi64(b, leap);
      c = _mm256_add_epi64(c, leap);
      d = _mm256_add_epi64(d, leap);
    }
    if (host_pattern_x86_any_avx2(wrong))
      return from;
  }
  size_t from = at;
  for (; length - at >= 32; at += 32) {
    wrong = host_pattern_x86_differ_avx2(wrong, a, bytes + at);
    a = _mm256_add_epi64(a, step);
  }
  if (host_pattern_x86_any_avx2(wrong))
    return from;
  return at + pattern_verify_plain(bytes + at, length - at, first + at / 8 * STEP);
}

__attribute__((target("avx512f,avx512bw"))) void pattern_fill_avx512(uint8_t *bytes, size_t length,
                                                                     uint64_t first)
{
  const __m512i step = _mm512_set1_epi64((long long)(8 * STEP));
  const __m512i leap = _mm512_set1_epi64((long long)(32 * STEP));
  __m512i a = _mm512_add_epi64(_mm512_set1_epi64((long long)first),
                               _mm512_loadu_si512((const void *)lanes));
  __m512i b = _mm512_add_epi64(a, step);
  __m512i c = _mm512_add_epi64(b, step);
  __m512i d = _mm512_add_epi64(c, step);
  size_t at = 0;
  for (; length - at >= 256; at += 256) {
    _mm512_storeu_si512((void *)(bytes + at), a);
    _mm512_storeu_si512((void *)(bytes + at + 64), b);
    _mm512_storeu_si512((void *)(bytes + at + 128), c);
    _mm512_storeu_si512((void *)(bytes + at + 192), d);
    a = _mm512_add_epi64(a, leap);
    b = _mm512_add_epi64(b, leap);
    c = _mm512_add_epi64(c, leap);
    d = _mm512_add_epi64(d, leap);
  }
  for (; length - at >= 64; at += 64) {
    _mm512_storeu_si512((void *)(bytes + at), a);
    a = _mm512_add_epi64(a, step);
  }
  if (at < length)
    _mm512_mask_storeu_epi8(bytes + at, (UINT64_C(1) << (length - at)) - 1, a);
}

static inline __attribute__((target("avx512f,avx512bw"))) __m512i
host_pattern_x86_differ_avx512(__m512i wrong, __m512i expected, const uint8_t *bytes)
{
  return _mm512_or_si512(wrong,
                         _mm512_xor_si512(expected, _mm512_loadu_si512((const void *)bytes)));
}

static inline __attribute__((target("avx512f,avx512bw"))) bool
host_pattern_x86_any_avx512(__m512i wrong)
{
  return _mm512_test_epi64_mask(wrong, wrong) != 0;
}

/* Offset of the first byte that differs from the pattern, or `length`. Compares 256 bytes a round.
 */
__attribute__((target("avx512f,avx512bw"))) size_t
pattern_verify_avx512(const uint8_t *bytes, size_t length, uint64_t first)
{
  const __m512i step = _mm512_set1_epi64((long long)(8 * STEP));
  const __m512i leap = _mm512_set1_epi64((long long)(32 * STEP));
  __m512i a = _mm512_add_epi64(_mm512_set1_epi64((long long)first),
                               _mm512_loadu_si512((const void *)lanes));
  __m512i b = _mm512_add_epi64(a, step);
  __m512i c = _mm512_add_epi64(b, step);
  __m512i d = _mm512_add_epi64(c, step);
  __m512i wrong = _mm512_setzero_si512();
  size_t at = 0;
  while (length - at >= 256) {
    size_t from = at;
    for (size_t end = host_pattern_x86_block_end(at, length, 256); at < end; at += 256) {
      wrong = host_pattern_x86_differ_avx512(wrong, a, bytes + at);
      wrong = host_pattern_x86_differ_avx512(wrong, b, bytes + at + 64);
      wrong = host_pattern_x86_differ_avx512(wrong, c, bytes + at + 128);
      wrong = host_pattern_x86_differ_avx512(wrong, d, bytes + at + 192);
      a = _mm512_add_epi64(a, leap);
      b = _mm512_add_epi64(b, leap);
      c = _mm512_add_epi64(c, leap);
      d = _mm512_add_epi64(d, leap);
    }
    if (host_pattern_x86_any_avx512(wrong))
      return from;
  }
  size_t from = at;
  for (; length - at >= 64; at += 64) {
    wrong = host_pattern_x86_differ_avx512(wrong, a, bytes + at);
    a = _mm512_add_epi64(a, step);
  }
  if (at < length) {
    __mmask64 rest = (UINT64_C(1) << (length - at)) - 1;
    __m512i found = _mm512_maskz_loadu_epi8(rest, bytes + at);
    wrong = _mm512_or_si512(wrong, _mm512_xor_si512(found, _mm512_maskz_mov_epi8(rest, a)));
  }
  return host_pattern_x86_any_avx512(wrong) ? from : length;
}

#endif
