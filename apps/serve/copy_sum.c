/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, of a file while it is copied, and of chunks that an older transfer left. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "copy.h"
#include "remedy.h"

#define STEP (64u << 20) /* bytes, at most: what has to end before we can */

/* ---- Of the file -------------------------------------------------------------------------- */

bool transfer_has_sum(const struct transfer *t)
{
  return (t->copy->params->sha256 || t->existing) && t->size > 0;
}

int transfer_sum(const struct transfer *t, uint8_t digest[SERVE_SHA256_BYTES])
{
  return sums_sha256_so_far(t->sum, digest);
}

static uint64_t step_to(uint64_t at, uint64_t front)
{
  return front - at < STEP ? front - at : STEP;
}

static void summed_here(struct work *work)
{
  struct transfer *t = FROM(struct transfer, sum_work, work);

  t->summing = false;
  if (work->io.result < 0)
    transfer_fail(t, COPY_CLIENT, (int)work->io.result, "reading it for its SHA-256: %s; %s",
                  strerror((int)-work->io.result), remedy_of_source((int)-work->io.result));
  else if ((uint64_t)work->io.result < work->io.length)
    transfer_fail(t, COPY_CLIENT, -ESTALE,
                  "it became shorter than %" PRIu64
                  " bytes while it was read; try again once nothing writes to it",
                  t->size);
  else
    t->summed += work->io.length;
}

static void sum_here(struct transfer *t, uint64_t length)
{
  const bool source = t->fd >= 0;

  t->summing = true;
  remote_sum(&t->copy->remote, &t->sum_work, source ? t->fd : t->part.fd, t->sum, !source, length,
             t->summed, summed_here);
}

static void summed_there(struct ask *ask, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, sum_ask, ask);

  t->asking = false;
  if (answer->type == SERVE_REFUSE)
    transfer_refused(t, answer);
  memcpy(t->theirs, answer->sha256, SERVE_SHA256_BYTES);
}

static void sum_there(struct transfer *t, uint64_t length)
{
  const struct serve_message message = {.type = SERVE_CHECK,
                                        .file = t->file,
                                        .offset = t->asked,
                                        .length = length,
                                        .flags = SERVE_FLAG_ON};

  t->asking = true;
  t->asked += length;
  remote_ask(&t->copy->remote, &t->sum_ask, SERVE_CHECKED, &message, summed_there);
}

bool transfer_summed(struct transfer *t)
{
  uint64_t front = t->failed ? 0 : extents_front(&t->extents);

  if (!transfer_has_sum(t))
    return true;
  if (t->sum == NULL && (t->sum = sums_sha256_open()) == NULL)
    transfer_fail(t, COPY_CLIENT, -ENOMEM, "out of memory; free some, and use --resume");
  if (!t->failed && !t->summing && t->summed < front)
    sum_here(t, step_to(t->summed, front));
  if (!t->failed && !t->asking && t->asked < front)
    sum_there(t, step_to(t->asked, front));
  return !t->summing && !t->asking && (t->failed || (t->summed == t->size && t->asked == t->size));
}

void transfer_compare(struct transfer *t)
{
  t->existing = t->running = true;
  t->at = t->size;
  transfer_covered(t, 0, t->size);
}

void transfer_compared(struct transfer *t, const char *exists)
{
  uint8_t own[SERVE_SHA256_BYTES];

  if (t->size > 0 && transfer_sum(t, own) < 0)
    transfer_fail(t, COPY_CLIENT, -ENOMEM, "out of memory; free some, and use --resume");
  else if (t->size > 0 && memcmp(own, t->theirs, SERVE_SHA256_BYTES) != 0)
    transfer_fail(t, t->copy->ops->to, -EEXIST, "%s", exists);
  else
    t->copy->totals.resumed += t->size;
  transfer_abandon(t);
}

/* ---- Of a chunk ----------------------------------------------------------------------------- */

static void compared(struct ask *ask, const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, ask, ask);
  struct transfer *t = slot->transfer;

  if (answer->type == SERVE_CHECKED &&
      memcmp(answer->sha256, slot->sha256, SERVE_SHA256_BYTES) == 0) {
    t->copy->totals.resumed += slot->length;
    slot_through(slot);
  } else if (t->failed) {
    slot_free(slot);
  } else {
    slot->differs(slot);
  }
}

/* A server that writes the file takes the chunk as come when the sums are the same. */
void slot_compare(struct slot *slot, void (*differs)(struct slot *slot))
{
  struct transfer *t = slot->transfer;
  struct serve_message message = {.type = SERVE_CHECK,
                                  .file = t->file,
                                  .offset = slot->offset,
                                  .length = slot->length,
                                  .has_sha256 = true};

  sums_sha256_of(slot->bytes, slot->length, slot->sha256);
  memcpy(message.sha256, slot->sha256, SERVE_SHA256_BYTES);
  slot->differs = differs;
  remote_ask(&t->copy->remote, &slot->ask, SERVE_CHECKED, &message, compared);
}
