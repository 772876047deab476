/* SPDX-License-Identifier: Apache-2.0 */
/* The pattern in NEON's vectors, which every aarch64 CPU has. */
#include "pattern.h"

#if defined(__aarch64__) && __BYTE_ORDER == __LITTLE_ENDIAN

#include <arm_neon.h>

#define STEP PST_PATTERN_STEP
/* Between two looks at the accumulated differences: long enough to cost nothing,
 * short enough for the slow search that follows a difference. */
#define BLOCK_BYTES 4096u

/* The next 64 bytes of the pattern. */
struct words {
  uint64x2_t a, b, c, d;
};

static struct words host_pattern_neon_words_from(uint64_t first)
{
  const uint64x2_t step = vdupq_n_u64(2 * STEP);
  struct words words;

  words.a = vcombine_u64(vcreate_u64(first), vcreate_u64(first + STEP));
  words.b = vaddq_u64(words.a, step);
  words.c = vaddq_u64(words.b, step);
  words.d = vaddq_u64(words.c, step);
  return words;
}

static inline void host_pattern_neon_words_next(struct words *words)
{
  const uint64x2_t leap = vdupq_n_u64(8 * STEP);

  words->a = vaddq_u64(words->a, leap);
  words->b = vaddq_u64(words->b, leap);
  words->c = vaddq_u64(words->c, leap);
  words->d = vaddq_u64(words->d, leap);
}

static inline void host_pattern_neon_store(uint8_t *bytes, uint64x2_t words)
{
  vst1q_u8(bytes, vreinterpretq_u8_u64(words));
}

void pattern_fill_neon(uint8_t *bytes, size_t length, uint64_t first)
{
  struct words words = host_pattern_neon_words_from(first);
  size_t at = 0;

  for (; length - at >= 64; at += 64) {
    host_pattern_neon_store(bytes + at, words.a);
    host_pattern_neon_store(bytes + at + 16, words.b);
    host_pattern_neon_store(bytes + at + 32, words.c);
    host_pattern_neon_store(bytes + at + 48, words.d);
    host_pattern_neon_words_next(&words);
  }
  for (; length - at >= 16; at += 16) {
    host_pattern_neon_store(bytes + at, words.a);
    words.a = vaddq_u64(words.a, vdupq_n_u64(2 * STEP));
  }
  pattern_fill_plain(bytes + at, length - at, first + at / 8 * STEP);
}

static inline uint64x2_t host_pattern_neon_differ(uint64x2_t wrong, uint64x2_t expected,
                                                  const uint8_t *bytes)
{
  return vorrq_u64(wrong, veorq_u64(expected, vreinterpretq_u64_u8(vld1q_u8(bytes))));
}

static inline bool host_pattern_neon_any(uint64x2_t wrong)
{
  return vmaxvq_u32(vreinterpretq_u32_u64(wrong)) != 0;
}

size_t pattern_verify_neon(const uint8_t *bytes, size_t length, uint64_t first)
{
  struct words words = host_pattern_neon_words_from(first);
  uint64x2_t wrong = vdupq_n_u64(0);
  size_t at = 0;

  while (length - at >= 64) {
    const size_t from = at, rest = length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;

    for (const size_t end = at + rest / 64 * 64; at < end; at += 64) {
      wrong = host_pattern_neon_differ(wrong, words.a, bytes + at);
      wrong = host_pattern_neon_differ(wrong, words.b, bytes + at + 16);
      wrong = host_pattern_neon_differ(wrong, words.c, bytes + at + 32);
      wrong = host_pattern_neon_differ(wrong, words.d, bytes + at + 48);
      host_pattern_neon_words_next(&words);
    }
    if (host_pattern_neon_any(wrong))
      return from;
  }
  const size_t from = at;
  for (; length - at >= 16; at += 16) {
    wrong = host_pattern_neon_differ(wrong, words.a, bytes + at);
    words.a = vaddq_u64(words.a, vdupq_n_u64(2 * STEP));
  }
  if (host_pattern_neon_any(wrong))
    return from;
  return at + pattern_verify_plain(bytes + at, length - at, first + at / 8 * STEP);
}

#endif
