/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <string.h>

/* ---- Values ----------------------------------------------------------------------- */

static int read_magic(struct pst_cbor_reader *r)
{
  char magic[sizeof SERVE_MAGIC];
  int rc = pst_cbor_read_text(r, 0, sizeof magic - 1, magic, "magic");

  return rc == 0 && strcmp(magic, SERVE_MAGIC) != 0 ? pst_cbor_wrong(r, "its magic is not ours")
                                                    : rc;
}

static int read_sha256(struct pst_cbor_reader *r, struct serve_message *m)
{
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  int rc =
      pst_cbor_read_bytes(r, SERVE_SHA256_BYTES, SERVE_SHA256_BYTES, &bytes, &length, "sha256");

  if (rc < 0)
    return rc;
  memcpy(m->sha256, bytes, SERVE_SHA256_BYTES);
  m->has_sha256 = true;
  return 0;
}

static int read_entries(struct pst_cbor_reader *r, struct serve_message *m)
{
  struct pst_cbor_item item;
  uint64_t kind = 0;
  int rc = pst_cbor_read(r, PST_CBOR_ARRAY, &item, "entries");

  if (rc < 0)
    return rc;
  if (item.value % 2 != 0 || item.value > 2 * SERVE_ENTRIES_MAX)
    return pst_cbor_wrong(r, "entries has %llu items; an even number up to %u is legal",
                          (unsigned long long)item.value, 2 * SERVE_ENTRIES_MAX);
  for (uint32_t i = 0; i < item.value / 2 && rc == 0; i++) {
    struct serve_entry *entry = &m->entries[i];
    rc = pst_cbor_read_uint(r, SERVE_KIND_FILE, SERVE_KIND_UNNAMED, &kind, "an entry's kind");
    if (rc == 0)
      rc = pst_cbor_read_bytes(r, 1, SERVE_NAME_MAX, &entry->name, &entry->length,
                               "an entry's name");
    entry->kind = (uint32_t)kind;
  }
  if (rc == 0)
    m->entry_count = (uint32_t)(item.value / 2);
  return rc;
}

static int read_number(struct pst_cbor_reader *r, struct serve_message *m, uint32_t key)
{
  const struct serve_field *field = &serve_fields[key];
  uint8_t *at = (uint8_t *)m + field->at;
  uint64_t value = 0;
  int rc = pst_cbor_read_uint(r, field->least, field->most, &value, field->name);

  if (rc < 0)
    return rc;
  if (field->bytes == sizeof(uint32_t))
    memcpy(at, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
  else
    memcpy(at, &value, sizeof value);
  return 0;
}

static int read_value(struct pst_cbor_reader *r, struct serve_message *m, uint32_t key)
{
  switch (key) {
  case SERVE_KEY_MAGIC:
    return read_magic(r);
  case SERVE_KEY_PROGRAM:
    return pst_cbor_read_text(r, 0, SERVE_PROGRAM_MAX, m->program, "program");
  case SERVE_KEY_NAME:
    return pst_cbor_read_bytes(r, 0, SERVE_NAME_MAX, &m->name, &m->name_length, "name");
  case SERVE_KEY_SHA256:
    return read_sha256(r, m);
  case SERVE_KEY_TEXT:
    return pst_cbor_read_text(r, 0, SERVE_TEXT_MAX, m->text, "text");
  case SERVE_KEY_ENTRIES:
    return read_entries(r, m);
  default:
    return read_number(r, m, key);
  }
}

static int read_any(struct pst_cbor_reader *r, void *message, uint32_t key)
{
  return read_value(r, message, key);
}

static bool of_other_major(const void *message, uint32_t seen)
{
  const uint32_t both = 1u << SERVE_KEY_MAGIC | 1u << SERVE_KEY_MINOR;

  return (seen & both) == both && ((const struct serve_message *)message)->major != SERVE_MAJOR;
}

int serve_decode(const uint8_t *bytes, size_t length, struct serve_message *m,
                 char why[SERVE_WHY_MAX])
{
  const struct pst_cbor_protocol protocol = {
      .forms = serve_forms, .types = SERVE_TYPES, .read = read_any, .foreign = of_other_major};
  struct pst_cbor_reader r = {.bytes = bytes, .left = length, .why = why};
  uint32_t seen = 0;

  memset(m, 0, sizeof *m);
  return pst_cbor_read_message(&r, &protocol, m, &m->type, &seen);
}
