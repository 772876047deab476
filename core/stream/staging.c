/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of the staged path: rows are made, started, fenced and reaped. */
#include "staging.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "util/log.h"

/* Copy batches under way. What arrives meanwhile makes the next one larger. */
#define STAGING_COPIES 4

/* Of one copy, where the memory makes it while it is called: some 0.3 ms of the thread's time. */
#define STAGING_SLICE_BYTES (UINT64_C(64) << 10)

static uint64_t staging_power_of_two(uint64_t n)
{
  uint64_t p = 1;
  while (p < n)
    p <<= 1;
  return p;
}

static int staging_alloc(struct staging *staging, uint32_t slots)
{
  staging->copy_capacity = STAGING_COPIES;
  staging->token_mask = staging_power_of_two(slots) - 1;
  staging->copies = calloc(staging->copy_capacity, sizeof(*staging->copies));
  staging->copy_tokens = calloc(staging->token_mask + 1, sizeof(uint64_t));
  staging->final_mask = (uint32_t)staging->token_mask;
  staging->final_free = calloc(staging->token_mask + 1, sizeof(uint32_t));
  staging->slice = UINT32_MAX;
  int rc = copy_rows_open(&staging->rows, SESSION_DEVICE_BATCH);
  if (rc < 0 || !staging->copies || !staging->copy_tokens || !staging->final_free)
    return -ENOMEM;
  for (uint32_t i = 0; i < slots; i++)
    staging->final_free[staging->final_tail++] = i;
  return 0;
}

int staging_open(struct staging *staging, uint32_t slots, uint32_t pieces)
{
  const struct pst_memory_ops *memory = staging->memory->plugin->memory;
  const struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = STAGING_COPIES, .pieces = pieces};
  int rc = memory->queue_open(staging->memory->memory, &params, &staging->queue);

  return rc < 0 ? rc : staging_alloc(staging, slots);
}

void staging_close_queue(struct staging *staging)
{
  if (staging->queue)
    staging->memory->plugin->memory->queue_close(staging->queue);
  staging->queue = NULL;
}

void staging_close(struct staging *staging)
{
  region_close(&staging->region);
  free(staging->copies);
  free(staging->copy_tokens);
  free(staging->final_free);
  copy_rows_close(&staging->rows);
  free(staging);
}

/* How many more of the transport's tokens copies can hold. */
static uint64_t staging_tokens_left(const struct staging *staging)
{
  return staging->token_mask + 1 - (staging->token_tail - staging->token_head);
}

uint32_t staging_room(const struct staging *staging)
{
  uint64_t tokens = staging_tokens_left(staging);

  if (staging->deferred || staging->copy_tail - staging->copy_head == staging->copy_capacity)
    return 0;
  /* Final slots may be given back before their copies are done, and a transport
   * that lends has more tokens than the ring has slots. */
  uint32_t slots = staging->final_tail - staging->final_head;
  uint32_t left = staging->placed < staging->slice ? staging->slice - staging->placed : 0;
  if (tokens < slots)
    slots = (uint32_t)tokens;
  return slots < left ? slots : left;
}

void staging_slice(struct staging *staging, uint64_t message)
{
  uint64_t messages = STAGING_SLICE_BYTES / message;

  staging->slice = messages < SESSION_POLL_BATCH ? (uint32_t)messages : SESSION_POLL_BATCH;
  if (staging->slice == 0)
    staging->slice = 1;
}

void staging_note(struct staging *staging, const struct pst_view *views, uint32_t n)
{
  assert(n <= staging_tokens_left(staging));
  for (uint32_t i = 0; i < n; i++)
    staging->copy_tokens[staging->token_tail++ & staging->token_mask] = views[i].token;
  staging->placed += n;
}

/* Hand the queue a copy. -EAGAIN: it has no room before one that is under way is done. */
static int staging_queue_copy(struct staging *staging, struct copy_rows *rows)
{
  const struct pst_memory_ops *memory = staging->memory->plugin->memory;
  struct staging_copy *batch = &staging->copies[staging->copy_tail % staging->copy_capacity];
  int rc = memory->copy_rows(staging->queue, rows->row, rows->count, &batch->ticket);

  if (rc == -EAGAIN && staging->copy_head == staging->copy_tail) {
    pst_log(PST_LOG_ERROR, "memory %s takes no copy while none is under way: a bug of it",
            staging->memory->plugin->name);
    rc = -EPROTO;
  }
  if (rc == 0)
    staging->copy_tail++;
  if (rc != -EAGAIN)
    rows->count = 0;
  return rc;
}

int staging_copy(struct staging *staging, struct copy_rows *rows)
{
  struct staging_copy *batch = &staging->copies[staging->copy_tail % staging->copy_capacity];
  uint32_t n = staging->placed;

  staging->placed = 0;
  *batch = (struct staging_copy){.ticket = staging->done_ticket, .count = n};
  if (rows->count == 0) {
    staging->copy_tail++;
    return 0;
  }
  int rc = staging_queue_copy(staging, rows);
  if (rc == -EAGAIN)
    staging->deferred = rows;
  else if (rc < 0)
    staging->token_tail -= n;
  return rc;
}

static int staging_copy_deferred(struct staging *staging)
{
  int rc = staging_queue_copy(staging, staging->deferred);

  if (rc == 0)
    staging->deferred = NULL;
  return rc == -EAGAIN ? 0 : rc;
}

int staging_fence(struct staging *staging, struct pst_fence **ready)
{
  const struct pst_memory_ops *memory = staging->memory->plugin->memory;

  *ready = NULL;
  if (!(memory->capabilities & PST_MEMORY_CAP_FENCE))
    return 0;
  return memory->fence_record(staging->memory->memory, staging->queue, NULL, ready);
}

/* n messages into final slots that lie side by side, from `slot` on. */
static void staging_place_row(struct staging *staging, struct pst_view *view, uint32_t n,
                              uint32_t slot, uint64_t *tokens)
{
  const uint64_t stride = staging->stride;
  const uintptr_t base = (uintptr_t)staging->region.mem.host;
  const uint64_t step = base ? stride : 0; /* where the CPU cannot read, `host` stays NULL */
  uint64_t to = staging->region.mem.address + slot * stride;
  uintptr_t host = base + slot * step;

  copy_rows_add_views(&staging->rows, view, n, to, stride);
  for (const struct pst_view *const end = view + n; view < end; view++) {
    *tokens++ = view->token;
    view->address = to;
    view->host = (const void *)host;
    view->token = slot++;
    to += stride;
    host += step;
  }
}

/* How many of n numbers, from the first on, follow each other. */
static uint32_t staging_consecutive(const uint32_t *numbers, uint32_t n)
{
  uint32_t next = *numbers, count = 0;

  while (count < n && numbers[count] == next)
    count++, next++;
  return count;
}

void staging_place(struct staging *staging, struct pst_view *views, uint32_t n)
{
  assert(n <= staging_tokens_left(staging) && n <= staging->final_tail - staging->final_head);
  staging->placed += n;
  while (n) {
    uint64_t token = staging->token_tail & staging->token_mask;
    const uint32_t *slots = &staging->final_free[staging->final_head & staging->final_mask];
    uint32_t run = staging->final_mask + 1 - (staging->final_head & staging->final_mask);
    if (run > n)
      run = n;
    if (run > staging->token_mask + 1 - token)
      run = (uint32_t)(staging->token_mask + 1 - token);
    run = staging_consecutive(slots, run);
    staging_place_row(staging, views, run, *slots, &staging->copy_tokens[token]);
    staging->final_head += run;
    staging->token_tail += run;
    views += run;
    n -= run;
  }
}

int staging_submit(struct staging *staging, struct pst_fence **ready)
{
  uint32_t count = staging->rows.count, n = staging->placed;

  *ready = NULL;
  int rc = staging_copy(staging, &staging->rows);
  if (rc < 0) {
    if (rc != -EAGAIN)
      staging->final_head -= n;
    return rc;
  }
  return count ? staging_fence(staging, ready) : 0;
}

int staging_reap(struct staging *staging)
{
  int rc;

  if (staging->copy_head == staging->copy_tail && !staging->deferred)
    return 0;
  rc = staging->memory->plugin->memory->queue_poll(staging->queue, &staging->done_ticket);
  if (rc < 0)
    return rc;
  while (staging->copy_head != staging->copy_tail) {
    struct staging_copy *batch = &staging->copies[staging->copy_head % staging->copy_capacity];
    if (batch->ticket > staging->done_ticket)
      break;
    while (batch->count) {
      uint64_t at = staging->token_head & staging->token_mask;
      uint64_t run = staging->token_mask + 1 - at;
      if (run > batch->count)
        run = batch->count;
      staging->lane->ops->release(staging->lane->worker, &staging->copy_tokens[at], (uint32_t)run);
      staging->token_head += run;
      batch->count -= (uint32_t)run;
    }
    staging->copy_head++;
  }
  return staging->deferred ? staging_copy_deferred(staging) : 0;
}

void staging_give_tokens(struct staging *staging, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    staging->final_free[staging->final_tail++ & staging->final_mask] = (uint32_t)tokens[i];
}

void staging_give_views(struct staging *staging, const struct pst_view *views, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    staging->final_free[staging->final_tail++ & staging->final_mask] = (uint32_t)views[i].token;
}
