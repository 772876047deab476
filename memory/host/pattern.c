/* SPDX-License-Identifier: Apache-2.0 */
/* The test pattern in plain C, and the choice of the fastest code. */
#include "pattern.h"

static uint64_t host_pattern_load_word(const uint8_t *bytes)
{
  uint64_t word;
  memcpy(&word, bytes, sizeof(word));
  return le64toh(word);
}

static void host_pattern_store_word(uint8_t *bytes, uint64_t word)
{
  word = htole64(word);
  memcpy(bytes, &word, sizeof(word));
}

void pattern_fill_plain(uint8_t *bytes, size_t length, uint64_t first)
{
  for (; length >= 8; length -= 8, bytes += 8, first += PST_PATTERN_STEP)
    host_pattern_store_word(bytes, first);
  for (; length > 0; length--, bytes++, first >>= 8)
    *bytes = (uint8_t)first;
}

size_t pattern_verify_plain(const uint8_t *bytes, size_t length, uint64_t first)
{
  size_t at = 0;
  for (; length - at >= 8; at += 8, first += PST_PATTERN_STEP)
    if (host_pattern_load_word(bytes + at) != first)
      return at;
  uint8_t wrong = 0;
  for (size_t i = at; i < length; i++, first >>= 8)
    wrong |= bytes[i] ^ (uint8_t)first;
  return wrong ? at : length;
}

static bool host_pattern_always(void)
{
  return true;
}

const struct pattern_variant pattern_variants[] = {
#if defined(__x86_64__)
    {"avx512", pattern_has_avx512, pattern_fill_avx512, pattern_verify_avx512},
    {"avx2", pattern_has_avx2, pattern_fill_avx2, pattern_verify_avx2},
    {"sse2", pattern_has_sse2, pattern_fill_sse2, pattern_verify_sse2},
#elif defined(__aarch64__) && __BYTE_ORDER == __LITTLE_ENDIAN
    {"neon", host_pattern_always, pattern_fill_neon, pattern_verify_neon},
#endif
    {"plain", host_pattern_always, pattern_fill_plain, pattern_verify_plain},
    {NULL, NULL, NULL, NULL},
};

const struct pattern_variant *pattern_best(void)
{
  const struct pattern_variant *variant = pattern_variants;
  while (!variant->usable())
    variant++;
  return variant;
}

size_t pattern_check(const struct pattern_variant *variant, const uint8_t *bytes, size_t length,
                     uint64_t first)
{
  size_t from = variant->verify(bytes, length, first);
  if (from == length)
    return length;
  for (size_t at = from; at < length; at++)
    if (bytes[at] != pst_pattern_byte(first, at))
      return at;
  /* The bytes were wrong at first and right at the second look: something writes there. A message
   * that changes while it is read did not arrive. */
  return from;
}
