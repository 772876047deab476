/* SPDX-License-Identifier: Apache-2.0 */
/* MOVE: the pattern of an iteration into the client's region, or out of it, a round of
 * segments at a time. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "server.h"

#define GAP 64u /* between pieces, which else would be one */

static bool verifies(const struct job *job)
{
  return (job->asked.flags & SERVE_FLAG_VERIFY) != 0;
}

/* The segments of the next round, in a block no larger than one; 0: there are none any more. */
static uint64_t next_round(struct job *job, uint64_t *bytes)
{
  uint64_t offset, length, segments = 0, end = 0;

  for (uint64_t i = job->segment; i < job->plan.candidates && segments < SERVER_PIECES; i++) {
    if (!move_segment(&job->plan, i, &offset, &length))
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

static void begin(struct job *job)
{
  uint8_t op = job->asked.op == SERVE_OP_WRITE ? PST_OP_WRITE : PST_OP_READ;
  uint64_t total = 0;
  int rc = 0;

  for (uint64_t i = 0; i < job->segments && rc == 0; i++) {
    struct pst_area_piece *piece = &job->pieces[i];
    piece->area = job->store->area;
    piece->offset += job->block;
    total += piece->length;
    if (op == PST_OP_WRITE && verifies(job))
      rc = pst_area_fill(piece->area, piece->offset, piece->length,
                         move_pattern(&job->plan, job->asked.iteration, job->numbers[i]));
  }
  if (rc < 0) {
    job_refuse(job, rc, "the server's memory makes no pattern: %s", strerror(-rc));
    return;
  }
  job->began_ns = now_ns();
  job_move(job, op, total, (uint32_t)job->segments, job->asked.place + job->at);
}

static void next(struct job *job)
{
  uint64_t bytes = 0;

  job->segments = next_round(job, &bytes);
  if (job->segments == 0)
    job_answer(job, SERVE_MOVED);
  else if (job->block != POOL_NONE && bytes <= job->length)
    begin(job);
  else {
    job_release_block(job);
    job_with_block(job, job->client->server->moves, bytes, begin);
  }
}

void job_start_move(struct job *job)
{
  const struct serve_message *m = &job->asked;
  const uint64_t most = job->client->server->params->request_max;

  if (m->length == 0 || m->length > most)
    job_refuse(job, -EFBIG, "a MOVE has 1 to %" PRIu64 " bytes here (--request-max), not %" PRIu64,
               most, m->length);
  else if (m->pieces > MOVE_PIECES_MAX || m->pieces > m->length)
    job_refuse(job, -EINVAL, "%" PRIu64 " bytes in %u pieces; at most %u, of a byte each",
               m->length, m->pieces, MOVE_PIECES_MAX);
  else if (m->region == 0 || m->region > UINT32_MAX)
    job_refuse(job, -ENOENT, "region %" PRIu64 ": no such region is offered", m->region);
  else {
    move_plan(m->length, m->pieces, &job->plan);
    next(job);
  }
}

static int verify_round(struct job *job)
{
  struct pst_verify_result found = {.struct_size = sizeof found};

  for (uint64_t i = 0; i < job->segments; i++) {
    const struct pst_area_piece *piece = &job->pieces[i];
    int rc =
        pst_area_verify(piece->area, piece->offset, piece->length,
                        move_pattern(&job->plan, job->asked.iteration, job->numbers[i]), &found);
    if (rc == 0)
      continue;
    job_refuse(job, rc,
               "iteration %" PRIu64 ": what was read from the region is not the pattern: "
               "segment %" PRIu64 " of %" PRIu64 " bytes differs",
               job->asked.iteration, job->numbers[i], piece->length);
    return rc;
  }
  return 0;
}

/* A round's operations have ended. */
void job_move_step(struct job *job)
{
  struct server *server = job->client->server;
  uint64_t bytes = job->operations[0].length;

  job->answer.ns += now_ns() - job->began_ns;
  job->client->bytes += bytes;
  if (job->asked.op == SERVE_OP_WRITE)
    server->totals.bytes_written += bytes;
  else
    server->totals.bytes_read += bytes;
  if (job->asked.op == SERVE_OP_READ && verifies(job) && verify_round(job) < 0)
    return;
  job->segment = job->numbers[job->segments - 1] + 1;
  next(job);
}
