/* SPDX-License-Identifier: Apache-2.0 */
/* MOVE: the pattern of an iteration into the client's region, or out of it, a round of
 * segments at a time. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "server.h"
#include "size.h"

#define GAP 64u /* between pieces, which would be one otherwise */

static bool serve_jobs_move_verifies(const struct job *job)
{
  return (job->asked.flags & SERVE_FLAG_VERIFY) != 0;
}

/* Finds the segments of the next round, in a block no larger than one. 0: there are no more. */
static uint64_t serve_jobs_move_next_round(struct job *job, uint64_t *bytes)
{
  uint64_t offset, length, segments = 0, end = 0;

  for (uint64_t i = job->segment;
       i < job->plan.candidates && segments < job->client->server->params->pieces; i++) {
    if (!serve_move_segment(&job->plan, i, &offset, &length))
      continue;
    uint64_t place = segments > 0 ? (end + 2 * GAP - 1) / GAP * GAP : 0;
    if (place + length > MOVE_SEGMENT)
      break;
    job->pieces[segments] = (struct pst_area_piece){.offset = place, .length = length};
    if (segments == 0)
      job->at = offset;
    job->numbers[segments++] = i;
    end = place + length;
  }
  *bytes = end;
  return segments;
}

static uint32_t serve_jobs_move_next_parts(const struct pattern_work *work, uint64_t *next,
                                           struct pst_area_pattern *parts, uint32_t n)
{
  const struct job *job = FROM(const struct job, pattern, work);
  uint32_t made = 0;

  for (; made < n && *next < job->segments; ++*next)
    parts[made++] = (struct pst_area_pattern){
        .offset = job->pieces[*next].offset,
        .length = job->pieces[*next].length,
        .pattern = serve_move_pattern(&job->plan, job->asked.iteration, job->numbers[*next])};
  return made;
}

static void serve_jobs_move_pattern_ended(struct pattern_work *work, int status);

/* Fills or verifies this round's segments, beside those of other jobs. */
static void serve_jobs_move_begin_pattern(struct job *job)
{
  job->pattern = (struct pattern_work){.parts = serve_jobs_move_next_parts,
                                       .verifies = job->asked.op == SERVE_OP_READ,
                                       .ended = serve_jobs_move_pattern_ended};
  serve_patterns_begin(&job->store->patterns, &job->pattern);
}

static job_step serve_jobs_move_moved;

static void serve_jobs_move_post(struct job *job)
{
  uint8_t op = job->asked.op == SERVE_OP_WRITE ? PST_OP_WRITE : PST_OP_READ;
  uint64_t total = 0;

  for (uint64_t i = 0; i < job->segments; i++)
    total += job->pieces[i].length;
  job->began_ns = app_now_ns();
  serve_job_move(job, op, total, (uint32_t)job->segments, job->asked.place + job->at,
                 serve_jobs_move_moved);
}

static void serve_jobs_move_begin(struct job *job)
{
  for (uint64_t i = 0; i < job->segments; i++) {
    job->pieces[i].area = job->store->area;
    job->pieces[i].offset += job->block;
  }
  if (job->asked.op == SERVE_OP_WRITE && serve_jobs_move_verifies(job))
    serve_jobs_move_begin_pattern(job);
  else
    serve_jobs_move_post(job);
}

static void serve_jobs_move_next(struct job *job)
{
  uint64_t bytes = 0;

  job->segments = serve_jobs_move_next_round(job, &bytes);
  if (job->segments == 0)
    serve_job_answer(job, SERVE_MOVED);
  else if (job->block != BUDDY_NONE && bytes <= job->length)
    serve_jobs_move_begin(job);
  else {
    serve_job_release_block(job);
    serve_job_with_block(job, job->client->server->moves, bytes, serve_jobs_move_begin);
  }
}

void serve_job_start_move(struct job *job)
{
  const struct serve_message *m = &job->asked;
  const uint64_t most = job->client->server->params->request_max;
  char size[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];

  if (m->length == 0)
    serve_job_refuse(job, -EINVAL, "--size: 0 B; the least is 1 B");
  else if (m->length > most)
    serve_job_refuse(job, -EFBIG, "--size: %s is over the server's --request-max of %s",
                     app_size_text(m->length, size), app_size_text(most, limit));
  else if (m->pieces > MOVE_PIECES_MAX || m->pieces > m->length)
    serve_job_refuse(job, -EINVAL, "%" PRIu64 " bytes in %u pieces; at most %u, of a byte each",
                     m->length, m->pieces, MOVE_PIECES_MAX);
  else if (m->region == 0 || m->region > UINT32_MAX)
    serve_job_refuse(job, -ENOENT, "region %" PRIu64 ": no such region is offered", m->region);
  else {
    serve_move_plan(m->length, m->pieces, &job->plan);
    serve_jobs_move_next(job);
  }
}

static void serve_jobs_move_go_on(struct job *job)
{
  job->segment = job->numbers[job->segments - 1] + 1;
  serve_jobs_move_next(job);
}

static void serve_jobs_move_pattern_ended(struct pattern_work *work, int status)
{
  struct job *job = FROM(struct job, pattern, work);

  if (job->client->gone)
    serve_job_free(job);
  else if (status == -EBADMSG && work->verifies)
    serve_job_refuse(job, status,
                     "iteration %" PRIu64 ": what was read from the region is not the pattern: "
                     "segment %" PRIu64 " of %" PRIu64 " bytes differs",
                     job->asked.iteration, job->numbers[work->wrong],
                     job->pieces[work->wrong].length);
  else if (status < 0)
    serve_job_refuse(job, status, "the server's memory %s no pattern: %s",
                     work->verifies ? "checks" : "makes", strerror(-status));
  else if (work->verifies)
    serve_jobs_move_go_on(job);
  else
    serve_jobs_move_post(job);
}

/* A round's operations have ended. */
static void serve_jobs_move_moved(struct job *job)
{
  struct server *server = job->client->server;
  uint64_t bytes = job->operations[0].length;

  job->answer.ns += app_now_ns() - job->began_ns;
  job->client->bytes += bytes;
  if (job->asked.op == SERVE_OP_WRITE)
    server->totals.bytes_written += bytes;
  else
    server->totals.bytes_read += bytes;
  if (job->asked.op == SERVE_OP_READ && serve_jobs_move_verifies(job))
    serve_jobs_move_begin_pattern(job);
  else
    serve_jobs_move_go_on(job);
}
