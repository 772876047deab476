/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, of a file while it is copied, and of chunks that an older transfer left. */
#include <errno.h>
#include <string.h>

#include "copy.h"
#include "errno_hint.h"

#define STEP (64u << 20) /* bytes of one step, at most: we cannot end before a step has */

/* ---- The sum of a file --------------------------------------------------------------------------
 */

bool serve_transfer_has_sum(const struct transfer *t)
{
  return (t->copy->params->sha256 || t->existing) && t->size > 0;
}

static void serve_copy_sum_fail_memory(struct transfer *t)
{
  serve_transfer_fail(t, COPY_CLIENT, -ENOMEM, "out of memory; free some, and use --resume");
}

bool serve_transfer_sum(struct transfer *t)
{
  if (serve_digest_sha256_so_far(t->sum, t->ours) == 0)
    return true;
  serve_copy_sum_fail_memory(t);
  return false;
}

static uint64_t serve_copy_sum_step_to(uint64_t at, uint64_t front)
{
  return front - at < STEP ? front - at : STEP;
}

static void serve_copy_sum_summed_here(struct work *work)
{
  struct transfer *t = FROM(struct transfer, sum_work, work);

  t->summing = false;
  if (work->io.result < 0)
    serve_transfer_fail(t, COPY_CLIENT, (int)work->io.result, "reading it for its SHA-256: %s; %s",
                        strerror((int)-work->io.result),
                        app_errno_hint_source((int)-work->io.result));
  else if ((uint64_t)work->io.result < work->io.length)
    serve_transfer_unread(t, 0);
  else
    t->summed += work->io.length;
}

static void serve_copy_sum_here(struct transfer *t, uint64_t length)
{
  const bool source = t->fd >= 0;

  t->summing = true;
  t->sum_work.io.sum = t->sum;
  t->sum_work.io.to_grow = !source;
  serve_connection_work(&t->copy->remote, &t->sum_work, IO_SUM, source ? t->fd : t->part.fd, NULL,
                        length, t->summed, serve_copy_sum_summed_here);
}

static void serve_copy_sum_summed_there(struct serve_pending *pending,
                                        const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, sum_pending, pending);

  t->asking = false;
  if (answer->type == SERVE_REFUSE)
    serve_transfer_refused(t, answer);
  memcpy(t->theirs, answer->sha256, SERVE_SHA256_BYTES);
}

static void serve_copy_sum_there(struct transfer *t, uint64_t length)
{
  const struct serve_message message = {.type = SERVE_CHECK,
                                        .file = t->file,
                                        .offset = t->asked,
                                        .length = length,
                                        .flags = SERVE_FLAG_ON};

  t->asking = true;
  t->asked += length;
  serve_connection_ask(&t->copy->remote, &t->sum_pending, SERVE_CHECKED, &message,
                       serve_copy_sum_summed_there);
}

bool serve_transfer_summed(struct transfer *t)
{
  uint64_t front = t->failed ? 0 : serve_extents_front(&t->extents);

  if (!serve_transfer_has_sum(t))
    return true;
  if (!t->sum && !(t->sum = serve_digest_sha256_open()))
    serve_copy_sum_fail_memory(t);
  if (!t->failed && !t->summing && t->summed < front)
    serve_copy_sum_here(t, serve_copy_sum_step_to(t->summed, front));
  if (!t->failed && !t->asking && t->asked < front)
    serve_copy_sum_there(t, serve_copy_sum_step_to(t->asked, front));
  return !t->summing && !t->asking && (t->failed || (t->summed == t->size && t->asked == t->size));
}

void serve_transfer_compare(struct transfer *t)
{
  t->existing = t->running = true;
  t->at = t->size;
  serve_transfer_covered(t, 0, t->size);
}

void serve_transfer_compared(struct transfer *t, const char *exists)
{
  if (t->size > 0 && serve_transfer_sum(t) && memcmp(t->ours, t->theirs, SERVE_SHA256_BYTES) != 0)
    serve_transfer_fail(t, t->copy->ops->to, -EEXIST, "%s", exists);
  if (!t->failed)
    t->copy->totals.resumed += t->size;
  serve_transfer_abandon(t);
}

/* ---- The sum of a chunk
 * ----------------------------------------------------------------------------- */

static void serve_copy_sum_compared(struct serve_pending *pending,
                                    const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, pending, pending);
  struct transfer *t = slot->transfer;

  if (answer->type == SERVE_CHECKED &&
      memcmp(answer->sha256, slot->sha256, SERVE_SHA256_BYTES) == 0) {
    t->copy->totals.resumed += slot->length;
    serve_slot_through(slot);
  } else if (t->failed) {
    serve_slot_free(slot);
  } else {
    slot->differs(slot);
  }
}

/* A server that writes the file accepts the chunk if the sums are equal. */
void serve_slot_compare(struct slot *slot, void (*differs)(struct slot *slot))
{
  serve_digest_sha256_of(slot->bytes, slot->length, slot->sha256);
  slot->differs = differs;
  serve_slot_ask(slot, SERVE_CHECK, SERVE_CHECKED, serve_copy_sum_compared);
}
