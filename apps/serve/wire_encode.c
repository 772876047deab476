/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define BIT(key) (1u << SERVE_KEY_##key)
#define ASKS(more) BIT(TYPE) | BIT(TAG) | more
#define NUMBER(key, member, low, high)                                                             \
  [SERVE_KEY_##key] = {.name = #member,                                                            \
                       .at = offsetof(struct serve_message, member),                               \
                       .bytes = sizeof(((struct serve_message *)0)->member),                       \
                       .least = (low),                                                             \
                       .most = (high)}

const struct serve_field serve_fields[SERVE_KEYS] = {
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
#define GREETING BIT(TYPE) | BIT(MAGIC) | BIT(MAJOR) | BIT(MINOR) | BIT(PROGRAM)

const struct pst_cbor_form serve_forms[SERVE_TYPES] = {
    [SERVE_HELLO] = {"HELLO", GREETING, 0},
    [SERVE_WELCOME] = {"WELCOME",
                       GREETING | BIT(FLAGS) | BIT(REQUEST_MAX) | BIT(CHUNK_MAX) | BIT(IDLE) |
                           BIT(WINDOW),
                       0},
    [SERVE_REFUSE] = {"REFUSE", ASKS(BIT(CODE)) | BIT(TEXT), 0},
    [SERVE_DONE] = {"DONE", ASKS(0), 0},
    [SERVE_MOVE] = {"MOVE",
                    ASKS(BIT(REGION)) | BIT(PLACE) | BIT(OP) | BIT(LENGTH) | BIT(PIECES) |
                        BIT(ITERATION) | BIT(FLAGS),
                    0},
    [SERVE_MOVED] = {"MOVED", ASKS(BIT(NS)), 0},
    [SERVE_OPEN] = {"OPEN", ASKS(BIT(NAME)), 0},
    [SERVE_OPENED] = {"OPENED", ASKS(BIT(FILE)) | BIT(SIZE) | BIT(MODE), 0},
    [SERVE_FETCH] = {"FETCH", ASKS(RANGE) | BIT(REGION) | BIT(PLACE), 0},
    [SERVE_FETCHED] = {"FETCHED", ASKS(BIT(LENGTH)) | BIT(FLAGS) | BIT(CRC), 0},
    [SERVE_CREATE] = {"CREATE", ASKS(BIT(NAME)) | BIT(SIZE) | BIT(MODE) | BIT(FLAGS), 0},
    [SERVE_CREATED] = {"CREATED", ASKS(BIT(FILE)) | BIT(SIZE), 0},
    [SERVE_STORE] = {"STORE", ASKS(RANGE) | BIT(REGION) | BIT(PLACE) | BIT(CRC), 0},
    [SERVE_HOLE] = {"HOLE", ASKS(RANGE), 0},
    [SERVE_CHECK] = {"CHECK", ASKS(RANGE), BIT(SHA256) | BIT(FLAGS)},
    [SERVE_CHECKED] = {"CHECKED", ASKS(BIT(SHA256)), 0},
    [SERVE_COMMIT] = {"COMMIT", ASKS(BIT(FILE)), BIT(SHA256)},
    [SERVE_CLOSE] = {"CLOSE", ASKS(BIT(FILE)), 0},
    [SERVE_LIST] = {"LIST", ASKS(BIT(NAME)) | BIT(CURSOR), 0},
    [SERVE_LISTED] = {"LISTED", ASKS(BIT(CURSOR)) | BIT(ENTRIES), 0},
    [SERVE_MKDIR] = {"MKDIR", ASKS(BIT(NAME)) | BIT(MODE), 0},
    [SERVE_PING] = {"PING", ASKS(0), BIT(FLAGS)},
};

static const struct pst_cbor_form *form_of(uint32_t type)
{
  return type < SERVE_TYPES && serve_forms[type].name != NULL ? &serve_forms[type] : NULL;
}

const char *serve_type_name(uint32_t type)
{
  const struct pst_cbor_form *form = form_of(type);

  return form != NULL ? form->name : "unknown";
}

static void put_entries(struct pst_cbor_writer *w, const struct serve_message *m)
{
  pst_cbor_write_array(w, 2 * (size_t)m->entry_count);
  for (uint32_t i = 0; i < m->entry_count; i++) {
    pst_cbor_write_uint(w, m->entries[i].kind);
    pst_cbor_write_bytes(w, m->entries[i].name, m->entries[i].length);
  }
}

static void put_number(struct pst_cbor_writer *w, const struct serve_message *m, uint32_t key)
{
  const struct serve_field *field = &serve_fields[key];
  const uint8_t *at = (const uint8_t *)m + field->at;
  uint32_t narrow;
  uint64_t value;

  if (field->bytes == sizeof narrow) {
    memcpy(&narrow, at, sizeof narrow);
    value = narrow;
  } else {
    memcpy(&value, at, sizeof value);
  }
  pst_cbor_write_uint(w, value);
}

static void put_value(struct pst_cbor_writer *w, const struct serve_message *m, uint32_t key)
{
  switch (key) {
  case SERVE_KEY_TYPE:
    pst_cbor_write_uint(w, m->type);
    break;
  case SERVE_KEY_MAGIC:
    pst_cbor_write_text(w, SERVE_MAGIC, sizeof SERVE_MAGIC - 1);
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
    put_entries(w, m);
    break;
  default:
    put_number(w, m, key);
    break;
  }
}

int serve_encode(const struct serve_message *message, uint8_t *bytes, size_t size, size_t *length)
{
  const struct pst_cbor_form *form = form_of(message->type);
  struct pst_cbor_writer w = {.bytes = bytes, .size = size};

  if (form == NULL || message->entry_count > SERVE_ENTRIES_MAX)
    return -EINVAL;
  uint32_t absent =
      (message->has_sha256 ? 0 : BIT(SHA256)) | (message->flags != 0 ? 0 : BIT(FLAGS));
  uint32_t keys = form->needs | (form->may & ~absent);
  pst_cbor_write_map(&w, (size_t)__builtin_popcount(keys));
  for (uint32_t key = 0; key < SERVE_KEYS; key++) {
    if ((keys & 1u << key) == 0)
      continue;
    pst_cbor_write_uint(&w, key);
    put_value(&w, message, key);
  }
  if (w.full)
    return -E2BIG;
  *length = w.at;
  return 0;
}
