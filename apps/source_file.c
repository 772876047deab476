/* SPDX-License-Identifier: Apache-2.0 */
/* A file, cut into messages; only the last is shorter. A file with a size is read
 * straight into the slots, one preadv a batch; what has none (a FIFO, a terminal,
 * a character device) is read ahead into a buffer, since one cannot know how many
 * messages it will still give. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "errno_hint.h"
#include "iov.h"
#include "log.h"
#include "source.h"

#define AHEAD_BYTES (UINT64_C(8) << 20)
#define RETRY_NS UINT64_C(1000000) /* how soon to look again for input that was not there */

struct file {
  const char *stream, *path;
  int fd;
  uint64_t message;
  bool sized, loop;
  uint64_t size, offset; /* sized */
  char *ahead;           /* not sized: read and not yet handed on */
  uint64_t ahead_size, begin, end;
  bool ended;
};

static int source_file_cannot(const struct file *file, struct pst_error *error, int exit_status,
                              const char *verb, int code)
{
  const char *remedy = code == ENOENT   ? "; name an existing file in source.file"
                       : code == EACCES ? "; allow this user to read it, or name another file"
                       : code == ENXIO  ? "; name another file"
                       : code == ENOTDIR
                           ? "; a part of that path before a / is a file; correct source.file"
                           : "";
  return app_log_fail(error, exit_status, -code, "stream '%s': cannot %s source file %s: %s%s",
                      file->stream, verb, file->path, strerror(code), remedy);
}

/* Files of /proc and /sys say 0 bytes and have some, or cannot say. */
static int source_file_measure(struct file *file, struct pst_error *error)
{
  struct stat st;
  char byte;
  ssize_t got = 1;

  if (fstat(file->fd, &st) < 0)
    return source_file_cannot(file, error, PST_EXIT_USAGE, "look at", errno);
  if (S_ISDIR(st.st_mode))
    return app_log_fail(error, PST_EXIT_USAGE, -EISDIR,
                        "stream '%s': source file %s is a directory; name a file", file->stream,
                        file->path);
  if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) {
    off_t size = lseek(file->fd, 0, SEEK_END);
    if (size > 0 && lseek(file->fd, 0, SEEK_SET) < 0)
      return source_file_cannot(file, error, PST_EXIT_USAGE, "go back in", errno);
    file->size = size > 0 ? (uint64_t)size : 0;
    if (size <= 0)
      got = pread(file->fd, &byte, 1, 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return source_file_cannot(file, error, PST_EXIT_USAGE, "read", errno);
    file->sized = size > 0 || got == 0;
  }
  if (file->sized) {
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
  }
  if (file->loop)
    return app_log_fail(error, PST_EXIT_USAGE, -ESPIPE,
                        "stream '%s': source file %s cannot be read twice; remove source.loop",
                        file->stream, file->path);
  file->ahead_size = file->message > AHEAD_BYTES ? file->message : AHEAD_BYTES;
  file->ahead = malloc(file->ahead_size);
  return file->ahead ? 0 : source_file_cannot(file, error, PST_EXIT_FAILED, "buffer", ENOMEM);
}

static void file_close(void *state)
{
  struct file *file = state;
  if (file->fd >= 0)
    close(file->fd);
  free(file->ahead);
}

static int file_open(void *state, const struct source_params *params, struct pst_error *error)
{
  struct file *file = state;

  file->stream = params->stream;
  file->path = params->file;
  file->message = params->message;
  file->loop = params->loop;
  /* Without O_NONBLOCK a FIFO without a writer would hold up everything. */
  file->fd = open(params->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  return file->fd < 0
             ? source_file_cannot(file, error, app_errno_hint_exit_status(errno), "open", errno)
             : source_file_measure(file, error);
}

/* 1: there is more room or input to come; 0: nothing now or the end; -errno. */
static int source_file_read_ahead(struct file *file)
{
  struct pollfd waiting = {.fd = file->fd, .events = POLLIN};

  if (file->begin > 0) {
    memmove(file->ahead, file->ahead + file->begin, file->end - file->begin);
    file->end -= file->begin;
    file->begin = 0;
  }
  if (file->end == file->ahead_size || file->ended)
    return 0;
  /* A FIFO that no writer has opened yet also reads as ended; poll() knows. */
  if (poll(&waiting, 1, 0) <= 0)
    return 0;
  ssize_t got = read(file->fd, file->ahead + file->end, file->ahead_size - file->end);
  if (got < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
  if (got == 0)
    file->ended = true;
  file->end += (uint64_t)got;
  return got > 0;
}

static uint64_t source_file_messages_ahead(const struct file *file)
{
  uint64_t bytes = file->end - file->begin;
  return file->ended ? (bytes + file->message - 1) / file->message : bytes / file->message;
}

static void source_file_say_grown(const struct file *file)
{
  struct stat st;

  if (fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > file->size)
    app_log_warn(FINDING_LEFT_OUT, NULL,
                 "stream '%s': source file %s grew while it was sent: its first %llu of %llu bytes "
                 "have gone; send it again once it is whole",
                 file->stream, file->path, (unsigned long long)file->size,
                 (unsigned long long)st.st_size);
}

static int file_ready(void *state, uint32_t n, uint64_t *until_ns, struct pst_error *error)
{
  struct file *file = state;
  uint64_t messages;

  if (file->sized) {
    if (file->offset >= file->size && file->loop)
      file->offset = 0;
    messages = (file->size - file->offset + file->message - 1) / file->message;
    if (messages == 0) {
      source_file_say_grown(file);
      return -ENODATA;
    }
    return (int)(messages < n ? messages : n);
  }
  if (source_file_messages_ahead(file) == 0) {
    int rc = source_file_read_ahead(file);
    if (rc < 0)
      return source_file_cannot(file, error, PST_EXIT_FAILED, "read", -rc);
  }
  messages = source_file_messages_ahead(file);
  if (messages == 0 && file->ended)
    return -ENODATA;
  if (messages == 0)
    *until_ns = app_now_ns() + RETRY_NS;
  return (int)(messages < n ? messages : n);
}

/* Read all of iov, whose lengths add up to `length`. */
static int source_file_read_fully(struct file *file, struct iovec *iov, int count, uint64_t length)
{
  while (length > 0) {
    ssize_t got = preadv(file->fd, iov, count, (off_t)file->offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -errno;
    if (got == 0)
      return -ENODATA;
    file->offset += (uint64_t)got;
    length -= (uint64_t)got;
    iov_skip(&iov, &count, (size_t)got);
  }
  return 0;
}

static int source_file_fill_sized(struct file *file, struct pst_slot *slots, uint32_t n,
                                  struct pst_error *error)
{
  struct iovec iov[SOURCE_BATCH];
  uint64_t at = file->offset, total = 0;

  PST_STATIC_ASSERT(SOURCE_BATCH <= IOV_MAX, "one preadv takes a batch");
  for (uint32_t i = 0; i < n; i++) {
    uint64_t left = file->size - at;
    slots[i].length = (uint32_t)(left < file->message ? left : file->message);
    iov[i] = (struct iovec){slots[i].host, slots[i].length};
    at += slots[i].length;
    total += slots[i].length;
  }
  int rc = source_file_read_fully(file, iov, (int)n, total);
  if (rc == -ENODATA)
    return app_log_fail(
        error, PST_EXIT_FAILED, -EIO,
        "stream '%s': source file %s became shorter while it was sent: %llu of %llu "
        "bytes; leave it alone during the run",
        file->stream, file->path, (unsigned long long)file->offset, (unsigned long long)file->size);
  return rc < 0 ? source_file_cannot(file, error, PST_EXIT_FAILED, "read", -rc) : 0;
}

static int file_fill(void *state, struct pst_sender *sender, struct pst_slot *slots, uint32_t n,
                     struct pst_error *error)
{
  struct file *file = state;

  (void)sender;
  for (uint32_t i = 0; i < n; i++) {
    slots[i].meta = 0;
    if (!slots[i].host)
      return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                          "stream '%s': a file cannot be read into memory that the CPU cannot "
                          "write: staging for sources is not in this version; set sender.memory to "
                          "host",
                          file->stream);
    if (slots[i].capacity < file->message)
      return app_log_fail(error, PST_EXIT_FAILED, -EMSGSIZE,
                          "stream '%s': a slot has %u B, a message %llu B", file->stream,
                          slots[i].capacity, (unsigned long long)file->message);
  }
  if (file->sized)
    return source_file_fill_sized(file, slots, n, error);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t left = file->end - file->begin;
    slots[i].length = (uint32_t)(left < file->message ? left : file->message);
    memcpy(slots[i].host, file->ahead + file->begin, slots[i].length);
    file->begin += slots[i].length;
  }
  return 0;
}

static void file_extent(const void *state, struct source_extent *extent)
{
  const struct file *file = state;
  struct stat st;

  *extent = (struct source_extent){.endless = file->loop,
                                   .known = file->sized,
                                   .done_bytes = file->offset,
                                   .total_bytes = file->size};
  if (!file->sized && fstat(file->fd, &st) == 0 && S_ISCHR(st.st_mode))
    extent->endless = true;
}

const struct source_ops app_source_file = {
    .name = "file",
    .reads = "file",
    .size = sizeof(struct file),
    .open = file_open,
    .ready = file_ready,
    .fill = file_fill,
    .extent = file_extent,
    .close = file_close,
};
