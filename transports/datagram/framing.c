/* SPDX-License-Identifier: Apache-2.0 */
/* Headers before payloads: `sequence`, `rtp`, `none`. */
#include "framing.h"

#include <string.h>

static void dg_framing_put16(uint8_t *to, uint32_t value)
{
  to[0] = (uint8_t)(value >> 8);
  to[1] = (uint8_t)value;
}

static void dg_framing_put32(uint8_t *to, uint32_t value)
{
  dg_framing_put16(to, value >> 16);
  dg_framing_put16(to + 2, value);
}

static void dg_framing_put64(uint8_t *to, uint64_t value)
{
  dg_framing_put32(to, (uint32_t)(value >> 32));
  dg_framing_put32(to + 4, (uint32_t)value);
}

static uint32_t dg_framing_get16(const uint8_t *from)
{
  return (uint32_t)from[0] << 8 | from[1];
}

static uint32_t dg_framing_get32(const uint8_t *from)
{
  return dg_framing_get16(from) << 16 | dg_framing_get16(from + 2);
}

static uint64_t dg_framing_get64(const uint8_t *from)
{
  return (uint64_t)dg_framing_get32(from) << 32 | dg_framing_get32(from + 4);
}

/* RTP's extension: "defined by profile", here "PS", and its length in words: two of the nonce, and
 * four of the tag. */
#define NONCE_EXTENSION UINT32_C(0x50530002)
#define TAG_EXTENSION UINT32_C(0x50530006)

void dg_write(enum dg_framing framing, const struct dg_header *header, uint8_t *to)
{
  if (framing == DG_FRAMING_SEQUENCE) {
    dg_framing_put32(to, header->sequence);
    dg_framing_put32(to + 4, header->checksum);
    if (header->has_nonce)
      dg_framing_put64(to + 8, header->nonce);
  } else if (framing == DG_FRAMING_RTP) {
    to[0] = (uint8_t)(2 << 6 | (header->has_nonce ? 0x10 : 0));
    to[1] = (uint8_t)((header->marker ? 0x80 : 0) | (header->payload_type & 0x7f));
    dg_framing_put16(to + 2, header->sequence);
    dg_framing_put32(to + 4, header->timestamp);
    dg_framing_put32(to + 8, header->ssrc);
    if (!header->has_nonce)
      return;
    dg_framing_put32(to + 12, header->has_tag ? TAG_EXTENSION : NONCE_EXTENSION);
    dg_framing_put64(to + 16, header->nonce);
  }
}

static void dg_framing_read_fixed(enum dg_framing framing, const uint8_t *header,
                                  struct dg_header *parsed)
{
  *parsed = (struct dg_header){0};
  if (framing == DG_FRAMING_RTP) {
    *parsed = (struct dg_header){.sequence = dg_framing_get16(header + 2),
                                 .timestamp = dg_framing_get32(header + 4),
                                 .ssrc = dg_framing_get32(header + 8),
                                 .payload_type = header[1] & 0x7f,
                                 .marker = header[1] >> 7};
  } else if (framing == DG_FRAMING_SEQUENCE) {
    parsed->sequence = dg_framing_get32(header);
    parsed->checksum = dg_framing_get32(header + 4);
  }
}

/* RFC 5761, section 4: RTCP's packet types 192 to 223 are not to be RTP's marker and type. */
static bool dg_framing_is_rtp(const uint8_t *header)
{
  return header[0] >> 6 == 2 && (header[1] < 192 || header[1] > 223);
}

bool dg_peek(enum dg_framing framing, const uint8_t *header, uint32_t total,
             struct dg_header *parsed)
{
  if (total < dg_header_bytes(framing, false) ||
      (framing == DG_FRAMING_RTP && !dg_framing_is_rtp(header)))
    return false;
  dg_framing_read_fixed(framing, header, parsed);
  return true;
}

bool dg_has_nonce(enum dg_framing framing, const uint8_t *header, uint32_t total, uint64_t nonce)
{
  if (total < dg_header_bytes(framing, true))
    return false;
  if (framing == DG_FRAMING_SEQUENCE)
    return dg_framing_get64(header + 8) == nonce;
  return framing == DG_FRAMING_RTP && dg_framing_get64(header + 16) == nonce &&
         (header[0] & 0x1f) == 0x10 && dg_framing_get32(header + 12) == NONCE_EXTENSION;
}

/* Parses the part between the fixed header and the payload, and the padding behind the payload.
 * `left` bytes, of which the first `readable` may be read. */
static enum dg_parse_result dg_framing_parse_rtp(bool has_nonce, const uint8_t *header,
                                                 const uint8_t *rest, uint32_t left,
                                                 uint32_t readable, uint32_t *offset,
                                                 uint32_t *length)
{
  uint32_t skip = has_nonce ? 0 : (header[0] & 0x0fu) * 4;
  uint32_t padding = 0;

  if (!dg_framing_is_rtp(header))
    return DG_NO_MESSAGE;
  if (!has_nonce &&
      (header[0] & 0x10)) { /* a header extension: 16 bits of its own, its length in words */
    if (left < skip + 4)
      return DG_BAD_HEADER;
    if (readable < skip + 4)
      return DG_UNREADABLE;
    skip += 4 + dg_framing_get16(rest + skip + 2) * 4;
  }
  if (left < skip)
    return DG_BAD_HEADER;
  if (header[0] & 0x20) { /* the last byte counts the padding, itself included */
    if (readable < left)
      return DG_UNREADABLE;
    padding = left > skip ? rest[left - 1] : 0;
    if (padding == 0 || padding > left - skip)
      return DG_BAD_HEADER;
  }
  *offset = skip;
  *length = left - skip - padding;
  return DG_PARSED;
}

enum dg_parse_result dg_parse(enum dg_framing framing, bool has_nonce, const uint8_t *header,
                              const uint8_t *rest, uint32_t total, uint32_t readable,
                              struct dg_header *parsed, uint32_t *offset, uint32_t *length)
{
  uint32_t fixed = dg_header_bytes(framing, has_nonce);

  if (total < fixed)
    return DG_BAD_HEADER;
  dg_framing_read_fixed(framing, header, parsed);
  parsed->has_nonce = has_nonce && fixed;
  if (parsed->has_nonce)
    parsed->nonce = dg_framing_get64(header + fixed - 8);
  if (framing == DG_FRAMING_RTP)
    return dg_framing_parse_rtp(has_nonce, header, rest, total - fixed, readable - fixed, offset,
                                length);
  *offset = 0;
  *length = total - fixed;
  return DG_PARSED;
}

/* Bytes are added up in eight lanes of a word; a lane holds 257 of them. */
static uint32_t dg_framing_sum_words(const uint8_t *bytes, size_t words)
{
  const uint64_t lanes = UINT64_C(0x00ff00ff00ff00ff);
  uint64_t sum = 0;

  while (words) {
    size_t run = words < 128 ? words : 128;
    uint64_t part = 0;
    for (size_t i = 0; i < run; i++) {
      uint64_t word;
      memcpy(&word, bytes + i * 8, 8);
      part += (word & lanes) + (word >> 8 & lanes);
    }
    part = (part & UINT64_C(0x0000ffff0000ffff)) + (part >> 16 & UINT64_C(0x0000ffff0000ffff));
    sum += (part & UINT32_MAX) + (part >> 32);
    bytes += run * 8;
    words -= run;
  }
  return (uint32_t)sum;
}

#ifdef __SSE2__
#include <emmintrin.h>

static size_t dg_framing_sum_blocks(const uint8_t *bytes, size_t length, uint32_t *sum)
{
  __m128i a = _mm_setzero_si128(), b = a;
  size_t done = 0;

  for (; length - done >= 32; done += 32) {
    a = _mm_add_epi64(
        a, _mm_sad_epu8(_mm_loadu_si128((const __m128i *)(bytes + done)), _mm_setzero_si128()));
    b = _mm_add_epi64(b, _mm_sad_epu8(_mm_loadu_si128((const __m128i *)(bytes + done + 16)),
                                      _mm_setzero_si128()));
  }
  a = _mm_add_epi64(a, b);
  a = _mm_add_epi64(a, _mm_unpackhi_epi64(a, a));
  *sum = (uint32_t)_mm_cvtsi128_si32(a);
  return done;
}
#elif defined(__aarch64__)
#include <arm_neon.h>

static size_t dg_framing_sum_blocks(const uint8_t *bytes, size_t length, uint32_t *sum)
{
  uint32x4_t a = vdupq_n_u32(0), b = a;
  size_t done = 0;

  for (; length - done >= 32; done += 32) {
    a = vpadalq_u16(a, vpaddlq_u8(vld1q_u8(bytes + done)));
    b = vpadalq_u16(b, vpaddlq_u8(vld1q_u8(bytes + done + 16)));
  }
  *sum = vaddvq_u32(vaddq_u32(a, b));
  return done;
}
#else
static size_t dg_framing_sum_blocks(const uint8_t *bytes, size_t length, uint32_t *sum)
{
  (void)bytes, (void)length;
  *sum = 0;
  return 0;
}
#endif

uint32_t dg_byte_sum(const uint8_t *bytes, size_t length)
{
  uint32_t sum;
  size_t done = dg_framing_sum_blocks(bytes, length, &sum);

  sum += dg_framing_sum_words(bytes + done, (length - done) / 8);
  for (done += (length - done) / 8 * 8; done < length; done++)
    sum += bytes[done];
  return sum;
}
