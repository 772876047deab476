/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cbor.h>

#define DEPTH_MAX 4
#define ITEMS_MAX 256 /* of a map or array */

enum item_kind {
  ITEM_OTHER, /* legal CBOR that no message of ours has: floats, tags, indefinite lengths, … */
  ITEM_UINT,
  ITEM_BYTES,
  ITEM_TEXT,
  ITEM_ARRAY,
  ITEM_MAP,
  ITEM_SIMPLE, /* negative number, boolean, null: legal in what is skipped */
};

struct item {
  enum item_kind kind;
  uint64_t value; /* the number, the count, or the length */
  const uint8_t *bytes;
};

struct reader {
  const uint8_t *bytes;
  size_t left;
  char *why;
};

__attribute__((format(printf, 2, 3))) static int wrong(struct reader *r, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  vsnprintf(r->why, SERVE_WHY_MAX, format, args);
  va_end(args);
  return -EPROTO;
}

/* ---- libcbor's callbacks: one item each ---------------------------------------- */

static void set(void *context, enum item_kind kind, uint64_t value)
{
  *(struct item *)context = (struct item){.kind = kind, .value = value};
}

#define ON(name, type, kind)                                                                       \
  static void name(void *context, type value)                                                      \
  {                                                                                                \
    set(context, kind, (uint64_t)value);                                                           \
  }
ON(on_uint8, uint8_t, ITEM_UINT)
ON(on_uint16, uint16_t, ITEM_UINT)
ON(on_uint32, uint32_t, ITEM_UINT)
ON(on_uint64, uint64_t, ITEM_UINT)
ON(on_negint8, uint8_t, ITEM_SIMPLE)
ON(on_negint16, uint16_t, ITEM_SIMPLE)
ON(on_negint32, uint32_t, ITEM_SIMPLE)
ON(on_negint64, uint64_t, ITEM_SIMPLE)
ON(on_bool, bool, ITEM_SIMPLE)
ON(on_array, size_t, ITEM_ARRAY)
ON(on_map, size_t, ITEM_MAP)
ON(on_tag, uint64_t, ITEM_OTHER)
#undef ON

static void on_bytes(void *context, cbor_data bytes, size_t length)
{
  *(struct item *)context = (struct item){ITEM_BYTES, length, bytes};
}

static void on_text(void *context, cbor_data bytes, size_t length)
{
  *(struct item *)context = (struct item){ITEM_TEXT, length, bytes};
}

static void on_null(void *context)
{
  set(context, ITEM_SIMPLE, 0);
}

static void on_other(void *context)
{
  set(context, ITEM_OTHER, 0);
}

static void on_float(void *context, float value)
{
  (void)value;
  on_other(context);
}

static void on_double(void *context, double value)
{
  (void)value;
  on_other(context);
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
  static const char *const kinds[] = {"", "number", "byte string", "text", "array", "map", ""};
  int rc = next(r, item);

  if (rc == 0 && item->kind != kind)
    rc = wrong(r, "%s is no %s", name, kinds[kind]);
  return rc;
}

static int next_uint(struct reader *r, uint64_t least, uint64_t most, uint64_t *value,
                     const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_UINT, &item, name);

  if (rc < 0)
    return rc;
  if (item.value < least || item.value > most)
    return wrong(r, "%s is %llu; %llu to %llu are legal", name, (unsigned long long)item.value,
                 (unsigned long long)least, (unsigned long long)most);
  *value = item.value;
  return 0;
}

/* A text, for which `text` has room for most + 1 bytes. */
static int next_text(struct reader *r, size_t most, char *text, const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_TEXT, &item, name);

  if (rc < 0)
    return rc;
  if (item.value > most)
    return wrong(r, "%s has %llu bytes; at most %zu", name, (unsigned long long)item.value, most);
  for (size_t i = 0; i < item.value; i++) {
    if (item.bytes[i] < 0x20 || item.bytes[i] == 0x7f)
      return wrong(r, "%s has control characters", name);
  }
  if (item.value > 0)
    memcpy(text, item.bytes, item.value);
  text[item.value] = '\0';
  return 0;
}

/* Bytes that stay where they are. Whether a name is legal is for names.c to say. */
static int next_bytes(struct reader *r, size_t least, size_t most, const uint8_t **bytes,
                      uint32_t *length, const char *name)
{
  struct item item;
  int rc = next_of(r, ITEM_BYTES, &item, name);

  if (rc < 0)
    return rc;
  if (item.value < least || item.value > most)
    return wrong(r, "%s has %llu bytes; %zu to %zu are legal", name, (unsigned long long)item.value,
                 least, most);
  *bytes = item.bytes;
  *length = (uint32_t)item.value;
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
  if (item.value > ITEMS_MAX)
    return wrong(r, "a part has %llu entries; at most %d", (unsigned long long)item.value,
                 ITEMS_MAX);
  for (uint64_t i = item.kind == ITEM_MAP ? 2 * item.value : item.value; i > 0 && rc == 0; i--)
    rc = skip(r, depth + 1);
  return rc;
}

/* ---- Values ----------------------------------------------------------------------- */

static int read_magic(struct reader *r)
{
  char magic[sizeof SERVE_MAGIC];
  int rc = next_text(r, sizeof magic - 1, magic, "magic");

  return rc == 0 && strcmp(magic, SERVE_MAGIC) != 0 ? wrong(r, "its magic is not ours") : rc;
}

static int read_sha256(struct reader *r, struct serve_message *m)
{
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  int rc = next_bytes(r, SERVE_SHA256_BYTES, SERVE_SHA256_BYTES, &bytes, &length, "sha256");

  if (rc < 0)
    return rc;
  memcpy(m->sha256, bytes, SERVE_SHA256_BYTES);
  m->has_sha256 = true;
  return 0;
}

static int read_entries(struct reader *r, struct serve_message *m)
{
  struct item item;
  uint64_t kind = 0;
  int rc = next_of(r, ITEM_ARRAY, &item, "entries");

  if (rc < 0)
    return rc;
  if (item.value % 2 != 0 || item.value > 2 * SERVE_ENTRIES_MAX)
    return wrong(r, "entries has %llu items; an even number up to %u is legal",
                 (unsigned long long)item.value, 2 * SERVE_ENTRIES_MAX);
  for (uint32_t i = 0; i < item.value / 2 && rc == 0; i++) {
    struct serve_entry *entry = &m->entries[i];
    rc = next_uint(r, SERVE_KIND_FILE, SERVE_KIND_OTHER, &kind, "an entry's kind");
    if (rc == 0)
      rc = next_bytes(r, 1, SERVE_NAME_MAX, &entry->name, &entry->length, "an entry's name");
    entry->kind = (uint32_t)kind;
  }
  if (rc == 0)
    m->entry_count = (uint32_t)(item.value / 2);
  return rc;
}

static int read_number(struct reader *r, struct serve_message *m, uint64_t key)
{
  const struct serve_field *field = &serve_fields[key];
  uint8_t *at = (uint8_t *)m + field->at;
  uint64_t value = 0;
  int rc = next_uint(r, field->least, field->most, &value, field->name);

  if (rc < 0)
    return rc;
  if (field->bytes == sizeof(uint32_t))
    memcpy(at, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
  else
    memcpy(at, &value, sizeof value);
  return 0;
}

static int read_value(struct reader *r, struct serve_message *m, uint64_t key)
{
  switch (key) {
  case SERVE_KEY_MAGIC:
    return read_magic(r);
  case SERVE_KEY_PROGRAM:
    return next_text(r, SERVE_PROGRAM_MAX, m->program, "program");
  case SERVE_KEY_NAME:
    return next_bytes(r, 0, SERVE_NAME_MAX, &m->name, &m->name_length, "name");
  case SERVE_KEY_SHA256:
    return read_sha256(r, m);
  case SERVE_KEY_TEXT:
    return next_text(r, SERVE_TEXT_MAX, m->text, "text");
  case SERVE_KEY_ENTRIES:
    return read_entries(r, m);
  default:
    return read_number(r, m, key);
  }
}

static int read_type(struct reader *r, uint64_t count, struct serve_message *m)
{
  uint64_t key = 0, type = 0;
  int rc;

  if (count == 0)
    return wrong(r, "it is empty");
  if ((rc = next_uint(r, 0, UINT64_MAX, &key, "first key")) < 0)
    return rc;
  if (key != SERVE_KEY_TYPE)
    return wrong(r, "its first key is %llu instead of the type's", (unsigned long long)key);
  if ((rc = next_uint(r, 0, UINT32_MAX, &type, "type")) < 0)
    return rc;
  if (serve_form_of((uint32_t)type) == NULL)
    return wrong(r, "there is no message type %llu", (unsigned long long)type);
  m->type = (uint32_t)type;
  return 0;
}

static bool other_major(const struct serve_message *m, uint32_t seen)
{
  const uint32_t both = 1u << SERVE_KEY_MAGIC | 1u << SERVE_KEY_MINOR;

  return (seen & both) == both && m->major != SERVE_MAJOR;
}

int serve_decode(const uint8_t *bytes, size_t length, struct serve_message *m,
                 char why[SERVE_WHY_MAX])
{
  struct reader r = {.bytes = bytes, .left = length, .why = why};
  struct item map;
  uint64_t key = 0, last = SERVE_KEY_TYPE;
  uint32_t seen = 1u << SERVE_KEY_TYPE;

  memset(m, 0, sizeof *m);
  int rc = next_of(&r, ITEM_MAP, &map, "it");
  if (rc == 0 && map.value > ITEMS_MAX)
    rc = wrong(&r, "it has %llu entries; at most %d", (unsigned long long)map.value, ITEMS_MAX);
  if (rc == 0)
    rc = read_type(&r, map.value, m);
  if (rc < 0)
    return rc;
  const struct serve_form *form = serve_form_of(m->type);

  for (uint64_t i = 1; i < map.value; i++) {
    if ((rc = next_uint(&r, 0, UINT64_MAX, &key, "a key")) < 0)
      return rc;
    if (key <= last)
      return wrong(&r, "%s has its keys out of order", form->name);
    last = key;
    bool known = key < SERVE_KEYS && ((form->needs | form->may) & 1u << key) != 0;
    if ((rc = known ? read_value(&r, m, key) : skip(&r, 1)) < 0)
      return rc;
    if (known)
      seen |= 1u << key;
    if (other_major(m, seen))
      return 0;
  }
  for (key = 0; key < SERVE_KEYS; key++) {
    if ((form->needs & ~seen & 1u << key) != 0)
      return wrong(&r, "%s lacks key %llu", form->name, (unsigned long long)key);
  }
  return r.left > 0 ? wrong(&r, "%zu bytes follow its end", r.left) : 0;
}
