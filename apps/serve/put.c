/* SPDX-License-Identifier: Apache-2.0 */
/* Files to the server: each chunk is read into a slot, which the server reads. */
#include <errno.h>

#include "copy.h"
#include "sandbox.h"

#define EXISTS "it exists and is not replaced (--overwrite at both ends allows it)"

/* ---- One chunk ----------------------------------------------------------------------- */

static void stored(struct ask *ask, const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, ask, ask);

  if (answer->type == SERVE_REFUSE)
    transfer_refused(slot->transfer, answer);
  else if (!slot->is_hole)
    slot->transfer->copy->totals.moved += slot->length;
  slot_through(slot);
}

static void store(struct slot *slot)
{
  if (slot_push(slot, slot->length) < 0)
    slot_free(slot);
  else
    slot_ask(slot, SERVE_STORE, SERVE_DONE, stored);
}

static void was_read(struct work *work)
{
  struct slot *slot = FROM(struct slot, work, work);
  struct transfer *t = slot->transfer;

  if (work->io.result < 0 || (uint64_t)work->io.result < slot->length)
    transfer_unread(t, work->io.result < 0 ? work->io.result : 0);
  if (t->failed) {
    slot_free(slot);
    return;
  }
  slot->crc = sums_crc32c(slot->bytes, slot->length);
  if (slot->offset < t->there)
    slot_compare(slot, store);
  else
    store(slot);
}

static bool feed(struct transfer *t, struct slot *slot)
{
  if (t->at == t->size)
    return false;
  uint64_t most = t->copy->chunk;
  if (t->at < t->there && t->there - t->at < most)
    most = t->there - t->at;
  int64_t extent = root_extent(t->fd, t->at, most, t->size, &t->data, &slot->is_hole);
  if (extent < 0) {
    transfer_unread(t, extent == -ESTALE ? 0 : extent);
    return false;
  }
  slot->offset = t->at;
  slot->length = (uint64_t)extent;
  t->at += slot->length;
  if (slot->is_hole)
    slot_ask(slot, SERVE_HOLE, SERVE_DONE, stored);
  else
    remote_work(&t->copy->remote, &slot->work, IO_READ, t->fd, slot->bytes, slot->length,
                slot->offset, was_read);
  return true;
}

/* ---- Beginning and end of a file ----------------------------------------------------- */

/* In either case the server has still to be told that we are through with it. */
static void committed(struct ask *ask, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, ask, ask);

  if (answer->type == SERVE_REFUSE)
    transfer_refused(t, answer);
  transfer_abandon(t);
}

static void commit(struct transfer *t)
{
  if (root_changed(t->fd, &t->stat))
    transfer_fail(t, COPY_CLIENT, -ESTALE,
                  "it was changed while it was read; try again once nothing writes to it");
  if (t->existing && !t->failed)
    transfer_compared(t, EXISTS);
  else if (t->failed || (transfer_has_sum(t) && !transfer_sum(t)))
    transfer_abandon(t);
  else
    transfer_ask(t, SERVE_COMMIT, SERVE_DONE, committed);
}

/* What has the name at the server, where it was not created. */
static void opened(struct ask *ask, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, ask, ask);

  t->open = answer->type != SERVE_REFUSE;
  t->file = answer->file;
  if (t->open && answer->size == t->size) {
    transfer_compare(t);
  } else {
    transfer_fail(t, COPY_SERVER, -EEXIST, EXISTS);
    transfer_abandon(t);
  }
}

static void created(struct ask *ask, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, ask, ask);

  if (answer->type == SERVE_REFUSE && answer->code == EBUSY && transfer_waits(t))
    return;
  if (answer->type != SERVE_REFUSE) {
    t->open = t->running = true;
    t->file = answer->file;
    t->there = answer->size < t->size ? answer->size : t->size;
  } else if (answer->code == EEXIST && t->copy->params->resume) {
    transfer_ask(t, SERVE_OPEN, SERVE_OPENED, opened);
  } else {
    transfer_refused(t, answer);
    transfer_end(t);
  }
}

static void create(struct transfer *t)
{
  transfer_ask(t, SERVE_CREATE, SERVE_CREATED, created);
}

static void begin(struct transfer *t)
{
  if (fstat(t->fd, &t->stat) < 0) {
    transfer_unread(t, -errno);
    transfer_end(t);
    return;
  }
  t->size = (uint64_t)t->stat.st_size;
  t->mode = t->stat.st_mode & 0777;
  t->copy->totals.known += t->size;
  create(t);
}

const struct copy_ops copy_put = {.verb = "put",
                                  .to = COPY_SERVER,
                                  .open = put_open,
                                  .close = put_close,
                                  .next = put_next,
                                  .begin = begin,
                                  .feed = feed,
                                  .finish = commit,
                                  .retry = create};
