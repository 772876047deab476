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
#include "notice.h"
#include "util/printable.h"

#define BUSY_NS (5 * NS_PER_S)
#define RETRY_NS (100 * NS_PER_MS)

/* Of what lies in the region, by the memory itself where it can; 1: it cannot. */
static int sum_in_region(const struct slot *slot, uint64_t length, uint32_t *crc)
{
  int rc = pst_area_checksum(slot->transfer->copy->area, slot->place, length, crc);

  return rc == -EOPNOTSUPP ? 1 : rc;
}

/* `crc` is of what the region has now, `other` of what the CPU has: they are to be the same. */
static void fail_copy(const struct slot *slot, uint64_t length, uint32_t crc, uint32_t other)
{
  const struct copy *copy = slot->transfer->copy;

  transfer_fail(slot->transfer, COPY_CLIENT, -EBADMSG,
                "the copy %s the region, memory %s (%s), went wrong: the CRC32C of %" PRIu64
                " bytes at %" PRIu64 " is %08" PRIx32 " in the region and %08" PRIx32
                " in the CPU's memory; repeat it with --resume, and if it happens again test that "
                "memory, or take --memory host",
                copy->ops->to == COPY_SERVER ? "into" : "out of", copy->params->remote.memory,
                pst_area_backing(copy->area), length, slot->offset, crc, other);
}

int slot_fetch(struct slot *slot, uint64_t length, uint32_t *crc)
{
  const struct copy *copy = slot->transfer->copy;
  int rc = copy->direct ? 1 : sum_in_region(slot, length, crc);

  if (rc >= 0 && !copy->direct) {
    int copied = pst_area_read(copy->area, slot->place, length, slot->bytes);
    rc = copied < 0 ? copied : rc;
  }
  if (rc < 0) {
    transfer_fail(slot->transfer, COPY_CLIENT, rc,
                  "reading %" PRIu64 " bytes back from the region, memory %s: %s; repeat it with "
                  "--resume, or take --memory host",
                  length, copy->params->remote.memory, strerror(-rc));
    return rc;
  }
  uint32_t read = sums_crc32c(slot->bytes, length);
  if (rc == 0 && read != *crc) {
    fail_copy(slot, length, *crc, read);
    return -EBADMSG;
  }
  *crc = read;
  return 0;
}

int slot_push(struct slot *slot, uint64_t length)
{
  const struct copy *copy = slot->transfer->copy;
  uint32_t crc = 0;

  if (copy->direct)
    return 0;
  int rc = pst_area_write(copy->area, slot->place, length, slot->bytes);
  if (rc == 0)
    rc = sum_in_region(slot, length, &crc);
  if (rc < 0) {
    transfer_fail(slot->transfer, COPY_CLIENT, rc,
                  "writing %" PRIu64 " bytes into the region, memory %s: %s; repeat it with "
                  "--resume, or take --memory host",
                  length, copy->params->remote.memory, strerror(-rc));
    return rc;
  }
  if (rc > 0 || crc == slot->crc)
    return 0;
  fail_copy(slot, length, crc, slot->crc);
  return -EBADMSG;
}

void slot_free(struct slot *slot)
{
  struct transfer *t = slot->transfer;
  struct copy *copy = t->copy;

  slot->transfer = NULL;
  slot->next = copy->free;
  copy->free = slot;
  t->slots--;
}

void slot_through(struct slot *slot)
{
  if (!slot->transfer->failed)
    transfer_covered(slot->transfer, slot->offset, slot->length);
  slot_free(slot);
}

static void list(struct copy *copy, int exit_status, int code, const char *where, char *text)
{
  pst_make_printable(text, strlen(text), '?');
  if (copy->errors == NULL || json_object_array_length(copy->errors) < COPY_ERRORS)
    finding_add(copy->errors, finding_of(exit_status, code), where, text);
  else
    copy->unlisted++;
}

void copy_fail(struct copy *copy, enum copy_end end, const char *path, int code, const char *format,
               ...)
{
  char where[PATH_MAX + 16], what[1024];
  va_list args;

  copy->totals.failed++;
  snprintf(where, sizeof where, "%s:%s", end == COPY_SERVER ? "server" : "client", path);
  pst_make_printable(where, strlen(where), '?');
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  notice_error_at(where, "%s: %s", where, what);
  list(copy, PST_EXIT_FAILED, code, where, what);
}

int copy_wrong(struct copy *copy, const char *where, int code, const char *format, ...)
{
  char what[2048];
  va_list args;

  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  notice_error_at(where, "%s", what);
  list(copy, PST_EXIT_USAGE, code, where, what);
  copy->error.code = code;
  copy->error.exit_status = PST_EXIT_USAGE;
  return code;
}

void copy_local_path(const struct copy *copy, const char *local, char path[PATH_MAX])
{
  const char *to = copy->params->to;
  size_t length = to != NULL ? strlen(to) : 0;

  while (length > 1 && to[length - 1] == '/')
    length--;
  if (copy->single[0] != '\0')
    snprintf(path, PATH_MAX, "%s", to);
  else if (length == 0)
    snprintf(path, PATH_MAX, "%s", local);
  else
    snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, to, to[length - 1] == '/' ? "" : "/", local);
}

void transfer_fail(struct transfer *t, enum copy_end end, int code, const char *format, ...)
{
  struct copy *copy = t->copy;
  char what[1024], path[PATH_MAX];
  const char *where = end == COPY_SERVER ? t->name : t->local;
  va_list args;

  if (t->failed)
    return;
  t->failed = true;
  if (end == COPY_CLIENT && copy->ops->to == COPY_CLIENT) {
    copy_local_path(copy, t->local, path);
    where = path;
  }
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  copy_fail(copy, end, where, code, "%s", what);
}

void transfer_refused(struct transfer *t, const struct serve_message *answer)
{
  transfer_fail(t, COPY_SERVER, -(int)answer->code, "%s", answer->text);
}

void transfer_covered(struct transfer *t, uint64_t offset, uint64_t length)
{
  uint64_t before = t->extents.covered;
  int rc = extents_add(&t->extents, offset, offset + length);

  if (rc < 0)
    transfer_fail(t, COPY_CLIENT, rc, "its chunks came in too wild an order; try a lower --depth");
  t->copy->totals.bytes += t->extents.covered - before;
  t->counted += t->extents.covered - before;
}

void transfer_cut(struct transfer *t)
{
  struct copy *copy = t->copy;

  if (t->failed)
    return;
  t->failed = true;
  copy->totals.failed++;
  copy->cut++;
  snprintf(copy->cut_name, sizeof copy->cut_name, "%s", t->name);
}

bool transfer_waits(struct transfer *t)
{
  uint64_t now = now_ns();

  if (t->busy_ns == 0)
    t->busy_ns = now;
  if (t->copy->stopped)
    transfer_cut(t);
  if (now - t->busy_ns > BUSY_NS || t->copy->stopped)
    return false;
  t->retry_ns = now + RETRY_NS;
  return true;
}

void transfer_end(struct transfer *t)
{
  t->ended = true;
}

static void abandoned(struct ask *ask, const struct serve_message *answer)
{
  struct transfer *t = FROM(struct transfer, ask, ask);

  if (answer->type == SERVE_REFUSE && t->existing) /* it was changed while it was compared */
    transfer_refused(t, answer);
  transfer_end(t);
}

void transfer_abandon(struct transfer *t)
{
  const struct serve_message message = {.type = SERVE_CLOSE, .file = t->file};

  if (t->open)
    remote_ask(&t->copy->remote, &t->ask, SERVE_DONE, &message, abandoned);
  else
    transfer_end(t);
  t->open = false;
}
