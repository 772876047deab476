/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plugins, opened once for each set of options. */
#include <string.h>

#include "engine.h"
#include "util/log.h"

static struct engine_memory *memory_find(const struct engine *engine,
                                         const struct loader_plugin *plugin,
                                         const struct pst_options *options)
{
  const char *differs;

  for (uint32_t i = 0; i < engine->memory_count; i++) {
    struct engine_memory *entry = engine->memories[i];
    if (entry->plugin == plugin && options_agree(entry->options, options, ~0u, &differs))
      return entry;
  }
  return NULL;
}

static int memory_open_plugin(struct engine_memory *entry, const struct config_plugin *config,
                              struct pst_error *error)
{
  const struct loader_plugin *plugin = entry->plugin;
  struct pst_memory_params params = {.struct_size = sizeof(params), .options = config->options};

  pst_log_place(engine_plugin_place, config);
  int rc = entry->ops->open(plugin->host, &params, &entry->memory);
  pst_log_place(NULL, NULL);
  if (rc >= 0 || pst_fail_said(error, engine_exit_status(rc), rc) == rc)
    return rc;
  return pst_fail(error, engine_exit_status(rc), rc,
                  "%s: memory %s does not open: %s; `penstock plugins %s` says what it needs",
                  config->origin, config->name, strerror(-rc), config->name);
}

int engine_memory_open(struct engine *engine, const struct config_plugin *config,
                       struct engine_memory **memory, struct pst_error *error)
{
  const struct loader_plugin *plugin;
  struct engine_memory *entry;
  int rc = engine_plugin_load(engine, PST_KIND_MEMORY, config->name, &plugin, error);

  if (rc < 0)
    return rc;
  entry = memory_find(engine, plugin, config->options);
  if (entry) {
    *memory = entry;
    return 0;
  }
  entry = calloc(1, sizeof(*entry));
  if (!entry)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  entry->plugin = plugin;
  entry->ops = plugin->memory;
  entry->options = config->options;
  rc = memory_open_plugin(entry, config, error);
  if (rc < 0) {
    free(entry);
    return rc;
  }
  rc = loader_memory_add(entry->memory, entry->ops);
  if (rc == 0)
    rc = ARRAY_APPEND(engine->memories, engine->memory_count, entry);
  if (rc < 0) {
    engine_memory_close(entry);
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  }
  *memory = entry;
  return 0;
}

void engine_memory_close(struct engine_memory *memory)
{
  loader_memory_remove(memory->memory);
  memory->ops->close(memory->memory);
  free(memory);
}

int engine_memory_open_queue(const struct engine_memory *memory, uint32_t batches, uint32_t pieces,
                             struct pst_queue **queue)
{
  const struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = batches, .pieces = pieces};

  return memory->ops->queue_open(memory->memory, &params, queue);
}

void engine_memory_close_queue(const struct engine_memory *memory, struct pst_queue *queue)
{
  if (queue)
    memory->ops->queue_close(queue);
}

int engine_memory_await(const struct engine_memory *memory, struct pst_queue *queue,
                        uint64_t ticket)
{
  uint64_t done = 0;
  int rc = 0;

  while (rc == 0 && done < ticket)
    rc = memory->ops->queue_poll(queue, &done);
  return rc;
}

int engine_memory_copy(const struct engine_memory *memory, struct pst_queue *queue,
                       const struct pst_copy_row *row)
{
  uint64_t ticket = 0, done;
  int rc;

  while ((rc = memory->ops->copy_rows(queue, row, 1, &ticket)) == -EAGAIN)
    memory->ops->queue_poll(queue, &done);
  return rc < 0 ? rc : engine_memory_await(memory, queue, ticket);
}
