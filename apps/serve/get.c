/* SPDX-License-Identifier: Apache-2.0 */
/* Files from the server: each chunk is asked for into a slot, which the server writes. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "copy.h"
#include "errno_hint.h"
#include "root.h"

#define EXISTS "it exists and is not replaced (--overwrite allows it)"

static void serve_get_fetch(struct slot *slot);

/* ---- One chunk ----------------------------------------------------------------------- */

static void serve_get_through(struct slot *slot, uint64_t length)
{
  struct transfer *t = slot->transfer;

  if (t->failed || length >= slot->length) {
    slot->length = length;
    serve_slot_through(slot);
    return;
  }
  /* The server has ended the chunk where a hole begins. */
  serve_transfer_covered(t, slot->offset, length);
  slot->offset += length;
  slot->length -= length;
  serve_get_fetch(slot);
}

static void serve_get_written(struct work *work)
{
  struct slot *slot = FROM(struct slot, work, work);
  struct transfer *t = slot->transfer;

  if (work->io.result < 0)
    serve_transfer_unwritten(t, (int)work->io.result);
  serve_get_through(slot, work->io.length);
}

static void serve_get_take_hole(struct slot *slot, uint64_t length)
{
  struct transfer *t = slot->transfer;
  uint64_t left = t->size - slot->offset;

  if (length > left)
    length = left;
  int rc = serve_part_make_hole(&t->part, slot->offset, length);
  if (rc < 0)
    serve_transfer_fail(t, COPY_CLIENT, rc, "making a hole: %s; begin without --resume",
                        strerror(-rc));
  if (t->at < slot->offset + length)
    t->at = slot->offset + length;
  serve_get_through(slot, length);
}

static void serve_get_take_data(struct slot *slot, uint64_t length, uint32_t crc)
{
  struct transfer *t = slot->transfer;
  uint32_t own = 0;
  int rc = serve_slot_fetch(slot, length, &own);

  t->copy->totals.moved += length;
  if (rc == 0 && own != crc)
    serve_transfer_fail(t, COPY_CLIENT, -EBADMSG,
                        "the CRC32C of %" PRIu64 " bytes at %" PRIu64 " is %08" PRIx32
                        ", the server said %08" PRIx32 "; repeat it with --resume",
                        length, slot->offset, own, crc);
  if (t->failed)
    serve_slot_free(slot);
  else
    serve_connection_work(&t->copy->remote, &slot->work, IO_WRITE, t->part.fd, slot->bytes, length,
                          slot->offset, serve_get_written);
}

static void serve_get_fetched(struct serve_pending *pending, const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, pending, pending);
  struct transfer *t = slot->transfer;
  bool hole = (answer->flags & SERVE_FLAG_HOLE) != 0;

  if (answer->type == SERVE_REFUSE)
    serve_transfer_refused(t, answer);
  else if (answer->length == 0 || (!hole && answer->length > slot->length))
    serve_transfer_fail(t, COPY_SERVER, -EPROTO,
                        "the server sent %" PRIu64 " bytes for %" PRIu64
                        "; run the same version of penstock at both ends",
                        answer->length, slot->length);
  if (t->failed)
    serve_slot_free(slot);
  else if (hole)
    serve_get_take_hole(slot, answer->length);
  else
    serve_get_take_data(slot, answer->length, answer->crc);
}

static void serve_get_fetch(struct slot *slot)
{
  serve_slot_ask(slot, SERVE_FETCH, SERVE_FETCHED, serve_get_fetched);
}

/* ---- A chunk that may be there already ----------------------------------------------- */

static void serve_get_read_back(struct work *work)
{
  struct slot *slot = FROM(struct slot, work, work);

  if (slot->transfer->failed)
    serve_slot_free(slot);
  else if (work->io.result != (int64_t)slot->length)
    serve_get_fetch(slot);
  else
    serve_slot_compare(slot, serve_get_fetch);
}

static bool serve_get_feed(struct transfer *t, struct slot *slot)
{
  uint64_t end = t->at < t->part.there ? t->part.there : t->size;
  uint64_t left = (end < t->size ? end : t->size) - t->at;

  if (left == 0)
    return false;
  slot->offset = t->at;
  slot->length = left < t->copy->chunk ? left : t->copy->chunk;
  t->at += slot->length;
  if (slot->offset < t->part.there)
    serve_connection_work(&t->copy->remote, &slot->work, IO_READ, t->part.fd, slot->bytes,
                          slot->length, slot->offset, serve_get_read_back);
  else
    serve_get_fetch(slot);
  return true;
}

/* ---- Beginning and end of a file ----------------------------------------------------- */

static void serve_get_folder_synced(struct work *work)
{
  struct transfer *t = FROM(struct transfer, work, work);

  if (work->io.result < 0)
    serve_transfer_fail(t, COPY_CLIENT, (int)work->io.result,
                        "flushing its folder to the disk: %s; %s", strerror((int)-work->io.result),
                        app_errno_hint_folder((int)-work->io.result));
  serve_transfer_end(t);
}

static void serve_get_file_synced(struct work *work)
{
  struct transfer *t = FROM(struct transfer, work, work);
  int rc = work->io.result < 0 ? (int)work->io.result : serve_part_rename(&t->part);

  if (rc == -EEXIST) {
    serve_transfer_fail(
        t, COPY_CLIENT, rc,
        "a file of that name came meanwhile and is not replaced (--overwrite allows it)");
    serve_transfer_end(t);
  } else if (rc < 0) {
    serve_transfer_unwritten(t, rc);
    serve_transfer_end(t);
  } else {
    serve_connection_work(&t->copy->remote, &t->work, IO_SYNC, t->part.folder, NULL, 0, 0,
                          serve_get_folder_synced);
  }
}

/* The server has said that the file is as it was when it was opened. */
static void serve_get_closed(struct serve_pending *pending, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, pending, pending);

  if (answer->type == SERVE_REFUSE) {
    serve_transfer_refused(t, answer);
    serve_part_remove(&t->part);
    serve_transfer_end(t);
    return;
  }
  serve_connection_work(&t->copy->remote, &t->work, IO_SYNC, t->part.fd, NULL, 0, 0,
                        serve_get_file_synced);
}

static bool serve_get_sums_are_the_same(struct transfer *t)
{
  if (!serve_transfer_has_sum(t))
    return true;
  if (serve_transfer_sum(t) && memcmp(t->ours, t->theirs, SERVE_SHA256_BYTES) != 0) {
    serve_part_remove(&t->part);
    serve_transfer_fail(t, COPY_CLIENT, -EBADMSG,
                        "its SHA-256 is not the server's; what came is removed, get it again");
  }
  return !t->failed;
}

static void serve_get_finish(struct transfer *t)
{
  if (t->existing) {
    serve_transfer_compared(t, EXISTS);
    return;
  }
  int rc = serve_part_prepare(&t->part);

  if (rc < 0)
    serve_transfer_unwritten(t, rc);
  if (rc < 0 || !serve_get_sums_are_the_same(t)) {
    serve_transfer_abandon(t);
    return;
  }
  t->open = false;
  serve_transfer_ask(t, SERVE_CLOSE, SERVE_DONE, serve_get_closed);
}

/* Handles an existing file of this name, which may be complete, by an earlier --resume or by the
 * transfer before. */
static void serve_get_meet_existing(struct transfer *t)
{
  if (t->copy->params->resume)
    t->fd = serve_root_open_file(t->copy->root, t->local, &t->stat);
  if (t->fd >= 0 && (uint64_t)t->stat.st_size == t->size) {
    serve_transfer_compare(t);
  } else {
    serve_transfer_fail(t, COPY_CLIENT, -EEXIST, EXISTS);
    serve_transfer_abandon(t);
  }
}

static void serve_get_create(struct transfer *t)
{
  const struct copy_params *params = t->copy->params;
  int rc = serve_part_open(t->copy->root, t->local, t->size, t->mode, params->overwrite,
                           params->resume, &t->part);
  char why[FILE_ERROR_BYTES];

  if (rc == -EBUSY && serve_transfer_waits(t))
    return;
  if (rc == 0) {
    t->running = true;
  } else if (rc == -EEXIST) {
    serve_get_meet_existing(t);
  } else {
    serve_file_error_refused(FILE_ERROR_CREATE, rc, t->local, false, why);
    serve_transfer_fail(t, COPY_CLIENT, rc, "%s", why);
    serve_transfer_abandon(t);
  }
}

static void serve_get_opened(struct serve_pending *pending, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, pending, pending);

  t->folder = answer->type == SERVE_REFUSE && answer->code == EISDIR && t->copy->params->recursive;
  if (t->folder)
    serve_get_push(t->copy, t->name, t->strip, SERVE_KIND_FOLDER);
  else if (answer->type == SERVE_REFUSE)
    serve_transfer_refused(t, answer);
  if (answer->type == SERVE_REFUSE) {
    serve_transfer_end(t);
    return;
  }
  t->open = true;
  t->file = answer->file;
  t->size = answer->size;
  t->mode = answer->mode;
  t->copy->totals.known += t->size;
  serve_get_create(t);
}

static void serve_get_begin(struct transfer *t)
{
  serve_transfer_ask(t, SERVE_OPEN, SERVE_OPENED, serve_get_opened);
}

const struct copy_ops serve_copy_get = {.verb = "got",
                                        .to = COPY_CLIENT,
                                        .open = serve_get_open,
                                        .close = serve_get_close,
                                        .next = serve_get_next,
                                        .begin = serve_get_begin,
                                        .feed = serve_get_feed,
                                        .finish = serve_get_finish,
                                        .retry = serve_get_create};
