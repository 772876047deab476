/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as CBOR (RFC 8949): what the control channel and `penstock serve` have in common.
 *
 * A message is one map of integer keys in ascending order, definite lengths only, whose
 * key 0 is its type. Which other keys it must and may have follows from the type; unknown ones
 * are skipped, so that a minor version may add some. Reading allocates nothing, and what is
 * wrong is said in words.
 */
#ifndef PST_UTIL_CBOR_MESSAGE_H
#define PST_UTIL_CBOR_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/plugin.h"

#define PST_CBOR_WHY_MAX 160u
#define PST_CBOR_TEXT_MAX 511u /* bytes of a text that is written */
#define PST_CBOR_ITEMS_MAX 256 /* of a map or array without a bound of its own */

/* The keys that a type must have, and those it may have besides, as bits. */
struct pst_cbor_form {
  const char *name;
  uint32_t needs;
  uint32_t may;
};

enum pst_cbor_kind {
  PST_CBOR_OTHER, /* legal, but in no message of ours: floats, tags, indefinite lengths, … */
  PST_CBOR_UINT,
  PST_CBOR_BYTES,
  PST_CBOR_TEXT,
  PST_CBOR_ARRAY,
  PST_CBOR_MAP,
  PST_CBOR_SIMPLE, /* negative number, boolean, null: legal in what is skipped */
};

struct pst_cbor_item {
  enum pst_cbor_kind kind;
  uint64_t value; /* the number, the count, or the length */
  const uint8_t *bytes;
};

struct pst_cbor_reader {
  const uint8_t *bytes;
  size_t left;
  char *why; /* PST_CBOR_WHY_MAX bytes */
};

/* All that read return 0, or -EPROTO with what is wrong in r->why; `name` is what is read. */

/* Says what is wrong, and returns -EPROTO. */
int pst_cbor_wrong(struct pst_cbor_reader *r, const char *format, ...) PST_PRINTF(2, 3);
int pst_cbor_read(struct pst_cbor_reader *r, enum pst_cbor_kind kind, struct pst_cbor_item *item,
                  const char *name);
int pst_cbor_read_uint(struct pst_cbor_reader *r, uint64_t least, uint64_t most, uint64_t *value,
                       const char *name);
int pst_cbor_read_u32(struct pst_cbor_reader *r, uint32_t least, uint32_t most, uint32_t *value,
                      const char *name);
/* UTF-8 without control characters; `text` has room for most + 1 bytes. */
int pst_cbor_read_text(struct pst_cbor_reader *r, size_t least, size_t most, char *text,
                       const char *name);
/* Reads a byte string, whose bytes stay where they are. */
int pst_cbor_read_bytes(struct pst_cbor_reader *r, size_t least, size_t most, const uint8_t **bytes,
                        uint32_t *length, const char *name);
int pst_cbor_read_map(struct pst_cbor_reader *r, size_t most, uint64_t *count, const char *name);
/* Whatever it is; `depth` of what it lies in, the message itself being 0. */
int pst_cbor_skip(struct pst_cbor_reader *r, int depth);

/* Description of a protocol for pst_cbor_read_message(). */
struct pst_cbor_protocol {
  const struct pst_cbor_form *forms; /* by type; those without a name are none */
  uint32_t types;
  int (*read)(struct pst_cbor_reader *r, void *message, uint32_t key); /* the value of `key` */
  /* Whether the rest is of another major version, and not ours to read. */
  bool (*foreign)(const void *message, uint32_t seen);
};

/* A whole message and nothing behind it. *type is set before read() is called, *seen has the
 * keys that came as bits. */
int pst_cbor_read_message(struct pst_cbor_reader *r, const struct pst_cbor_protocol *protocol,
                          void *message, uint32_t *type, uint32_t *seen);

/* Once full it stays so, and only the last call has to look. */
struct pst_cbor_writer {
  uint8_t *bytes;
  size_t size, at;
  bool full;
};

void pst_cbor_write_uint(struct pst_cbor_writer *w, uint64_t value);
void pst_cbor_write_bytes(struct pst_cbor_writer *w, const void *bytes, size_t length);
/* Cut to `most` bytes, at most PST_CBOR_TEXT_MAX, not within a UTF-8 character; control
 * characters become spaces. */
void pst_cbor_write_text(struct pst_cbor_writer *w, const char *text, size_t most);
void pst_cbor_write_array(struct pst_cbor_writer *w, size_t items);
void pst_cbor_write_map(struct pst_cbor_writer *w, size_t pairs);

#endif
