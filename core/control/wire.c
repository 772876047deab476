/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel's messages as bytes: a table says of each key where its value lies. */
#include "wire.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "util/cbor_message.h"

#define BIT(key) (1u << WIRE_KEY_##key)
#define OF_STREAM (BIT(TYPE) | BIT(STREAM))
#define FDS (BIT(FD_ID) | BIT(FD_COUNT))

static const struct pst_cbor_form wire_forms[WIRE_TYPES] = {
    [WIRE_HELLO] = {"HELLO", BIT(TYPE) | BIT(MAGIC) | BIT(VERSION) | BIT(AUTH) | BIT(ROLE),
                    BIT(HOST) | BIT(PID) | BIT(LIBRARY) | BIT(UNIX_PATH) | BIT(TOKEN)},
    [WIRE_OFFER] = {"OFFER", OF_STREAM | BIT(TERMS) | BIT(PARAMS) | BIT(ADDRESS), FDS},
    [WIRE_ACCEPT] = {"ACCEPT", OF_STREAM | BIT(PARAMS) | BIT(ADDRESS), FDS},
    [WIRE_REFUSE] = {"REFUSE", OF_STREAM | BIT(CODE) | BIT(TEXT), 0},
    [WIRE_ADDRESS] = {"ADDRESS", OF_STREAM | BIT(ADDRESS), FDS},
    [WIRE_BEAT] = {"BEAT", OF_STREAM | BIT(TOTALS), 0},
    [WIRE_FINISH] = {"FINISH", OF_STREAM | BIT(TOTALS), 0},
    [WIRE_COUNTS] = {"COUNTS", OF_STREAM | BIT(TOTALS), 0},
    [WIRE_FAIL] = {"FAIL", OF_STREAM | BIT(CODE) | BIT(TEXT), BIT(TOTALS)},
    [WIRE_KEEP] = {"KEEP", BIT(TYPE), 0},
    [WIRE_BYE] = {"BYE", BIT(TYPE), BIT(CODE) | BIT(TEXT)},
    [WIRE_JOIN] = {"JOIN", BIT(TYPE) | BIT(TERMS) | BIT(PARAMS) | BIT(ADDRESS), FDS},
    [WIRE_WELCOME] = {"WELCOME", BIT(TYPE) | BIT(PARAMS) | BIT(ADDRESS), FDS},
    [WIRE_REGION] = {"REGION",
                     BIT(TYPE) | BIT(REMOTE) | BIT(REMOTE_LENGTH) | BIT(REGION_ID) | BIT(ACCESS),
                     BIT(FD_ID) | BIT(REMOTE_FD_COUNT)},
    [WIRE_TAKEN] = {"TAKEN", BIT(TYPE) | BIT(REGION_ID), BIT(CODE) | BIT(TEXT)},
    [WIRE_WITHDRAW] = {"WITHDRAW", BIT(TYPE) | BIT(REGION_ID), 0},
    [WIRE_MESSAGE] = {"MESSAGE", BIT(TYPE) | BIT(PAYLOAD), 0},
    [WIRE_ROOM] = {"ROOM", BIT(TYPE) | BIT(COUNT), 0},
    [WIRE_READDRESS] = {"READDRESS", BIT(TYPE) | BIT(ADDRESS), FDS},
};

const char *wire_type_name(uint32_t type)
{
  return type < WIRE_TYPES && wire_forms[type].name ? wire_forms[type].name : "unknown";
}

/* ---- Totals --------------------------------------------------------------------- */

#define TOTAL(member) offsetof(struct control_totals, member)

uint64_t *wire_total_at(struct control_totals *totals, uint32_t key)
{
  static const size_t at[WIRE_TOTAL_BLOCKED] = {
      [WIRE_TOTAL_MESSAGES] = TOTAL(messages),
      [WIRE_TOTAL_BYTES] = TOTAL(bytes),
      [WIRE_TOTAL_LAST_SEQUENCE] = TOTAL(last_sequence),
      [WIRE_TOTAL_DUPLICATES] = TOTAL(duplicates),
      [WIRE_TOTAL_REORDERED] = TOTAL(reordered),
      [WIRE_TOTAL_VERIFIED] = TOTAL(verified),
      [WIRE_TOTAL_CORRUPTED] = TOTAL(corrupted),
      [WIRE_TOTAL_RUNNING] = TOTAL(running_ns),
  };

  return (void *)((uint8_t *)totals + at[key]);
}

void wire_totals_unknown(struct control_totals *totals)
{
  memset(totals, 0, sizeof(*totals));
  for (uint32_t key = 0; key < WIRE_TOTAL_BLOCKED; key++)
    *wire_total_at(totals, key) = UINT64_MAX;
  for (uint32_t stage = 0; stage < PST_STAGES; stage++)
    totals->blocked_ns[stage] = UINT64_MAX;
}

/* A key and its number, if that is known. Without a writer: how many there would be. */
static uint32_t wire_write_known(struct pst_cbor_writer *w, uint32_t key, uint64_t value)
{
  if (value == UINT64_MAX)
    return 0;
  if (w) {
    pst_cbor_write_uint(w, key);
    pst_cbor_write_uint(w, value);
  }
  return 1;
}

static uint32_t wire_write_numbers(struct pst_cbor_writer *w, struct control_totals *totals)
{
  uint32_t count = 0;

  for (uint32_t key = 0; key < WIRE_TOTAL_BLOCKED; key++)
    count += wire_write_known(w, key, *wire_total_at(totals, key));
  return count;
}

static uint32_t wire_write_stages(struct pst_cbor_writer *w, const struct control_totals *totals)
{
  uint32_t count = 0;

  for (uint32_t stage = 0; stage < PST_STAGES; stage++)
    count += wire_write_known(w, stage, totals->blocked_ns[stage]);
  return count;
}

static void wire_write_totals(struct pst_cbor_writer *w, const struct control_totals *from)
{
  struct control_totals totals = *from;
  const bool has_stopped = totals.stopped != PST_STOP_UNKNOWN;

  pst_cbor_write_map(w, wire_write_numbers(NULL, &totals) + 2 + has_stopped);
  wire_write_numbers(w, &totals);
  pst_cbor_write_uint(w, WIRE_TOTAL_BLOCKED);
  pst_cbor_write_map(w, wire_write_stages(NULL, &totals));
  wire_write_stages(w, &totals);
  pst_cbor_write_uint(w, WIRE_TOTAL_DROPS);
  pst_cbor_write_map(w, totals.drop_count);
  for (uint32_t i = 0; i < totals.drop_count; i++) {
    pst_cbor_write_text(w, totals.drops[i].cause, sizeof(totals.drops[i].cause) - 1);
    pst_cbor_write_uint(w, totals.drops[i].messages);
  }
  if (has_stopped)
    wire_write_known(w, WIRE_TOTAL_STOPPED, totals.stopped);
}

static int wire_read_blocked(struct pst_cbor_reader *r, struct control_totals *totals)
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

static int wire_read_drops(struct pst_cbor_reader *r, struct control_totals *totals)
{
  uint64_t count;
  int rc = pst_cbor_read_map(r, sizeof(totals->drops) / sizeof(totals->drops[0]), &count, "drops");

  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = pst_cbor_read_text(r, 1, sizeof(totals->drops[i].cause) - 1, totals->drops[i].cause,
                            "a cause");
    if (rc == 0)
      rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &totals->drops[i].messages, "drops");
  }
  if (rc == 0)
    totals->drop_count = (uint32_t)count;
  return rc;
}

static int wire_read_totals(struct pst_cbor_reader *r, struct control_totals *totals)
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
      rc = wire_read_blocked(r, totals);
    else if (key == WIRE_TOTAL_DROPS)
      rc = wire_read_drops(r, totals);
    else if (key == WIRE_TOTAL_STOPPED)
      rc = pst_cbor_read_u32(r, 0, UINT32_MAX, &totals->stopped, "stopped");
    else
      rc = pst_cbor_skip(r, 1);
  }
  return rc;
}

/* ---- Values ---------------------------------------------------------------------- */

static int wire_read_version(struct pst_cbor_reader *r, struct wire_message *m)
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

static void wire_write_pairs(struct pst_cbor_writer *w, const struct control_pair *pairs,
                             uint32_t count)
{
  pst_cbor_write_map(w, count);
  for (uint32_t i = 0; i < count; i++) {
    pst_cbor_write_text(w, pairs[i].key, CONTROL_KEY_MAX);
    pst_cbor_write_text(w, pairs[i].value, CONTROL_VALUE_MAX);
  }
}

static int wire_read_pairs(struct pst_cbor_reader *r, struct control_pair *pairs, uint64_t max,
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

/* ---- The table ------------------------------------------------------------------- */

enum wire_kind { WIRE_OWN, WIRE_U32, WIRE_U64, WIRE_TEXT, WIRE_FIXED, WIRE_BYTES, WIRE_PAIRS };

/* The value of a key (except those of kind OWN): its place in a message, and the bounds of the
 * number, of the length of a text or of bytes, or of how many pairs there are. */
struct wire_field {
  enum wire_kind kind; /* OWN: wire_write_own(), wire_read_own() */
  const char *name;
  uint64_t least, most;
  size_t at, count_at;
};

#define AT(member) offsetof(struct wire_message, member)
#define BLOB AT(blob), AT(blob_length)

static const struct wire_field wire_fields[WIRE_KEYS] = {
    [WIRE_KEY_TYPE] = {WIRE_U32, "type", 0, UINT32_MAX, AT(type)},
    [WIRE_KEY_ROLE] = {WIRE_U32, "role", 0, WIRE_SENDER | WIRE_RECEIVER | WIRE_NODE, AT(role)},
    [WIRE_KEY_HOST] = {WIRE_TEXT, "host", 0, WIRE_HOST_MAX, AT(host)},
    [WIRE_KEY_PID] = {WIRE_U64, "pid", 0, UINT64_MAX, AT(pid)},
    [WIRE_KEY_LIBRARY] = {WIRE_TEXT, "library", 0, WIRE_LIBRARY_MAX, AT(library)},
    [WIRE_KEY_UNIX_PATH] = {WIRE_TEXT, "Unix socket", 1, WIRE_UNIX_PATH_MAX, AT(unix_path)},
    [WIRE_KEY_TOKEN] = {WIRE_FIXED, "token", WIRE_TOKEN_BYTES, WIRE_TOKEN_BYTES, AT(token)},
    [WIRE_KEY_STREAM] = {WIRE_TEXT, "stream", 1, WIRE_STREAM_MAX, AT(stream)},
    [WIRE_KEY_TERMS] = {WIRE_PAIRS, "terms", 0, CONTROL_TERMS_MAX, AT(terms), AT(term_count)},
    [WIRE_KEY_PARAMS] = {WIRE_PAIRS, "params", 0, CONTROL_PARAMS_MAX, AT(params), AT(param_count)},
    [WIRE_KEY_ADDRESS] = {WIRE_BYTES, "address", 0, CONTROL_ADDRESS_MAX, BLOB},
    [WIRE_KEY_FD_ID] = {WIRE_U64, "descriptors' id", 0, UINT64_MAX, AT(fd_id)},
    [WIRE_KEY_FD_COUNT] = {WIRE_U32, "number of descriptors", 0, WIRE_FDS_MAX, AT(fd_count)},
    [WIRE_KEY_TEXT] = {WIRE_TEXT, "text", 0, WIRE_TEXT_MAX, AT(text)},
    [WIRE_KEY_REMOTE] = {WIRE_BYTES, "region", 0, CONTROL_ADDRESS_MAX, BLOB},
    [WIRE_KEY_REMOTE_LENGTH] = {WIRE_U64, "region's length", 1, UINT64_MAX, AT(region_length)},
    [WIRE_KEY_REMOTE_FD_COUNT] = {WIRE_U32, "number of the region's descriptors", 0, WIRE_FDS_MAX,
                                  AT(fd_count)},
    [WIRE_KEY_REGION_ID] = {WIRE_U32, "region's number", 1, UINT32_MAX, AT(region_id)},
    [WIRE_KEY_ACCESS] = {WIRE_U32, "access", 0, UINT32_MAX, AT(access)},
    [WIRE_KEY_PAYLOAD] = {WIRE_BYTES, "payload", 0, WIRE_PAYLOAD_MAX, BLOB},
    [WIRE_KEY_COUNT] = {WIRE_U32, "count", 1, UINT32_MAX, AT(count)},
};

static void wire_write_own(struct pst_cbor_writer *w, const struct wire_message *m, uint32_t key)
{
  switch (key) {
  case WIRE_KEY_MAGIC:
    pst_cbor_write_text(w, WIRE_MAGIC, sizeof(WIRE_MAGIC) - 1);
    break;
  case WIRE_KEY_VERSION:
    pst_cbor_write_array(w, 2);
    pst_cbor_write_uint(w, m->major);
    pst_cbor_write_uint(w, m->minor);
    break;
  case WIRE_KEY_AUTH:
    pst_cbor_write_map(w, 0);
    break;
  case WIRE_KEY_TOTALS:
    wire_write_totals(w, &m->totals);
    break;
  default:
    pst_cbor_write_uint(w, m->code < 0 ? (uint64_t) - (int64_t)m->code : EPROTO);
    break;
  }
}

static int wire_read_own(struct pst_cbor_reader *r, struct wire_message *m, uint32_t key)
{
  char magic[sizeof(WIRE_MAGIC)];
  uint64_t value;
  int rc;

  switch (key) {
  case WIRE_KEY_MAGIC:
    rc = pst_cbor_read_text(r, 0, sizeof(magic) - 1, magic, "magic");
    return rc == 0 && strcmp(magic, WIRE_MAGIC) != 0 ? pst_cbor_wrong(r, "its magic is not ours")
                                                     : rc;
  case WIRE_KEY_VERSION:
    return wire_read_version(r, m);
  case WIRE_KEY_AUTH:
    rc = pst_cbor_read_map(r, PST_CBOR_ITEMS_MAX, &value, "auth");
    for (uint64_t i = 2 * value; i > 0 && rc == 0; i--)
      rc = pst_cbor_skip(r, 2);
    return rc;
  case WIRE_KEY_TOTALS:
    return wire_read_totals(r, &m->totals);
  default:
    if ((rc = pst_cbor_read_uint(r, 0, 4095, &value, "code")) == 0)
      m->code = value == 0 ? -EPROTO : -(int)value;
    return rc;
  }
}

static int wire_read_fixed(struct pst_cbor_reader *r, void *to, size_t size, const char *name)
{
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  int rc = pst_cbor_read_bytes(r, size, size, &bytes, &length, name);

  if (rc == 0)
    memcpy(to, bytes, size);
  return rc;
}

/* Returns the number that a field's bounds apply to: its count, if it has one, or its value. */
static uint64_t wire_number(const struct wire_message *m, const struct wire_field *f)
{
  const void *at = (const uint8_t *)m + (f->count_at ? f->count_at : f->at);

  return f->kind == WIRE_U64 ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/* Within its bounds; texts are cut. */
static bool wire_is_legal(const struct wire_message *m, const struct wire_field *f)
{
  return f->kind == WIRE_OWN || f->kind == WIRE_TEXT || f->kind == WIRE_FIXED ||
         (wire_number(m, f) >= f->least && wire_number(m, f) <= f->most);
}

static void wire_write_value(struct pst_cbor_writer *w, const struct wire_message *m, uint32_t key)
{
  const struct wire_field *f = &wire_fields[key];
  const void *at = (const uint8_t *)m + f->at;

  switch (f->kind) {
  case WIRE_U32:
  case WIRE_U64:
    pst_cbor_write_uint(w, wire_number(m, f));
    break;
  case WIRE_TEXT:
    pst_cbor_write_text(w, at, f->most);
    break;
  case WIRE_FIXED:
    pst_cbor_write_bytes(w, at, f->most);
    break;
  case WIRE_BYTES:
    pst_cbor_write_bytes(w, *(const uint8_t *const *)at, wire_number(m, f));
    break;
  case WIRE_PAIRS:
    wire_write_pairs(w, at, (uint32_t)wire_number(m, f));
    break;
  case WIRE_OWN:
    wire_write_own(w, m, key);
    break;
  }
}

static int wire_read_value(struct pst_cbor_reader *r, void *message, uint32_t key)
{
  const struct wire_field *f = &wire_fields[key];
  void *at = (uint8_t *)message + f->at, *count = (uint8_t *)message + f->count_at;

  switch (f->kind) {
  case WIRE_U32:
    return pst_cbor_read_u32(r, (uint32_t)f->least, (uint32_t)f->most, at, f->name);
  case WIRE_U64:
    return pst_cbor_read_uint(r, f->least, f->most, at, f->name);
  case WIRE_TEXT:
    return pst_cbor_read_text(r, f->least, f->most, at, f->name);
  case WIRE_FIXED:
    return wire_read_fixed(r, at, f->most, f->name);
  case WIRE_BYTES:
    return pst_cbor_read_bytes(r, f->least, f->most, at, count, f->name);
  case WIRE_PAIRS:
    return wire_read_pairs(r, at, f->most, count, f->name);
  default:
    return wire_read_own(r, message, key);
  }
}

/* ---- Messages -------------------------------------------------------------------- */

/* The keys that it has, as bits. */
static uint32_t wire_keys(const struct wire_message *m)
{
  const struct pst_cbor_form *form = &wire_forms[m->type];
  const uint32_t present = (m->has_identity ? BIT(HOST) | BIT(PID) | BIT(LIBRARY) : 0) |
                           (m->unix_path[0] ? BIT(UNIX_PATH) : 0) |
                           (m->has_token ? BIT(TOKEN) : 0) | (m->has_totals ? BIT(TOTALS) : 0) |
                           (m->fd_count ? FDS | BIT(REMOTE_FD_COUNT) : 0) |
                           (m->code < 0 ? BIT(CODE) | BIT(TEXT) : 0);

  return form->needs | (form->may & present);
}

int wire_encode(const struct wire_message *m, uint8_t *frame, size_t size, size_t *length)
{
  const size_t room = size < WIRE_HEADER_BYTES ? 0 : size - WIRE_HEADER_BYTES;
  struct pst_cbor_writer w = {.bytes = frame + WIRE_HEADER_BYTES,
                              .size = room < WIRE_BODY_MAX ? room : WIRE_BODY_MAX};

  if (m->type >= WIRE_TYPES || !wire_forms[m->type].name ||
      m->totals.drop_count > sizeof(m->totals.drops) / sizeof(m->totals.drops[0]))
    return -EINVAL;
  const uint32_t keys = wire_keys(m);
  pst_cbor_write_map(&w, (size_t)__builtin_popcount(keys));
  for (uint32_t key = 0; key < WIRE_KEYS; key++) {
    if (!(keys & 1u << key))
      continue;
    if (!wire_is_legal(m, &wire_fields[key]))
      return -EINVAL;
    pst_cbor_write_uint(&w, key);
    wire_write_value(&w, m, key);
  }
  if (w.full)
    return -E2BIG;
  for (uint32_t i = 0; i < WIRE_HEADER_BYTES; i++)
    frame[i] = (uint8_t)(w.at >> (24 - 8 * i));
  *length = WIRE_HEADER_BYTES + w.at;
  return 0;
}

static bool wire_of_other_major(const void *message, uint32_t seen)
{
  return (seen & BIT(VERSION)) != 0 && ((const struct wire_message *)message)->major != WIRE_MAJOR;
}

int wire_decode(const uint8_t *body, size_t length, struct wire_message *m, char why[WIRE_WHY_MAX])
{
  const struct pst_cbor_protocol protocol = {.forms = wire_forms,
                                             .types = WIRE_TYPES,
                                             .read = wire_read_value,
                                             .foreign = wire_of_other_major};
  struct pst_cbor_reader r = {.bytes = body, .left = length, .why = why};
  uint32_t seen = 0;

  memset(m, 0, sizeof(*m));
  int rc = pst_cbor_read_message(&r, &protocol, m, &m->type, &seen);
  if (rc < 0)
    return rc;
  m->has_identity = seen & (BIT(HOST) | BIT(PID) | BIT(LIBRARY));
  m->has_token = seen & BIT(TOKEN);
  m->has_totals = seen & BIT(TOTALS);
  if (wire_of_other_major(m, seen))
    return seen & BIT(MAGIC) ? 0 : pst_cbor_wrong(&r, "HELLO has no magic");
  if (m->fd_count > 0 && !(seen & BIT(FD_ID)))
    return pst_cbor_wrong(&r, "descriptors without an id");
  return 0;
}
