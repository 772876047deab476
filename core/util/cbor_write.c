/* SPDX-License-Identifier: Apache-2.0 */
/* Writes CBOR. */
#include "util/cbor_message.h"

#include <string.h>

#include <cbor.h>

#include "util/printable.h"

#define WRITE(w, encode, value)                                                                    \
  do {                                                                                             \
    if (!(w)->full)                                                                                \
      cbor_write_advance(w, encode(value, (w)->bytes + (w)->at, (w)->size - (w)->at));             \
  } while (0)

static void cbor_write_advance(struct pst_cbor_writer *w, size_t written)
{
  w->full = written == 0;
  w->at += written;
}

static void write_raw(struct pst_cbor_writer *w, const void *bytes, size_t length)
{
  if (w->full || length > w->size - w->at) {
    w->full = true;
    return;
  }
  if (length > 0)
    memcpy(w->bytes + w->at, bytes, length);
  w->at += length;
}

void pst_cbor_write_uint(struct pst_cbor_writer *w, uint64_t value)
{
  WRITE(w, cbor_encode_uint, value);
}

void pst_cbor_write_bytes(struct pst_cbor_writer *w, const void *bytes, size_t length)
{
  WRITE(w, cbor_encode_bytestring_start, length);
  write_raw(w, bytes, length);
}

void pst_cbor_write_text(struct pst_cbor_writer *w, const char *text, size_t most)
{
  char clean[PST_CBOR_TEXT_MAX + 1];

  if (most > PST_CBOR_TEXT_MAX)
    most = PST_CBOR_TEXT_MAX;
  size_t length = strnlen(text, most + 1);
  if (length > most) {
    length = most;
    while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
      length--;
  }
  if (length > 0)
    memcpy(clean, text, length);
  pst_make_printable(clean, length, ' ');
  WRITE(w, cbor_encode_string_start, length);
  write_raw(w, clean, length);
}

void pst_cbor_write_array(struct pst_cbor_writer *w, size_t items)
{
  WRITE(w, cbor_encode_array_start, items);
}

void pst_cbor_write_map(struct pst_cbor_writer *w, size_t pairs)
{
  WRITE(w, cbor_encode_map_start, pairs);
}
