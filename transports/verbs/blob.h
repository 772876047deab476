/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints' addresses as they travel: big-endian, of one length. */
#ifndef VERBS_BLOB_H
#define VERBS_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members of a structure: `count` in a row, of `bytes` each. */
struct vb_blob_field {
  size_t at;
  uint32_t bytes, count;
};
#define VB_BLOB_ROW(type, name, bytes_)                                                            \
  {                                                                                                \
    offsetof(struct type, name), bytes_, sizeof(((struct type *)0)->name) / (bytes_)               \
  }
#define VB_BLOB_FIELD(type, name) VB_BLOB_ROW(type, name, sizeof(((struct type *)0)->name))

/* How a structure travels: `magic`, a byte of its bools at `flags` from bit 0, `fields` in their
 * order, zeros up to `length`. */
struct vb_blob_form {
  uint8_t magic[8];
  uint32_t length;
  uint32_t flag_count, field_count; /* flags: 8 at most */
  const size_t *flags;
  const struct vb_blob_field *fields;
};

void vb_blob_write(const struct vb_blob_form *form, const void *blob, uint8_t *bytes);
/* False: it is none of that form, and *blob, which was zeroed, is left alone. The fields' values
 * came over a network: the caller checks that. */
bool vb_blob_read(const struct vb_blob_form *form, const uint8_t *bytes, uint32_t length,
                  void *blob);

#endif
