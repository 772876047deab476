/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plugin whose work is late: what is submitted. */
#include "late.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* May a copy's source be compared? Not where work submitted before and not yet
 * done is going to write it. */
static bool will_be_written(const struct pst_memory *memory, const uint8_t *source, uint64_t length)
{
  uintptr_t low = (uintptr_t)source, high = low + length;
  for (const struct pst_queue *q = memory->queues; q; q = q->next)
    for (const struct late_job *job = q->first; job; job = job->next)
      if (low < job->written_high && high > job->written_low)
        return true;
  return false;
}

/* Only the plugin's own threads reach it. */
static bool is_hidden(const struct late_region *region)
{
  return region && region->fd < 0;
}

/* The CPU's pointer to an address, which lies wholly in one region or wholly
 * outside of all. */
static bool resolve(const struct pst_memory *memory, uint64_t address, uint64_t length,
                    uint8_t **bytes, struct late_region **region)
{
  bool partly;
  *region = length ? late_region_find(memory, address, length, &partly) : NULL;
  *bytes =
      *region ? (*region)->bytes + (address - (*region)->address) : (uint8_t *)(uintptr_t)address;
  return *region || length == 0 || !partly;
}

static void note_written(struct late_job *job, const struct late_piece *piece)
{
  const struct late_region *region = piece->regions[1];
  if (is_hidden(region) || piece->length == 0)
    return;
  uintptr_t low = (uintptr_t)piece->destination, high = low + piece->length;
  if (job->written_high == 0 || low < job->written_low)
    job->written_low = low;
  if (high > job->written_high)
    job->written_high = high;
}

static int refuse(const struct pst_queue *queue, const char *call, uint32_t i)
{
  late_error(queue->memory,
             "%s: piece %" PRIu32 " reaches out of its region, lies in no region of this memory, "
             "or has a reserved field that is not 0",
             call, i);
  return -EINVAL;
}

static int job_new(struct pst_queue *queue, enum late_work work, const char *call, uint64_t n,
                   struct late_job **job)
{
  if (n == 0 || n > queue->pieces) {
    late_error(queue->memory, "%s: %" PRIu64 " pieces; 1 to %" PRIu32 " are legal, none in no row",
               call, n, queue->pieces);
    return -EINVAL;
  }
  if (queue->failed)
    return -EIO;
  if (queue->submitted - queue->finished >= queue->batches)
    return -EAGAIN;
  if (queue->memory->room && queue->under_way && queue->under_way + n > queue->memory->room)
    return -EAGAIN;
  struct late_job *made = calloc(1, sizeof(*made) + n * sizeof(made->pieces[0]));
  if (!made) {
    late_error(queue->memory, "%s: out of memory for %" PRIu64 " pieces", call, n);
    return -ENOMEM;
  }
  made->work = work;
  made->n = (uint32_t)n;
  *job = made;
  return 0;
}

static void submit(struct pst_queue *queue, struct late_job *job, uint64_t *ticket)
{
  for (uint32_t i = 0; i < job->n; i++)
    for (int side = 0; side < 2; side++)
      if (job->pieces[i].regions[side])
        job->pieces[i].regions[side]->under_way++;
  queue->under_way += job->n;
  job->ticket = ++queue->submitted;
  late_queue_push(queue, job);
  *ticket = job->ticket;
}

static int add_copies(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                      struct late_job *job)
{
  const struct pst_memory *memory = queue->memory;
  struct late_piece *piece = job->pieces;
  for (const struct pst_copy_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++, piece++) {
      piece->length = row->length;
      job->bytes += row->length;
      if (!resolve(memory, row->source + i * row->source_stride, row->length, &piece->source,
                   &piece->regions[0]) ||
          !resolve(memory, row->destination + i * row->destination_stride, row->length,
                   &piece->destination, &piece->regions[1]) ||
          row->reserved || (row->length && !piece->regions[0] && !piece->regions[1]))
        return refuse(queue, "copy", (uint32_t)(piece - job->pieces));
      note_written(job, piece);
      piece->watched = row->length && !is_hidden(piece->regions[0]) &&
                       !will_be_written(memory, piece->source, piece->length);
    }
  return 0;
}

/* Outside of the mutex: the sources are the caller's while it is in this call. */
static void take_checksums(struct late_job *job)
{
  for (uint32_t i = 0; i < job->n; i++)
    if (job->pieces[i].watched)
      job->pieces[i].checksum = late_checksum(job->pieces[i].source, job->pieces[i].length);
}

int late_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  struct late_job *job = NULL;
  uint64_t pieces = 0;
  bool whole = true;
  for (uint32_t i = 0; i < n; i++) {
    pieces += rows[i].count;
    whole = whole && rows[i].count;
  }
  pthread_mutex_lock(&memory->mutex);
  int code = late_fails(memory, "copy_rows")
                 ? -EAGAIN
                 : job_new(queue, LATE_COPY, "copy", whole ? pieces : 0, &job);
  if (code == 0)
    code = add_copies(queue, rows, n, job);
  pthread_mutex_unlock(&memory->mutex);
  if (code) {
    free(job);
    return code;
  }
  take_checksums(job);
  pthread_mutex_lock(&memory->mutex);
  submit(queue, job, ticket);
  pthread_mutex_unlock(&memory->mutex);
  return 0;
}

static int add_payloads(struct pst_queue *queue, const char *call,
                        const struct pst_payload_row *rows, uint32_t n, struct late_job *job)
{
  struct late_piece *piece = job->pieces;
  for (const struct pst_payload_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++, piece++) {
      piece->length = row->length;
      piece->sequence = row->sequence + i;
      job->bytes += row->length;
      if (!resolve(queue->memory, row->address + i * row->stride, row->length, &piece->destination,
                   &piece->regions[1]) ||
          row->reserved || (row->length && !piece->regions[1]))
        return refuse(queue, call, (uint32_t)(piece - job->pieces));
      if (job->work == LATE_FILL)
        note_written(job, piece);
    }
  return 0;
}

static int submit_payloads(struct pst_queue *queue, enum late_work work, const char *call,
                           uint64_t seed, const struct pst_payload_row *rows, uint32_t n,
                           uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  struct late_job *job = NULL;
  uint64_t messages = 0;
  bool whole = true;
  for (uint32_t i = 0; i < n; i++) {
    messages += rows[i].count;
    whole = whole && rows[i].count;
  }
  pthread_mutex_lock(&memory->mutex);
  int code = work == LATE_VERIFY && late_fails(memory, "verify_rows")
                 ? -EIO
                 : job_new(queue, work, call, whole ? messages : 0, &job);
  if (code == 0)
    code = add_payloads(queue, call, rows, n, job);
  if (code) {
    free(job);
  } else {
    job->seed = seed;
    submit(queue, job, ticket);
  }
  pthread_mutex_unlock(&memory->mutex);
  return code;
}

int late_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket)
{
  return submit_payloads(queue, LATE_FILL, "fill", seed, rows, n, ticket);
}

int late_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket)
{
  return submit_payloads(queue, LATE_VERIFY, "verify", seed, rows, n, ticket);
}
