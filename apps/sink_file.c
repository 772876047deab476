/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the messages' bytes, each where it belongs. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iov.h"
#include "log.h"
#include "sink.h"
#include "size.h"

struct file {
  struct recording to;
  uint64_t first;    /* sequence number of the byte at 0 */
  uint64_t next;     /* sequence number that follows the bytes up to `end` */
  uint64_t end;      /* of the file so far */
  uint64_t written;  /* bytes, in all */
  uint64_t left_out; /* messages: too late for a place */
  uint64_t before;   /* of these: of the time before `first` */
  uint64_t closed;   /* lost, and the file goes on without a hole */
  /* The first that was shorter than `message`: numbers are no places behind it. */
  uint64_t short_at;
  bool short_seen;
  bool joins; /* the first message that comes is the file's first */
  bool begun;
};

static int file_open(void *state, const struct sink_params *params, struct pst_error *error)
{
  struct file *file = state;

  file->joins = params->joins;
  return app_recording_open(&file->to, params, error);
}

static int sink_file_cannot_write(const struct file *file, int code, struct pst_error *error)
{
  char done[32];

  snprintf(done, sizeof(done), "%" PRIu64 " bytes", file->written);
  return app_recording_failed(&file->to, code, done, error);
}

static int sink_file_write_fully(struct file *file, struct iovec *iov, int count, uint64_t length,
                                 uint64_t offset, struct pst_error *error)
{
  while (length > 0) {
    ssize_t put = file->to.output.in_place ? writev(file->to.output.fd, iov, count)
                                           : pwritev(file->to.output.fd, iov, count, (off_t)offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return sink_file_cannot_write(file, put < 0 ? errno : ENOSPC, error);
    file->written += (uint64_t)put;
    offset += (uint64_t)put;
    length -= (uint64_t)put;
    iov_skip(&iov, &count, (size_t)put);
  }
  return 0;
}

/* Is the place of a message that is not the next one known by its number? */
static bool sink_file_is_numbered(const struct file *file, const struct pst_view *view)
{
  if (file->to.output.in_place || view->sequence < file->first)
    return false;
  if (view->sequence > file->next)
    return !file->short_seen;
  return view->length == file->to.message && (!file->short_seen || view->sequence < file->short_at);
}

static int sink_file_no_place(const struct file *file, const struct pst_view *view,
                              struct pst_error *error)
{
  return app_log_fail(
      error, PST_EXIT_FAILED, -EILSEQ,
      "stream '%s': message %" PRIu64 " came where %" PRIu64
      " was due, and its place in %s is not known%s; use a transport that loses nothing, or "
      "let receiver.assemble: {by: sequence, packets: 64} restore the order",
      file->to.stream, view->sequence, file->next, file->to.output.path,
      file->to.output.in_place ? ", which has no places" : ": not all messages fill `message`");
}

static int sink_file_beyond_files(const struct file *file, const struct pst_view *view,
                                  struct pst_error *error)
{
  return app_log_fail(error, PST_EXIT_FAILED, -EFBIG,
                      "stream '%s': message %" PRIu64 " came where %" PRIu64
                      " was due, and its place lies beyond the largest size of a file; check the "
                      "sequence numbers that the sender writes",
                      file->to.stream, view->sequence, file->next);
}

/* Where a message belongs. In order it follows the one before; behind a gap, or late, its place
 * is known as long as all messages have been full. A recording of a foreign sender goes on where
 * it is not: behind the gap without a hole, and without what comes late, which makes it a part.
 * 1: it is left out. */
static int sink_file_place(const struct file *file, const struct pst_view *view, uint64_t *offset,
                           struct pst_error *error)
{
  if (view->sequence == file->next) {
    *offset = file->end;
    return 0;
  }
  if (sink_file_is_numbered(file, view)) {
    const bool is_far =
        __builtin_mul_overflow(view->sequence - file->first, file->to.message, offset) ||
        *offset > (uint64_t)INT64_MAX - view->length;
    return is_far ? sink_file_beyond_files(file, view, error) : 0;
  }
  if (!file->joins)
    return sink_file_no_place(file, view, error);
  *offset = file->end;
  return view->sequence < file->next;
}

/* The message of sink_file_place() goes to its place. */
static void sink_file_placed(struct file *file, const struct pst_view *view, uint64_t offset)
{
  if (view->sequence > file->next && !sink_file_is_numbered(file, view))
    file->closed += view->sequence - file->next;
  if (view->length < file->to.message && !file->short_seen) {
    file->short_seen = true;
    file->short_at = view->sequence;
  }
  if (view->sequence >= file->next) {
    file->next = view->sequence + 1;
    file->end = offset + view->length;
  }
}

/* Counts a message that is left out: it has come, so its gap was no loss. */
static void sink_file_leave_out(struct file *file, const struct pst_view *view)
{
  bool was_closed =
      file->to.output.in_place || (file->short_seen && view->sequence > file->short_at);

  file->left_out++;
  if (view->sequence < file->first)
    file->before++;
  else if (was_closed && file->closed > 0)
    file->closed--;
}

/* Write a run of messages that lie one after the other in the file; returns how
 * many of the n that were. */
static int sink_file_write_run(struct file *file, struct pst_receiver *receiver,
                               const struct pst_view *views, uint32_t n, struct pst_error *error)
{
  struct iovec iov[SINK_BATCH];
  uint64_t start = 0, length = 0, used = 0;
  uint32_t count;

  PST_STATIC_ASSERT(SINK_BATCH <= IOV_MAX, "one pwritev takes a batch");
  for (count = 0; count < n; count++) {
    uint64_t offset = 0;
    const void *bytes = NULL;
    int rc = sink_file_place(file, &views[count], &offset, error);
    if (rc < 0)
      return rc;
    if (rc > 0 && count > 0)
      break;
    if (rc > 0) {
      sink_file_leave_out(file, &views[count]);
      return 1;
    }
    if (count == 0)
      start = offset;
    else if (offset != start + length)
      break;
    rc = app_recording_reach(&file->to, receiver, &views[count], &used, &bytes, error);
    if (rc == -EAGAIN)
      break;
    if (rc < 0)
      return rc;
    sink_file_placed(file, &views[count], offset);
    iov[count] = (struct iovec){(void *)(uintptr_t)bytes, views[count].length};
    length += views[count].length;
  }
  int rc = sink_file_write_fully(file, iov, (int)count, length, start, error);
  return rc < 0 ? rc : (int)count;
}

static int file_take(void *state, struct pst_receiver *receiver, const struct pst_view *views,
                     uint32_t n, struct pst_fence **fence, struct pst_error *error)
{
  struct file *file = state;

  *fence = NULL;
  if (file->joins && !file->begun && n > 0) {
    file->first = file->next = views[0].sequence;
    file->begun = true;
  }
  for (uint32_t done = 0; done < n;) {
    int rc = sink_file_write_run(file, receiver, views + done, n - done, error);
    if (rc < 0)
      return rc;
    done += (uint32_t)rc;
  }
  file->to.messages += n;
  return 0;
}

static void sink_file_tell_lost(const struct file *file)
{
  uint64_t span = file->next - file->first, came = file->to.messages - file->before;
  uint64_t missing = span > came ? span - came : 0;

  if (missing > file->closed)
    app_log_warn(FINDING_RECORDING, file->to.where,
                 "stream '%s': %s has holes in place of %" PRIu64 " lost message%s",
                 file->to.stream, file->to.output.path, missing - file->closed,
                 app_plural(missing - file->closed));
  if (file->closed > 0)
    app_log_warn(FINDING_RECORDING, file->to.where,
                 "stream '%s': %s lacks %" PRIu64
                 " message%s without a hole in place of them: the place of a "
                 "lost message is known only if all messages fill `message`",
                 file->to.stream, file->to.output.path, file->closed, app_plural(file->closed));
}

#define LEFT_OUT                                                                                   \
  "stream '%s': %s lacks %" PRIu64                                                                 \
  " message%s that came too late for a place in it; receiver.assemble: {by: sequence, packets: "   \
  "64} restores the order"

/* Messages that were delivered are missing, which no loss tells: the file has not its name. */
static int sink_file_finish_without(struct file *file, struct pst_error *error)
{
  struct atomic_file *output = &file->to.output;
  char *wanted = strdup(output->path), *part = NULL;
  int rc = !wanted ? -ENOMEM : app_atomic_file_partial(output);

  if (rc == 0 && output->partial)
    part = strdup(output->path);
  if (rc == 0)
    rc = app_atomic_file_commit(output, file->to.what, error);
  if (rc == 0)
    rc = app_log_fail(error, PST_EXIT_FAILED, -EILSEQ, LEFT_OUT "%s%s", file->to.stream, wanted,
                      file->left_out, app_plural(file->left_out),
                      part ? "; the others are kept as " : "", part ? part : "");
  else if (rc == -ENOMEM)
    app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  free(wanted);
  free(part);
  return rc;
}

static int file_finish(void *state, struct pst_receiver *receiver, struct pst_error *error)
{
  struct file *file = state;

  (void)receiver;
  sink_file_tell_lost(file);
  if (file->left_out > 0 && !file->to.output.partial)
    return sink_file_finish_without(file, error);
  if (file->left_out > 0) /* of a stream that was cut short, which has failed for that */
    app_log_warn(FINDING_RECORDING, file->to.where, LEFT_OUT, file->to.stream, file->to.output.path,
                 file->left_out, app_plural(file->left_out));
  return app_recording_commit(&file->to, error);
}

const struct sink_ops app_sink_file = {
    .name = "file",
    .writes = "file",
    .size = sizeof(struct file),
    .reads = true,
    .open = file_open,
    .take = file_take,
    .cut = app_recording_cut,
    .finish = file_finish,
    .close = app_recording_close,
};
