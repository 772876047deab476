/* SPDX-License-Identifier: Apache-2.0 */
/* A frame whose headers are those of the frame before: what eth_parse_next() asks first, inline for
 * rows of frames. */
#ifndef ETHERNET_HEADER_CACHE_H
#define ETHERNET_HEADER_CACHE_H

#include "frame.h"

static inline uint64_t eth_header_cache_load(const uint8_t *at)
{
  uint64_t word;

  memcpy(&word, at, sizeof(word));
  return word;
}

static inline uint64_t eth_header_cache_word(const uint8_t *at)
{
  uint16_t word;

  memcpy(&word, at, sizeof(word));
  return word;
}

/* Bytes 0 to 37, but for IPv4's length, identifier and checksum. */
static inline void eth_header_cache_words(const uint8_t *bytes, uint64_t words[5])
{
  static const uint8_t sizes[8] = {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
                       checksum[8] = {0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

  words[0] = eth_header_cache_load(bytes);
  words[1] = eth_header_cache_load(bytes + 8);
  words[2] = eth_header_cache_load(bytes + 16) & eth_header_cache_load(sizes);
  words[3] = eth_header_cache_load(bytes + 24) & eth_header_cache_load(checksum);
  words[4] = eth_header_cache_load(bytes + 30);
}

/* Has it the headers of the frame before, up to UDP's ports, an IPv4 checksum that is right and a
 * length that fits? False: eth_parse() says what it is. */
static inline bool eth_header_cache_is_same(const struct eth_bytes *frame, uint32_t known,
                                            const struct eth_header_cache *seen)
{
  const uint8_t *bytes = frame->bytes;
  uint64_t words[5];

  if (!seen->is_there || frame->readable < ETH_HEADER_MIN)
    return false;
  eth_header_cache_words(bytes, words);
  if ((words[0] ^ seen->words[0]) | (words[1] ^ seen->words[1]) | (words[2] ^ seen->words[2]) |
      (words[3] ^ seen->words[3]) | (words[4] ^ seen->words[4]))
    return false;
  if (!(known & ETH_IP_IS_GOOD) && eth_sum_fold(seen->ip_sum + eth_header_cache_word(bytes + 16) +
                                                eth_header_cache_word(bytes + 18) +
                                                eth_header_cache_word(bytes + 24)) != UINT16_MAX)
    return false;
  const uint32_t length = eth_get16(bytes + 16);
  return length >= 20 && 14 + length <= frame->total;
}

/* The same, and a datagram whose length fits and whose checksum nobody has to compute: it has none,
 * or the device has found it right. *length: bytes of its payload, ETH_HEADER_MIN behind the
 * frame's first. False: eth_parse_next() says what it is. */
static inline bool eth_header_cache_is_next(const struct eth_bytes *frame, uint32_t known,
                                            const struct eth_header_cache *seen, uint32_t *length)
{
  if (!eth_header_cache_is_same(frame, known, seen))
    return false;
  const uint32_t datagram = eth_get16(frame->bytes + 38);
  *length = datagram - 8;
  return datagram >= 8 && datagram <= eth_get16(frame->bytes + 16) - 20 &&
         (known & ETH_UDP_IS_GOOD || eth_header_cache_word(frame->bytes + 40) == 0);
}

#endif
