/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CBOR. */
#include "util/cbor_message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cbor.h>

#include "util/printable.h"

#define DEPTH_MAX 4

int pst_cbor_wrong(struct pst_cbor_reader *r, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  vsnprintf(r->why, PST_CBOR_WHY_MAX, format, args);
  va_end(args);
  return -EPROTO;
}

static void cbor_read_set(void *context, enum pst_cbor_kind kind, uint64_t value)
{
  *(struct pst_cbor_item *)context = (struct pst_cbor_item){.kind = kind, .value = value};
}

#define ON(name, type, kind)                                                                       \
  static void name(void *context, type value)                                                      \
  {                                                                                                \
    cbor_read_set(context, kind, (uint64_t)value);                                                 \
  }
ON(cbor_read_on_uint8, uint8_t, PST_CBOR_UINT)
ON(cbor_read_on_uint16, uint16_t, PST_CBOR_UINT)
ON(cbor_read_on_uint32, uint32_t, PST_CBOR_UINT)
ON(cbor_read_on_uint64, uint64_t, PST_CBOR_UINT)
ON(cbor_read_on_negint8, uint8_t, PST_CBOR_SIMPLE)
ON(cbor_read_on_negint16, uint16_t, PST_CBOR_SIMPLE)
ON(cbor_read_on_negint32, uint32_t, PST_CBOR_SIMPLE)
ON(cbor_read_on_negint64, uint64_t, PST_CBOR_SIMPLE)
ON(cbor_read_on_bool, bool, PST_CBOR_SIMPLE)
ON(cbor_read_on_array, size_t, PST_CBOR_ARRAY)
ON(cbor_read_on_map, size_t, PST_CBOR_MAP)
#undef ON

static void cbor_read_on_bytes(void *context, cbor_data bytes, size_t length)
{
  *(struct pst_cbor_item *)context = (struct pst_cbor_item){PST_CBOR_BYTES, length, bytes};
}

static void cbor_read_on_text(void *context, cbor_data bytes, size_t length)
{
  *(struct pst_cbor_item *)context = (struct pst_cbor_item){PST_CBOR_TEXT, length, bytes};
}

static void cbor_read_on_null(void *context)
{
  cbor_read_set(context, PST_CBOR_SIMPLE, 0);
}

/* Callbacks of libcbor; the types without one leave the item as it is, OTHER. */
static const struct cbor_callbacks callbacks = {
    .uint8 = cbor_read_on_uint8,
    .uint16 = cbor_read_on_uint16,
    .uint32 = cbor_read_on_uint32,
    .uint64 = cbor_read_on_uint64,
    .negint8 = cbor_read_on_negint8,
    .negint16 = cbor_read_on_negint16,
    .negint32 = cbor_read_on_negint32,
    .negint64 = cbor_read_on_negint64,
    .byte_string_start = cbor_null_byte_string_start_callback,
    .byte_string = cbor_read_on_bytes,
    .string = cbor_read_on_text,
    .string_start = cbor_null_string_start_callback,
    .indef_array_start = cbor_null_indef_array_start_callback,
    .array_start = cbor_read_on_array,
    .indef_map_start = cbor_null_indef_map_start_callback,
    .map_start = cbor_read_on_map,
    .tag = cbor_null_tag_callback,
    .float2 = cbor_null_float2_callback,
    .float4 = cbor_null_float4_callback,
    .float8 = cbor_null_float8_callback,
    .undefined = cbor_null_undefined_callback,
    .null = cbor_read_on_null,
    .boolean = cbor_read_on_bool,
    .indef_break = cbor_null_indef_break_callback,
};

static int cbor_read_next(struct pst_cbor_reader *r, struct pst_cbor_item *item)
{
  if (r->left == 0)
    return pst_cbor_wrong(r, "it ends before its content");
  *item = (struct pst_cbor_item){.kind = PST_CBOR_OTHER};
  struct cbor_decoder_result result =
      cbor_stream_decode((cbor_data)r->bytes, r->left, &callbacks, item);
  if (result.status == CBOR_DECODER_NEDATA)
    return pst_cbor_wrong(r, "it ends within an item");
  if (result.status != CBOR_DECODER_FINISHED || result.read == 0 || result.read > r->left)
    return pst_cbor_wrong(r, "it is not CBOR");
  if (item->kind == PST_CBOR_OTHER)
    return pst_cbor_wrong(r, "it has an item that no message has (float, tag, indefinite length)");
  r->bytes += result.read;
  r->left -= result.read;
  return 0;
}

int pst_cbor_read(struct pst_cbor_reader *r, enum pst_cbor_kind kind, struct pst_cbor_item *item,
                  const char *name)
{
  static const char *const kinds[] = {"", "number", "byte string", "text", "array", "map", ""};
  int rc = cbor_read_next(r, item);

  if (rc == 0 && item->kind != kind)
    rc = pst_cbor_wrong(r, "%s is no %s", name, kinds[kind]);
  return rc;
}

int pst_cbor_read_uint(struct pst_cbor_reader *r, uint64_t least, uint64_t most, uint64_t *value,
                       const char *name)
{
  struct pst_cbor_item item;
  int rc = pst_cbor_read(r, PST_CBOR_UINT, &item, name);

  if (rc < 0)
    return rc;
  if (item.value < least || item.value > most)
    return pst_cbor_wrong(r, "%s is %llu; %llu to %llu are legal", name,
                          (unsigned long long)item.value, (unsigned long long)least,
                          (unsigned long long)most);
  *value = item.value;
  return 0;
}

int pst_cbor_read_u32(struct pst_cbor_reader *r, uint32_t least, uint32_t most, uint32_t *value,
                      const char *name)
{
  uint64_t wide = 0;
  int rc = pst_cbor_read_uint(r, least, most, &wide, name);

  if (rc == 0)
    *value = (uint32_t)wide;
  return rc;
}

/* Bytes or a text, of a length within bounds. */
static int read_string(struct pst_cbor_reader *r, enum pst_cbor_kind kind, size_t least,
                       size_t most, struct pst_cbor_item *item, const char *name)
{
  int rc = pst_cbor_read(r, kind, item, name);

  if (rc == 0 && (item->value < least || item->value > most))
    rc = pst_cbor_wrong(r, "%s has %llu bytes; %zu to %zu are legal", name,
                        (unsigned long long)item->value, least, most);
  return rc;
}

int pst_cbor_read_text(struct pst_cbor_reader *r, size_t least, size_t most, char *text,
                       const char *name)
{
  struct pst_cbor_item item;
  size_t bytes;
  int rc = read_string(r, PST_CBOR_TEXT, least, most, &item, name);

  if (rc < 0)
    return rc;
  if (pst_unprintable((const char *)item.bytes, item.value, &bytes))
    return pst_cbor_wrong(r, "%s has control characters, or is not UTF-8", name);
  if (item.value > 0)
    memcpy(text, item.bytes, item.value);
  text[item.value] = '\0';
  return 0;
}

int pst_cbor_read_bytes(struct pst_cbor_reader *r, size_t least, size_t most, const uint8_t **bytes,
                        uint32_t *length, const char *name)
{
  struct pst_cbor_item item;
  int rc = read_string(r, PST_CBOR_BYTES, least, most, &item, name);

  if (rc < 0)
    return rc;
  *bytes = item.bytes;
  *length = (uint32_t)item.value;
  return 0;
}

int pst_cbor_read_map(struct pst_cbor_reader *r, size_t most, uint64_t *count, const char *name)
{
  struct pst_cbor_item item;
  int rc = pst_cbor_read(r, PST_CBOR_MAP, &item, name);

  if (rc < 0)
    return rc;
  if (item.value > most)
    return pst_cbor_wrong(r, "%s has %llu entries; at most %zu", name,
                          (unsigned long long)item.value, most);
  *count = item.value;
  return 0;
}

int pst_cbor_skip(struct pst_cbor_reader *r, int depth)
{
  struct pst_cbor_item item;
  int rc = cbor_read_next(r, &item);

  if (rc < 0 || (item.kind != PST_CBOR_ARRAY && item.kind != PST_CBOR_MAP))
    return rc;
  if (depth >= DEPTH_MAX)
    return pst_cbor_wrong(r, "it is nested deeper than %d", DEPTH_MAX);
  if (item.value > PST_CBOR_ITEMS_MAX)
    return pst_cbor_wrong(r, "a part has %llu entries; at most %d", (unsigned long long)item.value,
                          PST_CBOR_ITEMS_MAX);
  for (uint64_t i = item.kind == PST_CBOR_MAP ? 2 * item.value : item.value; i > 0 && rc == 0; i--)
    rc = pst_cbor_skip(r, depth + 1);
  return rc;
}

static int read_type(struct pst_cbor_reader *r, uint64_t count,
                     const struct pst_cbor_protocol *protocol, uint32_t *type)
{
  uint64_t key = 0, value = 0;
  int rc;

  if (count == 0)
    return pst_cbor_wrong(r, "it is empty");
  if ((rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &key, "first key")) < 0)
    return rc;
  if (key != 0)
    return pst_cbor_wrong(r, "its first key is %llu instead of the type's",
                          (unsigned long long)key);
  if ((rc = pst_cbor_read_uint(r, 0, UINT32_MAX, &value, "type")) < 0)
    return rc;
  if (value >= protocol->types || !protocol->forms[value].name)
    return pst_cbor_wrong(r, "there is no message type %llu", (unsigned long long)value);
  *type = (uint32_t)value;
  return 0;
}

static int cbor_read_check_whole(struct pst_cbor_reader *r, const struct pst_cbor_form *form,
                                 uint32_t seen)
{
  uint32_t missing = form->needs & ~seen;

  if (missing != 0)
    return pst_cbor_wrong(r, "%s lacks key %d", form->name, __builtin_ctz(missing));
  return r->left > 0 ? pst_cbor_wrong(r, "%zu bytes follow its end", r->left) : 0;
}

int pst_cbor_read_message(struct pst_cbor_reader *r, const struct pst_cbor_protocol *protocol,
                          void *message, uint32_t *type, uint32_t *seen)
{
  uint64_t count = 0, key = 0, last = 0;
  int rc = pst_cbor_read_map(r, PST_CBOR_ITEMS_MAX, &count, "it");

  if (rc == 0)
    rc = read_type(r, count, protocol, type);
  if (rc < 0)
    return rc;
  const struct pst_cbor_form *form = &protocol->forms[*type];

  *seen = 1;
  for (uint64_t i = 1; i < count; i++) {
    if ((rc = pst_cbor_read_uint(r, 0, UINT64_MAX, &key, "a key")) < 0)
      return rc;
    if (key <= last)
      return pst_cbor_wrong(r, "%s has its keys out of order", form->name);
    last = key;
    bool known = key < 32 && ((form->needs | form->may) & UINT32_C(1) << key) != 0;
    rc = known ? protocol->read(r, message, (uint32_t)key) : pst_cbor_skip(r, 1);
    if (rc < 0)
      return rc;
    if (known)
      *seen |= UINT32_C(1) << key;
    if (protocol->foreign(message, *seen))
      return 0;
  }
  return cbor_read_check_whole(r, form, *seen);
}
