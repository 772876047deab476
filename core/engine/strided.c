/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of copies and of messages to check, as rows at equal distances. */
#include "strided.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "engine.h"
#include "util/log.h"

int copy_rows_open(struct copy_rows *rows, uint32_t pieces)
{
  rows->count = 0;
  rows->row = calloc(pieces, sizeof(*rows->row));
  return rows->row ? 0 : -ENOMEM;
}

void copy_rows_close(struct copy_rows *rows)
{
  free(rows->row);
  *rows = (struct copy_rows){0};
}

int copy_rows_submit(const struct copy_rows *rows, const struct engine_memory *memory,
                     struct pst_queue *queue, bool is_copying, uint64_t *ticket)
{
  int rc = memory->ops->copy_rows(queue, rows->row, rows->count, ticket);

  if (rc != -EAGAIN || is_copying)
    return rc;
  pst_log(PST_LOG_ERROR, "memory %s refuses a copy though none is under way: a bug of that memory",
          memory->plugin->name);
  return -EPROTO;
}

/* The second of a row says how far apart all are. */
static inline bool strided_goes_on(struct pst_copy_row *row, uint64_t source, uint64_t destination,
                                   uint64_t length)
{
  if (row->length != length)
    return false;
  if (row->count == 1) {
    row->source_stride = source - row->source;
    row->destination_stride = destination - row->destination;
    return true;
  }
  return source == row->source + row->count * row->source_stride &&
         destination == row->destination + row->count * row->destination_stride;
}

void copy_rows_add(struct copy_rows *rows, uint64_t source, uint64_t destination, uint64_t length)
{
  struct pst_copy_row *row = &rows->row[rows->count];

  if (length == 0)
    return;
  if (rows->count && strided_goes_on(row - 1, source, destination, length)) {
    row[-1].count++;
    return;
  }
  *row = (struct pst_copy_row){
      .source = source, .destination = destination, .length = length, .count = 1};
  rows->count++;
}

/* As many of the views as go on with a row of two or more. */
static uint32_t strided_row_of_views(struct copy_rows *rows, const struct pst_view *view,
                                     uint32_t n, uint64_t to, uint64_t stride)
{
  struct pst_copy_row *row = &rows->row[rows->count - 1];
  const uint64_t length = row->length, step = row->source_stride;
  const struct pst_view *const from = view, *const end = view + n;
  uint64_t next = row->source + row->count * step;

  if (row->count < 2 || row->destination_stride != stride ||
      to != row->destination + row->count * stride)
    return 0;
  for (; view < end && view->address == next && view->length == length; view++)
    next += step;
  row->count += (uint32_t)(view - from);
  return (uint32_t)(view - from);
}

void copy_rows_add_views(struct copy_rows *rows, const struct pst_view *views, uint32_t n,
                         uint64_t to, uint64_t stride)
{
  for (uint32_t at = 0; at < n; at++) {
    if (rows->count)
      at += strided_row_of_views(rows, views + at, n - at, to + at * stride, stride);
    if (at < n)
      copy_rows_add(rows, views[at].address, to + at * stride, views[at].length);
  }
}

/* The leading ones that follow each other, of one length and of consecutive numbers. */
static uint32_t strided_row_from(struct pst_payload_row *row, const struct pst_view *view,
                                 uint32_t n)
{
  const uint64_t stride = n > 1 ? view[1].address - view->address : 0;
  const uint32_t length = view->length;
  uint64_t address = view->address, sequence = view->sequence;
  uint32_t count = 0;

  *row = (struct pst_payload_row){
      .address = address, .length = length, .sequence = sequence, .stride = stride};
  do {
    address += stride;
    sequence++;
    count++;
    view++;
  } while (count < n && view->address == address && view->length == length &&
           view->sequence == sequence);
  row->count = count;
  return count;
}

uint32_t payload_rows_of(struct pst_payload_row *row, const struct pst_view *views, uint32_t n)
{
  uint32_t count = 0;

  for (uint32_t at = 0; at < n;)
    at += strided_row_from(&row[count++], views + at, n - at);
  return count;
}
