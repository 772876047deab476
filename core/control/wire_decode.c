/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <string.h>

#include "util/cbor_message.h"

/* ---- Parts ------------------------------------------------------------------------ */

static int read_pairs(struct pst_cbor_reader *r, struct control_pair *pairs, uint32_t max,
                      uint32_t *count, const char *name)
{
  uint64_t n;
  int rc = pst_cbor_read_map(r, max, &n, name);

  for (uint64_t i = 0; i < n && rc == 0; i++) {
    rc = pst_cbor_read_text(r, 1, CONTROL_KEY_MAX, pairs[i].key, "a key");
    if (rc == 0)
      rc = pst_cbor_read_text(r, 0, CONTROL_VALUE_MAX, pairs[i].value, pairs[i].key);
    for (uint64_t j = 0; j < i && rc == 0; j++) {
      if (strcmp(pairs[i].key, pairs[j].key) == 0)
        rc = pst_cbor_wrong(r, "%s has the key '%s' twice", name, pairs[i].key);
    }
  }
  if (rc == 0)
    *count = (uint32_t)n;
  return rc;
}

static int read_blocked(struct pst_cbor_reader *r, struct control_totals *totals)
{
  uint64_t count, stage, value;
  int rc = pst_cbor_read_map(r, PST_CBOR_ITEMS_MAX, &count, "blocked");

  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &stage, "stage");
    if (rc == 0)
      rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &value, "blocked time");
    if (rc == 0 && stage < PST_STAGES)
      totals->blocked_ns[stage] = value;
  }
  return rc;
}

static int read_drops(struct pst_cbor_reader *r, struct control_totals *totals)
{
  uint64_t count;
  int rc = pst_cbor_read_map(r, sizeof totals->drops / sizeof totals->drops[0], &count, "drops");

  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = pst_cbor_read_text(r, 1, sizeof totals->drops[i].cause - 1, totals->drops[i].cause,
                            "a cause");
    if (rc == 0)
      rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &totals->drops[i].messages, "drops");
  }
  if (rc == 0)
    totals->drop_count = (uint32_t)count;
  return rc;
}

static int read_totals(struct pst_cbor_reader *r, struct control_totals *totals)
{
  uint64_t count, key, last = 0;
  int rc = pst_cbor_read_map(r, PST_CBOR_ITEMS_MAX, &count, "totals");

  wire_totals_unknown(totals);
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &key, "key of totals");
    if (rc < 0)
      break;
    if (i > 0 && key <= last)
      return pst_cbor_wrong(r, "keys of totals are not in order");
    last = key;
    if (key < WIRE_TOTAL_BLOCKED)
      rc = pst_cbor_read_uint(r, 0, UINT64_MAX, wire_total_at(totals, (uint32_t)key), "totals");
    else if (key == WIRE_TOTAL_BLOCKED)
      rc = read_blocked(r, totals);
    else if (key == WIRE_TOTAL_DROPS)
      rc = read_drops(r, totals);
    else if (key == WIRE_TOTAL_STOPPED)
      rc = pst_cbor_read_u32(r, 0, UINT32_MAX, &totals->stopped, "stopped");
    else
      rc = pst_cbor_skip(r, 1);
  }
  return rc;
}

static int read_version(struct pst_cbor_reader *r, struct wire_message *m)
{
  struct pst_cbor_item item;
  int rc = pst_cbor_read(r, PST_CBOR_ARRAY, &item, "version");

  if (rc < 0)
    return rc;
  if (item.value != 2)
    return pst_cbor_wrong(r, "version has %llu parts instead of 2", (unsigned long long)item.value);
  rc = pst_cbor_read_u32(r, 0, UINT32_MAX, &m->major, "major version");
  return rc == 0 ? pst_cbor_read_u32(r, 0, UINT32_MAX, &m->minor, "minor version") : rc;
}

static int read_token(struct pst_cbor_reader *r, struct wire_message *m)
{
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  int rc = pst_cbor_read_bytes(r, WIRE_TOKEN_BYTES, WIRE_TOKEN_BYTES, &bytes, &length, "token");

  if (rc < 0)
    return rc;
  memcpy(m->token, bytes, WIRE_TOKEN_BYTES);
  m->has_token = true;
  return 0;
}

static int read_hello(struct pst_cbor_reader *r, struct wire_message *m, uint64_t key)
{
  char magic[sizeof WIRE_MAGIC];
  uint64_t count;
  int rc;

  m->has_identity |= key == WIRE_KEY_HOST || key == WIRE_KEY_PID || key == WIRE_KEY_LIBRARY;
  switch (key) {
  case WIRE_KEY_MAGIC:
    rc = pst_cbor_read_text(r, 0, sizeof magic - 1, magic, "magic");
    return rc == 0 && strcmp(magic, WIRE_MAGIC) != 0 ? pst_cbor_wrong(r, "its magic is not ours")
                                                     : rc;
  case WIRE_KEY_VERSION:
    return read_version(r, m);
  case WIRE_KEY_AUTH:
    rc = pst_cbor_read_map(r, PST_CBOR_ITEMS_MAX, &count, "auth");
    for (uint64_t i = 2 * count; i > 0 && rc == 0; i--)
      rc = pst_cbor_skip(r, 2);
    return rc;
  case WIRE_KEY_ROLE:
    return pst_cbor_read_u32(r, 0, WIRE_SENDER | WIRE_RECEIVER | WIRE_NODE, &m->role, "role");
  case WIRE_KEY_HOST:
    return pst_cbor_read_text(r, 0, WIRE_HOST_MAX, m->host, "host");
  case WIRE_KEY_PID:
    return pst_cbor_read_uint(r, 0, UINT64_MAX, &m->pid, "pid");
  case WIRE_KEY_LIBRARY:
    return pst_cbor_read_text(r, 0, sizeof m->library - 1, m->library, "library");
  case WIRE_KEY_SIDE:
    return pst_cbor_read_text(r, 1, WIRE_SIDE_MAX, m->side, "side-socket");
  default:
    return read_token(r, m);
  }
}

static int read_value(struct pst_cbor_reader *r, struct wire_message *m, uint64_t key)
{
  uint64_t value;
  int rc;

  switch (key) {
  case WIRE_KEY_STREAM:
    return pst_cbor_read_text(r, 1, WIRE_STREAM_MAX, m->stream, "stream");
  case WIRE_KEY_TERMS:
    return read_pairs(r, m->terms, CONTROL_TERMS_MAX, &m->term_count, "terms");
  case WIRE_KEY_PARAMS:
    return read_pairs(r, m->params, CONTROL_PARAMS_MAX, &m->param_count, "params");
  case WIRE_KEY_ADDRESS:
    return pst_cbor_read_bytes(r, 0, CONTROL_ADDRESS_MAX, &m->blob, &m->blob_length, "address");
  case WIRE_KEY_FD_ID:
    return pst_cbor_read_uint(r, 0, UINT64_MAX, &m->fd_id, "descriptors' id");
  case WIRE_KEY_FD_COUNT:
    return pst_cbor_read_u32(r, 0, WIRE_FDS_MAX, &m->fd_count, "number of descriptors");
  case WIRE_KEY_TOTALS:
    m->has_totals = true;
    return read_totals(r, &m->totals);
  case WIRE_KEY_CODE:
    if ((rc = pst_cbor_read_uint(r, 0, 4095, &value, "code")) == 0)
      m->code = value == 0 ? -EPROTO : -(int)value;
    return rc;
  case WIRE_KEY_TEXT:
    return pst_cbor_read_text(r, 0, WIRE_TEXT_MAX, m->text, "text");
  case WIRE_KEY_REMOTE:
    return pst_cbor_read_bytes(r, 0, CONTROL_ADDRESS_MAX, &m->blob, &m->blob_length, "region");
  case WIRE_KEY_REMOTE_LENGTH:
    return pst_cbor_read_uint(r, 1, UINT64_MAX, &m->region_length, "region's length");
  case WIRE_KEY_REMOTE_FD_COUNT:
    return pst_cbor_read_u32(r, 0, WIRE_FDS_MAX, &m->fd_count,
                             "number of the region's descriptors");
  case WIRE_KEY_REGION_ID:
    return pst_cbor_read_u32(r, 1, UINT32_MAX, &m->region_id, "region's number");
  case WIRE_KEY_ACCESS:
    return pst_cbor_read_u32(r, 0, UINT32_MAX, &m->access, "access");
  case WIRE_KEY_PAYLOAD:
    return pst_cbor_read_bytes(r, 0, WIRE_PAYLOAD_MAX, &m->payload, &m->payload_length, "payload");
  case WIRE_KEY_COUNT:
    return pst_cbor_read_u32(r, 1, UINT32_MAX, &m->count, "count");
  default:
    return read_hello(r, m, key);
  }
}

static int read_any(struct pst_cbor_reader *r, void *message, uint32_t key)
{
  return read_value(r, message, key);
}

static bool of_other_major(const void *message, uint32_t seen)
{
  return (seen & 1u << WIRE_KEY_VERSION) != 0 &&
         ((const struct wire_message *)message)->major != WIRE_MAJOR;
}

static int check_parts(struct pst_cbor_reader *r, const struct wire_message *m, uint32_t seen)
{
  if (of_other_major(m, seen))
    return seen & 1u << WIRE_KEY_MAGIC ? 0 : pst_cbor_wrong(r, "HELLO has no magic");
  if (m->fd_count > 0 && !(seen & 1u << WIRE_KEY_FD_ID))
    return pst_cbor_wrong(r, "descriptors without an id");
  return 0;
}

int wire_decode(const uint8_t *body, size_t length, struct wire_message *m, char why[WIRE_WHY_MAX])
{
  const struct pst_cbor_protocol protocol = {
      .forms = wire_forms, .types = WIRE_TYPES, .read = read_any, .foreign = of_other_major};
  struct pst_cbor_reader r = {.bytes = body, .left = length, .why = why};
  uint32_t seen = 0;

  memset(m, 0, sizeof *m);
  int rc = pst_cbor_read_message(&r, &protocol, m, &m->type, &seen);
  return rc < 0 ? rc : check_parts(&r, m, seen);
}
