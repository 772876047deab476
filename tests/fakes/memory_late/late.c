/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plugin whose work is late: the plugin. */
#include "late.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t late_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

bool late_fails(struct pst_memory *memory, const char *operation)
{
  return strcmp(memory->fail, operation) == 0 && --memory->left == 0;
}

static int late_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
  if (probe->device)
    probe->device(probe->context, "late", "host memory that behaves as a GPU's does");
  return 0;
}

static int late_open(const struct pst_host *host, const struct pst_memory_params *params,
                     struct pst_memory **memory)
{
  pthread_condattr_t attributes;
  struct pst_memory *made = calloc(1, sizeof(*made));
  if (!made) {
    host->log(host, PST_LOG_ERROR, "no memory to open late memory");
    return -ENOMEM;
  }
  made->host = host;
  made->delay_ns = host->option_uint(params->options, "delay");
  made->rate = host->option_uint(params->options, "rate");
  made->room = host->option_uint(params->options, "room");
  made->left = host->option_uint(params->options, "nth");
  snprintf(made->fail, sizeof(made->fail), "%s", host->option_string(params->options, "fail"));
  pthread_mutex_init(&made->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&made->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  *memory = made;
  return 0;
}

static void late_close(struct pst_memory *memory)
{
  if (!memory)
    return;
  if (memory->regions || memory->queues || memory->fences)
    late_error(memory, "closed with %s, %s and %u fences left; free them before close()",
               memory->regions ? "regions" : "no region", memory->queues ? "queues" : "no queue",
               memory->fences);
  pthread_cond_destroy(&memory->changed);
  pthread_mutex_destroy(&memory->mutex);
  free(memory);
}

static int late_describe(struct pst_memory *memory, struct pst_memory_info *info)
{
  (void)memory;
  struct pst_memory_info made = {
      .kind = PST_MEMORY_HOST,
      .device = "late",
      .name = "late memory for tests",
  };
  pst_struct_write(info, &made, sizeof(made));
  return 0;
}

static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities =
        PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_FENCE | PST_MEMORY_CAP_EXPORT,
    .open = late_open,
    .close = late_close,
    .describe = late_describe,
    .alloc = late_alloc,
    .free_region = late_free_region,
    .export_region = late_export_region,
    .queue_open = late_queue_open,
    .queue_close = late_queue_close,
    .copy_rows = late_copy_rows,
    .fill_rows = late_fill_rows,
    .verify_rows = late_verify_rows,
    .queue_poll = late_queue_poll,
    .verify_result = late_verify_result,
    .fence_record = late_fence_record,
    .fence_wait = late_fence_wait,
    .fence_query = late_fence_query,
    .fence_release = late_fence_release,
};

PST_PLUGIN(late_probe, &ops);
