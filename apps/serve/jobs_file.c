/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from an open file, or written to one, or done with all of it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "sandbox.h"
#include "server.h"

#define SUM_STEP (64u << 20) /* bytes */

static const char *name_of(const struct job *job)
{
  return serve_type_name(job->asked.type);
}

/* Within the file, and no more at once than the server told. */
static bool range_is_legal(struct job *job, uint64_t most)
{
  const struct serve_message *m = &job->asked;

  if (m->length == 0 || m->length > most)
    job_refuse(job, -EFBIG, "%s: %" PRIu64 " bytes; 1 to %" PRIu64 " at once are served",
               name_of(job), m->length, most);
  else if (m->offset > job->file->size || m->length > job->file->size - m->offset)
    job_refuse(job, -ERANGE, "%s: %" PRIu64 " bytes at %" PRIu64 " of a file of %" PRIu64,
               name_of(job), m->length, m->offset, job->file->size);
  else
    return true;
  return false;
}

static bool region_is_legal(struct job *job)
{
  if (job->asked.region > 0 && job->asked.region <= UINT32_MAX)
    return true;
  job_refuse(job, -ENOENT, "%s: region %" PRIu64 ": no such region is offered", name_of(job),
             job->asked.region);
  return false;
}

static void fail_write(struct job *job, int code)
{
  char why[WHY_BYTES];

  job->file->dead = true;
  why_unwritten(&job->file->part, code, true, why);
  job_refuse(job, code, "%s", why);
}

/* What is written where it was summed already makes that sum one of something else. */
static void note_written(struct job *job)
{
  job->file->rewritten |= job->asked.offset < job->file->summed;
}

/* result: as of why_unread(). */
static void fail_read(struct job *job, int64_t result)
{
  char why[WHY_BYTES];
  int code = why_unread(result, job->file->size, true, why);

  job_refuse(job, code, "%s", why);
}

/* ---- FETCH: from the file into the client's region ----------------------------------- */

static void fetched(struct job *job)
{
  job->client->bytes += job->length;
  job->client->server->totals.bytes_written += job->length;
  job_answer(job, SERVE_FETCHED);
}

static void was_read(struct job *job)
{
  if (job->io.result < (int64_t)job->length) {
    fail_read(job, job->io.result < 0 ? job->io.result : 0);
    return;
  }
  job->answer.length = job->length;
  job->answer.crc = sums_crc32c(job_bytes(job), job->length);
  job_move(job, PST_OP_WRITE, job->length, 0, job->asked.place, fetched);
}

static void begin_fetch(struct job *job)
{
  job_io(job, IO_READ, job->file->fd, job_bytes(job), job->length, job->asked.offset, was_read);
}

void job_fetch(struct job *job)
{
  bool hole = false;

  if (!range_is_legal(job, job->client->server->chunk_max) || !region_is_legal(job))
    return;
  int64_t extent = root_extent(job->file->fd, job->asked.offset, job->asked.length, job->file->size,
                               &job->file->data, &hole);
  if (extent < 0) {
    fail_read(job, extent == -ESTALE ? 0 : extent);
  } else if (hole) {
    job->answer.length = (uint64_t)extent;
    job->answer.flags = SERVE_FLAG_HOLE;
    job_answer(job, SERVE_FETCHED);
  } else {
    job_with_block(job, job->client->server->files, (uint64_t)extent, begin_fetch);
  }
}

/* ---- STORE: from the client's region into the file ----------------------------------- */

static void cover(struct job *job)
{
  int rc =
      extents_add(&job->file->extents, job->asked.offset, job->asked.offset + job->asked.length);

  if (rc < 0)
    job_refuse(job, rc, "%s: %s", name_of(job),
               rc == -ENOSPC ? "the file has too many gaps; go from front to back"
                             : "the server is out of memory");
  else
    job_answer(job, job->asked.type == SERVE_CHECK ? SERVE_CHECKED : SERVE_DONE);
}

static void written(struct job *job)
{
  if (job->io.result < 0) {
    fail_write(job, (int)job->io.result);
    return;
  }
  note_written(job);
  cover(job);
}

static void has_come(struct job *job)
{
  uint32_t crc = sums_crc32c(job_bytes(job), job->length);

  job->client->bytes += job->length;
  job->client->server->totals.bytes_read += job->length;
  if (crc != job->asked.crc) {
    job_refuse(job, -EBADMSG,
               "STORE: the CRC32C of %" PRIu64 " bytes at %" PRIu64 " is %08" PRIx32
               ", the client said %08" PRIx32,
               job->length, job->asked.offset, crc, job->asked.crc);
  } else if (job->file->dead) {
    job_refuse(job, -EBADF, "STORE: file %u has ended", job->asked.file);
  } else {
    note_written(job);
    job_io(job, IO_WRITE, job->file->part.fd, job_bytes(job), job->length, job->asked.offset,
           written);
  }
}

static void begin_store(struct job *job)
{
  job_move(job, PST_OP_READ, job->length, 0, job->asked.place, has_come);
}

void job_store(struct job *job)
{
  if (range_is_legal(job, job->client->server->chunk_max) && region_is_legal(job))
    job_with_block(job, job->client->server->files, job->asked.length, begin_store);
}

/* ---- HOLE, CHECK --------------------------------------------------------------------- */

void job_hole(struct job *job)
{
  const struct serve_message *m = &job->asked;

  if (!range_is_legal(job, INT64_MAX))
    return;
  note_written(job);
  int rc = part_make_hole(&job->file->part, m->offset, m->length);
  if (rc < 0)
    job_refuse(job, rc, "making a hole: %s; begin without --resume", strerror(-rc));
  else
    cover(job);
}

static bool goes_on(const struct job *job)
{
  return job->asked.type == SERVE_CHECK && (job->asked.flags & SERVE_FLAG_ON) != 0;
}

static struct sums_sha256 **sum_of(struct job *job)
{
  return goes_on(job) ? &job->file->sum : &job->sum;
}

/* The sum, in the answer. */
static void tell_sum(struct job *job, const struct sums_sha256 *sum, job_step *told)
{
  if (sums_sha256_so_far(sum, job->answer.sha256) < 0)
    job_refuse(job, -ENOMEM, "the server is out of memory");
  else
    told(job);
}

static job_step summed;

/* The next part of the range, so that a client that goes is not read for long. False: that
 * was all. */
static bool sum_on(struct job *job)
{
  const struct open_file *file = job->file;
  uint64_t left = job->asked.offset + job->asked.length - job->at;

  if (left == 0)
    return false;
  job_sum(job, file->writable ? file->part.fd : file->fd, *sum_of(job), file->writable,
          left < SUM_STEP ? left : SUM_STEP, summed);
  return true;
}

static void summed(struct job *job)
{
  struct open_file *file = job->file;
  const bool on = goes_on(job), whole = job->io.result == (int64_t)job->io.length;

  job->at += job->io.length;
  if (whole && sum_on(job))
    return;
  if (on)
    file->summing = false;
  if (whole) {
    tell_sum(job, *sum_of(job), job->told);
    return;
  }
  file->rewritten |= on; /* for the sum is of nothing now */
  fail_read(job, job->io.result < 0 ? job->io.result : 0);
}

static void begin_sum(struct job *job, job_step *told)
{
  struct sums_sha256 **sum = sum_of(job);

  if (!*sum)
    *sum = sums_sha256_open();
  if (!*sum) {
    job_refuse(job, -ENOMEM, "the server is out of memory");
    return;
  }
  if (goes_on(job)) {
    job->file->summing = true;
    job->file->summed += job->asked.length;
  }
  job->at = job->asked.offset;
  job->told = told;
  sum_on(job);
}

static void checked(struct job *job)
{
  /* The same on both sides: the client need not send it. */
  if (job->file->writable && !goes_on(job) && job->asked.has_sha256 &&
      memcmp(job->asked.sha256, job->answer.sha256, SERVE_SHA256_BYTES) == 0)
    cover(job);
  else
    job_answer(job, SERVE_CHECKED);
}

void job_check(struct job *job)
{
  const struct open_file *file = job->file;

  if (file->size == 0) {
    sums_sha256_of("", 0, job->answer.sha256);
    job_answer(job, SERVE_CHECKED);
  } else if (!range_is_legal(job, INT64_MAX)) {
    return;
  } else if (goes_on(job) && file->rewritten) {
    job_refuse(job, -EINVAL, "CHECK: what was summed was written again");
  } else if (goes_on(job) && (file->summing || job->asked.offset != file->summed)) {
    job_refuse(job, -EINVAL, "CHECK: the sum goes on at %" PRIu64 "%s, not at %" PRIu64,
               file->summed, file->summing ? " once that is summed" : "", job->asked.offset);
  } else {
    begin_sum(job, checked);
  }
}

/* ---- COMMIT -------------------------------------------------------------------------- */

static void folder_synced(struct job *job)
{
  if (job->io.result < 0) {
    fail_write(job, (int)job->io.result);
    return;
  }
  part_close(&job->file->part, false);
  job->client->server->totals.files_written++;
  job_answer(job, SERVE_DONE);
}

static void file_synced(struct job *job)
{
  struct part *part = &job->file->part;
  int rc = job->io.result < 0 ? (int)job->io.result : part_rename(part);

  if (job->io.result >= 0 && rc == -EEXIST)
    job_refuse(job, rc,
               "a file of that name came meanwhile and is not replaced (--overwrite at both ends "
               "allows it)");
  else if (rc < 0)
    fail_write(job, rc);
  else
    job_io(job, IO_SYNC, part->folder, NULL, 0, 0, folder_synced);
}

static void sync_file(struct job *job)
{
  job_io(job, IO_SYNC, job->file->part.fd, NULL, 0, 0, file_synced);
}

static void compare_sum(struct job *job)
{
  if (memcmp(job->asked.sha256, job->answer.sha256, SERVE_SHA256_BYTES) == 0) {
    sync_file(job);
    return;
  }
  part_close(&job->file->part, true);
  job_refuse(job, -EBADMSG, "its SHA-256 is not the client's; what came is removed, put it again");
}

void job_commit(struct job *job)
{
  struct open_file *file = job->file;

  if (file->extents.covered != file->size) {
    job_refuse(job, -EINVAL, "COMMIT: only %" PRIu64 " of %" PRIu64 " bytes have come",
               file->extents.covered, file->size);
  } else if (file->jobs > 1) {
    job_refuse(job, -EBUSY, "COMMIT: other requests on the file are under way");
  } else {
    int rc = part_prepare(&file->part);
    file->dead = true; /* for all that comes now */
    job->asked.offset = 0;
    job->asked.length = file->size;
    if (rc < 0)
      fail_write(job, rc);
    else if (!job->asked.has_sha256 || file->size == 0)
      sync_file(job);
    else if (file->summed == file->size && !file->rewritten && !file->summing)
      tell_sum(job, file->sum, compare_sum); /* all of it was summed while it came */
    else
      begin_sum(job, compare_sum);
  }
}
