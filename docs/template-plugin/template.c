/* SPDX-License-Identifier: Apache-2.0 */
/* A whole memory plugin of ordinary memory. Its work is done when a call returns, so that it
 * needs no fences; a device's submits it here and tells of the end in queue_poll(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/memory.h>

#define PAGE UINT64_C(4096)

struct pst_memory {
  const struct pst_host *host;
  uint64_t limit;
};

struct pst_queue {
  const struct pst_host *host;
  uint32_t pieces; /* of one batch, at most */
  uint64_t ticket; /* of the last batch */
};

static int refuse(const struct pst_host *host, const char *why)
{
  host->log(host, PST_LOG_ERROR, "%s", why);
  return -EINVAL;
}

static int probe(const struct pst_host *host, struct pst_probe *found)
{
  (void)host;
  found->device(found->context, "", "the heap of this process");
  return 0;
}

static int memory_open(const struct pst_host *host, const struct pst_memory_params *params,
                       struct pst_memory **memory)
{
  struct pst_memory *made = malloc(sizeof(*made));
  if (!made)
    return -ENOMEM;
  *made = (struct pst_memory){host, host->option_uint(params->options, "limit")};
  *memory = made;
  return 0;
}

static void memory_close(struct pst_memory *memory)
{
  free(memory);
}

static int memory_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                        struct pst_region *region)
{
  uint64_t align = params->alignment > PAGE ? params->alignment : PAGE;
  uint64_t length = (params->length + align - 1) / align * align;
  if (!params->length || (params->alignment & (params->alignment - 1)) || params->reserved ||
      params->purpose > PST_ALLOC_STAGING || params->needs >= PST_NEED_PINNED << 1)
    return refuse(memory->host, "a region needs a length, a power of two to align to, known needs");
  struct pst_region made = {.kind = PST_MEMORY_HOST,
                            .length = length,
                            .page_size = PAGE,
                            .numa_node = -1,
                            .backing = "malloc",
                            .memory = memory};
  made.flags = params->purpose == PST_ALLOC_STAGING ? PST_REGION_STAGING : 0;
  if (length >= params->length && (!memory->limit || params->length <= memory->limit))
    made.host = aligned_alloc(align, length);
  if (!made.host) {
    memory->host->log(memory->host, PST_LOG_ERROR, "%s: no %llu bytes; raise limit, or ask less",
                      params->label, (unsigned long long)params->length);
    return -ENOMEM;
  }
  made.address = (uintptr_t)made.host;
  pst_struct_write(region, &made, sizeof(made));
  return 0;
}

static void memory_free(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  free(region->host);
}

static int queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                      struct pst_queue **queue)
{
  if (!params->batches || !params->pieces || params->reserved)
    return refuse(memory->host, "a queue needs batches and pieces");
  struct pst_queue *made = malloc(sizeof(*made));
  if (!made)
    return -ENOMEM;
  *made = (struct pst_queue){memory->host, params->pieces, 0};
  *queue = made;
  return 0;
}

static void queue_close(struct pst_queue *queue)
{
  free(queue);
}

static int copy_batch(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                      uint64_t *ticket)
{
  uint64_t reserved = 0;
  for (uint32_t i = 0; i < n && n <= queue->pieces; i++)
    reserved |= pieces[i].reserved;
  if (!n || n > queue->pieces || reserved)
    return refuse(queue->host, "a batch has 1 to its queue's pieces, reserved fields 0");
  for (uint32_t i = 0; i < n; i++)
    memcpy((void *)(uintptr_t)pieces[i].destination, (void *)(uintptr_t)pieces[i].source,
           pieces[i].length);
  *ticket = ++queue->ticket;
  return 0;
}

static int queue_poll(struct pst_queue *queue, uint64_t *done)
{
  *done = queue->ticket;
  return 0;
}

static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = PST_MEMORY_CAP_COPY,
    .open = memory_open,
    .close = memory_close,
    .alloc = memory_alloc,
    .free_region = memory_free,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .copy_batch = copy_batch,
    .queue_poll = queue_poll,
};

PST_PLUGIN(probe, &ops);
