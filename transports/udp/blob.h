/* SPDX-License-Identifier: Apache-2.0 */
/* What peers exchange. */
#ifndef UDP_BLOB_H
#define UDP_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#define UDP_ADDRESSES_MAX 8u

struct udp_blob {
  uint8_t framing;
  uint8_t family; /* 4 or 6 */
  bool is_receiver;
  bool is_bound; /* to its one address; else these are the host's */
  uint8_t count; /* addresses */
  uint16_t port; /* where it receives, or sends from */
  uint32_t initial;
  uint32_t ssrc;
  uint64_t nonce; /* a sender's: in the header of each of its datagrams */
  uint8_t payload_type;
  uint8_t identity[24];
  uint8_t addresses[UDP_ADDRESSES_MAX][16]; /* IPv4 as ::ffff:a.b.c.d; none: any of its own */
};
#define UDP_BLOB_BYTES (8 + 16 + 8 + 24 + UDP_ADDRESSES_MAX * 16)

void udp_blob_write(const struct udp_blob *blob, uint8_t bytes[UDP_BLOB_BYTES]);
bool udp_blob_read(const uint8_t *bytes, uint32_t length, struct udp_blob *blob);

#endif
