/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that follow each other at equal distances, as nearly all of a stream do, go to their
 * memory's plugin as one row. A message then costs no more than a comparison: that it is where the
 * row goes on.
 */
#ifndef PST_ENGINE_STRIDED_H
#define PST_ENGINE_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/memory.h>
#include <penstock/penstock.h>

/* A batch of copies being made. */
struct copy_rows {
  struct pst_copy_row *row; /* room for as many as the batch may have pieces */
  uint32_t count;
};

/* Opens lists for batches of up to `pieces` pieces. Returns 0 or -ENOMEM; close it either way. */
int copy_rows_open(struct copy_rows *rows, uint32_t pieces);
void copy_rows_close(struct copy_rows *rows);
/* Adds a piece; an empty piece adds nothing. */
void copy_rows_add(struct copy_rows *rows, uint64_t source, uint64_t destination, uint64_t length);
/* n views, from where they lie to `to` and on, one each `stride`. */
void copy_rows_add_views(struct copy_rows *rows, const struct pst_view *views, uint32_t n,
                         uint64_t to, uint64_t stride);

struct engine_memory;
/* Hand them to a queue. -EAGAIN: it has no room before a copy that is under way is done; -EPROTO,
 * logged: nor while none is. */
int copy_rows_submit(const struct copy_rows *rows, const struct engine_memory *memory,
                     struct pst_queue *queue, bool is_copying, uint64_t *ticket);

/* These n views, in `row`, which has room for as many. Returns how many rows they are. */
uint32_t payload_rows_of(struct pst_payload_row *row, const struct pst_view *views, uint32_t n);
/* One more message. Returns how many of `row` are in use, `count` before, for which there is room.
 */
static inline uint32_t payload_row_add(struct pst_payload_row *row, uint32_t count,
                                       uint64_t address, uint64_t length, uint64_t sequence)
{
  struct pst_payload_row *last = count ? &row[count - 1] : NULL;

  if (last && last->length == length && last->sequence + last->count == sequence) {
    if (last->count == 1)
      last->stride = address - last->address;
    if (last->address + last->count * last->stride == address) {
      last->count++;
      return count;
    }
  }
  row[count] = (struct pst_payload_row){
      .address = address, .length = length, .sequence = sequence, .count = 1};
  return count + 1;
}

#endif
