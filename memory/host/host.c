/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin host: memory of the CPU. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "block.h"
#include "format.h"
#include "meminfo.h"
#include "numa.h"
#include "ops.h"
#include "pattern.h"
#include "state.h"

static int host_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
  char detail[160] = "";
  size_t at = 0;
  static const uint64_t sizes[] = {HOST_PAGE_2M, HOST_PAGE_1G};
  at += (size_t)snprintf(detail, sizeof(detail), "%s pattern, %" PRIu64 " MiB available",
                         pattern_best()->name, host_available_bytes() >> 20);
  for (size_t i = 0; i < 2; i++) {
    struct host_pages pages;
    if (host_pages_read(HOST_PAGES_ROOT, sizes[i], &pages))
      at += (size_t)snprintf(detail + at, sizeof(detail) - at,
                             ", %" PRIu64 " of %" PRIu64 " pages of %s free", pages.free,
                             pages.total, host_size_text(sizes[i]).text);
  }
  if (probe->device)
    probe->device(probe->context, "", detail);
  return 0;
}

static int host_open(const struct pst_host *host, const struct pst_memory_params *params,
                     struct pst_memory **memory)
{
  const struct pst_options *options = params->options;
  int node, error;
  if (!host_node_parse(host, host->option_string(options, "numa_node"), &node, &error))
    return error;
  struct pst_memory *made = malloc(sizeof(*made));
  if (!made) {
    host->log(host, PST_LOG_ERROR, "no memory to open host memory");
    return -ENOMEM;
  }
  *made = (struct pst_memory){
      .host = host,
      .pattern = pattern_best(),
      .backing = (enum host_backing)host->option_uint(options, "backing"),
      .numa_node = node,
      .lock = host->option_uint(options, "lock"),
      .populate = host->option_uint(options, "populate"),
  };
  host_debug(made, "pattern by %s", made->pattern->name);
  *memory = made;
  return 0;
}

static void host_close(struct pst_memory *memory)
{
  free(memory);
}

static int host_describe(struct pst_memory *memory, struct pst_memory_info *info)
{
  (void)memory;
  struct pst_memory_info made = {.kind = PST_MEMORY_HOST, .free_bytes = host_available_bytes()};
  pst_struct_write(info, &made, sizeof(made));
  return 0;
}

/* The fence calls answer, with NULL fences, though the capability is not
 * announced: nobody has to wait for work that is done. */
static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_EXPORT |
                    PST_MEMORY_CAP_IMPORT | PST_MEMORY_CAP_CHECKSUM | PST_MEMORY_CAP_ADOPT,
    .open = host_open,
    .close = host_close,
    .describe = host_describe,
    .alloc = host_alloc,
    .free_region = host_free_region,
    .export_region = host_export_region,
    .import_region = host_import_region,
    .queue_open = host_queue_open,
    .queue_close = host_queue_close,
    .copy_rows = pst_cpu_copy_rows,
    .fill_rows = host_fill_rows,
    .verify_rows = host_verify_rows,
    .queue_poll = host_queue_poll,
    .verify_result = host_verify_result,
    .fence_record = host_fence_record,
    .fence_wait = host_fence_wait,
    .fence_query = host_fence_query,
    .fence_release = host_fence_release,
    .sum_range = host_sum_range,
    .adopt_region = host_adopt_region,
};

PST_PLUGIN(host_probe, &ops);
