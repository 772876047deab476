/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include <endian.h>

#include "connection.h"

static const uint8_t magic[8] = {'p', 's', 't', 'r', 'c', 0, 0, 8};

/* Members of struct rc_blob in the order in which they travel: `count` in a row, of `bytes` each.
 */
#define ROW(name, bytes_)                                                                          \
  {                                                                                                \
    offsetof(struct rc_blob, name), bytes_, sizeof(((struct rc_blob *)0)->name) / (bytes_)         \
  }
#define FIELD(name) ROW(name, sizeof(((struct rc_blob *)0)->name))

static const struct {
  size_t at;
  uint32_t bytes, count;
} fields[] = {
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
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Of the byte before them, from bit 0. */
static const size_t flags[8] = {
    offsetof(struct rc_blob, is_ethernet), offsetof(struct rc_blob, is_sender),
    offsetof(struct rc_blob, is_receiver), offsetof(struct rc_blob, is_rma),
    offsetof(struct rc_blob, is_cm),       offsetof(struct rc_blob, sends),
    offsetof(struct rc_blob, reconnects),  offsetof(struct rc_blob, is_split),
};

/* From big-endian or to it. */
static void turn(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
  for (uint32_t i = 0; i < bytes; i++)
    to[i] = from[BYTE_ORDER == LITTLE_ENDIAN ? bytes - 1 - i : i];
}

void rc_blob_write(const struct rc_blob *blob, uint8_t bytes[RC_BLOB_BYTES])
{
  const uint8_t *from = (const uint8_t *)blob;
  uint8_t *at = bytes + sizeof(magic);

  memset(bytes, 0, RC_BLOB_BYTES);
  memcpy(bytes, magic, sizeof(magic));
  for (uint32_t i = 0; i < 8; i++)
    *at |= (uint8_t)(*(const bool *)(from + flags[i]) << i);
  at++;
  for (size_t i = 0; i < FIELDS; i++)
    for (uint32_t k = 0; k < fields[i].count; k++, at += fields[i].bytes)
      turn(at, from + fields[i].at + (size_t)k * fields[i].bytes, fields[i].bytes);
}

/* Each byte came over a network. */
static bool makes_sense(const struct rc_blob *blob)
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
  const uint8_t *at = bytes + sizeof(magic);
  uint8_t *to = (uint8_t *)blob;

  if (length != RC_BLOB_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
    return false;
  *blob = (struct rc_blob){0};
  for (uint32_t i = 0; i < 8; i++)
    *(bool *)(to + flags[i]) = *at >> i & 1;
  at++;
  for (size_t i = 0; i < FIELDS; i++)
    for (uint32_t k = 0; k < fields[i].count; k++, at += fields[i].bytes)
      turn(to + fields[i].at + (size_t)k * fields[i].bytes, at, fields[i].bytes);
  return makes_sense(blob);
}
