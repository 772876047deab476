/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include "blob.h"
#include "udp.h"

static const uint8_t magic[8] = {'p', 's', 't', 'u', 'd', 'p', 0, 1};

static void put(uint8_t *to, uint64_t value, uint32_t bytes)
{
  for (uint32_t i = 0; i < bytes; i++)
    to[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static uint64_t get(const uint8_t *from, uint32_t bytes)
{
  uint64_t value = 0;

  for (uint32_t i = 0; i < bytes; i++)
    value = value << 8 | from[i];
  return value;
}

void udp_blob_write(const struct udp_blob *blob, uint8_t bytes[UDP_BLOB_BYTES])
{
  memset(bytes, 0, UDP_BLOB_BYTES);
  memcpy(bytes, magic, sizeof(magic));
  bytes[8] = blob->framing;
  bytes[9] = blob->family;
  bytes[10] = blob->is_receiver;
  bytes[11] = blob->count;
  put(bytes + 12, blob->port, 2);
  bytes[14] = blob->payload_type;
  bytes[15] = blob->is_bound;
  put(bytes + 16, blob->initial, 4);
  put(bytes + 20, blob->ssrc, 4);
  put(bytes + 24, blob->nonce, 8);
  memcpy(bytes + 32, blob->identity, sizeof(blob->identity));
  memcpy(bytes + 56, blob->addresses, sizeof(blob->addresses));
}

bool udp_blob_read(const uint8_t *bytes, uint32_t length, struct udp_blob *blob)
{
  if (length != UDP_BLOB_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
    return false;
  *blob = (struct udp_blob){.framing = bytes[8],
                            .family = bytes[9],
                            .is_receiver = bytes[10],
                            .count = bytes[11],
                            .port = (uint16_t)get(bytes + 12, 2),
                            .payload_type = bytes[14],
                            .is_bound = bytes[15],
                            .initial = (uint32_t)get(bytes + 16, 4),
                            .ssrc = (uint32_t)get(bytes + 20, 4),
                            .nonce = get(bytes + 24, 8)};
  memcpy(blob->identity, bytes + 32, sizeof(blob->identity));
  memcpy(blob->addresses, bytes + 56, sizeof(blob->addresses));
  return blob->framing <= DG_FRAMING_RTP && (blob->family == 4 || blob->family == 6) &&
         bytes[10] <= 1 && bytes[15] <= 1 && blob->count <= UDP_ADDRESSES_MAX &&
         (!blob->is_bound || blob->count == 1) && blob->port != 0;
}
