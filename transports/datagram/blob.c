/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include <endian.h>
#include <string.h>

#include "blob.h"
#include "framing.h"

static const uint8_t magic[DG_BLOB_MAGIC_BYTES] = {'p', 's', 't', 'u', 'd', 'p', 0, 1};

void dg_blob_write(const struct dg_blob *blob, uint8_t bytes[DG_BLOB_BYTES])
{
  struct dg_blob wire = *blob;

  wire.port = htobe16(blob->port);
  wire.initial = htobe32(blob->initial);
  wire.ssrc = htobe32(blob->ssrc);
  wire.nonce = htobe64(blob->nonce);
  memcpy(bytes, magic, sizeof(magic));
  memcpy(bytes + sizeof(magic), &wire, sizeof(wire));
}

bool dg_blob_read(const uint8_t *bytes, uint32_t length, struct dg_blob *blob)
{
  if (length != DG_BLOB_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
    return false;
  const uint8_t *body = bytes + sizeof(magic);
  if (body[offsetof(struct dg_blob, is_receiver)] > 1 ||
      body[offsetof(struct dg_blob, is_bound)] > 1)
    return false;
  memcpy(blob, body, sizeof(*blob));
  blob->port = be16toh(blob->port);
  blob->initial = be32toh(blob->initial);
  blob->ssrc = be32toh(blob->ssrc);
  blob->nonce = be64toh(blob->nonce);
  return blob->framing <= DG_FRAMING_RTP && (blob->family == 4 || blob->family == 6) &&
         blob->count <= DG_ADDRESSES_MAX && (!blob->is_bound || blob->count == 1) &&
         blob->port != 0;
}
