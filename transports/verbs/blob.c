/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints' addresses, written and read by the form of each plugin. */
#include <endian.h>
#include <string.h>

#include "blob.h"

/* From big-endian or to it. */
static void vb_blob_turn(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
  for (uint32_t i = 0; i < bytes; i++)
    to[i] = from[BYTE_ORDER == LITTLE_ENDIAN ? bytes - 1 - i : i];
}

void vb_blob_write(const struct vb_blob_form *form, const void *blob, uint8_t *bytes)
{
  const uint8_t *from = blob;
  uint8_t *at = bytes + sizeof(form->magic);

  memset(bytes, 0, form->length);
  memcpy(bytes, form->magic, sizeof(form->magic));
  for (uint32_t i = 0; i < form->flag_count; i++)
    *at |= (uint8_t)(*(const bool *)(from + form->flags[i]) << i);
  at++;
  for (uint32_t i = 0; i < form->field_count; i++) {
    const struct vb_blob_field *field = &form->fields[i];
    for (uint32_t k = 0; k < field->count; k++, at += field->bytes)
      vb_blob_turn(at, from + field->at + (size_t)k * field->bytes, field->bytes);
  }
}

bool vb_blob_read(const struct vb_blob_form *form, const uint8_t *bytes, uint32_t length,
                  void *blob)
{
  const uint8_t *at = bytes + sizeof(form->magic);
  uint8_t *to = blob;

  if (length != form->length || memcmp(bytes, form->magic, sizeof(form->magic)) != 0)
    return false;
  for (uint32_t i = 0; i < form->flag_count; i++)
    *(bool *)(to + form->flags[i]) = *at >> i & 1;
  at++;
  for (uint32_t i = 0; i < form->field_count; i++) {
    const struct vb_blob_field *field = &form->fields[i];
    for (uint32_t k = 0; k < field->count; k++, at += field->bytes)
      vb_blob_turn(to + field->at + (size_t)k * field->bytes, at, field->bytes);
  }
  return true;
}
