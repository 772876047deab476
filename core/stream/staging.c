/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of the staged path: rows are made, started, fenced and reaped. */
#include "staging.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "util/log.h"

/* Copy batches under way. Messages that arrive meanwhile make the next one larger. */
#define STAGING_COPIES 4

/* The most bytes of one copy that runs synchronously on this thread: some 0.3 ms of its time. */
#define STAGING_SLICE_BYTES (UINT64_C(64) << 10)

static inline void staging_give_slot(struct fifo *free_slots, uint64_t slot)
{
  uint32_t *slots = free_slots->items;

  slots[fifo_at(free_slots, free_slots->tail++)] = (uint32_t)slot;
}

static int staging_alloc(struct staging *staging, uint32_t slots)
{
  staging->slice = UINT32_MAX;
  if (fifo_reserve(&staging->copies, sizeof(struct staging_copy), STAGING_COPIES) < 0 ||
      fifo_reserve(&staging->tokens, sizeof(uint64_t), slots) < 0 ||
      fifo_reserve(&staging->free_slots, sizeof(uint32_t), slots) < 0)
    return -ENOMEM;
  for (uint32_t i = 0; i < slots; i++)
    staging_give_slot(&staging->free_slots, i);
  return copy_rows_open(&staging->rows, SESSION_DEVICE_BATCH);
}

int staging_open(struct staging *staging, uint32_t slots, uint32_t pieces)
{
  int rc = engine_memory_open_queue(staging->memory, STAGING_COPIES, pieces, &staging->queue);

  return rc < 0 ? rc : staging_alloc(staging, slots);
}

void staging_close_queue(struct staging *staging)
{
  if (!staging)
    return;
  engine_memory_close_queue(staging->memory, staging->queue);
  staging->queue = NULL;
}

void staging_close(struct staging *staging)
{
  if (!staging)
    return;
  region_close(&staging->region);
  free(staging->copies.items);
  free(staging->tokens.items);
  free(staging->free_slots.items);
  copy_rows_close(&staging->rows);
  free(staging);
}

uint32_t staging_room(const struct staging *staging)
{
  uint32_t tokens = fifo_room(&staging->tokens);

  if (staging->deferred || fifo_room(&staging->copies) == 0)
    return 0;
  /* Final slots may be given back before their copies are done, and a transport
   * that lends has more tokens than the ring has slots. */
  uint32_t slots = fifo_count(&staging->free_slots);
  uint32_t left = staging->placed < staging->slice ? staging->slice - staging->placed : 0;
  if (tokens < slots)
    slots = tokens;
  return slots < left ? slots : left;
}

void staging_slice(struct staging *staging, uint64_t message)
{
  uint64_t messages = STAGING_SLICE_BYTES / message;

  staging->slice = messages < SESSION_POLL_BATCH ? (uint32_t)messages : SESSION_POLL_BATCH;
  if (staging->slice == 0)
    staging->slice = 1;
}

/* The copy that is started next. */
static struct staging_copy *staging_next_copy(const struct staging *staging)
{
  return (struct staging_copy *)staging->copies.items +
         fifo_at(&staging->copies, staging->copies.tail);
}

void staging_note(struct staging *staging, const struct pst_view *views, uint32_t n)
{
  struct fifo *fifo = &staging->tokens;
  uint64_t *tokens = fifo->items;

  assert(n <= fifo_room(fifo) && (n == 0 || !staging->deferred));
  for (uint32_t i = 0; i < n; i++)
    tokens[fifo_at(fifo, fifo->tail++)] = views[i].token;
  staging->placed += n;
}

static int staging_queue_copy(struct staging *staging, struct copy_rows *rows)
{
  int rc = copy_rows_submit(rows, staging->memory, staging->queue, staging_is_copying(staging),
                            &staging_next_copy(staging)->ticket);

  if (rc == 0)
    staging->copies.tail++;
  if (rc != -EAGAIN)
    rows->count = 0;
  return rc;
}

int staging_copy(struct staging *staging, struct copy_rows *rows)
{
  uint32_t n = staging->placed;

  assert(!staging->deferred && fifo_room(&staging->copies));
  staging->placed = 0;
  *staging_next_copy(staging) = (struct staging_copy){.ticket = staging->done_ticket, .count = n};
  if (rows->count == 0) {
    staging->copies.tail++;
    return 0;
  }
  int rc = staging_queue_copy(staging, rows);
  if (rc == -EAGAIN)
    staging->deferred = rows;
  else if (rc < 0)
    staging->tokens.tail -= n;
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
  const struct pst_memory_ops *memory = staging->memory->ops;

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
  struct fifo *free_slots = &staging->free_slots, *fifo = &staging->tokens;
  uint64_t *tokens = fifo->items;

  assert(n <= fifo_room(fifo) && n <= fifo_count(free_slots) && !staging->deferred);
  staging->placed += n;
  while (n) {
    const uint32_t *slots = free_slots->items;
    slots += fifo_at(free_slots, free_slots->head);
    uint32_t run = fifo_run(free_slots, free_slots->head, fifo_run(fifo, fifo->tail, n));
    run = staging_consecutive(slots, run);
    staging_place_row(staging, views, run, *slots, &tokens[fifo_at(fifo, fifo->tail)]);
    free_slots->head += run;
    fifo->tail += run;
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
      staging->free_slots.head -= n;
    return rc;
  }
  return count ? staging_fence(staging, ready) : 0;
}

/* Back to the transport. */
static void staging_give_back(struct staging *staging, uint32_t n)
{
  struct fifo *fifo = &staging->tokens;
  const uint64_t *tokens = fifo->items;

  while (n) {
    uint32_t run = fifo_run(fifo, fifo->head, n);
    engine_release(&staging->lane->worker, &tokens[fifo_at(fifo, fifo->head)], run);
    fifo->head += run;
    n -= run;
  }
}

int staging_reap(struct staging *staging)
{
  const struct staging_copy *copies = staging->copies.items;
  int rc;

  if (!staging_is_copying(staging) && !staging->deferred)
    return 0;
  rc = staging->memory->ops->queue_poll(staging->queue, &staging->done_ticket);
  if (rc < 0)
    return rc;
  for (; staging_is_copying(staging); staging->copies.head++) {
    const struct staging_copy *copy = &copies[fifo_at(&staging->copies, staging->copies.head)];
    if (copy->ticket > staging->done_ticket)
      break;
    staging_give_back(staging, copy->count);
  }
  return staging->deferred ? staging_copy_deferred(staging) : 0;
}

/* The copies of the FIFO stay in registers: this is done for every message. */
void staging_give_tokens(struct staging *staging, const uint64_t *tokens, uint32_t n)
{
  struct fifo free_slots = staging->free_slots;

  for (uint32_t i = 0; i < n; i++)
    staging_give_slot(&free_slots, tokens[i]);
  staging->free_slots.tail = free_slots.tail;
}

void staging_give_views(struct staging *staging, const struct pst_view *views, uint32_t n)
{
  struct fifo free_slots = staging->free_slots;

  for (uint32_t i = 0; i < n; i++)
    staging_give_slot(&free_slots, views[i].token);
  staging->free_slots.tail = free_slots.tail;
}
