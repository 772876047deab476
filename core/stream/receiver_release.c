/* SPDX-License-Identifier: Apache-2.0 */
/* Views come back from the application: at once, or behind a fence that polls watch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

static void give_fifo(struct pst_receiver *receiver, uint32_t count)
{
  struct release_fifo *after = &receiver->after;

  receiver->held -= count;
  while (count) {
    uint64_t at = after->token_head & after->token_mask;
    uint64_t run = after->token_mask + 1 - at;
    if (run > count)
      run = count;
    landing_give_tokens(receiver->landing, &after->tokens[at], (uint32_t)run);
    after->token_head += run;
    count -= (uint32_t)run;
  }
}

int receiver_watch_releases(struct pst_receiver *receiver)
{
  struct release_fifo *after = &receiver->after;
  struct session_memory *memory = receiver->landing->memory;

  while (after->head != after->tail) {
    struct landing_batch *batch = &after->batches[after->head & (after->capacity - 1)];
    int rc = memory->plugin->memory->fence_query(memory->memory, batch->fence);
    if (rc == -EAGAIN)
      break;
    if (rc < 0)
      return rc;
    receiver_drop_fence(receiver, batch->fence);
    give_fifo(receiver, batch->count);
    after->head++;
  }
  return 0;
}

/* Held by the application, not by a fence that it gave us. */
static uint64_t views_out(const struct pst_receiver *receiver)
{
  return receiver->held - (receiver->after.token_tail - receiver->after.token_head);
}

int pst_receiver_release(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  if (n > views_out(receiver) || (n && receiver->frames))
    return -EINVAL;
  receiver->held -= n;
  if (!receiver->unfenced)
    landing_give_back(receiver->landing, views, n);
  end_stage(&receiver->end, -1);
  return 0;
}

static int grow_batches(struct release_fifo *after)
{
  struct landing_batch *grown = calloc(2 * (size_t)after->capacity, sizeof(*grown));

  if (!grown)
    return -ENOMEM;
  for (uint32_t i = after->head; i != after->tail; i++)
    grown[i & (2 * after->capacity - 1)] = after->batches[i & (after->capacity - 1)];
  free(after->batches);
  after->batches = grown;
  after->capacity *= 2;
  return 0;
}

static int grow_tokens(struct release_fifo *after, uint32_t n)
{
  uint64_t size = after->token_mask + 1;

  while (size < after->token_tail - after->token_head + n)
    size *= 2;
  uint64_t *grown = calloc(size, sizeof(*grown));
  if (!grown)
    return -ENOMEM;
  for (uint64_t i = after->token_head; i != after->token_tail; i++)
    grown[i & (size - 1)] = after->tokens[i & after->token_mask];
  free(after->tokens);
  after->tokens = grown;
  after->token_mask = size - 1;
  return 0;
}

/* It grows a few times in a stream's life: each release has a view, and no more views can be
 * out than there are slots to lie in. */
static int make_room(struct release_fifo *after, uint32_t n)
{
  int rc = 0;

  if (after->tail - after->head == after->capacity)
    rc = grow_batches(after);
  if (rc == 0 && after->token_tail - after->token_head + n > after->token_mask + 1)
    rc = grow_tokens(after, n);
  return rc;
}

int pst_receiver_release_after(struct pst_receiver *receiver, const struct pst_view *views,
                               uint32_t n, struct pst_fence *fence)
{
  struct release_fifo *after = &receiver->after;
  int rc = 0;

  if (!fence || receiver->unfenced) {
    receiver_drop_fence(receiver, fence);
    return pst_receiver_release(receiver, views, n);
  }
  if (n > views_out(receiver) || (n && receiver->frames))
    rc = -EINVAL;
  else if (n)
    rc = make_room(after, n);
  if (rc < 0 || n == 0) {
    receiver_drop_fence(receiver, fence);
    return rc;
  }
  for (uint32_t i = 0; i < n; i++)
    after->tokens[after->token_tail++ & after->token_mask] = views[i].token;
  after->batches[after->tail++ & (after->capacity - 1)] =
      (struct landing_batch){.fence = fence, .count = n};
  end_stage(&receiver->end, -1);
  return 0;
}

bool receiver_releases_wait(const struct pst_receiver *receiver, uint32_t n)
{
  return receiver->after.tail - receiver->after.head >= n;
}

int receiver_release_more(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  struct release_fifo *after = &receiver->after;
  int rc = n > views_out(receiver) ? -EINVAL : make_room(after, n);

  if (receiver->unfenced)
    return pst_receiver_release(receiver, views, n);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < n; i++)
    after->tokens[after->token_tail++ & after->token_mask] = views[i].token;
  after->batches[(after->tail - 1) & (after->capacity - 1)].count += n;
  return 0;
}
