/* SPDX-License-Identifier: Apache-2.0 */
/* One file on its way, and the slots that carry it. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "copy.h"
#include "finding.h"
#include "log.h"
#include "util/printable.h"

#define BUSY_NS (5 * NS_PER_S)
#define RETRY_NS (100 * NS_PER_MS)

/* The sum of bytes in the region, computed by the memory itself. Returns 1 if the memory cannot. */
static int serve_transfer_sum_in_region(const struct slot *slot, uint64_t length, uint32_t *crc)
{
  int rc = pst_area_checksum(slot->transfer->copy->area, slot->place, length, crc);

  return rc == -EOPNOTSUPP ? 1 : rc;
}

/* `crc` is of what the region has now, `other` of what the CPU has: they are to be the same. */
static int serve_transfer_fail_copy(const struct slot *slot, uint64_t length, uint32_t crc,
                                    uint32_t other)
{
  const struct copy *copy = slot->transfer->copy;

  serve_transfer_fail(
      slot->transfer, COPY_CLIENT, -EBADMSG,
      "the copy %s the region, memory %s (%s), went wrong: the CRC32C of %" PRIu64
      " bytes at %" PRIu64 " is %08" PRIx32 " in the region and %08" PRIx32
      " in the CPU's memory; repeat it with --resume, and if it happens again test that "
      "memory, or take --memory host",
      copy->ops->to == COPY_SERVER ? "into" : "out of", copy->params->remote.area.memory,
      pst_area_backing(copy->area), length, slot->offset, crc, other);
  return -EBADMSG;
}

static int serve_transfer_fail_region(const struct slot *slot, uint64_t length, int code)
{
  const struct copy *copy = slot->transfer->copy;
  const bool in = copy->ops->to == COPY_SERVER;

  serve_transfer_fail(slot->transfer, COPY_CLIENT, code,
                      "%s %" PRIu64
                      " bytes %s the region, memory %s: %s; repeat it with --resume, or "
                      "take --memory host",
                      in ? "writing" : "reading", length, in ? "into" : "back from",
                      copy->params->remote.area.memory, strerror(-code));
  return code;
}

int serve_slot_fetch(struct slot *slot, uint64_t length, uint32_t *crc)
{
  const struct copy *copy = slot->transfer->copy;
  int rc = copy->direct ? 1 : serve_transfer_sum_in_region(slot, length, crc);

  if (rc >= 0 && !copy->direct) {
    int copied = pst_area_read(copy->area, slot->place, length, slot->bytes);
    rc = copied < 0 ? copied : rc;
  }
  if (rc < 0)
    return serve_transfer_fail_region(slot, length, rc);
  uint32_t read = serve_digest_crc32c(slot->bytes, length);
  if (rc == 0 && read != *crc)
    return serve_transfer_fail_copy(slot, length, *crc, read);
  *crc = read;
  return 0;
}

int serve_slot_push(struct slot *slot, uint64_t length)
{
  const struct copy *copy = slot->transfer->copy;
  uint32_t crc = 0;

  if (copy->direct)
    return 0;
  int rc = pst_area_write(copy->area, slot->place, length, slot->bytes);
  if (rc == 0)
    rc = serve_transfer_sum_in_region(slot, length, &crc);
  if (rc < 0)
    return serve_transfer_fail_region(slot, length, rc);
  return rc > 0 || crc == slot->crc ? 0 : serve_transfer_fail_copy(slot, length, crc, slot->crc);
}

void serve_slot_ask(struct slot *slot, uint32_t type, uint32_t wanted,
                    serve_pending_answered *answered)
{
  struct copy *copy = slot->transfer->copy;
  struct serve_message message = {.type = type,
                                  .file = slot->transfer->file,
                                  .offset = slot->offset,
                                  .length = slot->length,
                                  .region = copy->region,
                                  .place = slot->place,
                                  .crc = slot->crc,
                                  .has_sha256 = true};

  memcpy(message.sha256, slot->sha256, sizeof(message.sha256));
  serve_connection_ask(&copy->remote, &slot->pending, wanted, &message, answered);
}

void serve_transfer_ask(struct transfer *t, uint32_t type, uint32_t wanted,
                        serve_pending_answered *answered)
{
  const struct copy_params *params = t->copy->params;
  struct serve_message message = {.type = type,
                                  .name = (const uint8_t *)t->name,
                                  .name_length = (uint32_t)strlen(t->name),
                                  .size = t->size,
                                  .mode = t->mode,
                                  .flags = (params->overwrite ? SERVE_FLAG_OVERWRITE : 0u) |
                                           (params->resume ? SERVE_FLAG_RESUME : 0u),
                                  .file = t->file,
                                  .has_sha256 = serve_transfer_has_sum(t)};

  memcpy(message.sha256, t->ours, sizeof(message.sha256));
  serve_connection_ask(&t->copy->remote, &t->pending, wanted, &message, answered);
}

void serve_slot_free(struct slot *slot)
{
  struct transfer *t = slot->transfer;
  struct copy *copy = t->copy;

  slot->transfer = NULL;
  slot->next = copy->free;
  copy->free = slot;
  t->slots--;
}

void serve_slot_through(struct slot *slot)
{
  if (!slot->transfer->failed)
    serve_transfer_covered(slot->transfer, slot->offset, slot->length);
  serve_slot_free(slot);
}

static void serve_transfer_list(struct copy *copy, int exit_status, int code, const char *where,
                                char *text)
{
  pst_make_printable(text, strlen(text), '?');
  if (!copy->errors || json_object_array_length(copy->errors) < COPY_ERRORS)
    app_finding_add(copy->errors, app_finding_of(exit_status, code), where, text);
  else
    copy->unlisted++;
}

/* Where get puts it: what a user can look at. */
static void serve_transfer_local_path(const struct copy *copy, const char *local,
                                      char path[PATH_MAX])
{
  const char *to = copy->params->to;
  size_t length = to ? serve_copy_unslashed(to) : 0;

  if (copy->single[0] != '\0')
    snprintf(path, PATH_MAX, "%s", to);
  else if (length == 0)
    snprintf(path, PATH_MAX, "%s", local);
  else
    snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, to, to[length - 1] == '/' ? "" : "/", local);
}

static void serve_transfer_place_of(const struct copy *copy, enum copy_end end, const char *name,
                                    char where[COPY_WHERE_BYTES])
{
  char path[PATH_MAX];

  if (end == COPY_CLIENT && copy->ops->to == COPY_CLIENT) {
    serve_transfer_local_path(copy, name, path);
    name = path;
  }
  snprintf(where, COPY_WHERE_BYTES, "%s:%s", end == COPY_SERVER ? "server" : "client", name);
  pst_make_printable(where, strlen(where), '?');
}

static void serve_transfer_fail_file(struct copy *copy, enum copy_end end, const char *name,
                                     int code, const char *format, va_list args)
{
  char where[COPY_WHERE_BYTES], what[1024];

  copy->totals.failed++;
  serve_transfer_place_of(copy, end, name, where);
  vsnprintf(what, sizeof(what), format, args);
  app_log_error_at(where, "%s: %s", where, what);
  serve_transfer_list(copy, PST_EXIT_FAILED, code, where, what);
}

void serve_copy_fail(struct copy *copy, enum copy_end end, const char *name, int code,
                     const char *format, ...)
{
  va_list args;

  va_start(args, format);
  serve_transfer_fail_file(copy, end, name, code, format, args);
  va_end(args);
}

/* All of the copy fails, for what has been said. */
static int serve_transfer_fail_all(struct copy *copy, int exit_status, int code, const char *where,
                                   char *what)
{
  serve_transfer_list(copy, exit_status, code, where, what);
  copy->error.code = code;
  copy->error.exit_status = exit_status;
  return code;
}

int serve_copy_wrong(struct copy *copy, const char *where, int code, const char *format, ...)
{
  char what[2048];
  va_list args;

  va_start(args, format);
  vsnprintf(what, sizeof(what), format, args);
  va_end(args);
  app_log_error_at(where, "%s", what);
  return serve_transfer_fail_all(copy, PST_EXIT_USAGE, code, where, what);
}

int serve_copy_cut_short(struct copy *copy, int code, const char *cause)
{
  char what[1024];

  snprintf(what, sizeof(what), "%s; --resume continues it", cause);
  app_log_error_at(copy->cut_where, "%s: %s", copy->cut_where, what);
  return serve_transfer_fail_all(copy, PST_EXIT_FAILED, code, copy->cut_where, what);
}

void serve_transfer_fail(struct transfer *t, enum copy_end end, int code, const char *format, ...)
{
  va_list args;

  if (t->failed)
    return;
  t->failed = true;
  va_start(args, format);
  serve_transfer_fail_file(t->copy, end, end == COPY_SERVER ? t->name : t->local, code, format,
                           args);
  va_end(args);
}

void serve_transfer_refused(struct transfer *t, const struct serve_message *answer)
{
  serve_transfer_fail(t, COPY_SERVER, -(int)answer->code, "%s", answer->text);
}

void serve_transfer_unread(struct transfer *t, int64_t result)
{
  char why[FILE_ERROR_BYTES];
  int code = serve_file_error_unread(result, t->size, false, why);

  serve_transfer_fail(t, COPY_CLIENT, code, "%s", why);
}

void serve_transfer_unwritten(struct transfer *t, int code)
{
  char why[FILE_ERROR_BYTES];

  serve_file_error_unwritten(&t->part, code, false, why);
  serve_transfer_fail(t, COPY_CLIENT, code, "%s", why);
}

void serve_transfer_covered(struct transfer *t, uint64_t offset, uint64_t length)
{
  uint64_t before = t->extents.covered;
  int rc = serve_extents_add(&t->extents, offset, offset + length);

  if (rc < 0)
    serve_transfer_fail(t, COPY_CLIENT, rc,
                        "its chunks came too far out of order; try a lower --depth");
  t->copy->totals.bytes += t->extents.covered - before;
  t->counted += t->extents.covered - before;
}

void serve_transfer_cut(struct transfer *t)
{
  struct copy *copy = t->copy;

  if (t->failed)
    return;
  t->failed = true;
  copy->totals.failed++;
  copy->cut++;
  if (copy->stopped)
    serve_transfer_place_of(copy, COPY_CLIENT, t->local, copy->cut_where);
  else
    serve_transfer_place_of(copy, COPY_SERVER, t->name, copy->cut_where);
}

bool serve_transfer_waits(struct transfer *t)
{
  uint64_t now = app_now_ns();

  if (t->busy_ns == 0)
    t->busy_ns = now;
  if (t->copy->stopped)
    serve_transfer_cut(t);
  if (now - t->busy_ns > BUSY_NS || t->copy->stopped)
    return false;
  t->retry_ns = now + RETRY_NS;
  return true;
}

void serve_transfer_end(struct transfer *t)
{
  t->ended = true;
}

static void serve_transfer_abandoned(struct serve_pending *pending,
                                     const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, pending, pending);

  if (answer->type == SERVE_REFUSE && t->existing) /* it was changed while it was compared */
    serve_transfer_refused(t, answer);
  serve_transfer_end(t);
}

void serve_transfer_abandon(struct transfer *t)
{
  if (t->open)
    serve_transfer_ask(t, SERVE_CLOSE, SERVE_DONE, serve_transfer_abandoned);
  else
    serve_transfer_end(t);
  t->open = false;
}
