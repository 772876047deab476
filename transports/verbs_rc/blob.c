/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include "../verbs/blob.h"
#include "connection.h"

#define ROW(name, bytes) VB_BLOB_ROW(rc_blob, name, bytes)
#define FIELD(name) VB_BLOB_FIELD(rc_blob, name)

/* In the order in which they travel. */
static const struct vb_blob_field fields[] = {
    FIELD(gid_type),
    FIELD(mtu),
    FIELD(rd_atomic),
    FIELD(lid),
    ROW(qps[0], 4),
    ROW(gid, 1),
    FIELD(cm_port),
    FIELD(cm_token),
    FIELD(initial),
    FIELD(control_receives),
    FIELD(control_bytes),
    FIELD(address),
    FIELD(rkey),
    FIELD(stride),
    FIELD(payload_max),
    FIELD(slots),
    FIELD(share),
    FIELD(lanes),
    {offsetof(struct rc_blob, qps[1]), 4, 2 * (RC_LANES_MAX - 1)},
    ROW(responders, 4),
    FIELD(ece.vendor),
    FIELD(ece.options),
    FIELD(run_count),
    ROW(runs, 4),
    FIELD(has_runs),
};

/* Bits of the byte before them, from bit 0. */
static const size_t flags[] = {
    offsetof(struct rc_blob, is_ethernet), offsetof(struct rc_blob, is_sender),
    offsetof(struct rc_blob, is_receiver), offsetof(struct rc_blob, is_rma),
    offsetof(struct rc_blob, is_cm),       offsetof(struct rc_blob, sends),
    offsetof(struct rc_blob, reconnects),  offsetof(struct rc_blob, is_split),
};

static const struct vb_blob_form form = {
    .magic = {'p', 's', 't', 'r', 'c', 0, 0, 8},
    .length = RC_BLOB_BYTES,
    .flag_count = sizeof(flags) / sizeof(flags[0]),
    .field_count = sizeof(fields) / sizeof(fields[0]),
    .flags = flags,
    .fields = fields,
};

void rc_blob_write(const struct rc_blob *blob, uint8_t bytes[RC_BLOB_BYTES])
{
  vb_blob_write(&form, blob, bytes);
}

/* Each byte came over a network. */
static bool rc_blob_makes_sense(const struct rc_blob *blob)
{
  uint64_t total = 0;

  if (blob->mtu < IBV_MTU_256 || blob->mtu > IBV_MTU_4096 || blob->gid_type > VB_GID_ROCE_V2 ||
      !(blob->is_sender || blob->is_receiver || blob->is_rma) ||
      (blob->is_sender &&
       (blob->control_receives == 0 || blob->control_bytes < sizeof(struct vb_run))) ||
      (blob->is_cm && !blob->cm_port && (blob->is_receiver || !blob->is_sender)))
    return false;
  if (blob->has_runs > 1 || blob->lanes < 1 || blob->lanes > RC_LANES_MAX ||
      blob->run_count > RC_BLOB_RUNS)
    return false;
  for (uint32_t i = 0; i < RC_LANES_MAX; i++)
    if ((blob->qps[i].qpn | blob->qps[i].psn | blob->responders[i].qpn | blob->responders[i].psn) >
        0xffffff)
      return false;
  if (!blob->is_receiver)
    return true;
  if (blob->slots == 0 || blob->slots > VB_SLOTS_MAX || blob->share == 0 ||
      blob->share > blob->slots || blob->payload_max == 0 || blob->stride < blob->payload_max ||
      blob->stride > UINT64_MAX / VB_SLOTS_MAX)
    return false;
  for (uint32_t i = 0; i < blob->run_count; i++) {
    total += blob->runs[i].count;
    if (blob->runs[i].first >= blob->slots ||
        blob->runs[i].count > blob->slots - blob->runs[i].first)
      return false;
  }
  return total <= blob->share;
}

bool rc_blob_read(const uint8_t *bytes, uint32_t length, struct rc_blob *blob)
{
  *blob = (struct rc_blob){0};
  return vb_blob_read(&form, bytes, length, blob) && rc_blob_makes_sense(blob);
}
