/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <string.h>

#include "util/cbor_message.h"

#define BIT(key) (1u << WIRE_KEY_##key)

const struct pst_cbor_form wire_forms[WIRE_TYPES] = {
    [WIRE_HELLO] = {"HELLO", BIT(TYPE) | BIT(MAGIC) | BIT(VERSION) | BIT(AUTH) | BIT(ROLE),
                    BIT(HOST) | BIT(PID) | BIT(LIBRARY) | BIT(SIDE) | BIT(TOKEN)},
    [WIRE_OFFER] = {"OFFER", BIT(TYPE) | BIT(STREAM) | BIT(TERMS) | BIT(PARAMS) | BIT(ADDRESS),
                    BIT(FD_ID) | BIT(FD_COUNT)},
    [WIRE_ACCEPT] = {"ACCEPT", BIT(TYPE) | BIT(STREAM) | BIT(PARAMS) | BIT(ADDRESS),
                     BIT(FD_ID) | BIT(FD_COUNT)},
    [WIRE_REFUSE] = {"REFUSE", BIT(TYPE) | BIT(STREAM) | BIT(CODE) | BIT(TEXT), 0},
    [WIRE_ADDRESS] = {"ADDRESS", BIT(TYPE) | BIT(STREAM) | BIT(ADDRESS),
                      BIT(FD_ID) | BIT(FD_COUNT)},
    [WIRE_BEAT] = {"BEAT", BIT(TYPE) | BIT(STREAM) | BIT(TOTALS), 0},
    [WIRE_FINISH] = {"FINISH", BIT(TYPE) | BIT(STREAM) | BIT(TOTALS), 0},
    [WIRE_COUNTS] = {"COUNTS", BIT(TYPE) | BIT(STREAM) | BIT(TOTALS), 0},
    [WIRE_FAIL] = {"FAIL", BIT(TYPE) | BIT(STREAM) | BIT(CODE) | BIT(TEXT), BIT(TOTALS)},
    [WIRE_KEEP] = {"KEEP", BIT(TYPE), 0},
    [WIRE_BYE] = {"BYE", BIT(TYPE), BIT(CODE) | BIT(TEXT)},
    [WIRE_JOIN] = {"JOIN", BIT(TYPE) | BIT(TERMS) | BIT(PARAMS) | BIT(ADDRESS),
                   BIT(FD_ID) | BIT(FD_COUNT)},
    [WIRE_WELCOME] = {"WELCOME", BIT(TYPE) | BIT(PARAMS) | BIT(ADDRESS),
                      BIT(FD_ID) | BIT(FD_COUNT)},
    [WIRE_REGION] = {"REGION",
                     BIT(TYPE) | BIT(REMOTE) | BIT(REMOTE_LENGTH) | BIT(REGION_ID) | BIT(ACCESS),
                     BIT(FD_ID) | BIT(REMOTE_FD_COUNT)},
    [WIRE_TAKEN] = {"TAKEN", BIT(TYPE) | BIT(REGION_ID), BIT(CODE) | BIT(TEXT)},
    [WIRE_WITHDRAW] = {"WITHDRAW", BIT(TYPE) | BIT(REGION_ID), 0},
    [WIRE_MESSAGE] = {"MESSAGE", BIT(TYPE) | BIT(PAYLOAD), 0},
    [WIRE_ROOM] = {"ROOM", BIT(TYPE) | BIT(COUNT), 0},
    [WIRE_READDRESS] = {"READDRESS", BIT(TYPE) | BIT(ADDRESS), BIT(FD_ID) | BIT(FD_COUNT)},
};

static const struct pst_cbor_form *form_of(uint32_t type)
{
  return type < WIRE_TYPES && wire_forms[type].name ? &wire_forms[type] : NULL;
}

const char *wire_type_name(uint32_t type)
{
  const struct pst_cbor_form *form = form_of(type);

  return form ? form->name : "unknown";
}

uint64_t *wire_total_at(struct control_totals *totals, uint32_t key)
{
  switch (key) {
  case WIRE_TOTAL_MESSAGES:
    return &totals->messages;
  case WIRE_TOTAL_BYTES:
    return &totals->bytes;
  case WIRE_TOTAL_LAST_SEQUENCE:
    return &totals->last_sequence;
  case WIRE_TOTAL_DUPLICATES:
    return &totals->duplicates;
  case WIRE_TOTAL_REORDERED:
    return &totals->reordered;
  case WIRE_TOTAL_VERIFIED:
    return &totals->verified;
  case WIRE_TOTAL_CORRUPTED:
    return &totals->corrupted;
  case WIRE_TOTAL_RUNNING:
    return &totals->running_ns;
  default:
    return NULL;
  }
}

void wire_totals_unknown(struct control_totals *totals)
{
  memset(totals, 0, sizeof *totals);
  for (uint32_t key = 0; key < WIRE_TOTAL_BLOCKED; key++)
    *wire_total_at(totals, key) = UINT64_MAX;
  for (uint32_t stage = 0; stage < PST_STAGES; stage++)
    totals->blocked_ns[stage] = UINT64_MAX;
}

static void put_pairs(struct pst_cbor_writer *w, const struct control_pair *pairs, uint32_t count)
{
  pst_cbor_write_map(w, count);
  for (uint32_t i = 0; i < count; i++) {
    pst_cbor_write_text(w, pairs[i].key, CONTROL_KEY_MAX);
    pst_cbor_write_text(w, pairs[i].value, CONTROL_VALUE_MAX);
  }
}

static void put_totals(struct pst_cbor_writer *w, const struct control_totals *from)
{
  struct control_totals totals = *from;
  uint32_t stages = 0;
  uint32_t fields = 2 + (totals.stopped != PST_STOP_UNKNOWN);

  for (uint32_t key = 0; key < WIRE_TOTAL_BLOCKED; key++)
    fields += *wire_total_at(&totals, key) != UINT64_MAX;
  for (uint32_t stage = 0; stage < PST_STAGES; stage++)
    stages += totals.blocked_ns[stage] != UINT64_MAX;

  pst_cbor_write_map(w, fields);
  for (uint32_t key = 0; key < WIRE_TOTAL_BLOCKED; key++) {
    if (*wire_total_at(&totals, key) == UINT64_MAX)
      continue;
    pst_cbor_write_uint(w, key);
    pst_cbor_write_uint(w, *wire_total_at(&totals, key));
  }
  pst_cbor_write_uint(w, WIRE_TOTAL_BLOCKED);
  pst_cbor_write_map(w, stages);
  for (uint32_t stage = 0; stage < PST_STAGES; stage++) {
    if (totals.blocked_ns[stage] == UINT64_MAX)
      continue;
    pst_cbor_write_uint(w, stage);
    pst_cbor_write_uint(w, totals.blocked_ns[stage]);
  }
  pst_cbor_write_uint(w, WIRE_TOTAL_DROPS);
  pst_cbor_write_map(w, totals.drop_count);
  for (uint32_t i = 0; i < totals.drop_count; i++) {
    pst_cbor_write_text(w, totals.drops[i].cause, sizeof totals.drops[i].cause - 1);
    pst_cbor_write_uint(w, totals.drops[i].messages);
  }
  if (totals.stopped != PST_STOP_UNKNOWN) {
    pst_cbor_write_uint(w, WIRE_TOTAL_STOPPED);
    pst_cbor_write_uint(w, totals.stopped);
  }
}

static void put_value(struct pst_cbor_writer *w, const struct wire_message *m, uint32_t key)
{
  switch (key) {
  case WIRE_KEY_TYPE:
    pst_cbor_write_uint(w, m->type);
    break;
  case WIRE_KEY_MAGIC:
    pst_cbor_write_text(w, WIRE_MAGIC, sizeof WIRE_MAGIC - 1);
    break;
  case WIRE_KEY_VERSION:
    pst_cbor_write_array(w, 2);
    pst_cbor_write_uint(w, m->major);
    pst_cbor_write_uint(w, m->minor);
    break;
  case WIRE_KEY_AUTH:
    pst_cbor_write_map(w, 0);
    break;
  case WIRE_KEY_ROLE:
    pst_cbor_write_uint(w, m->role);
    break;
  case WIRE_KEY_HOST:
    pst_cbor_write_text(w, m->host, WIRE_HOST_MAX);
    break;
  case WIRE_KEY_PID:
    pst_cbor_write_uint(w, m->pid);
    break;
  case WIRE_KEY_LIBRARY:
    pst_cbor_write_text(w, m->library, sizeof m->library - 1);
    break;
  case WIRE_KEY_SIDE:
    pst_cbor_write_text(w, m->side, WIRE_SIDE_MAX);
    break;
  case WIRE_KEY_TOKEN:
    pst_cbor_write_bytes(w, m->token, WIRE_TOKEN_BYTES);
    break;
  case WIRE_KEY_STREAM:
    pst_cbor_write_text(w, m->stream, WIRE_STREAM_MAX);
    break;
  case WIRE_KEY_TERMS:
    put_pairs(w, m->terms, m->term_count);
    break;
  case WIRE_KEY_PARAMS:
    put_pairs(w, m->params, m->param_count);
    break;
  case WIRE_KEY_ADDRESS:
  case WIRE_KEY_REMOTE:
    pst_cbor_write_bytes(w, m->blob, m->blob_length);
    break;
  case WIRE_KEY_FD_ID:
    pst_cbor_write_uint(w, m->fd_id);
    break;
  case WIRE_KEY_FD_COUNT:
  case WIRE_KEY_REMOTE_FD_COUNT:
    pst_cbor_write_uint(w, m->fd_count);
    break;
  case WIRE_KEY_TOTALS:
    put_totals(w, &m->totals);
    break;
  case WIRE_KEY_CODE:
    pst_cbor_write_uint(w, m->code < 0 ? (uint64_t) - (int64_t)m->code : EPROTO);
    break;
  case WIRE_KEY_TEXT:
    pst_cbor_write_text(w, m->text, WIRE_TEXT_MAX);
    break;
  case WIRE_KEY_REMOTE_LENGTH:
    pst_cbor_write_uint(w, m->region_length);
    break;
  case WIRE_KEY_REGION_ID:
    pst_cbor_write_uint(w, m->region_id);
    break;
  case WIRE_KEY_ACCESS:
    pst_cbor_write_uint(w, m->access);
    break;
  case WIRE_KEY_PAYLOAD:
    pst_cbor_write_bytes(w, m->payload, m->payload_length);
    break;
  case WIRE_KEY_COUNT:
    pst_cbor_write_uint(w, m->count);
    break;
  default:
    break;
  }
}

static bool is_present(const struct wire_message *m, const struct pst_cbor_form *form, uint32_t key)
{
  if (form->needs & (1u << key))
    return true;
  if (!(form->may & (1u << key)))
    return false;
  switch (key) {
  case WIRE_KEY_HOST:
  case WIRE_KEY_PID:
  case WIRE_KEY_LIBRARY:
    return m->has_identity;
  case WIRE_KEY_SIDE:
    return m->side[0] != '\0';
  case WIRE_KEY_TOKEN:
    return m->has_token;
  case WIRE_KEY_TOTALS:
    return m->has_totals;
  case WIRE_KEY_FD_ID:
  case WIRE_KEY_FD_COUNT:
  case WIRE_KEY_REMOTE_FD_COUNT:
    return m->fd_count > 0;
  default:
    return m->code < 0;
  }
}

int wire_encode(const struct wire_message *m, uint8_t *frame, size_t size, size_t *length)
{
  const struct pst_cbor_form *form = form_of(m->type);
  uint32_t keys = 0;

  if (!form || m->term_count > CONTROL_TERMS_MAX || m->param_count > CONTROL_PARAMS_MAX ||
      m->blob_length > CONTROL_ADDRESS_MAX || m->fd_count > WIRE_FDS_MAX ||
      (form->needs & BIT(REMOTE) && m->region_length == 0) ||
      (form->needs & BIT(REGION_ID) && m->region_id == 0) || m->payload_length > WIRE_PAYLOAD_MAX ||
      (form->needs & BIT(COUNT) && m->count == 0) ||
      m->totals.drop_count > sizeof m->totals.drops / sizeof m->totals.drops[0])
    return -EINVAL;
  if (size < WIRE_HEADER_BYTES)
    return -E2BIG;

  struct pst_cbor_writer w = {.bytes = frame + WIRE_HEADER_BYTES, .size = size - WIRE_HEADER_BYTES};
  if (w.size > WIRE_BODY_MAX)
    w.size = WIRE_BODY_MAX;
  for (uint32_t key = 0; key < WIRE_KEYS; key++)
    keys += is_present(m, form, key);
  pst_cbor_write_map(&w, keys);
  for (uint32_t key = 0; key < WIRE_KEYS; key++) {
    if (!is_present(m, form, key))
      continue;
    pst_cbor_write_uint(&w, key);
    put_value(&w, m, key);
  }
  if (w.full)
    return -E2BIG;
  for (uint32_t i = 0; i < WIRE_HEADER_BYTES; i++)
    frame[i] = (uint8_t)(w.at >> (24 - 8 * i));
  *length = WIRE_HEADER_BYTES + w.at;
  return 0;
}
