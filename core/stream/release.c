/* SPDX-License-Identifier: Apache-2.0 */
/* Views come back from the application: at once, or behind a fence that polls watch. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "receiver.h"

/* To the client that handed them out, else to the ring. */
static void release_give(struct pst_receiver *receiver, const uint64_t *tokens, uint32_t n)
{
  for (const struct receiver_client *client = receiver->clients; client; client = client->next)
    if (client->ops->take_back) {
      client->ops->take_back(receiver, tokens, n);
      return;
    }
  receive_ring_give_tokens(receiver->ring, tokens, n);
}

static void release_give_fifo(struct pst_receiver *receiver, uint32_t count)
{
  struct release_fifo *after = &receiver->after;

  assert(count <= receiver->held);
  receiver->held -= count;
  while (count) {
    uint64_t at = after->token_head & after->token_mask;
    uint64_t run = after->token_mask + 1 - at;
    if (run > count)
      run = count;
    release_give(receiver, &after->tokens[at], (uint32_t)run);
    after->token_head += run;
    count -= (uint32_t)run;
  }
}

int receiver_watch_releases(struct pst_receiver *receiver)
{
  struct release_fifo *after = &receiver->after;
  struct engine_memory *memory = receiver->ring->memory;

  while (after->head != after->tail) {
    struct release_batch *batch = &after->batches[after->head & (after->capacity - 1)];
    int rc = memory->plugin->memory->fence_query(memory->memory, batch->fence);
    if (rc == -EAGAIN)
      break;
    if (rc < 0)
      return rc;
    receiver_drop_fence(receiver, batch->fence);
    release_give_fifo(receiver, batch->count);
    after->head++;
  }
  return 0;
}

/* Held by the application, not by a fence that it gave us. */
static uint64_t release_views_out(const struct pst_receiver *receiver)
{
  return receiver->held - (receiver->after.token_tail - receiver->after.token_head);
}

int pst_receiver_release(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  if (n > release_views_out(receiver) || (n && receiver->frames))
    return -EINVAL;
  receiver->held -= n;
  if (!receiver->unfenced)
    receive_ring_give_views(receiver->ring, views, n);
  end_stage(&receiver->end, -1);
  return 0;
}

static int release_grow_batches(struct release_fifo *after)
{
  struct release_batch *grown = calloc(2 * (size_t)after->capacity, sizeof(*grown));

  if (!grown)
    return -ENOMEM;
  for (uint32_t i = after->head; i != after->tail; i++)
    grown[i & (2 * after->capacity - 1)] = after->batches[i & (after->capacity - 1)];
  free(after->batches);
  after->batches = grown;
  after->capacity *= 2;
  return 0;
}

static int release_grow_tokens(struct release_fifo *after, uint32_t n)
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
int receiver_release_room(struct pst_receiver *receiver, uint32_t n)
{
  struct release_fifo *after = &receiver->after;
  int rc = 0;

  if (after->tail - after->head == after->capacity)
    rc = release_grow_batches(after);
  if (rc == 0 && after->token_tail - after->token_head + n > after->token_mask + 1)
    rc = release_grow_tokens(after, n);
  return rc;
}

int pst_receiver_release_after(struct pst_receiver *receiver, const struct pst_view *views,
                               uint32_t n, struct pst_fence *fence)
{
  int rc = 0;

  if (!fence || receiver->unfenced) {
    receiver_drop_fence(receiver, fence);
    return pst_receiver_release(receiver, views, n);
  }
  if (n > release_views_out(receiver) || (n && receiver->frames))
    rc = -EINVAL;
  else if (n)
    rc = receiver_release_room(receiver, n);
  if (rc < 0 || n == 0) {
    receiver_drop_fence(receiver, fence);
    return rc;
  }
  for (uint32_t i = 0; i < n; i++)
    receiver_release_put(receiver, views[i].token);
  receiver_release_behind(receiver, fence, n);
  end_stage(&receiver->end, -1);
  return 0;
}

void pst_receiver_fence_free(struct pst_receiver *receiver, struct pst_fence *fence)
{
  receiver_drop_fence(receiver, fence);
}

int receiver_release_more(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  struct release_fifo *after = &receiver->after;
  int rc = n > release_views_out(receiver) ? -EINVAL : receiver_release_room(receiver, n);

  if (receiver->unfenced)
    return pst_receiver_release(receiver, views, n);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < n; i++)
    receiver_release_put(receiver, views[i].token);
  after->batches[(after->tail - 1) & (after->capacity - 1)].count += n;
  return 0;
}
