/* SPDX-License-Identifier: Apache-2.0 */
/* Heap memory, for tests: one operation fails with EIO, the nth time it is called.
 * Regions that remain at close(), and host memory left registered, are errors in
 * the log that begin with "BUG"; so is, with close(), a region that was never
 * flushed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/memory.h>

#include <penstock/page.h>

struct pst_memory {
  const struct pst_host *host;
  char fail[32];
  uint64_t left; /* calls of `fail` until it fails */
  bool blind, mapped;
  int regions;
  int queues;
  int pinned;
  uint64_t flushes;
};

struct pst_queue {
  struct pst_memory *memory;
  uint64_t tickets;
  struct pst_verify_result result;
};

static bool fails(struct pst_memory *memory, const char *operation)
{
  return strcmp(memory->fail, operation) == 0 && --memory->left == 0;
}

static int failing_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host, (void)probe;
  return 0;
}

static int failing_open(const struct pst_host *host, const struct pst_memory_params *params,
                        struct pst_memory **memory)
{
  struct pst_memory *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->host = host;
  made->left = host->option_uint(params->options, "nth");
  made->blind = host->option_uint(params->options, "blind");
  made->mapped = host->option_uint(params->options, "mapped");
  strncpy(made->fail, host->option_string(params->options, "fail"), sizeof(made->fail) - 1);
  if (fails(made, "open")) {
    free(made);
    return -EIO;
  }
  *memory = made;
  return 0;
}

static void failing_close(struct pst_memory *memory)
{
  if (memory->regions || memory->queues || memory->pinned)
    memory->host->log(memory->host, PST_LOG_ERROR,
                      "BUG: closed with %d regions, %d queues and %d registrations",
                      memory->regions, memory->queues, memory->pinned);
  memory->host->log(memory->host, PST_LOG_INFO, "flushed %s",
                    memory->flushes ? "at times" : "never");
  free(memory);
}

static int failing_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                         struct pst_region *region)
{
  uint64_t alignment = params->alignment ? params->alignment : 64;
  uint64_t length = (params->length + alignment - 1) / alignment * alignment;
  void *bytes;

  if (fails(memory, "alloc"))
    return -EIO;
  bytes = aligned_alloc(alignment, length);
  if (!bytes)
    return -ENOMEM;
  memory->regions++;
  bool mapped = memory->mapped && params->purpose == PST_ALLOC_NORMAL;
  *region = (struct pst_region){
      .struct_size = region->struct_size,
      .kind = mapped ? PST_MEMORY_MAPPED : PST_MEMORY_HOST,
      .address = (uint64_t)(uintptr_t)bytes,
      .host = memory->blind && params->purpose == PST_ALLOC_NORMAL ? NULL : bytes,
      .length = length,
      .page_size = pst_page_size(),
      .backing = "heap",
      .memory = memory,
      .handle = bytes};
  if (mapped)
    strcpy(region->device, "GPU-failing");
  return 0;
}

static void failing_free_region(struct pst_memory *memory, struct pst_region *region)
{
  memory->regions--;
  free(region->handle);
}

static int failing_host_register(struct pst_memory *memory, void *address, uint64_t length)
{
  (void)address, (void)length;
  if (fails(memory, "host_register"))
    return -EOPNOTSUPP;
  memory->pinned++;
  return 0;
}

static void failing_host_unregister(struct pst_memory *memory, void *address, uint64_t length)
{
  (void)address, (void)length;
  memory->pinned--;
}

static int failing_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                              struct pst_queue **queue)
{
  (void)params;
  if (fails(memory, "queue_open"))
    return -EIO;
  *queue = calloc(1, sizeof(**queue));
  if (!*queue)
    return -ENOMEM;
  (*queue)->memory = memory;
  memory->queues++;
  return 0;
}

static void failing_queue_close(struct pst_queue *queue)
{
  queue->memory->queues--;
  free(queue);
}

static int failing_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                             uint64_t *ticket)
{
  if (fails(queue->memory, "copy_rows"))
    return -EIO;
  for (const struct pst_copy_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++)
      memcpy((void *)(uintptr_t)(row->destination + i * row->destination_stride),
             (const void *)(uintptr_t)(row->source + i * row->source_stride), row->length);
  *ticket = ++queue->tickets;
  return 0;
}

/* The pattern's place is taken by the sequence number's low byte. */
static int failing_fill_rows(struct pst_queue *queue, uint64_t seed,
                             const struct pst_payload_row *rows, uint32_t n, uint64_t *ticket)
{
  (void)seed;
  for (const struct pst_payload_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++)
      memset((void *)(uintptr_t)(row->address + i * row->stride), (int)((row->sequence + i) & 0xff),
             row->length);
  *ticket = ++queue->tickets;
  return 0;
}

static int failing_verify_rows(struct pst_queue *queue, uint64_t seed,
                               const struct pst_payload_row *rows, uint32_t n, uint64_t *ticket)
{
  (void)seed;
  for (const struct pst_payload_row *row = rows; row < rows + n; row++)
    for (uint32_t i = 0; i < row->count; i++) {
      const uint8_t *bytes = (const uint8_t *)(uintptr_t)(row->address + i * row->stride);
      bool wrong = false;
      for (uint64_t k = 0; k < row->length; k++)
        wrong |= bytes[k] != ((row->sequence + i) & 0xff);
      queue->result.corrupted += wrong;
      queue->result.checked++;
    }
  *ticket = ++queue->tickets;
  return 0;
}

static int failing_queue_poll(struct pst_queue *queue, uint64_t *done)
{
  *done = queue->tickets;
  return fails(queue->memory, "queue_poll") ? -EIO : 0;
}

static int failing_verify_result(struct pst_queue *queue, struct pst_verify_result *result)
{
  result->checked = queue->result.checked;
  result->corrupted = queue->result.corrupted;
  return 0;
}

static int failing_flush(struct pst_memory *memory, const struct pst_region *region)
{
  (void)region;
  memory->flushes++;
  return fails(memory, "flush") ? -EIO : 0;
}

static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_HOST_REGISTER |
                    PST_MEMORY_CAP_FLUSH,
    .open = failing_open,
    .close = failing_close,
    .alloc = failing_alloc,
    .free_region = failing_free_region,
    .host_register = failing_host_register,
    .host_unregister = failing_host_unregister,
    .queue_open = failing_queue_open,
    .queue_close = failing_queue_close,
    .copy_rows = failing_copy_rows,
    .fill_rows = failing_fill_rows,
    .verify_rows = failing_verify_rows,
    .queue_poll = failing_queue_poll,
    .verify_result = failing_verify_result,
    .flush = failing_flush,
};

PST_PLUGIN(failing_probe, &ops);
