/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory needs no device to do its work: a batch is done when the call that
 * submits it returns. Tickets and results still surface only in queue_poll(), as
 * they do with memories that are asynchronous. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <isa-l/crc.h>

#include "ops.h"
#include "pattern.h"
#include "state.h"

#define CRC_PART (UINT64_C(1) << 30) /* ISA-L counts bytes by int */

struct pst_queue {
  struct pst_cpu_queue cpu;
  struct pst_verify_result found;    /* of all work */
  struct pst_verify_result reported; /* of what queue_poll() has reported */
};

int host_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue)
{
  struct pst_queue *made = calloc(1, sizeof(*made));
  if (!made) {
    host_error(memory, "queue: out of memory for its description");
    return -ENOMEM;
  }
  int code = pst_cpu_queue_begin(&made->cpu, memory, params);
  if (code) {
    free(made);
    return code;
  }
  *queue = made;
  return 0;
}

void host_queue_close(struct pst_queue *queue)
{
  free(queue);
}

static uint8_t *host_queue_pointer(uint64_t address)
{
  return pst_cpu_pointer(address);
}

int host_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket)
{
  int code = pst_cpu_queue_add(&queue->cpu, "fill", pst_payload_rows_count(rows, n), ticket);
  if (code)
    return code;
  const struct pattern_variant *pattern = queue->cpu.memory->pattern;
  for (const struct pst_payload_row *row = rows; row < rows + n; row++) {
    const uint64_t length = row->length, stride = row->stride, end = row->sequence + row->count;
    uint64_t address = row->address;
    for (uint64_t sequence = row->sequence; sequence != end; sequence++, address += stride)
      pattern->fill(host_queue_pointer(address), length, pst_pattern_first(seed, sequence));
  }
  return 0;
}

static inline void host_queue_verify_one(struct pst_queue *queue, uint64_t seed,
                                         const uint8_t *bytes, uint64_t length, uint64_t sequence)
{
  struct pst_verify_result *found = &queue->found;
  uint64_t first = pst_pattern_first(seed, sequence);
  uint64_t right = pattern_check(queue->cpu.memory->pattern, bytes, length, first);
  found->checked++;
  if (right == length || found->corrupted++ > 0)
    return;
  found->sequence = sequence;
  found->offset = right;
  found->expected = pst_pattern_byte(first, right);
  found->found = bytes[right];
}

int host_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket)
{
  int code = pst_cpu_queue_add(&queue->cpu, "verify", pst_payload_rows_count(rows, n), ticket);
  if (code)
    return code;
  for (const struct pst_payload_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++)
      host_queue_verify_one(queue, seed, host_queue_pointer(row->address + i * row->stride),
                            row->length, row->sequence + i);
  return 0;
}

static uint32_t host_queue_crc_of(uint8_t *bytes, uint64_t length)
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

int host_sum_range(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket)
{
  int code = pst_cpu_queue_add(&queue->cpu, "sum", 1, ticket);
  if (code == 0)
    *crc32c = host_queue_crc_of(host_queue_pointer(address), length);
  return code;
}

int host_queue_poll(struct pst_queue *queue, uint64_t *done)
{
  queue->reported = queue->found;
  return pst_cpu_queue_poll(queue, done);
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
    host_error(memory, "fence: host memory has no queues of other programs; native must be NULL");
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
  host_error(memory, "fence: not a fence of host memory, whose fences are all NULL");
  return -EINVAL;
}

void host_fence_release(struct pst_memory *memory, struct pst_fence *fence)
{
  (void)memory;
  (void)fence;
}
