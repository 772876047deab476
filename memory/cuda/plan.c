/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"

/* Does the piece go on where the run ends, and in its manner? */
static bool extend(struct cuda_run *run, const struct pst_copy *piece, uint64_t max_pitch)
{
  uint64_t rows = run->rows;
  uint64_t source = run->source + rows * run->source_pitch;
  uint64_t destination = run->destination + rows * run->destination_pitch;
  if (rows == 1 && piece->source == run->source + run->width &&
      piece->destination == run->destination + run->width) {
    run->width += piece->length;
    return true;
  }
  if (piece->length != run->width)
    return false;
  if (rows == 1) {
    uint64_t from = piece->source - run->source, to = piece->destination - run->destination;
    /* Backwards is a huge number here. */
    if (from < run->width || to < run->width || from > max_pitch || to > max_pitch)
      return false;
    run->source_pitch = from;
    run->destination_pitch = to;
  } else if (piece->source != source || piece->destination != destination) {
    return false;
  }
  run->rows++;
  return true;
}

void cuda_plan_make(const struct pst_copy *pieces, uint32_t n, uint64_t max_pitch,
                    struct cuda_plan *plan)
{
  plan->runs = 0;
  plan->bytes = 0;
  for (plan->pieces = 0; plan->pieces < n; plan->pieces++) {
    const struct pst_copy *piece = &pieces[plan->pieces];
    if (piece->length == 0)
      continue;
    if (plan->runs == 0 || !extend(&plan->run[plan->runs - 1], piece, max_pitch)) {
      if (plan->runs == CUDA_RUNS_MAX)
        break;
      plan->run[plan->runs++] = (struct cuda_run){
          .source = piece->source,
          .destination = piece->destination,
          .width = piece->length,
          .rows = 1,
      };
    }
    plan->bytes += piece->length;
  }
}

/* A run costs the CPU as much as a kernel's launch, and reaches the whole rate of the bus;
 * a kernel takes any pieces, at a little less: README.md has the measurement. */
bool cuda_plan_gathers(const struct cuda_plan *plan)
{
  return plan->runs > 1 && plan->bytes / plan->runs < CUDA_RUN_BYTES;
}
