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

#include "notice.h"
#include "output.h"
#include "sink.h"
#include "size.h"

#define BOUNCE_BYTES (UINT64_C(4) << 20)

struct file {
  const char *stream;
  char what[128];
  struct output output;
  uint64_t message;
  uint64_t first;    /* sequence number of the byte at 0 */
  uint64_t next;     /* sequence number that follows the bytes up to `end` */
  uint64_t end;      /* of the file so far */
  uint64_t written;  /* bytes, in all */
  uint64_t messages; /* taken */
  uint64_t left_out; /* of them: too late for a place */
  uint64_t closed;   /* lost, and the file goes on without a hole */
  uint64_t
      short_at; /* the first that was shorter than `message`: numbers are no places behind it */
  bool short_seen;
  bool joins; /* the first message that comes is the file's first */
  bool begun;
  char *bounce; /* for messages that the CPU cannot read */
  uint64_t bounce_size;
};

static int file_open(const struct sink_params *params, void **state, struct pst_error *error)
{
  if (params->file == NULL || params->file[0] == '\0')
    return notice_fail(error, PST_EXIT_USAGE, -EINVAL,
                       "stream '%s': sink.file is missing; name the file to write", params->stream);
  struct file *file = calloc(1, sizeof *file);
  if (file == NULL)
    return notice_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  file->stream = params->stream;
  file->message = params->message;
  file->joins = params->joins;
  snprintf(file->what, sizeof file->what, "stream '%s': sink", params->stream);
  int result = output_open(&file->output, file->what, params->file,
                           params->overwrite ? OUTPUT_OVERWRITE : 0, error);
  if (result < 0) {
    free(file);
    return result;
  }
  *state = file;
  return 0;
}

static int cannot_write(const struct file *file, int code, struct pst_error *error)
{
  const char *remedy = "check the disk";
  if (code == ENOSPC || code == EDQUOT)
    remedy = "free space there, or let sink.file name another filesystem";
  else if (code == EFBIG)
    remedy = "raise the limit of file sizes (ulimit -f), or send less";
  else if (code == EPIPE)
    remedy = "its reader has gone";
  return notice_fail(error, PST_EXIT_FAILED, -code,
                     "stream '%s': cannot write to %s after %" PRIu64 " bytes: %s; %s%s",
                     file->stream, file->output.path, file->written, strerror(code), remedy,
                     file->output.in_place ? "" : "; nothing is left of the file");
}

static int write_fully(struct file *file, struct iovec *iov, int count, uint64_t length,
                       uint64_t offset, struct pst_error *error)
{
  while (length > 0) {
    ssize_t put = file->output.in_place ? writev(file->output.fd, iov, count)
                                        : pwritev(file->output.fd, iov, count, (off_t)offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return cannot_write(file, put < 0 ? errno : ENOSPC, error);
    file->written += (uint64_t)put;
    offset += (uint64_t)put;
    length -= (uint64_t)put;
    for (size_t left = (size_t)put; left > 0;) {
      size_t part = left < iov->iov_len ? left : iov->iov_len;
      iov->iov_base = (char *)iov->iov_base + part;
      iov->iov_len -= part;
      left -= part;
      if (iov->iov_len == 0) {
        iov++;
        count--;
      }
    }
  }
  return 0;
}

/* Is the place of a message that is not the next one known by its number? */
static bool is_numbered(const struct file *file, const struct pst_view *view)
{
  if (file->output.in_place || view->sequence < file->first)
    return false;
  if (view->sequence > file->next)
    return !file->short_seen;
  return (view->length == file->message || file->joins) &&
         (!file->short_seen || view->sequence < file->short_at);
}

static int no_place(const struct file *file, const struct pst_view *view, struct pst_error *error)
{
  return notice_fail(
      error, PST_EXIT_FAILED, -EILSEQ,
      "stream '%s': message %" PRIu64 " came where %" PRIu64
      " was due, and its place in %s is not known%s; use a transport that loses nothing, or "
      "let receiver.assemble: {by: sequence, packets: 64} restore the order",
      file->stream, view->sequence, file->next, file->output.path,
      file->output.in_place ? ", which has no places" : ": not all messages fill `message`");
}

/* Where a message belongs. In order it follows the one before; behind a gap, or late, its place
 * is known as long as all messages have been full. A recording of a foreign sender goes on where
 * it is not: behind the gap without a hole, and without what comes late. 1: it is left out. */
static int place(const struct file *file, const struct pst_view *view, uint64_t *offset,
                 struct pst_error *error)
{
  if (view->sequence == file->next) {
    *offset = file->end;
    return 0;
  }
  if (is_numbered(file, view)) {
    *offset = (view->sequence - file->first) * file->message;
    return 0;
  }
  if (!file->joins)
    return no_place(file, view, error);
  *offset = file->end;
  return view->sequence < file->next;
}

/* The message of place() goes to its place. */
static void placed(struct file *file, const struct pst_view *view, uint64_t offset)
{
  if (view->sequence > file->next && !is_numbered(file, view))
    file->closed += view->sequence - file->next;
  if (view->length < file->message && (!file->short_seen || view->sequence < file->short_at)) {
    file->short_seen = true;
    file->short_at = view->sequence;
  }
  if (view->sequence >= file->next) {
    file->next = view->sequence + 1;
    file->end = offset + view->length;
  }
}

/* Bytes of a view for the CPU: where they are, or copied to the bounce buffer. */
static int reach(struct file *file, struct pst_receiver *receiver, const struct pst_view *view,
                 uint64_t *used, void **bytes, struct pst_error *error)
{
  if (view->host != NULL || view->length == 0) {
    *bytes = (void *)(uintptr_t)view->host;
    return 0;
  }
  if (file->bounce == NULL) {
    file->bounce_size = file->message > BOUNCE_BYTES ? file->message : BOUNCE_BYTES;
    file->bounce = malloc(file->bounce_size);
    if (file->bounce == NULL)
      return notice_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream '%s': out of memory",
                         file->stream);
  }
  if (file->bounce_size - *used < view->length)
    return -EAGAIN;
  *bytes = file->bounce + *used;
  *used += view->length;
  int result = pst_receiver_read(receiver, view, *bytes);
  if (result < 0)
    return notice_fail(error, PST_EXIT_FAILED, result,
                       "stream '%s': cannot copy message %" PRIu64 " to host memory: %s",
                       file->stream, view->sequence, strerror(-result));
  return 0;
}

/* Write a run of messages that lie one after the other in the file; returns how
 * many of the n that were. */
static int write_run(struct file *file, struct pst_receiver *receiver, const struct pst_view *views,
                     uint32_t n, struct pst_error *error)
{
  struct iovec iov[SINK_BATCH];
  uint64_t start = 0, length = 0, used = 0;
  uint32_t count;

  PST_STATIC_ASSERT(SINK_BATCH <= IOV_MAX, "one pwritev takes a batch");
  for (count = 0; count < n; count++) {
    uint64_t offset = 0;
    void *bytes = NULL;
    int result = place(file, &views[count], &offset, error);
    if (result < 0)
      return result;
    if (result > 0 && count > 0)
      break;
    if (result > 0) {
      file->left_out++;
      return 1;
    }
    if (count == 0)
      start = offset;
    else if (offset != start + length)
      break;
    result = reach(file, receiver, &views[count], &used, &bytes, error);
    if (result == -EAGAIN)
      break;
    if (result < 0)
      return result;
    placed(file, &views[count], offset);
    iov[count] = (struct iovec){bytes, views[count].length};
    length += views[count].length;
  }
  int result = write_fully(file, iov, (int)count, length, start, error);
  return result < 0 ? result : (int)count;
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
    int result = write_run(file, receiver, views + done, n - done, error);
    if (result < 0)
      return result;
    done += (uint32_t)result;
  }
  file->messages += n;
  return 0;
}

static int file_cut(void *state)
{
  struct file *file = state;
  return file->messages == 0 ? -ENODATA : output_partial(&file->output);
}

static int file_finish(void *state, struct pst_receiver *receiver, struct pst_error *error)
{
  struct file *file = state;
  uint64_t span = file->next - file->first, there = file->messages - file->left_out;
  uint64_t missing = span > there ? span - there : 0;
  char where[512];

  (void)receiver;
  snprintf(where, sizeof where, "streams.%s.receiver.sink", file->stream);
  if (missing > file->closed)
    notice_warn(FINDING_RECORDING, where,
                "stream '%s': %s has holes in place of %" PRIu64 " lost message%s", file->stream,
                file->output.path, missing - file->closed, plural(missing - file->closed));
  if (file->closed > 0)
    notice_warn(FINDING_RECORDING, where,
                "stream '%s': %s lacks %" PRIu64
                " message%s without a hole in the place: only where "
                "all messages fill `message` is the place known",
                file->stream, file->output.path, file->closed, plural(file->closed));
  if (file->left_out > 0)
    notice_warn(FINDING_RECORDING, where,
                "stream '%s': %s lacks %" PRIu64 " message%s that came too late; "
                "receiver.assemble: {by: sequence, packets: 64} restores the order",
                file->stream, file->output.path, file->left_out, plural(file->left_out));
  return sink_commit(&file->output, file->stream, file->what, error);
}

static void file_close(void *state)
{
  struct file *file = state;
  output_discard(&file->output);
  free(file->bounce);
  free(file);
}

const struct sink_ops sink_file = {
    .name = "file",
    .reads = true,
    .open = file_open,
    .take = file_take,
    .cut = file_cut,
    .finish = file_finish,
    .close = file_close,
};
