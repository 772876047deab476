/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory needs no device to do its work: a batch is done when the call that
 * submits it returns. Tickets and results still surface only in queue_poll(), as
 * they do with memories that are asynchronous. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <isa-l/crc.h>

#include "host.h"

#define CRC_PART (UINT64_C(1) << 30) /* ISA-L counts bytes by int */

struct pst_queue {
  const struct pst_memory *memory;
  uint32_t pieces;
  uint64_t submitted;
  struct pst_verify_result found;    /* of all work */
  struct pst_verify_result reported; /* of what queue_poll() has reported */
};

int host_queue_open(struct pst_memory *memory, const struct pst_queue_params *caller,
                    struct pst_queue **queue)
{
  struct pst_queue_params params;
  pst_struct_read(&params, sizeof(params), caller);
  if (params.batches == 0 || params.pieces == 0 || params.reserved) {
    host_error(memory, "queue: %" PRIu32 " batches of %" PRIu32 " pieces; both must be at least 1",
               params.batches, params.pieces);
    return -EINVAL;
  }
  struct pst_queue *made = calloc(1, sizeof(*made));
  if (!made) {
    host_error(memory, "queue: no memory for its description");
    return -ENOMEM;
  }
  made->memory = memory;
  made->pieces = params.pieces;
  *queue = made;
  return 0;
}

void host_queue_close(struct pst_queue *queue)
{
  free(queue);
}

static int refuse_batch(const struct pst_queue *queue, const char *call, uint32_t n)
{
  host_error(queue->memory,
             "%s: a batch of %" PRIu32 " pieces, of at most %" PRIu32
             ", or with a reserved field that is not 0",
             call, n, queue->pieces);
  return -EINVAL;
}

static int refuse_rows(const struct pst_queue *queue, const char *call, uint32_t n)
{
  host_error(queue->memory,
             "%s: a batch of %" PRIu32 " rows, with more than %" PRIu32
             " pieces, or one without any, or with a reserved field that is not 0",
             call, n, queue->pieces);
  return -EINVAL;
}

static bool payloads_valid(const struct pst_queue *queue, const struct pst_payload *payloads,
                           uint32_t n)
{
  uint64_t reserved = 0;
  if (n == 0 || n > queue->pieces)
    return false;
  for (uint32_t i = 0; i < n; i++)
    reserved |= payloads[i].reserved;
  return reserved == 0;
}

static bool pieces_valid(const struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n)
{
  uint64_t reserved = 0;
  if (n == 0 || n > queue->pieces)
    return false;
  for (uint32_t i = 0; i < n; i++)
    reserved |= pieces[i].reserved;
  return reserved == 0;
}

static uint8_t *pointer(uint64_t address)
{
  return (uint8_t *)(uintptr_t)address;
}

int host_copy_batch(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                    uint64_t *ticket)
{
  if (!pieces_valid(queue, pieces, n))
    return refuse_batch(queue, "copy", n);
  for (uint32_t i = 0; i < n; i++)
    if (pieces[i].length)
      memcpy(pointer(pieces[i].destination), pointer(pieces[i].source), pieces[i].length);
  *ticket = ++queue->submitted;
  return 0;
}

int host_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket)
{
  uint64_t pieces = 0;
  bool valid = n > 0;
  for (uint32_t i = 0; i < n; i++) {
    pieces += rows[i].count;
    valid = valid && rows[i].count > 0 && rows[i].reserved == 0;
  }
  if (!valid || pieces > queue->pieces)
    return refuse_rows(queue, "copy", n);
  for (const struct pst_copy_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count && row->length; i++)
      memcpy(pointer(row->destination + i * row->destination_stride),
             pointer(row->source + i * row->source_stride), row->length);
  *ticket = ++queue->submitted;
  return 0;
}

int host_fill_batch(struct pst_queue *queue, uint64_t seed, const struct pst_payload *payloads,
                    uint32_t n, uint64_t *ticket)
{
  if (!payloads_valid(queue, payloads, n))
    return refuse_batch(queue, "fill", n);
  const struct pattern_variant *pattern = queue->memory->pattern;
  for (uint32_t i = 0; i < n; i++)
    pattern->fill(pointer(payloads[i].address), payloads[i].length,
                  pattern_first(seed, payloads[i].sequence));
  *ticket = ++queue->submitted;
  return 0;
}

static inline void verify_one(struct pst_queue *queue, uint64_t seed, const uint8_t *bytes,
                              uint64_t length, uint64_t sequence)
{
  struct pst_verify_result *found = &queue->found;
  uint64_t first = pattern_first(seed, sequence);
  uint64_t right = pattern_check(queue->memory->pattern, bytes, length, first);
  found->checked++;
  if (right == length || found->corrupted++ > 0)
    return;
  found->sequence = sequence;
  found->offset = right;
  found->expected = pattern_byte(first, right);
  found->found = bytes[right];
}

int host_verify_batch(struct pst_queue *queue, uint64_t seed, const struct pst_payload *payloads,
                      uint32_t n, uint64_t *ticket)
{
  if (!payloads_valid(queue, payloads, n))
    return refuse_batch(queue, "verify", n);
  for (uint32_t i = 0; i < n; i++)
    verify_one(queue, seed, pointer(payloads[i].address), payloads[i].length, payloads[i].sequence);
  *ticket = ++queue->submitted;
  return 0;
}

int host_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket)
{
  uint64_t messages = 0;
  bool valid = n > 0;
  for (uint32_t i = 0; i < n; i++) {
    messages += rows[i].count;
    valid = valid && rows[i].count > 0 && rows[i].reserved == 0;
  }
  if (!valid || messages > queue->pieces)
    return refuse_rows(queue, "verify", n);
  for (const struct pst_payload_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++)
      verify_one(queue, seed, pointer(row->address + i * row->stride), row->length,
                 row->sequence + i);
  *ticket = ++queue->submitted;
  return 0;
}

static bool sums_valid(const struct pst_queue *queue, const struct pst_sum *sums, uint32_t n)
{
  uint64_t reserved = 0;
  if (n == 0 || n > queue->pieces)
    return false;
  for (uint32_t i = 0; i < n; i++)
    reserved |= sums[i].reserved | sums[i].reserved2;
  return reserved == 0;
}

static uint32_t crc32c(uint8_t *bytes, uint64_t length)
{
  uint32_t crc = UINT32_MAX;
  while (length > 0) {
    uint64_t part = length < CRC_PART ? length : CRC_PART;
    crc = crc32_iscsi(bytes, (int)part, crc);
    bytes += part;
    length -= part;
  }
  return ~crc;
}

int host_sum_batch(struct pst_queue *queue, struct pst_sum *sums, uint32_t n, uint64_t *ticket)
{
  if (!sums_valid(queue, sums, n))
    return refuse_batch(queue, "sum", n);
  for (uint32_t i = 0; i < n; i++)
    sums[i].crc32c = crc32c(pointer(sums[i].address), sums[i].length);
  *ticket = ++queue->submitted;
  return 0;
}

int host_queue_poll(struct pst_queue *queue, uint64_t *done)
{
  queue->reported = queue->found;
  *done = queue->submitted;
  return 0;
}

int host_verify_result(struct pst_queue *queue, struct pst_verify_result *result)
{
  pst_struct_write(result, &queue->reported, sizeof(queue->reported));
  return 0;
}

/* All work is done when it is submitted, so every fence has passed: NULL. */
int host_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence)
{
  if (!queue && native) {
    host_error(memory, "fence: host memory knows no foreign order of work; native must be NULL");
    return -EINVAL;
  }
  *fence = NULL;
  return 0;
}

int host_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native)
{
  (void)queue;
  (void)native;
  return host_fence_query(memory, fence);
}

int host_fence_query(struct pst_memory *memory, struct pst_fence *fence)
{
  if (!fence)
    return 0;
  host_error(memory, "fence: not one of host memory's, whose fences are all NULL");
  return -EINVAL;
}

void host_fence_release(struct pst_memory *memory, struct pst_fence *fence)
{
  (void)memory;
  (void)fence;
}
