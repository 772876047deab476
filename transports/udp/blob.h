/* SPDX-License-Identifier: Apache-2.0 */
/* What peers exchange. */
#ifndef UDP_BLOB_H
#define UDP_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#define UDP_ADDRESSES_MAX 8u

/* In the order in which it travels, behind 8 bytes that say what it is; there big-endian. */
struct udp_blob {
  uint8_t framing;
  uint8_t family; /* 4 or 6 */
  bool is_receiver;
  uint8_t count; /* addresses */
  uint16_t port; /* where it receives, or sends from */
  uint8_t payload_type;
  bool is_bound; /* to its one address; else these are the host's */
  uint32_t initial;
  uint32_t ssrc;
  uint64_t nonce; /* a sender's: in the header of each of its datagrams */
  uint8_t identity[24];
  uint8_t addresses[UDP_ADDRESSES_MAX][16]; /* IPv4 as ::ffff:a.b.c.d; none: any of its own */
};
#define UDP_BLOB_MAGIC_BYTES 8u
#define UDP_BLOB_BYTES (UDP_BLOB_MAGIC_BYTES + sizeof(struct udp_blob))
_Static_assert(sizeof(struct udp_blob) == 16 + 8 + 24 + UDP_ADDRESSES_MAX * 16, "no padding");

void udp_blob_write(const struct udp_blob *blob, uint8_t bytes[UDP_BLOB_BYTES]);
bool udp_blob_read(const uint8_t *bytes, uint32_t length, struct udp_blob *blob);

#endif
