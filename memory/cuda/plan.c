/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"
#include "row.h"

/* Contiguous on both sides? */
static bool append(struct cuda_run *run, const struct pst_copy *piece)
{
  if (run->rows != 1 || piece->source != run->source + run->width ||
      piece->destination != run->destination + run->width)
    return false;
  run->width += piece->length;
  return true;
}

/* How many pieces from the first on are rows of one copy: of one length, at equal strides.
 * This is what most batches are as a whole, and what each message pays for. */
static uint32_t rows_of(const struct pst_copy *pieces, uint32_t n, uint64_t max_pitch)
{
  const uint64_t width = pieces->length;
  if (n < 2 || pieces[1].length != width)
    return 1;
  const uint64_t from = pieces[1].source - pieces->source;
  const uint64_t to = pieces[1].destination - pieces->destination;
  /* Backwards is a huge number here. */
  if (from < width || to < width || from > max_pitch || to > max_pitch ||
      (from == width && to == width))
    return 1;
  const uint64_t step[4] = {from, to};
  return cuda_row(pieces, n, step);
}

static uint32_t begin(struct cuda_run *run, const struct pst_copy *pieces, uint32_t n,
                      uint64_t max_pitch)
{
  uint32_t rows = rows_of(pieces, n, max_pitch);
  *run = (struct cuda_run){
      .source = pieces->source,
      .destination = pieces->destination,
      .width = pieces->length,
      .rows = rows,
  };
  if (rows > 1) {
    run->source_pitch = pieces[1].source - pieces->source;
    run->destination_pitch = pieces[1].destination - pieces->destination;
  }
  return rows;
}

void cuda_plan_make(const struct pst_copy *pieces, uint32_t n, uint64_t max_pitch,
                    struct cuda_plan *plan)
{
  plan->runs = 0;
  plan->bytes = 0;
  plan->reserved = 0;
  for (plan->pieces = 0; plan->pieces < n;) {
    const struct pst_copy *piece = &pieces[plan->pieces];
    struct cuda_run *run = &plan->run[plan->runs];
    uint32_t taken = 1;
    if (piece->length && (plan->runs == 0 || !append(run - 1, piece))) {
      if (plan->runs == CUDA_RUNS_MAX)
        break;
      taken = begin(run, piece, n - plan->pieces, max_pitch);
      plan->runs++;
    }
    plan->bytes += taken * piece->length;
    plan->reserved |= piece->reserved; /* those of one run are alike */
    plan->pieces += taken;
  }
}

/* A run costs the CPU as much as a kernel's launch, and reaches the whole rate of the bus;
 * a kernel takes any pieces, at a little less: README.md says how to measure it. */
bool cuda_plan_gathers(const struct cuda_plan *plan)
{
  return plan->runs > 1 && plan->bytes / plan->runs < CUDA_RUN_BYTES;
}
