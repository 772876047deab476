/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include <infiniband/verbs.h>

#include "../verbs/blob.h"
#include "../verbs/gid.h"
#include "address.h"

#define ROW(name, bytes) VB_BLOB_ROW(dc_blob, name, bytes)
#define FIELD(name) VB_BLOB_FIELD(dc_blob, name)

/* In the order in which they travel. */
static const struct vb_blob_field fields[] = {
    FIELD(gid_type),    FIELD(mtu),     FIELD(rd_atomic), FIELD(lid),   FIELD(number),
    ROW(gid, 1),        FIELD(control), FIELD(data),      FIELD(key),   FIELD(initial),
    FIELD(payload_max), FIELD(credits), FIELD(messages),  FIELD(heard),
};

/* Bits of the byte before them, from bit 0. */
static const size_t flags[] = {
    offsetof(struct dc_blob, is_ethernet),
    offsetof(struct dc_blob, is_sender),
    offsetof(struct dc_blob, is_receiver),
    offsetof(struct dc_blob, is_rma),
};

static const struct vb_blob_form form = {
    .magic = {'p', 's', 't', 'd', 'c', 0, 0, 3},
    .length = DC_BLOB_BYTES,
    .flag_count = sizeof(flags) / sizeof(flags[0]),
    .field_count = sizeof(fields) / sizeof(fields[0]),
    .flags = flags,
    .fields = fields,
};

/* The targets are left out, since they may be replaced. */
uint32_t dc_blob_proof(const struct dc_blob *blob)
{
  const uint64_t all = blob->key ^ (uint64_t)blob->number << 48;

  return (uint32_t)(all * UINT64_C(0x9e3779b97f4a7c15) >> 51);
}

void dc_blob_write(const struct dc_blob *blob, uint8_t bytes[DC_BLOB_BYTES])
{
  vb_blob_write(&form, blob, bytes);
}

/* Checks each field: all bytes came over a network. */
static bool dc_blob_makes_sense(const struct dc_blob *blob)
{
  if (blob->mtu < IBV_MTU_256 || blob->mtu > IBV_MTU_4096 || blob->gid_type > VB_GID_ROCE_V2 ||
      !(blob->is_sender || blob->is_receiver || blob->is_rma) || blob->control > 0xffffff ||
      blob->data > 0xffffff || blob->control == 0 || blob->data == 0)
    return false;
  return !blob->is_receiver || (blob->payload_max > 0 && blob->credits <= DC_CREDITS_MAX);
}

bool dc_blob_read(const uint8_t *bytes, uint32_t length, struct dc_blob *blob)
{
  *blob = (struct dc_blob){0};
  return vb_blob_read(&form, bytes, length, blob) && dc_blob_makes_sense(blob);
}
