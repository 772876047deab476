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
  if (receiver->client && receiver->client->take_back)
    receiver->client->take_back(receiver, tokens, n);
  else
    receiver->ring->ops->give_tokens(receiver->ring, tokens, n);
}

static void release_give_tokens(struct pst_receiver *receiver, uint32_t count)
{
  struct fifo *fifo = &receiver->tokens;
  const uint64_t *tokens = fifo->items;

  assert(count <= receiver->held);
  receiver->held -= count;
  while (count) {
    uint32_t run = fifo_run(fifo, fifo->head, count);
    release_give(receiver, &tokens[fifo_at(fifo, fifo->head)], run);
    fifo->head += run;
    count -= run;
  }
}

int receiver_watch_releases(struct pst_receiver *receiver)
{
  struct engine_memory *memory = receiver->ring->memory;
  struct fifo *releases = &receiver->releases;

  for (; fifo_count(releases); releases->head++) {
    const struct release_batch *batch = releases->items;
    batch += fifo_at(releases, releases->head);
    int rc = memory->ops->fence_query(memory->memory, batch->fence);
    if (rc < 0)
      return rc == -EAGAIN ? 0 : rc;
    receiver_drop_fence(receiver, batch->fence);
    release_give_tokens(receiver, batch->count);
  }
  return 0;
}

/* By fours, which spares a third of the instructions. */
static void release_take_tokens(const struct pst_view *views, uint32_t n, uint64_t *tokens)
{
  const struct pst_view *const end = views + n;

  for (; end - views >= 4; views += 4, tokens += 4) {
    tokens[0] = views[0].token;
    tokens[1] = views[1].token;
    tokens[2] = views[2].token;
    tokens[3] = views[3].token;
  }
  for (; views != end; views++)
    *tokens++ = views->token;
}

static void release_give_views(struct receive_ring *ring, const struct pst_view *views, uint32_t n)
{
  uint64_t tokens[SESSION_POLL_BATCH];

  if (ring->ops->give_views) {
    ring->ops->give_views(ring, views, n);
    return;
  }
  while (n) {
    uint32_t run = n < SESSION_POLL_BATCH ? n : SESSION_POLL_BATCH;
    release_take_tokens(views, run, tokens);
    ring->ops->give_tokens(ring, tokens, run);
    views += run;
    n -= run;
  }
}

/* Held by the application, not by a fence that it gave us. */
static uint64_t release_views_out(const struct pst_receiver *receiver)
{
  return receiver->held - fifo_count(&receiver->tokens);
}

int pst_receiver_release(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  if (n > release_views_out(receiver) || (n && receiver_is_taken(receiver)))
    return -EINVAL;
  receiver->held -= n;
  if (!receiver->unfenced)
    release_give_views(receiver->ring, views, n);
  end_stage(&receiver->end, -1);
  return 0;
}

/* Makes room for a release of n tokens. The room grows a few times in a stream's life: each release
 * has a view, and no more views can be out than there are slots to lie in. */
int receiver_release_room(struct pst_receiver *receiver, uint32_t n)
{
  int rc = fifo_reserve(&receiver->releases, sizeof(struct release_batch), 1);

  return rc < 0 ? rc : fifo_reserve(&receiver->tokens, sizeof(uint64_t), n);
}

int receiver_release_behind(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                            struct pst_fence *fence)
{
  struct fifo *releases = &receiver->releases, *fifo = &receiver->tokens;
  int rc = receiver_release_room(receiver, n);

  assert(n > 0 && (fence || fifo_count(releases)));
  if (rc < 0)
    return rc;
  struct release_batch *batches = releases->items;
  uint64_t *tokens = fifo->items;
  for (uint32_t i = 0; i < n; i++)
    tokens[fifo_at(fifo, fifo->tail++)] = views[i].token;
  if (fence)
    batches[fifo_at(releases, releases->tail++)] = (struct release_batch){.fence = fence};
  batches[fifo_at(releases, releases->tail - 1)].count += n;
  return 0;
}

int pst_receiver_release_after(struct pst_receiver *receiver, const struct pst_view *views,
                               uint32_t n, struct pst_fence *fence)
{
  int rc = 0;

  if (!fence || receiver->unfenced) {
    receiver_drop_fence(receiver, fence);
    return pst_receiver_release(receiver, views, n);
  }
  if (n > release_views_out(receiver) || (n && receiver_is_taken(receiver)))
    rc = -EINVAL;
  else if (n)
    rc = receiver_release_behind(receiver, views, n, fence);
  if (rc < 0 || n == 0)
    receiver_drop_fence(receiver, fence);
  else
    end_stage(&receiver->end, -1);
  return rc;
}

void pst_receiver_fence_free(struct pst_receiver *receiver, struct pst_fence *fence)
{
  receiver_drop_fence(receiver, fence);
}

int receiver_release_more(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  if (receiver->unfenced)
    return pst_receiver_release(receiver, views, n);
  return n > release_views_out(receiver) ? -EINVAL
                                         : receiver_release_behind(receiver, views, n, NULL);
}
