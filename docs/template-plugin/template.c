/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest memory: from the heap, with copies that are done when the call returns. */
#include <penstock/memory-util.h>
#include <penstock/page.h>

struct pst_memory {
  const struct pst_host *host; /* first, for the queues */
  uint64_t limit;
};

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
  const uint64_t page = pst_page_size(),
                 align = params->alignment > page ? params->alignment : page;
  const uint64_t length = (params->length + align - 1) / align * align;
  const char *wrong = pst_alloc_params_wrong(params);
  if (wrong)
    return PST_REFUSE(memory->host, -EINVAL, "cannot allocate: the caller asked for %s", wrong);
  struct pst_region made = {.kind = PST_MEMORY_HOST,
                            .length = length,
                            .page_size = page,
                            .backing = "malloc",
                            .memory = memory};
  if (length >= params->length && (!memory->limit || params->length <= memory->limit))
    made.host = aligned_alloc(align, length);
  if (!made.host)
    return PST_REFUSE(memory->host, -ENOMEM, "%s: no %llu bytes; raise limit, or ask less",
                      params->label, (unsigned long long)params->length);
  made.address = (uintptr_t)made.host;
  pst_struct_write(region, &made, sizeof(made));
  return 0;
}

static void memory_free(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  free(region->host);
}

static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = PST_MEMORY_CAP_COPY,
    .open = memory_open,
    .close = memory_close,
    .alloc = memory_alloc,
    .free_region = memory_free,
    .queue_open = pst_cpu_queue_open,
    .queue_close = pst_cpu_queue_close,
    .copy_rows = pst_cpu_copy_rows,
    .queue_poll = pst_cpu_queue_poll,
};

PST_PLUGIN(probe, &ops);
