/* SPDX-License-Identifier: Apache-2.0 */
/* The test pattern of memory.h in host memory, at memory speed. */
#ifndef HOST_PATTERN_H
#define HOST_PATTERN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <penstock/memory-util.h>

/* One way to make and check the pattern. `first` is word 0 of the message.
 * verify: `length` when every byte is right, else an offset, a multiple of 8,
 * that no wrong byte lies before. Any alignment, any length. */
struct pattern_variant {
  const char *name;
  bool (*usable)(void);
  void (*fill)(uint8_t *bytes, size_t length, uint64_t first);
  size_t (*verify)(const uint8_t *bytes, size_t length, uint64_t first);
};

/* Fastest first, ended by one without a name; the one before it, plain C, is
 * usable everywhere. */
extern const struct pattern_variant pattern_variants[];

/* The fastest that this CPU has. */
const struct pattern_variant *pattern_best(void);

/* The offset of the first wrong byte, or `length`. */
size_t pattern_check(const struct pattern_variant *variant, const uint8_t *bytes, size_t length,
                     uint64_t first);

/* Fills or verifies the bytes that the vector code leaves over: `first` is the word at `bytes`. */
void pattern_fill_plain(uint8_t *bytes, size_t length, uint64_t first);
size_t pattern_verify_plain(const uint8_t *bytes, size_t length, uint64_t first);

#if defined(__x86_64__)
bool pattern_has_sse2(void);
bool pattern_has_avx2(void);
bool pattern_has_avx512(void);
void pattern_fill_sse2(uint8_t *bytes, size_t length, uint64_t first);
void pattern_fill_avx2(uint8_t *bytes, size_t length, uint64_t first);
void pattern_fill_avx512(uint8_t *bytes, size_t length, uint64_t first);
size_t pattern_verify_sse2(const uint8_t *bytes, size_t length, uint64_t first);
size_t pattern_verify_avx2(const uint8_t *bytes, size_t length, uint64_t first);
size_t pattern_verify_avx512(const uint8_t *bytes, size_t length, uint64_t first);
#endif
#if defined(__aarch64__)
void pattern_fill_neon(uint8_t *bytes, size_t length, uint64_t first);
size_t pattern_verify_neon(const uint8_t *bytes, size_t length, uint64_t first);
#endif

#endif
