/* SPDX-License-Identifier: Apache-2.0 */
/* Files to the server: each chunk is read into a slot, which the server reads. */
#include <errno.h>

#include "copy.h"
#include "root.h"

#define EXISTS "it exists and is not replaced (--overwrite at both ends allows it)"

/* ---- One chunk ----------------------------------------------------------------------- */

static void serve_put_stored(struct serve_pending *pending, const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, pending, pending);

  if (answer->type == SERVE_REFUSE)
    serve_transfer_refused(slot->transfer, answer);
  else if (!slot->is_hole)
    slot->transfer->copy->totals.moved += slot->length;
  serve_slot_through(slot);
}

static void serve_put_store(struct slot *slot)
{
  if (serve_slot_push(slot, slot->length) < 0)
    serve_slot_free(slot);
  else
    serve_slot_ask(slot, SERVE_STORE, SERVE_DONE, serve_put_stored);
}

static void serve_put_was_read(struct work *work)
{
  struct slot *slot = FROM(struct slot, work, work);
  struct transfer *t = slot->transfer;

  if (work->io.result < 0 || (uint64_t)work->io.result < slot->length)
    serve_transfer_unread(t, work->io.result < 0 ? work->io.result : 0);
  if (t->failed) {
    serve_slot_free(slot);
    return;
  }
  slot->crc = serve_digest_crc32c(slot->bytes, slot->length);
  if (slot->offset < t->there)
    serve_slot_compare(slot, serve_put_store);
  else
    serve_put_store(slot);
}

static bool serve_put_feed(struct transfer *t, struct slot *slot)
{
  if (t->at == t->size)
    return false;
  uint64_t most = t->copy->chunk;
  if (t->at < t->there && t->there - t->at < most)
    most = t->there - t->at;
  int64_t extent = serve_root_extent(t->fd, t->at, most, t->size, &t->data, &slot->is_hole);
  if (extent < 0) {
    serve_transfer_unread(t, extent == -ESTALE ? 0 : extent);
    return false;
  }
  slot->offset = t->at;
  slot->length = (uint64_t)extent;
  t->at += slot->length;
  if (slot->is_hole)
    serve_slot_ask(slot, SERVE_HOLE, SERVE_DONE, serve_put_stored);
  else
    serve_connection_work(&t->copy->remote, &slot->work, IO_READ, t->fd, slot->bytes, slot->length,
                          slot->offset, serve_put_was_read);
  return true;
}

/* ---- Beginning and end of a file ----------------------------------------------------- */

/* In either case the client still has to tell the server that it is done with the file. */
static void serve_put_committed(struct serve_pending *pending, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, pending, pending);

  if (answer->type == SERVE_REFUSE)
    serve_transfer_refused(t, answer);
  serve_transfer_abandon(t);
}

static void serve_put_commit(struct transfer *t)
{
  if (serve_root_changed(t->fd, &t->stat))
    serve_transfer_fail(t, COPY_CLIENT, -ESTALE,
                        "it was changed while it was read; try again once nothing writes to it");
  if (t->existing && !t->failed)
    serve_transfer_compared(t, EXISTS);
  else if (t->failed || (serve_transfer_has_sum(t) && !serve_transfer_sum(t)))
    serve_transfer_abandon(t);
  else
    serve_transfer_ask(t, SERVE_COMMIT, SERVE_DONE, serve_put_committed);
}

/* Handles the server's answer to opening the file that already has the name there. */
static void serve_put_opened(struct serve_pending *pending, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, pending, pending);

  t->open = answer->type != SERVE_REFUSE;
  t->file = answer->file;
  if (t->open && answer->size == t->size) {
    serve_transfer_compare(t);
  } else {
    serve_transfer_fail(t, COPY_SERVER, -EEXIST, EXISTS);
    serve_transfer_abandon(t);
  }
}

static void serve_put_created(struct serve_pending *pending, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, pending, pending);

  if (answer->type == SERVE_REFUSE && answer->code == EBUSY && serve_transfer_waits(t))
    return;
  if (answer->type != SERVE_REFUSE) {
    t->open = t->running = true;
    t->file = answer->file;
    t->there = answer->size < t->size ? answer->size : t->size;
  } else if (answer->code == EEXIST && t->copy->params->resume) {
    serve_transfer_ask(t, SERVE_OPEN, SERVE_OPENED, serve_put_opened);
  } else {
    serve_transfer_refused(t, answer);
    serve_transfer_end(t);
  }
}

static void serve_put_create(struct transfer *t)
{
  serve_transfer_ask(t, SERVE_CREATE, SERVE_CREATED, serve_put_created);
}

static void serve_put_begin(struct transfer *t)
{
  if (fstat(t->fd, &t->stat) < 0) {
    serve_transfer_unread(t, -errno);
    serve_transfer_end(t);
    return;
  }
  t->size = (uint64_t)t->stat.st_size;
  t->mode = t->stat.st_mode & 0777;
  t->copy->totals.known += t->size;
  serve_put_create(t);
}

const struct copy_ops serve_copy_put = {.verb = "put",
                                        .to = COPY_SERVER,
                                        .open = serve_put_open,
                                        .close = serve_put_close,
                                        .next = serve_put_next,
                                        .begin = serve_put_begin,
                                        .feed = serve_put_feed,
                                        .finish = serve_put_commit,
                                        .retry = serve_put_create};
