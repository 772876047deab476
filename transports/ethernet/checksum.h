/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Internet's checksum (RFC 1071): a one's complement sum of 16-bit words.
 *
 * A sum is kept unfolded in 64 bits, of words as they lie in memory: it needs no byte order, and a
 * folded one is stored as it is. Sums of parts add up as long as each part but the last has an even
 * number of bytes; eth_sum_odd() is for the others. Bytes are at most 2^32 in all.
 */
#ifndef ETHERNET_CHECKSUM_H
#define ETHERNET_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `sum` and the words of `length` bytes at any address; an odd last byte is padded with 0. Uses the
 * widest loads that this CPU has. */
uint64_t eth_sum(const void *bytes, size_t length, uint64_t sum);

/* The sum of a few words, a multiple of 4 bytes that is best a constant. */
static inline uint64_t eth_sum_words(const uint8_t *bytes, size_t length)
{
  uint64_t sum = 0;
  uint32_t words;

  for (size_t i = 0; i < length; i += 4) {
    memcpy(&words, bytes + i, sizeof(words));
    sum += words;
  }
  return sum;
}

/* The implementations behind eth_sum(), for tests: 0 is portable, the next ones need more of the
 * CPU. NULL: there are no more, or this CPU lacks what it needs. */
typedef uint64_t eth_sum_fn(const uint8_t *bytes, size_t length, uint64_t sum);
eth_sum_fn *eth_sum_variant(unsigned index, const char **name);

/* 16 bits, as they are stored. */
static inline uint16_t eth_sum_fold(uint64_t sum)
{
  sum = (sum & UINT32_MAX) + (sum >> 32);
  sum = (sum & UINT32_MAX) + (sum >> 32);
  sum = (sum & UINT16_MAX) + (sum >> 16);
  sum = (sum & UINT16_MAX) + (sum >> 16);
  return (uint16_t)((sum & UINT16_MAX) + (sum >> 16));
}

/* The checksum: the complement of the sum. */
static inline uint16_t eth_sum_complement(uint64_t sum)
{
  return (uint16_t)~eth_sum_fold(sum);
}

/* UDP's: never 0, which says that there is none (RFC 768). */
static inline uint16_t eth_sum_udp(uint64_t sum)
{
  const uint16_t made = eth_sum_complement(sum);

  return made ? made : UINT16_MAX;
}

/* The sum of a part that begins behind an odd number of bytes. */
static inline uint64_t eth_sum_odd(uint64_t sum)
{
  const uint16_t folded = eth_sum_fold(sum);

  return (uint16_t)(folded << 8 | folded >> 8);
}

#endif
