/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of serve and its clients, as bytes. */
#include "wire.h"

#include <errno.h>
#include <string.h>

enum serve_key {
  SERVE_KEY_TYPE,
  SERVE_KEY_MAGIC,
  SERVE_KEY_MAJOR,
  SERVE_KEY_MINOR,
  SERVE_KEY_PROGRAM,
  SERVE_KEY_TAG,
  SERVE_KEY_REGION,
  SERVE_KEY_PLACE,
  SERVE_KEY_OP,
  SERVE_KEY_PIECES,
  SERVE_KEY_LENGTH,
  SERVE_KEY_ITERATION,
  SERVE_KEY_FLAGS,
  SERVE_KEY_NAME,
  SERVE_KEY_FILE,
  SERVE_KEY_OFFSET,
  SERVE_KEY_SIZE,
  SERVE_KEY_MODE,
  SERVE_KEY_CRC,
  SERVE_KEY_SHA256,
  SERVE_KEY_CODE,
  SERVE_KEY_TEXT,
  SERVE_KEY_NS,
  SERVE_KEY_CURSOR,
  SERVE_KEY_ENTRIES, /* array of kind and name in turn */
  SERVE_KEY_REQUEST_MAX,
  SERVE_KEY_CHUNK_MAX,
  SERVE_KEY_IDLE,
  SERVE_KEY_WINDOW,
  SERVE_KEYS,
};

/* A number from `least` to `most`, of `bytes` bytes at `at` in the message. */
struct field {
  const char *name;
  size_t at;
  uint32_t bytes;
  uint64_t least, most;
};

#define BIT(key) (1u << SERVE_KEY_##key)
#define NUMBER(key, member, low, high)                                                             \
  [SERVE_KEY_##key] = {.name = #member,                                                            \
                       .at = offsetof(struct serve_message, member),                               \
                       .bytes = sizeof(((struct serve_message *)0)->member),                       \
                       .least = (low),                                                             \
                       .most = (high)}

static const struct field fields[SERVE_KEYS] = {
    NUMBER(TYPE, type, 0, UINT32_MAX),
    NUMBER(MAJOR, major, 0, UINT32_MAX),
    NUMBER(MINOR, minor, 0, UINT32_MAX),
    NUMBER(TAG, tag, 0, UINT64_MAX),
    NUMBER(REGION, region, 0, UINT64_MAX),
    NUMBER(PLACE, place, 0, INT64_MAX),
    NUMBER(OP, op, SERVE_OP_WRITE, SERVE_OP_READ),
    NUMBER(PIECES, pieces, 1, UINT32_MAX),
    NUMBER(LENGTH, length, 0, INT64_MAX),
    NUMBER(ITERATION, iteration, 0, UINT64_MAX),
    NUMBER(FLAGS, flags, 0, SERVE_FLAGS),
    NUMBER(FILE, file, 0, UINT32_MAX),
    NUMBER(OFFSET, offset, 0, INT64_MAX),
    NUMBER(SIZE, size, 0, INT64_MAX),
    NUMBER(MODE, mode, 0, 0777),
    NUMBER(CRC, crc, 0, UINT32_MAX),
    NUMBER(CODE, code, 1, 4095),
    NUMBER(NS, ns, 0, UINT64_MAX),
    NUMBER(CURSOR, cursor, 0, UINT64_MAX),
    NUMBER(REQUEST_MAX, request_max, 1, INT64_MAX),
    NUMBER(CHUNK_MAX, chunk_max, 1, INT64_MAX),
    NUMBER(IDLE, idle_ns, 1, UINT64_MAX),
    NUMBER(WINDOW, window, 1, UINT32_MAX),
};

#define RANGE BIT(FILE) | BIT(OFFSET) | BIT(LENGTH)
#define MEMORY BIT(REGION) | BIT(PLACE)
#define GREETING BIT(MAGIC) | BIT(MAJOR) | BIT(MINOR) | BIT(PROGRAM)
#define LIMITS BIT(FLAGS) | BIT(REQUEST_MAX) | BIT(CHUNK_MAX) | BIT(IDLE) | BIT(WINDOW)
#define FORM(type, needs, may) [SERVE_##type] = {#type, BIT(TYPE) | (needs), may}

static const struct pst_cbor_form forms[SERVE_TYPES] = {
    FORM(HELLO, GREETING, 0),
    FORM(WELCOME, GREETING | LIMITS, 0),
    FORM(REFUSE, BIT(TAG) | BIT(CODE) | BIT(TEXT), 0),
    FORM(DONE, BIT(TAG), 0),
    FORM(MOVE,
         BIT(TAG) | MEMORY | BIT(OP) | BIT(LENGTH) | BIT(PIECES) | BIT(ITERATION) | BIT(FLAGS), 0),
    FORM(MOVED, BIT(TAG) | BIT(NS), 0),
    FORM(OPEN, BIT(TAG) | BIT(NAME), 0),
    FORM(OPENED, BIT(TAG) | BIT(FILE) | BIT(SIZE) | BIT(MODE), 0),
    FORM(FETCH, BIT(TAG) | RANGE | MEMORY, 0),
    FORM(FETCHED, BIT(TAG) | BIT(LENGTH) | BIT(FLAGS) | BIT(CRC), 0),
    FORM(CREATE, BIT(TAG) | BIT(NAME) | BIT(SIZE) | BIT(MODE) | BIT(FLAGS), 0),
    FORM(CREATED, BIT(TAG) | BIT(FILE) | BIT(SIZE), 0),
    FORM(STORE, BIT(TAG) | RANGE | MEMORY | BIT(CRC), 0),
    FORM(HOLE, BIT(TAG) | RANGE, 0),
    FORM(CHECK, BIT(TAG) | RANGE, BIT(SHA256) | BIT(FLAGS)),
    FORM(CHECKED, BIT(TAG) | BIT(SHA256), 0),
    FORM(COMMIT, BIT(TAG) | BIT(FILE), BIT(SHA256)),
    FORM(CLOSE, BIT(TAG) | BIT(FILE), 0),
    FORM(LIST, BIT(TAG) | BIT(NAME) | BIT(CURSOR), 0),
    FORM(LISTED, BIT(TAG) | BIT(CURSOR) | BIT(ENTRIES), 0),
    FORM(MKDIR, BIT(TAG) | BIT(NAME) | BIT(MODE), 0),
    FORM(PING, BIT(TAG), BIT(FLAGS)),
};

static const struct pst_cbor_form *serve_wire_form_of(uint32_t type)
{
  return type < SERVE_TYPES && forms[type].name ? &forms[type] : NULL;
}

const char *serve_type_name(uint32_t type)
{
  const struct pst_cbor_form *form = serve_wire_form_of(type);

  return form ? form->name : "unknown";
}

/* ---- Encoding ------------------------------------------------------------------------------ */

static void serve_wire_put_entries(struct pst_cbor_writer *w, const struct serve_message *m)
{
  pst_cbor_write_array(w, 2 * (size_t)m->entry_count);
  for (uint32_t i = 0; i < m->entry_count; i++) {
    pst_cbor_write_uint(w, m->entries[i].kind);
    pst_cbor_write_bytes(w, m->entries[i].name, m->entries[i].length);
  }
}

static void serve_wire_put_number(struct pst_cbor_writer *w, const struct serve_message *m,
                                  uint32_t key)
{
  const struct field *field = &fields[key];
  const uint8_t *at = (const uint8_t *)m + field->at;
  uint32_t narrow;
  uint64_t value;

  if (field->bytes == sizeof(narrow)) {
    memcpy(&narrow, at, sizeof(narrow));
    value = narrow;
  } else {
    memcpy(&value, at, sizeof(value));
  }
  pst_cbor_write_uint(w, value);
}

static void serve_wire_put_value(struct pst_cbor_writer *w, const struct serve_message *m,
                                 uint32_t key)
{
  switch (key) {
  case SERVE_KEY_MAGIC:
    pst_cbor_write_text(w, SERVE_MAGIC, sizeof(SERVE_MAGIC) - 1);
    break;
  case SERVE_KEY_PROGRAM:
    pst_cbor_write_text(w, m->program, SERVE_PROGRAM_MAX);
    break;
  case SERVE_KEY_NAME:
    pst_cbor_write_bytes(w, m->name, m->name_length);
    break;
  case SERVE_KEY_SHA256:
    pst_cbor_write_bytes(w, m->sha256, SERVE_SHA256_BYTES);
    break;
  case SERVE_KEY_TEXT:
    pst_cbor_write_text(w, m->text, SERVE_TEXT_MAX);
    break;
  case SERVE_KEY_ENTRIES:
    serve_wire_put_entries(w, m);
    break;
  default:
    serve_wire_put_number(w, m, key);
    break;
  }
}

int serve_encode(const struct serve_message *message, uint8_t *bytes, size_t size, size_t *length)
{
  const struct pst_cbor_form *form = serve_wire_form_of(message->type);
  struct pst_cbor_writer w = {.bytes = bytes, .size = size};

  if (!form || message->entry_count > SERVE_ENTRIES_MAX)
    return -EINVAL;
  uint32_t absent =
      (message->has_sha256 ? 0 : BIT(SHA256)) | (message->flags != 0 ? 0 : BIT(FLAGS));
  uint32_t keys = form->needs | (form->may & ~absent);
  pst_cbor_write_map(&w, (size_t)__builtin_popcount(keys));
  for (uint32_t key = 0; key < SERVE_KEYS; key++) {
    if ((keys & 1u << key) == 0)
      continue;
    pst_cbor_write_uint(&w, key);
    serve_wire_put_value(&w, message, key);
  }
  if (w.full)
    return -E2BIG;
  *length = w.at;
  return 0;
}

/* ---- Decoding ------------------------------------------------------------------------------ */

static int serve_wire_read_magic(struct pst_cbor_reader *r)
{
  char magic[sizeof(SERVE_MAGIC)];
  int rc = pst_cbor_read_text(r, 0, sizeof(magic) - 1, magic, "magic");

  return rc == 0 && strcmp(magic, SERVE_MAGIC) != 0 ? pst_cbor_wrong(r, "its magic is not ours")
                                                    : rc;
}

static int serve_wire_read_sha256(struct pst_cbor_reader *r, struct serve_message *m)
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

static int serve_wire_read_entries(struct pst_cbor_reader *r, struct serve_message *m)
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

static int serve_wire_read_number(struct pst_cbor_reader *r, struct serve_message *m, uint32_t key)
{
  const struct field *field = &fields[key];
  uint8_t *at = (uint8_t *)m + field->at;
  uint64_t value = 0;
  int rc = pst_cbor_read_uint(r, field->least, field->most, &value, field->name);

  if (rc < 0)
    return rc;
  if (field->bytes == sizeof(uint32_t))
    memcpy(at, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
  else
    memcpy(at, &value, sizeof(value));
  return 0;
}

static int serve_wire_read_value(struct pst_cbor_reader *r, void *message, uint32_t key)
{
  struct serve_message *m = message;

  switch (key) {
  case SERVE_KEY_MAGIC:
    return serve_wire_read_magic(r);
  case SERVE_KEY_PROGRAM:
    return pst_cbor_read_text(r, 0, SERVE_PROGRAM_MAX, m->program, "program");
  case SERVE_KEY_NAME:
    return pst_cbor_read_bytes(r, 0, SERVE_NAME_MAX, &m->name, &m->name_length, "name");
  case SERVE_KEY_SHA256:
    return serve_wire_read_sha256(r, m);
  case SERVE_KEY_TEXT:
    return pst_cbor_read_text(r, 0, SERVE_TEXT_MAX, m->text, "text");
  case SERVE_KEY_ENTRIES:
    return serve_wire_read_entries(r, m);
  default:
    return serve_wire_read_number(r, m, key);
  }
}

static bool serve_wire_of_other_major(const void *message, uint32_t seen)
{
  const uint32_t both = 1u << SERVE_KEY_MAGIC | 1u << SERVE_KEY_MINOR;

  return (seen & both) == both && ((const struct serve_message *)message)->major != SERVE_MAJOR;
}

int serve_decode(const uint8_t *bytes, size_t length, struct serve_message *m,
                 char why[SERVE_WHY_MAX])
{
  const struct pst_cbor_protocol protocol = {.forms = forms,
                                             .types = SERVE_TYPES,
                                             .read = serve_wire_read_value,
                                             .foreign = serve_wire_of_other_major};
  struct pst_cbor_reader r = {.bytes = bytes, .left = length, .why = why};
  uint32_t seen = 0;

  memset(m, 0, sizeof(*m));
  return pst_cbor_read_message(&r, &protocol, m, &m->type, &seen);
}
