/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

#include "../verbs/gid.h"
#include "address.h"

static const uint8_t magic[8] = {'p', 's', 't', 'd', 'c', 0, 0, 1};

#define ROW(name, bytes_)                                                                          \
  {                                                                                                \
    offsetof(struct dc_blob, name), bytes_, sizeof(((struct dc_blob *)0)->name) / (bytes_)         \
  }
#define FIELD(name) ROW(name, sizeof(((struct dc_blob *)0)->name))

/* In the order in which they travel: `count` in a row, of `bytes` each. */
static const struct {
  size_t at;
  uint32_t bytes, count;
} fields[] = {
    FIELD(gid_type), FIELD(mtu),     FIELD(rd_atomic),   FIELD(lid),
    FIELD(number),   ROW(gid, 1),    FIELD(control),     FIELD(data),
    FIELD(key),      FIELD(initial), FIELD(payload_max), FIELD(credits),
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Of the byte before them, from bit 0. */
static const size_t flags[] = {
    offsetof(struct dc_blob, is_ethernet),
    offsetof(struct dc_blob, is_sender),
    offsetof(struct dc_blob, is_receiver),
    offsetof(struct dc_blob, is_rma),
};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))

/* From big-endian or to it. */
static void turn(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
  for (uint32_t i = 0; i < bytes; i++)
    to[i] = from[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? bytes - 1 - i : i];
}

uint32_t dc_blob_proof(const struct dc_blob *blob)
{
  const uint64_t all = blob->key ^ (uint64_t)blob->number << 48 ^ (uint64_t)blob->control << 16;

  return (uint32_t)(all * UINT64_C(0x9e3779b97f4a7c15) >> 51);
}

void dc_blob_write(const struct dc_blob *blob, uint8_t bytes[DC_BLOB_BYTES])
{
  const uint8_t *from = (const uint8_t *)blob;
  uint8_t *at = bytes + sizeof(magic);

  memset(bytes, 0, DC_BLOB_BYTES);
  memcpy(bytes, magic, sizeof(magic));
  for (uint32_t i = 0; i < FLAGS; i++)
    *at |= (uint8_t)(*(const bool *)(from + flags[i]) << i);
  at++;
  for (size_t i = 0; i < FIELDS; i++)
    for (uint32_t k = 0; k < fields[i].count; k++, at += fields[i].bytes)
      turn(at, from + fields[i].at + (size_t)k * fields[i].bytes, fields[i].bytes);
}

/* Each byte came over a network. */
static bool makes_sense(const struct dc_blob *blob)
{
  if (blob->mtu < IBV_MTU_256 || blob->mtu > IBV_MTU_4096 || blob->gid_type > VB_GID_ROCE_V2 ||
      !(blob->is_sender || blob->is_receiver || blob->is_rma) || blob->control > 0xffffff ||
      blob->data > 0xffffff || blob->control == 0 || blob->data == 0)
    return false;
  return !blob->is_receiver || (blob->payload_max > 0 && blob->credits <= DC_CREDITS_MAX);
}

bool dc_blob_read(const uint8_t *bytes, uint32_t length, struct dc_blob *blob)
{
  const uint8_t *at = bytes + sizeof(magic);
  uint8_t *to = (uint8_t *)blob;

  if (length != DC_BLOB_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
    return false;
  *blob = (struct dc_blob){0};
  for (uint32_t i = 0; i < FLAGS; i++)
    *(bool *)(to + flags[i]) = *at >> i & 1;
  at++;
  for (size_t i = 0; i < FIELDS; i++)
    for (uint32_t k = 0; k < fields[i].count; k++, at += fields[i].bytes)
      turn(to + fields[i].at + (size_t)k * fields[i].bytes, at, fields[i].bytes);
  return makes_sense(blob);
}
