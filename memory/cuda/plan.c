/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"

/* Contiguous on both sides? */
static bool append(struct pst_copy_row *row, const struct pst_copy *piece)
{
  if (row->count != 1 || piece->source != row->source + row->length ||
      piece->destination != row->destination + row->length)
    return false;
  row->length += piece->length;
  return true;
}

static bool is_apart(uint64_t stride, uint64_t length, uint64_t max_pitch)
{
  return stride >= length && stride <= max_pitch; /* backward is a huge number here */
}

bool cuda_row_is_strided(const struct pst_copy_row *row, uint64_t max_pitch)
{
  return is_apart(row->source_stride, row->length, max_pitch) &&
         is_apart(row->destination_stride, row->length, max_pitch);
}

/* How many pieces from the first on are one row, which has that one already. */
static uint32_t add_strided(struct pst_copy_row *row, const struct pst_copy *pieces, uint32_t n,
                            uint64_t max_pitch)
{
  struct pst_copy_row grown = *row;
  if (n < 2)
    return 1;
  grown.source_stride = pieces[1].source - row->source;
  grown.destination_stride = pieces[1].destination - row->destination;
  if (!cuda_row_is_strided(&grown, max_pitch) ||
      (grown.source_stride == row->length && grown.destination_stride == row->length))
    return 1;
  while (grown.count < n && pieces[grown.count].length == row->length &&
         pieces[grown.count].source == row->source + grown.count * grown.source_stride &&
         pieces[grown.count].destination ==
             row->destination + grown.count * grown.destination_stride)
    grown.count++;
  if (grown.count > 1)
    *row = grown;
  return grown.count;
}

uint32_t cuda_plan_make(const struct pst_copy *pieces, uint32_t n, uint64_t max_pitch, bool merges,
                        struct pst_copy_row *rows)
{
  struct pst_copy_row *row = rows; /* the next */
  uint32_t taken;
  for (uint32_t i = 0; i < n; i += taken) {
    const struct pst_copy *piece = &pieces[i];
    taken = 1;
    if (piece->length == 0 || (merges && row > rows && append(row - 1, piece)))
      continue;
    *row = (struct pst_copy_row){.source = piece->source,
                                 .destination = piece->destination,
                                 .length = piece->length,
                                 .count = 1};
    if (merges)
      taken = add_strided(row, piece, n - i, max_pitch);
    row++;
  }
  return (uint32_t)(row - rows);
}

/* A copy of the driver's costs the CPU as much as a kernel's launch, and reaches the whole rate of
 * the bus; a kernel takes any pieces, at a little less: README.md says how to measure it. */
bool cuda_rows_gather(const struct pst_copy_row *rows, uint32_t n, uint64_t max_pitch)
{
  uint64_t copies = 0, bytes = 0;
  for (const struct pst_copy_row *row = rows; row < rows + n; row++) {
    if (row->length == 0)
      continue;
    copies += row->count == 1 || cuda_row_is_strided(row, max_pitch) ? 1 : row->count;
    bytes += row->count * row->length;
  }
  return copies > 1 && bytes / copies < CUDA_RUN_BYTES;
}
