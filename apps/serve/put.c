/* SPDX-License-Identifier: Apache-2.0 */
/* Files to the server: each chunk is read into a slot, which the server reads. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"
#include "remedy.h"
#include "root.h"

#define EXISTS "it exists and is not replaced (--overwrite at both ends allows it)"

/* ---- One chunk ------------------------------------------------------------------------------ */

static void stored(struct ask *ask, const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, ask, ask);

  if (answer->type == SERVE_REFUSE)
    transfer_refused(slot->transfer, answer);
  else
    slot->transfer->copy->totals.moved += slot->length;
  slot_through(slot);
}

static void hole_made(struct ask *ask, const struct serve_message *answer)
{
  struct slot *slot = FROM(struct slot, ask, ask);

  if (answer->type == SERVE_REFUSE)
    transfer_refused(slot->transfer, answer);
  slot_through(slot);
}

static void store(struct slot *slot)
{
  struct transfer *t = slot->transfer;
  const struct serve_message message = {.type = SERVE_STORE,
                                        .file = t->file,
                                        .offset = slot->offset,
                                        .length = slot->length,
                                        .region = t->copy->region,
                                        .place = slot->place,
                                        .crc = slot->crc};
  if (slot_push(slot, slot->length) < 0) {
    slot_free(slot);
    return;
  }
  remote_ask(&t->copy->remote, &slot->ask, SERVE_DONE, &message, stored);
}

static void fail_read(struct transfer *t, int code)
{
  transfer_fail(t, COPY_CLIENT, code, "reading it: %s; %s", strerror(-code),
                remedy_of_source(-code));
}

static void shrank(struct transfer *t)
{
  transfer_fail(t, COPY_CLIENT, -ESTALE,
                "it became shorter than %" PRIu64
                " bytes while it was read; try again once nothing writes to it",
                t->size);
}

static void was_read(struct work *work)
{
  struct slot *slot = FROM(struct slot, work, work);
  struct transfer *t = slot->transfer;

  if (work->io.result < 0)
    fail_read(t, (int)work->io.result);
  else if ((uint64_t)work->io.result < slot->length)
    shrank(t);
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
  struct serve_message message = {.type = SERVE_HOLE, .file = t->file, .offset = t->at};
  struct remote *remote = &t->copy->remote;
  bool hole = false;

  if (t->at == t->size)
    return false;
  uint64_t most = t->copy->chunk;
  if (t->at < t->there && t->there - t->at < most)
    most = t->there - t->at;
  int64_t extent = root_extent(t->fd, t->at, most, t->size, &t->data, &hole);
  if (extent == -ESTALE)
    shrank(t);
  else if (extent < 0)
    fail_read(t, (int)extent);
  if (extent < 0)
    return false;
  slot->offset = t->at;
  slot->length = message.length = (uint64_t)extent;
  t->at += slot->length;
  if (hole)
    remote_ask(remote, &slot->ask, SERVE_DONE, &message, hole_made);
  else
    remote_work(remote, &slot->work, IO_READ, t->fd, slot->bytes, slot->length, slot->offset,
                was_read);
  return true;
}

/* ---- Beginning and end of a file --------------------------------------------------------------
 */

static bool changed(const struct transfer *t)
{
  struct stat now;

  return fstat(t->fd, &now) < 0 || now.st_size != t->stat.st_size ||
         now.st_mtim.tv_sec != t->stat.st_mtim.tv_sec ||
         now.st_mtim.tv_nsec != t->stat.st_mtim.tv_nsec;
}

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
  struct serve_message message = {
      .type = SERVE_COMMIT, .file = t->file, .has_sha256 = transfer_has_sum(t)};

  if (changed(t))
    transfer_fail(t, COPY_CLIENT, -ESTALE,
                  "it was changed while it was read; try again once nothing writes to it");
  if (t->existing && !t->failed) {
    transfer_compared(t, EXISTS);
    return;
  }
  if (!t->failed && message.has_sha256 && transfer_sum(t, message.sha256) < 0)
    transfer_fail(t, COPY_CLIENT, -ENOMEM, "out of memory; free some, and use --resume");
  if (t->failed)
    transfer_abandon(t);
  else
    remote_ask(&t->copy->remote, &t->ask, SERVE_DONE, &message, committed);
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

static void open_existing(struct transfer *t)
{
  const struct serve_message message = {.type = SERVE_OPEN,
                                        .name = (const uint8_t *)t->name,
                                        .name_length = (uint32_t)strlen(t->name)};

  remote_ask(&t->copy->remote, &t->ask, SERVE_OPENED, &message, opened);
}

static void created(struct ask *ask, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, ask, ask);

  if (answer->type == SERVE_REFUSE && answer->code == EBUSY && transfer_waits(t))
    return;
  if (answer->type == SERVE_REFUSE && answer->code == EEXIST && t->copy->params->resume) {
    open_existing(t);
    return;
  }
  if (answer->type == SERVE_REFUSE) {
    transfer_refused(t, answer);
    transfer_end(t);
    return;
  }
  t->open = t->running = true;
  t->file = answer->file;
  t->there = answer->size < t->size ? answer->size : t->size;
}

static void create(struct transfer *t)
{
  const struct copy_params *params = t->copy->params;
  const struct serve_message message = {.type = SERVE_CREATE,
                                        .name = (const uint8_t *)t->name,
                                        .name_length = (uint32_t)strlen(t->name),
                                        .size = t->size,
                                        .mode = t->stat.st_mode & 0777,
                                        .flags = (params->overwrite ? SERVE_FLAG_OVERWRITE : 0u) |
                                                 (params->resume ? SERVE_FLAG_RESUME : 0u)};

  remote_ask(&t->copy->remote, &t->ask, SERVE_CREATED, &message, created);
}

static void begin(struct transfer *t)
{
  if (fstat(t->fd, &t->stat) < 0) {
    fail_read(t, -errno);
    transfer_end(t);
    return;
  }
  t->size = (uint64_t)t->stat.st_size;
  t->copy->totals.known += t->size;
  create(t);
}

const struct copy_ops copy_put = {.verb = "put",
                                  .access = PST_ACCESS_REMOTE_READ,
                                  .to = COPY_SERVER,
                                  .open = put_open,
                                  .close = put_close,
                                  .next = put_next,
                                  .begin = begin,
                                  .feed = feed,
                                  .finish = commit,
                                  .retry = create,
                                  .abandon = transfer_abandon};
