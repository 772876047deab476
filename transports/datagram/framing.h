/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header before the payload of a datagram: none, the 8-byte header of
 * Rivermax's sample programs, or RTP. Without sockets, devices or state.
 */
#ifndef DATAGRAM_FRAMING_H
#define DATAGRAM_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dg_framing {
  DG_FRAMING_NONE = 0,
  DG_FRAMING_SEQUENCE = 1, /* u32 sequence, u32 byte sum of the payload; big-endian */
  DG_FRAMING_RTP = 2,      /* RFC 3550, section 5.1 */
};

#define DG_HEADER_MAX 24u /* with a nonce; a tag follows it (tag.h) */
/* Room that a receiver of RTP keeps behind a payload. Contributing sources (15 of 4 bytes) and the
 * header extension (64) stand between header and payload. */
#define DG_RTP_TAILROOM 128u

/* Bytes of the header that every message has. Between Penstocks a nonce of 8 bytes ends the
 * header. With RTP the nonce is a header extension (RFC 3550, section 5.3.1), which foreign
 * receivers skip. */
static inline uint32_t dg_header_bytes(enum dg_framing framing, bool has_nonce)
{
  if (framing == DG_FRAMING_RTP)
    return has_nonce ? 24 : 12;
  return framing != DG_FRAMING_SEQUENCE ? 0 : has_nonce ? 16 : 8;
}

static inline uint32_t dg_sequence_bits(enum dg_framing framing)
{
  return framing == DG_FRAMING_RTP ? 16 : framing == DG_FRAMING_SEQUENCE ? 32 : 0;
}

struct dg_header {
  uint32_t sequence; /* its low bits go on the wire */
  uint32_t checksum; /* sequence */
  uint32_t timestamp;
  uint32_t ssrc;
  uint64_t nonce;
  uint8_t payload_type;
  bool marker;
  bool has_nonce;
  bool has_tag; /* the nonce is a number, and a tag follows the header (tag.h) */
};

/* `to` has dg_header_bytes(). The tag of has_tag is written behind them by dg_tag_sign(). */
void dg_write(enum dg_framing framing, const struct dg_header *header, uint8_t *to);

enum dg_parse_result {
  DG_PARSED = 0,
  DG_BAD_HEADER = 1, /* shorter than its own header says, or impossible padding */
  DG_NO_MESSAGE = 2, /* RTP: another version, or a packet of RTCP (RFC 5761, section 4) */
  DG_UNREADABLE = 3, /* RTP: an extension or padding begins or ends where the CPU cannot read */
};

/*
 * Read a datagram of `total` bytes: its first dg_header_bytes() are at `header`,
 * all further ones at `rest`. *offset and *length: the payload within `rest`. Nothing
 * is read beyond `total`. With `has_nonce`, dg_has_nonce() has been asked.
 *
 * Nor is anything read beyond `readable` bytes from the first, where the payload lies in a GPU: at
 * least the header, or all. RTP's contributing sources are skipped unread. A datagram whose payload
 * cannot be determined is no message: an extension whose length, or padding whose last byte, lies
 * beyond.
 */
enum dg_parse_result dg_parse(enum dg_framing framing, bool has_nonce, const uint8_t *header,
                              const uint8_t *rest, uint32_t total, uint32_t readable,
                              struct dg_header *parsed, uint32_t *offset, uint32_t *length);

/* Does the datagram of `total` bytes that begins so carry this nonce? Not with framing `none`. */
bool dg_has_nonce(enum dg_framing framing, const uint8_t *header, uint32_t total, uint64_t nonce);

/* The fixed header without a nonce, whatever follows. False: there is none, or not of this framing.
 */
bool dg_peek(enum dg_framing framing, const uint8_t *header, uint32_t total,
             struct dg_header *parsed);

/* The sum of all bytes, as Rivermax's samples compute it. */
uint32_t dg_byte_sum(const uint8_t *bytes, size_t length);

#endif
