/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: big-endian, of one length. */
#include "rc.h"

static const uint8_t magic[8] = {'p', 's', 't', 'r', 'c', 0, 0, 5};

struct cursor {
  uint8_t *at;
};

static void put(struct cursor *to, uint64_t value, uint32_t bytes)
{
  for (uint32_t i = bytes; i-- > 0;)
    *to->at++ = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t **from, uint32_t bytes)
{
  uint64_t value = 0;

  for (uint32_t i = 0; i < bytes; i++)
    value = value << 8 | *(*from)++;
  return value;
}

void rc_blob_write(const struct rc_blob *blob, uint8_t bytes[RC_BLOB_BYTES])
{
  struct cursor to = {bytes + sizeof(magic)};

  memset(bytes, 0, RC_BLOB_BYTES);
  memcpy(bytes, magic, sizeof(magic));
  put(&to,
      (uint64_t)blob->is_ethernet | (uint64_t)blob->is_sender << 1 |
          (uint64_t)blob->is_receiver << 2 | (uint64_t)blob->is_rma << 3 |
          (uint64_t)blob->is_cm << 4 | (uint64_t)blob->sends << 5 |
          (uint64_t)blob->reconnects << 6 | (uint64_t)blob->is_split << 7,
      1);
  put(&to, blob->gid_type, 1);
  put(&to, blob->mtu, 1);
  put(&to, blob->rd_atomic, 1);
  put(&to, blob->lid, 2);
  put(&to, blob->qpn, 4);
  put(&to, blob->psn, 4);
  memcpy(to.at, blob->gid, sizeof(blob->gid));
  to.at += sizeof(blob->gid);
  put(&to, blob->cm_port, 2);
  put(&to, blob->cm_token, 8);
  put(&to, blob->initial, 8);
  put(&to, blob->control_receives, 4);
  put(&to, blob->control_bytes, 4);
  put(&to, blob->address, 8);
  put(&to, blob->rkey, 4);
  put(&to, blob->stride, 8);
  put(&to, blob->payload_max, 8);
  put(&to, blob->slots, 4);
  put(&to, blob->share, 4);
  put(&to, blob->lanes, 1);
  for (uint32_t i = 0; i < RC_LANES_MAX - 1; i++) {
    put(&to, blob->more[i].qpn, 4);
    put(&to, blob->more[i].psn, 4);
  }
  for (uint32_t i = 0; i < RC_LANES_MAX; i++) {
    put(&to, blob->responders[i].qpn, 4);
    put(&to, blob->responders[i].psn, 4);
  }
  put(&to, blob->run_count, 4);
  for (uint32_t i = 0; i < RC_BLOB_RUNS; i++) {
    put(&to, blob->runs[i].first, 4);
    put(&to, blob->runs[i].count, 4);
  }
}

/* Each byte came over a network. */
static bool makes_sense(const struct rc_blob *blob)
{
  uint64_t total = 0;

  if (blob->mtu < IBV_MTU_256 || blob->mtu > IBV_MTU_4096 || blob->qpn > 0xffffff ||
      blob->psn > 0xffffff || blob->gid_type > VB_GID_ROCE_V2 ||
      !(blob->is_sender || blob->is_receiver || blob->is_rma) ||
      (blob->is_sender &&
       (blob->control_receives == 0 || blob->control_bytes < sizeof(struct rc_run))) ||
      (blob->is_cm && !blob->cm_port && (blob->is_receiver || !blob->is_sender)))
    return false;
  if (blob->lanes < 1 || blob->lanes > RC_LANES_MAX || blob->run_count > RC_BLOB_RUNS)
    return false;
  for (uint32_t i = 0; i < RC_LANES_MAX - 1; i++)
    if (blob->more[i].qpn > 0xffffff || blob->more[i].psn > 0xffffff)
      return false;
  for (uint32_t i = 0; i < RC_LANES_MAX; i++)
    if (blob->responders[i].qpn > 0xffffff || blob->responders[i].psn > 0xffffff)
      return false;
  if (!blob->is_receiver)
    return true;
  if (blob->slots == 0 || blob->slots > RC_SLOTS_MAX || blob->share == 0 ||
      blob->share > blob->slots || blob->payload_max == 0 || blob->stride < blob->payload_max ||
      blob->stride > UINT64_MAX / RC_SLOTS_MAX)
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

  if (length != RC_BLOB_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
    return false;
  uint8_t flags = (uint8_t)get(&at, 1);
  *blob = (struct rc_blob){.is_ethernet = flags & 1,
                           .is_sender = flags & 2,
                           .is_receiver = flags & 4,
                           .is_rma = flags & 8,
                           .is_cm = flags & 16,
                           .sends = flags & 32,
                           .reconnects = flags & 64,
                           .is_split = flags & 128};
  blob->gid_type = (uint8_t)get(&at, 1);
  blob->mtu = (uint8_t)get(&at, 1);
  blob->rd_atomic = (uint8_t)get(&at, 1);
  blob->lid = (uint16_t)get(&at, 2);
  blob->qpn = (uint32_t)get(&at, 4);
  blob->psn = (uint32_t)get(&at, 4);
  memcpy(blob->gid, at, sizeof(blob->gid));
  at += sizeof(blob->gid);
  blob->cm_port = (uint16_t)get(&at, 2);
  blob->cm_token = get(&at, 8);
  blob->initial = get(&at, 8);
  blob->control_receives = (uint32_t)get(&at, 4);
  blob->control_bytes = (uint32_t)get(&at, 4);
  blob->address = get(&at, 8);
  blob->rkey = (uint32_t)get(&at, 4);
  blob->stride = get(&at, 8);
  blob->payload_max = get(&at, 8);
  blob->slots = (uint32_t)get(&at, 4);
  blob->share = (uint32_t)get(&at, 4);
  blob->lanes = (uint8_t)get(&at, 1);
  for (uint32_t i = 0; i < RC_LANES_MAX - 1; i++) {
    blob->more[i].qpn = (uint32_t)get(&at, 4);
    blob->more[i].psn = (uint32_t)get(&at, 4);
  }
  for (uint32_t i = 0; i < RC_LANES_MAX; i++) {
    blob->responders[i].qpn = (uint32_t)get(&at, 4);
    blob->responders[i].psn = (uint32_t)get(&at, 4);
  }
  blob->run_count = (uint32_t)get(&at, 4);
  for (uint32_t i = 0; i < RC_BLOB_RUNS; i++) {
    blob->runs[i].first = (uint32_t)get(&at, 4);
    blob->runs[i].count = (uint32_t)get(&at, 4);
  }
  return makes_sense(blob);
}
