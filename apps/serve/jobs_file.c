/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that read an open file, write one, or do something with all of it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "root.h"
#include "server.h"

#define SUM_STEP (64u << 20) /* bytes */

static const char *serve_jobs_file_name_of(const struct job *job)
{
  return serve_type_name(job->asked.type);
}

/* Within the file, and no more at once than the server told. */
static bool serve_jobs_file_range_is_legal(struct job *job, uint64_t most)
{
  const struct serve_message *m = &job->asked;

  if (m->length == 0 || m->length > most)
    serve_job_refuse(job, -EFBIG, "%s: %" PRIu64 " bytes; one request takes 1 to %" PRIu64,
                     serve_jobs_file_name_of(job), m->length, most);
  else if (m->offset > job->file->size || m->length > job->file->size - m->offset)
    serve_job_refuse(job, -ERANGE,
                     "%s: %" PRIu64 " bytes at offset %" PRIu64
                     " are not within the file's %" PRIu64,
                     serve_jobs_file_name_of(job), m->length, m->offset, job->file->size);
  else
    return true;
  return false;
}

static bool serve_jobs_file_region_is_legal(struct job *job)
{
  if (job->asked.region > 0 && job->asked.region <= UINT32_MAX)
    return true;
  serve_job_refuse(job, -ENOENT, "%s: region %" PRIu64 ": no such region is offered",
                   serve_jobs_file_name_of(job), job->asked.region);
  return false;
}

static void serve_jobs_file_fail_write(struct job *job, int code)
{
  char why[FILE_ERROR_BYTES];

  job->file->dead = true;
  serve_file_error_unwritten(&job->file->part, code, true, why);
  serve_job_refuse(job, code, "%s", why);
}

/* Notes a write to a range that was summed already: the sum is no longer the file's. */
static void serve_jobs_file_note_written(struct job *job)
{
  job->file->rewritten |= job->asked.offset < job->file->summed;
}

/* result: as of serve_file_error_unread(). */
static void serve_jobs_file_fail_read(struct job *job, int64_t result)
{
  char why[FILE_ERROR_BYTES];
  int code = serve_file_error_unread(result, job->file->size, true, why);

  serve_job_refuse(job, code, "%s", why);
}

/* ---- FETCH: from the file into the client's region ----------------------------------- */

static void serve_jobs_file_fetched(struct job *job)
{
  job->client->bytes += job->length;
  job->client->server->totals.bytes_written += job->length;
  serve_job_answer(job, SERVE_FETCHED);
}

static void serve_jobs_file_was_read(struct job *job)
{
  if (job->io.result < (int64_t)job->length) {
    serve_jobs_file_fail_read(job, job->io.result < 0 ? job->io.result : 0);
    return;
  }
  job->answer.length = job->length;
  job->answer.crc = serve_digest_crc32c(serve_job_bytes(job), job->length);
  serve_job_move(job, PST_OP_WRITE, job->length, 0, job->asked.place, serve_jobs_file_fetched);
}

static void serve_jobs_file_begin_fetch(struct job *job)
{
  serve_job_io(job, IO_READ, job->file->fd, serve_job_bytes(job), job->length, job->asked.offset,
               serve_jobs_file_was_read);
}

void serve_job_fetch(struct job *job)
{
  bool hole = false;

  if (!serve_jobs_file_range_is_legal(job, job->client->server->chunk_max) ||
      !serve_jobs_file_region_is_legal(job))
    return;
  int64_t extent = serve_root_extent(job->file->fd, job->asked.offset, job->asked.length,
                                     job->file->size, &job->file->data, &hole);
  if (extent < 0) {
    serve_jobs_file_fail_read(job, extent == -ESTALE ? 0 : extent);
  } else if (hole) {
    job->answer.length = (uint64_t)extent;
    job->answer.flags = SERVE_FLAG_HOLE;
    serve_job_answer(job, SERVE_FETCHED);
  } else {
    serve_job_with_block(job, job->client->server->files, (uint64_t)extent,
                         serve_jobs_file_begin_fetch);
  }
}

/* ---- STORE: from the client's region into the file ----------------------------------- */

static void serve_jobs_file_cover(struct job *job)
{
  int rc = serve_extents_add(&job->file->extents, job->asked.offset,
                             job->asked.offset + job->asked.length);

  if (rc < 0)
    serve_job_refuse(job, rc, "%s: %s", serve_jobs_file_name_of(job),
                     rc == -ENOSPC ? "the file has too many gaps; go from front to back"
                                   : "the server is out of memory");
  else
    serve_job_answer(job, job->asked.type == SERVE_CHECK ? SERVE_CHECKED : SERVE_DONE);
}

static void serve_jobs_file_written(struct job *job)
{
  if (job->io.result < 0) {
    serve_jobs_file_fail_write(job, (int)job->io.result);
    return;
  }
  serve_jobs_file_note_written(job);
  serve_jobs_file_cover(job);
}

static void serve_jobs_file_has_come(struct job *job)
{
  uint32_t crc = serve_digest_crc32c(serve_job_bytes(job), job->length);

  job->client->bytes += job->length;
  job->client->server->totals.bytes_read += job->length;
  if (crc != job->asked.crc) {
    serve_job_refuse(job, -EBADMSG,
                     "STORE: the CRC32C of %" PRIu64 " bytes at %" PRIu64 " is %08" PRIx32
                     ", the client said %08" PRIx32,
                     job->length, job->asked.offset, crc, job->asked.crc);
  } else if (job->file->dead) {
    serve_job_refuse(job, -EBADF, "STORE: file %u has ended", job->asked.file);
  } else {
    serve_jobs_file_note_written(job);
    serve_job_io(job, IO_WRITE, job->file->part.fd, serve_job_bytes(job), job->length,
                 job->asked.offset, serve_jobs_file_written);
  }
}

static void serve_jobs_file_begin_store(struct job *job)
{
  serve_job_move(job, PST_OP_READ, job->length, 0, job->asked.place, serve_jobs_file_has_come);
}

void serve_job_store(struct job *job)
{
  if (serve_jobs_file_range_is_legal(job, job->client->server->chunk_max) &&
      serve_jobs_file_region_is_legal(job))
    serve_job_with_block(job, job->client->server->files, job->asked.length,
                         serve_jobs_file_begin_store);
}

/* ---- HOLE, CHECK --------------------------------------------------------------------- */

void serve_job_hole(struct job *job)
{
  const struct serve_message *m = &job->asked;

  if (!serve_jobs_file_range_is_legal(job, INT64_MAX))
    return;
  serve_jobs_file_note_written(job);
  int rc = serve_part_make_hole(&job->file->part, m->offset, m->length);
  if (rc < 0)
    serve_job_refuse(job, rc, "making a hole: %s; begin without --resume", strerror(-rc));
  else
    serve_jobs_file_cover(job);
}

static bool serve_jobs_file_goes_on(const struct job *job)
{
  return job->asked.type == SERVE_CHECK && (job->asked.flags & SERVE_FLAG_ON) != 0;
}

static struct digest_sha256 **serve_jobs_file_sum_of(struct job *job)
{
  return serve_jobs_file_goes_on(job) ? &job->file->sum : &job->sum;
}

/* The sum, in the answer. */
static void serve_jobs_file_tell_sum(struct job *job, const struct digest_sha256 *sum,
                                     job_step *told)
{
  if (serve_digest_sha256_so_far(sum, job->answer.sha256) < 0)
    serve_job_refuse(job, -ENOMEM, "the server is out of memory");
  else
    told(job);
}

static job_step serve_jobs_file_summed;

/* The next part of the range, so that a client that goes is not read for long. False: that
 * was all. */
static bool serve_jobs_file_sum_on(struct job *job)
{
  const struct open_file *file = job->file;
  uint64_t left = job->asked.offset + job->asked.length - job->at;

  if (left == 0)
    return false;
  serve_job_sum(job, file->writable ? file->part.fd : file->fd, *serve_jobs_file_sum_of(job),
                file->writable, left < SUM_STEP ? left : SUM_STEP, serve_jobs_file_summed);
  return true;
}

static void serve_jobs_file_summed(struct job *job)
{
  struct open_file *file = job->file;
  const bool on = serve_jobs_file_goes_on(job), whole = job->io.result == (int64_t)job->io.length;

  job->at += job->io.length;
  if (whole && serve_jobs_file_sum_on(job))
    return;
  if (on)
    file->summing = false;
  if (whole) {
    serve_jobs_file_tell_sum(job, *serve_jobs_file_sum_of(job), job->told);
    return;
  }
  file->rewritten |= on; /* for the sum is of nothing now */
  serve_jobs_file_fail_read(job, job->io.result < 0 ? job->io.result : 0);
}

static void serve_jobs_file_begin_sum(struct job *job, job_step *told)
{
  struct digest_sha256 **sum = serve_jobs_file_sum_of(job);

  if (!*sum)
    *sum = serve_digest_sha256_open();
  if (!*sum) {
    serve_job_refuse(job, -ENOMEM, "the server is out of memory");
    return;
  }
  if (serve_jobs_file_goes_on(job)) {
    job->file->summing = true;
    job->file->summed += job->asked.length;
  }
  job->at = job->asked.offset;
  job->told = told;
  serve_jobs_file_sum_on(job);
}

static void serve_jobs_file_checked(struct job *job)
{
  /* The same on both sides: the client need not send it. */
  if (job->file->writable && !serve_jobs_file_goes_on(job) && job->asked.has_sha256 &&
      memcmp(job->asked.sha256, job->answer.sha256, SERVE_SHA256_BYTES) == 0)
    serve_jobs_file_cover(job);
  else
    serve_job_answer(job, SERVE_CHECKED);
}

void serve_job_check(struct job *job)
{
  const struct open_file *file = job->file;

  if (file->size == 0) {
    serve_digest_sha256_of("", 0, job->answer.sha256);
    serve_job_answer(job, SERVE_CHECKED);
  } else if (!serve_jobs_file_range_is_legal(job, INT64_MAX)) {
    return;
  } else if (serve_jobs_file_goes_on(job) && file->rewritten) {
    serve_job_refuse(job, -EINVAL, "CHECK: bytes that the sum covers were written again");
  } else if (serve_jobs_file_goes_on(job) && (file->summing || job->asked.offset != file->summed)) {
    serve_job_refuse(job, -EINVAL, "CHECK: the sum goes on at %" PRIu64 "%s, not at %" PRIu64,
                     file->summed, file->summing ? " once that is summed" : "", job->asked.offset);
  } else {
    serve_jobs_file_begin_sum(job, serve_jobs_file_checked);
  }
}

/* ---- COMMIT -------------------------------------------------------------------------- */

static void serve_jobs_file_folder_synced(struct job *job)
{
  if (job->io.result < 0) {
    serve_jobs_file_fail_write(job, (int)job->io.result);
    return;
  }
  serve_part_close(&job->file->part, false);
  job->client->server->totals.files_written++;
  serve_job_answer(job, SERVE_DONE);
}

static void serve_jobs_file_synced(struct job *job)
{
  struct partial_file *part = &job->file->part;
  int rc = job->io.result < 0 ? (int)job->io.result : serve_part_rename(part);

  if (job->io.result >= 0 && rc == -EEXIST)
    serve_job_refuse(
        job, rc,
        "a file of that name came meanwhile and is not replaced (--overwrite at both ends "
        "allows it)");
  else if (rc < 0)
    serve_jobs_file_fail_write(job, rc);
  else
    serve_job_io(job, IO_SYNC, part->folder, NULL, 0, 0, serve_jobs_file_folder_synced);
}

static void serve_jobs_file_sync(struct job *job)
{
  serve_job_io(job, IO_SYNC, job->file->part.fd, NULL, 0, 0, serve_jobs_file_synced);
}

static void serve_jobs_file_compare_sum(struct job *job)
{
  if (memcmp(job->asked.sha256, job->answer.sha256, SERVE_SHA256_BYTES) == 0) {
    serve_jobs_file_sync(job);
    return;
  }
  serve_part_close(&job->file->part, true);
  serve_job_refuse(job, -EBADMSG,
                   "its SHA-256 is not the client's; what came is removed, put it again");
}

void serve_job_commit(struct job *job)
{
  struct open_file *file = job->file;

  if (file->extents.covered != file->size) {
    serve_job_refuse(job, -EINVAL, "COMMIT: only %" PRIu64 " of %" PRIu64 " bytes have come",
                     file->extents.covered, file->size);
  } else if (file->jobs > 1) {
    serve_job_refuse(job, -EBUSY, "COMMIT: other requests on the file are under way");
  } else {
    int rc = serve_part_prepare(&file->part);
    file->dead = true; /* for all that comes now */
    job->asked.offset = 0;
    job->asked.length = file->size;
    if (rc < 0)
      serve_jobs_file_fail_write(job, rc);
    else if (!job->asked.has_sha256 || file->size == 0)
      serve_jobs_file_sync(job);
    else if (file->summed == file->size && !file->rewritten && !file->summing)
      serve_jobs_file_tell_sum(
          job, file->sum, serve_jobs_file_compare_sum); /* all of it was summed while it came */
    else
      serve_jobs_file_begin_sum(job, serve_jobs_file_compare_sum);
  }
}
