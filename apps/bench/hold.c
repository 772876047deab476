/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that a receiver keeps for a while before it releases them (`--hold`). */
#include "hold.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

struct kept {
  uint64_t until_ns;
  uint32_t at, count; /* of `views`, one after the other */
  struct pst_fence *fence;
};

struct hold {
  struct pst_receiver *receiver;
  uint64_t ns;
  uint32_t slots, batch;
  uint32_t at, count;  /* where the next views go; how many there are */
  uint32_t head, tail; /* of `kept`, modulo `slots`: each has one message at least */
  struct pst_view *views;
  struct kept *kept;
};

struct hold *bench_hold_open(struct pst_receiver *receiver, uint64_t ns, uint32_t slots,
                             uint32_t batch)
{
  struct hold *hold = calloc(1, sizeof(*hold));

  if (!hold)
    return NULL;
  *hold = (struct hold){.receiver = receiver,
                        .ns = ns,
                        .slots = slots,
                        .batch = batch,
                        .views = calloc((size_t)slots + batch, sizeof(*hold->views)),
                        .kept = calloc(slots, sizeof(*hold->kept))};
  if (hold->views && hold->kept)
    return hold;
  bench_hold_close(hold);
  return NULL;
}

static int bench_hold_release_oldest(struct hold *hold)
{
  const struct kept *kept = &hold->kept[hold->head++ % hold->slots];

  assert(kept->count <= hold->count);
  hold->count -= kept->count;
  return pst_receiver_release_after(hold->receiver, &hold->views[kept->at], kept->count,
                                    kept->fence);
}

void bench_hold_close(struct hold *hold)
{
  if (!hold)
    return;
  while (hold->head != hold->tail)
    bench_hold_release_oldest(hold);
  free(hold->views);
  free(hold->kept);
  free(hold);
}

int bench_hold_keep(struct hold *hold, const struct pst_view *views, uint32_t n,
                    struct pst_fence *fence)
{
  int rc = 0;

  assert(n > 0 && n <= hold->batch);
  while (hold->head != hold->tail && hold->count + n > hold->slots && rc == 0)
    rc = bench_hold_release_oldest(hold);
  if (rc < 0 || n > hold->slots) {
    const int released = pst_receiver_release_after(hold->receiver, views, n, fence);
    return rc < 0 ? rc : released;
  }
  /* Fewer entries than a batch may be left unused at the end, for which the array has room beyond
   * the slots. */
  if (hold->at + n > hold->slots + hold->batch)
    hold->at = 0;
  memcpy(&hold->views[hold->at], views, n * sizeof(*views));
  hold->kept[hold->tail++ % hold->slots] = (struct kept){
      .until_ns = app_now_ns() + hold->ns, .at = hold->at, .count = n, .fence = fence};
  hold->at += n;
  hold->count += n;
  return 0;
}

int bench_hold_look(struct hold *hold)
{
  const uint64_t now = hold->head != hold->tail ? app_now_ns() : 0;
  int rc = 0;

  while (hold->head != hold->tail && rc == 0 &&
         hold->kept[hold->head % hold->slots].until_ns <= now)
    rc = bench_hold_release_oldest(hold);
  return rc;
}
