/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cbor.h>

#define DEPTH_MAX 4
/* Of a map or array that is skipped; those that are read have bounds of their own. */
#define SKIPPED_ITEMS_MAX 256

enum item_kind {
  ITEM_OTHER, /* legal CBOR that no message of ours has: floats, tags, indefinite lengths, … */
  ITEM_UINT,
  ITEM_BYTES,
  ITEM_TEXT,
  ITEM_ARRAY,
  ITEM_MAP,
  ITEM_BOOL,
  ITEM_SIMPLE, /* negative number, null: legal in what is skipped */
};

struct item {
  enum item_kind kind;
  uint64_t value; /* the number, the boolean, the count, or the length */
  const uint8_t *bytes;
};

struct reader {
  const uint8_t *bytes;
  size_t left;
  char *why;
};

static int wrong(struct reader *r, const char *format, ...) PST_PRINTF(2, 3);

static int wrong(struct reader *r, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  vsnprintf(r->why, WIRE_WHY_MAX, format, args);
  va_end(args);
  return -EPROTO;
}

/* ---- libcbor's callbacks: one item each ---------------------------------------- */

static void set(void *context, enum item_kind kind, uint64_t value)
{
  struct item *item = context;

  item->kind = kind;
  item->value = value;
}

static void on_uint8(void *context, uint8_t value)
{
  set(context, ITEM_UINT, value);
}

static void on_uint16(void *context, uint16_t value)
{
  set(context, ITEM_UINT, value);
}

static void on_uint32(void *context, uint32_t value)
{
  set(context, ITEM_UINT, value);
}

static void on_uint64(void *context, uint64_t value)
{
  set(context, ITEM_UINT, value);
}

static void on_negint8(void *context, uint8_t value)
{
  set(context, ITEM_SIMPLE, value);
}

static void on_negint16(void *context, uint16_t value)
{
  set(context, ITEM_SIMPLE, value);
}

static void on_negint32(void *context, uint32_t value)
{
  set(context, ITEM_SIMPLE, value);
}

static void on_negint64(void *context, uint64_t value)
{
  set(context, ITEM_SIMPLE, value);
}

static void on_bytes(void *context, cbor_data bytes, size_t length)
{
  set(context, ITEM_BYTES, length);
  ((struct item *)context)->bytes = bytes;
}

static void on_text(void *context, cbor_data bytes, size_t length)
{
  set(context, ITEM_TEXT, length);
  ((struct item *)context)->bytes = bytes;
}

static void on_array(void *context, size_t count)
{
  set(context, ITEM_ARRAY, count);
}

static void on_map(void *context, size_t count)
{
  set(context, ITEM_MAP, count);
}

static void on_bool(void *context, bool value)
{
  set(context, ITEM_BOOL, value);
}

static void on_null(void *context)
{
  set(context, ITEM_SIMPLE, 0);
}

static void on_other(void *context)
{
  set(context, ITEM_OTHER, 0);
}

static void on_tag(void *context, uint64_t value)
{
  set(context, ITEM_OTHER, value);
}

static void on_float(void *context, float value)
{
  (void)value;
  set(context, ITEM_OTHER, 0);
}

static void on_double(void *context, double value)
{
  (void)value;
  set(context, ITEM_OTHER, 0);
}

static const struct cbor_callbacks callbacks = {
    .uint8 = on_uint8,
    .uint16 = on_uint16,
    .uint32 = on_uint32,
    .uint64 = on_uint64,
    .negint8 = on_negint8,
    .negint16 = on_negint16,
    .negint32 = on_negint32,
    .negint64 = on_negint64,
    .byte_string_start = on_other,
    .byte_string = on_bytes,
    .string = on_text,
    .string_start = on_other,
    .indef_array_start = on_other,
    .array_start = on_array,
    .indef_map_start = on_other,
    .map_start = on_map,
    .tag = on_tag,
    .float2 = on_float,
    .float4 = on_float,
    .float8 = on_double,
    .undefined = on_other,
    .null = on_null,
    .boolean = on_bool,
    .indef_break = on_other,
};

/* ---- Items ----------------------------------------------------------------------- */

static int next(struct reader *r, struct item *item)
{
  if (r->left == 0)
    return wrong(r, "it ends before its content");
  *item = (struct item){.kind = ITEM_OTHER};
  struct cbor_decoder_result result =
      cbor_stream_decode((cbor_data)r->bytes, r->left, &callbacks, item);
  if (result.status == CBOR_DECODER_NEDATA)
    return wrong(r, "it ends within an item");
  if (result.status != CBOR_DECODER_FINISHED || result.read == 0 || result.read > r->left)
    return wrong(r, "it is not CBOR");
  if (item->kind == ITEM_OTHER)
    return wrong(r, "it has an item that no message has (float, tag, indefinite length)");
  r->bytes += result.read;
  r->left -= result.read;
  return 0;
}

static int next_of(struct reader *r, enum item_kind kind, struct item *item, const char *name)
{
  static const char *const kinds[] = {"",      "number", "byte string", "text",
                                      "array", "map",    "boolean",     ""};
  int rc = next(r, item);

  if (rc == 0 && item->kind != kind)
    rc = wrong(r, "%s is not a %s", name, kinds[kind]);
  return rc;
}

static int next_uint(struct reader *r, uint64_t max, uint64_t *value, const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_UINT, &item, name);

  if (rc < 0)
    return rc;
  if (item.value > max)
    return wrong(r, "%s is %llu; at most %llu", name, (unsigned long long)item.value,
                 (unsigned long long)max);
  *value = item.value;
  return 0;
}

/* `text` has room for max + 1 bytes. */
static int next_text(struct reader *r, size_t min, size_t max, char *text, const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_TEXT, &item, name);

  if (rc < 0)
    return rc;
  if (item.value < min || item.value > max)
    return wrong(r, "%s has %llu bytes; %zu to %zu are legal", name, (unsigned long long)item.value,
                 min, max);
  for (size_t i = 0; i < item.value; i++) {
    if (item.bytes[i] < 0x20 || item.bytes[i] == 0x7f)
      return wrong(r, "%s has control characters", name);
  }
  if (item.value > 0)
    memcpy(text, item.bytes, item.value);
  text[item.value] = '\0';
  return 0;
}

static int next_map(struct reader *r, size_t max, uint64_t *count, const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_MAP, &item, name);

  if (rc < 0)
    return rc;
  if (item.value > max)
    return wrong(r, "%s has %llu entries; at most %zu", name, (unsigned long long)item.value, max);
  *count = item.value;
  return 0;
}

static int skip(struct reader *r, int depth)
{
  struct item item;
  int rc = next(r, &item);

  if (rc < 0 || (item.kind != ITEM_ARRAY && item.kind != ITEM_MAP))
    return rc;
  if (depth >= DEPTH_MAX)
    return wrong(r, "it is nested deeper than %d", DEPTH_MAX);
  if (item.value > SKIPPED_ITEMS_MAX)
    return wrong(r, "a part has %llu entries; at most %d", (unsigned long long)item.value,
                 SKIPPED_ITEMS_MAX);
  for (uint64_t i = item.kind == ITEM_MAP ? 2 * item.value : item.value; i > 0 && rc == 0; i--)
    rc = skip(r, depth + 1);
  return rc;
}

/* ---- Parts ------------------------------------------------------------------------ */

static int read_pairs(struct reader *r, struct control_pair *pairs, uint32_t max, uint32_t *count,
                      const char *name)
{
  uint64_t n;
  int rc = next_map(r, max, &n, name);

  for (uint64_t i = 0; i < n && rc == 0; i++) {
    rc = next_text(r, 1, CONTROL_KEY_MAX, pairs[i].key, "a key");
    if (rc == 0)
      rc = next_text(r, 0, CONTROL_VALUE_MAX, pairs[i].value, pairs[i].key);
    for (uint64_t j = 0; j < i && rc == 0; j++) {
      if (strcmp(pairs[i].key, pairs[j].key) == 0)
        rc = wrong(r, "%s has the key '%s' twice", name, pairs[i].key);
    }
  }
  if (rc == 0)
    *count = (uint32_t)n;
  return rc;
}

static int read_blocked(struct reader *r, struct control_totals *totals)
{
  uint64_t count, stage, value;
  int rc = next_map(r, SKIPPED_ITEMS_MAX, &count, "blocked");

  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = next_uint(r, UINT64_MAX, &stage, "stage");
    if (rc == 0)
      rc = next_uint(r, UINT64_MAX, &value, "blocked time");
    if (rc == 0 && stage < PST_STAGES)
      totals->blocked_ns[stage] = value;
  }
  return rc;
}

static int read_drops(struct reader *r, struct control_totals *totals)
{
  uint64_t count;
  int rc = next_map(r, sizeof totals->drops / sizeof totals->drops[0], &count, "drops");

  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = next_text(r, 1, sizeof totals->drops[i].cause - 1, totals->drops[i].cause, "a cause");
    if (rc == 0)
      rc = next_uint(r, UINT64_MAX, &totals->drops[i].messages, "drops");
  }
  if (rc == 0)
    totals->drop_count = (uint32_t)count;
  return rc;
}

static int read_totals(struct reader *r, struct control_totals *totals)
{
  uint64_t count, key, last = 0;
  int rc = next_map(r, SKIPPED_ITEMS_MAX, &count, "totals");

  wire_totals_unknown(totals);
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    rc = next_uint(r, UINT64_MAX, &key, "key of totals");
    if (rc < 0)
      break;
    if (i > 0 && key <= last)
      return wrong(r, "keys of totals are not in order");
    last = key;
    if (key < WIRE_TOTAL_BLOCKED)
      rc = next_uint(r, UINT64_MAX, wire_total_at(totals, (uint32_t)key), "totals");
    else if (key == WIRE_TOTAL_BLOCKED)
      rc = read_blocked(r, totals);
    else if (key == WIRE_TOTAL_DROPS)
      rc = read_drops(r, totals);
    else
      rc = skip(r, 1);
  }
  return rc;
}

static int read_version(struct reader *r, struct wire_message *m)
{
  struct item item;
  uint64_t value;
  int rc = next_of(r, ITEM_ARRAY, &item, "version");

  if (rc < 0)
    return rc;
  if (item.value != 2)
    return wrong(r, "version has %llu parts instead of 2", (unsigned long long)item.value);
  if ((rc = next_uint(r, UINT32_MAX, &value, "major version")) < 0)
    return rc;
  m->major = (uint32_t)value;
  if ((rc = next_uint(r, UINT32_MAX, &value, "minor version")) < 0)
    return rc;
  m->minor = (uint32_t)value;
  return 0;
}

static int read_bytes(struct reader *r, size_t max, const uint8_t **bytes, uint32_t *length,
                      const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_BYTES, &item, name);

  if (rc < 0)
    return rc;
  if (item.value > max)
    return wrong(r, "%s has %llu bytes; at most %zu", name, (unsigned long long)item.value, max);
  *bytes = item.bytes;
  *length = (uint32_t)item.value;
  return 0;
}

static int read_token(struct reader *r, struct wire_message *m)
{
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  int rc = read_bytes(r, WIRE_TOKEN_BYTES, &bytes, &length, "token");

  if (rc < 0)
    return rc;
  if (length != WIRE_TOKEN_BYTES)
    return wrong(r, "token has %u bytes instead of %d", length, WIRE_TOKEN_BYTES);
  memcpy(m->token, bytes, WIRE_TOKEN_BYTES);
  m->has_token = true;
  return 0;
}

static int read_hello(struct reader *r, struct wire_message *m, uint64_t key)
{
  char magic[sizeof WIRE_MAGIC];
  struct item item;
  uint64_t count, value;
  int rc;

  switch (key) {
  case WIRE_KEY_MAGIC:
    rc = next_text(r, 0, sizeof magic - 1, magic, "magic");
    return rc == 0 && strcmp(magic, WIRE_MAGIC) != 0 ? wrong(r, "its magic is not ours") : rc;
  case WIRE_KEY_VERSION:
    return read_version(r, m);
  case WIRE_KEY_AUTH:
    rc = next_map(r, SKIPPED_ITEMS_MAX, &count, "auth");
    for (uint64_t i = 2 * count; i > 0 && rc == 0; i--)
      rc = skip(r, 2);
    return rc;
  case WIRE_KEY_ROLE:
    if ((rc = next_uint(r, WIRE_SENDER | WIRE_RECEIVER | WIRE_NODE, &value, "role")) == 0)
      m->role = (uint32_t)value;
    return rc;
  case WIRE_KEY_HOST:
    return next_text(r, 0, WIRE_HOST_MAX, m->host, "host");
  case WIRE_KEY_PID:
    return next_uint(r, UINT64_MAX, &m->pid, "pid");
  case WIRE_KEY_BOOT:
    return next_text(r, 0, sizeof m->boot_id - 1, m->boot_id, "boot id");
  case WIRE_KEY_LIBRARY:
    return next_text(r, 0, sizeof m->library - 1, m->library, "library");
  case WIRE_KEY_SIDE:
    return next_text(r, 1, WIRE_SIDE_MAX, m->side, "side-socket");
  case WIRE_KEY_TOKEN:
    return read_token(r, m);
  default:
    if ((rc = next_of(r, ITEM_BOOL, &item, "side-socket's state")) == 0)
      m->side_open = item.value != 0;
    return rc;
  }
}

static int read_value(struct reader *r, struct wire_message *m, uint64_t key)
{
  uint64_t value;
  int rc;

  switch (key) {
  case WIRE_KEY_STREAM:
    return next_text(r, 1, WIRE_STREAM_MAX, m->stream, "stream");
  case WIRE_KEY_TERMS:
    return read_pairs(r, m->terms, CONTROL_TERMS_MAX, &m->term_count, "terms");
  case WIRE_KEY_PARAMS:
    return read_pairs(r, m->params, CONTROL_PARAMS_MAX, &m->param_count, "params");
  case WIRE_KEY_ADDRESS:
    return read_bytes(r, CONTROL_ADDRESS_MAX, &m->address, &m->address_length, "address");
  case WIRE_KEY_FD_ID:
    return next_uint(r, UINT64_MAX, &m->fd_id, "descriptors' id");
  case WIRE_KEY_FD_COUNT:
    if ((rc = next_uint(r, WIRE_FDS_MAX, &value, "number of descriptors")) == 0)
      m->fd_count = (uint32_t)value;
    return rc;
  case WIRE_KEY_TOTALS:
    return read_totals(r, &m->totals);
  case WIRE_KEY_CODE:
    if ((rc = next_uint(r, 4095, &value, "code")) == 0)
      m->code = value == 0 ? -EPROTO : -(int)value;
    return rc;
  case WIRE_KEY_TEXT:
    return next_text(r, 0, WIRE_TEXT_MAX, m->text, "text");
  case WIRE_KEY_REMOTE:
    return read_bytes(r, CONTROL_ADDRESS_MAX, &m->remote, &m->remote_bytes, "region");
  case WIRE_KEY_REMOTE_LENGTH:
    if ((rc = next_uint(r, UINT64_MAX, &m->remote_length, "region's length")) == 0 &&
        m->remote_length == 0)
      rc = wrong(r, "region's length is 0");
    return rc;
  case WIRE_KEY_REMOTE_FD_COUNT:
    if ((rc = next_uint(r, WIRE_FDS_MAX, &value, "number of the region's descriptors")) == 0)
      m->remote_fd_count = (uint32_t)value;
    return rc;
  case WIRE_KEY_REGION_ID:
    if ((rc = next_uint(r, UINT32_MAX, &value, "region's number")) == 0)
      m->region_id = (uint32_t)value;
    return rc == 0 && value == 0 ? wrong(r, "region's number is 0") : rc;
  case WIRE_KEY_ACCESS:
    if ((rc = next_uint(r, UINT32_MAX, &value, "access")) == 0)
      m->access = (uint32_t)value;
    return rc;
  default:
    return read_hello(r, m, key);
  }
}

static int check_present(struct reader *r, const struct wire_form *form, uint32_t seen)
{
  for (uint32_t key = 0; key < WIRE_KEYS; key++) {
    if ((form->needs & ~seen) & (1u << key))
      return wrong(r, "%s lacks key %u", form->name, key);
  }
  return 0;
}

static int read_type(struct reader *r, uint64_t count, struct wire_message *m)
{
  uint64_t key, type;
  int rc;

  if (count == 0)
    return wrong(r, "it is empty");
  if ((rc = next_uint(r, UINT64_MAX, &key, "first key")) < 0)
    return rc;
  if (key != WIRE_KEY_TYPE)
    return wrong(r, "its first key is %llu instead of the type's", (unsigned long long)key);
  if ((rc = next_uint(r, UINT32_MAX, &type, "type")) < 0)
    return rc;
  if (!wire_form_of((uint32_t)type))
    return wrong(r, "there is no message type %llu", (unsigned long long)type);
  m->type = (uint32_t)type;
  return 0;
}

int wire_decode(const uint8_t *body, size_t length, struct wire_message *m, char why[WIRE_WHY_MAX])
{
  struct reader r = {.bytes = body, .left = length, .why = why};
  uint64_t count, key, last = WIRE_KEY_TYPE;
  uint32_t seen = 1u << WIRE_KEY_TYPE;

  memset(m, 0, sizeof *m);
  int rc = next_map(&r, SKIPPED_ITEMS_MAX, &count, "it");
  if (rc == 0)
    rc = read_type(&r, count, m);
  if (rc < 0)
    return rc;
  const struct wire_form *form = wire_form_of(m->type);

  for (uint64_t i = 1; i < count; i++) {
    if ((rc = next_uint(&r, UINT64_MAX, &key, "a key")) < 0)
      return rc;
    if (key <= last)
      return wrong(&r, "%s has its keys out of order", form->name);
    last = key;
    bool known = key < WIRE_KEYS && ((form->needs | form->may) & (1u << key));
    rc = known ? read_value(&r, m, key) : skip(&r, 1);
    if (rc < 0)
      return rc;
    if (known)
      seen |= 1u << key;
    if (key == WIRE_KEY_VERSION && known && m->major != WIRE_MAJOR)
      return seen & (1u << WIRE_KEY_MAGIC) ? 0 : wrong(&r, "HELLO has no magic");
  }
  if ((rc = check_present(&r, form, seen)) < 0)
    return rc;
  if ((m->fd_count > 0 || m->remote_fd_count > 0) && !(seen & (1u << WIRE_KEY_FD_ID)))
    return wrong(&r, "descriptors without an id");
  bool has_region = seen & (1u << WIRE_KEY_REMOTE);
  if (has_region != (m->remote_length > 0) || (m->remote_fd_count > 0 && !has_region))
    return wrong(&r, "half of a region is there");
  if (r.left > 0)
    return wrong(&r, "%zu bytes follow its end", r.left);
  return 0;
}
