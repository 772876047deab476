/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that two ends exchange over the control channel, whichever plugins they use: the wire
 * form "penstock-datagram". */
#ifndef DATAGRAM_BLOB_H
#define DATAGRAM_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#define DG_WIRE "penstock-datagram"
#define DG_ADDRESSES_MAX 8u

/* In the order in which it travels, behind 8 bytes that say what it is; there big-endian. */
struct dg_blob {
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
  uint8_t addresses[DG_ADDRESSES_MAX][16]; /* IPv4 as ::ffff:a.b.c.d; none: any of its own */
};
#define DG_BLOB_MAGIC_BYTES 8u
/* Behind these a sender whose datagrams have tags writes their key: DG_TAG_KEY_BYTES. */
#define DG_BLOB_BYTES (DG_BLOB_MAGIC_BYTES + sizeof(struct dg_blob))
_Static_assert(sizeof(struct dg_blob) == 16 + 8 + 24 + DG_ADDRESSES_MAX * 16, "no padding");

void dg_blob_write(const struct dg_blob *blob, uint8_t bytes[DG_BLOB_BYTES]);
bool dg_blob_read(const uint8_t *bytes, uint32_t length, struct dg_blob *blob);

#endif
