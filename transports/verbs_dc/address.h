/* SPDX-License-Identifier: Apache-2.0 */
/* The address that an endpoint sends to its peer; blob.c encodes it. */
#ifndef DC_ADDRESS_H
#define DC_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#define DC_BLOB_BYTES 96u
#define DC_CREDITS_MAX 4096u /* of one peer */

/* An endpoint's address. */
struct dc_blob {
  bool is_ethernet, is_sender, is_receiver, is_rma;
  uint8_t gid_type;
  uint8_t mtu; /* enum ibv_mtu */
  uint8_t rd_atomic;
  uint16_t lid;
  uint16_t number;
  uint8_t gid[16];
  uint32_t control; /* target of words; without a ring of everything */
  uint32_t data;    /* target of messages and one-sided requests */
  uint64_t key;     /* of both */
  uint64_t initial; /* sender: what sequence 0 travels as */
  uint64_t payload_max;
  uint32_t credits; /* receiver: that the peer begins with */
  /* After a target was made anew: the messages that had come to the one before, ever, and the
   * credit that had, modulo. */
  uint64_t messages;
  uint32_t heard;
};

/* 13 bits that tell a peer's hello from that of a stranger, which knows our key but not that
 * address. */
uint32_t dc_blob_proof(const struct dc_blob *blob);
/* Writes the address as it travels. */
void dc_blob_write(const struct dc_blob *blob, uint8_t bytes[DC_BLOB_BYTES]);
/* Reads an address. false: it is not one. */
bool dc_blob_read(const uint8_t *bytes, uint32_t length, struct dc_blob *blob);

#endif
