/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of sessions and nodes: the plugins in use, how an engine ends, and its messages
 * to peers. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "control/control.h"
#include "device.h"
#include "util/log.h"

int engine_plugin_load(struct engine *engine, uint32_t kind, const char *name,
                       const struct loader_plugin **plugin, struct pst_error *error)
{
  int rc = loader_load(kind, name, plugin, error);

  for (uint32_t i = 0; rc == 0 && i < engine->plugin_count; i++)
    if (engine->plugins[i] == *plugin)
      return 0;
  if (rc == 0 && ARRAY_APPEND(engine->plugins, engine->plugin_count, *plugin) < 0)
    rc = pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  return rc;
}

void engine_plugins_drain(const struct engine *engine)
{
  for (uint32_t i = 0; i < engine->plugin_count; i++)
    loader_defer_drain(engine->plugins[i]);
}

int engine_plugin_info(const struct engine *engine, uint32_t index, struct pst_plugin_info *info)
{
  const struct loader_plugin *plugin;

  if (index >= engine->plugin_count)
    return -ENOENT;
  plugin = engine->plugins[index];
  struct pst_plugin_info full = {.struct_size = sizeof(full),
                                 .kind = plugin->kind,
                                 .path = plugin->path,
                                 .reason = "",
                                 .remedy = "",
                                 .libraries = loader_libraries(plugin),
                                 .shadowed_by = ""};
  config_describe_info(plugin->description, &full);
  pst_struct_write(info, &full, sizeof(full));
  return 0;
}

const char *engine_plugin_place(const void *config, const char *line)
{
  const struct config_plugin *plugin = config;
  const struct pst_description *description = plugin->description;
  const char *said = strstr(line, ": ");

  for (uint32_t i = 0; said && description && i < description->option_count; i++) {
    const char *name = description->options[i].name,
               *origin = options_origin(plugin->options, name);
    size_t length = strlen(name);
    if (strncmp(said + 2, name, length) == 0 && strchr(": ", said[2 + length]) &&
        strcmp(origin, "default") != 0)
      return origin;
  }
  return plugin->origin;
}

void engine_close(struct engine *engine)
{
  for (uint32_t i = 0; i < engine->device_count; i++)
    engine_device_close(engine->devices[i]);
  for (uint32_t i = 0; i < engine->memory_count; i++)
    engine_memory_close(engine->memories[i]);
  free(engine->devices);
  free(engine->memories);
  free(engine->plugins);
  *engine = (struct engine){0};
}

void control_pair_add(struct control_pair *pairs, uint32_t *count, uint32_t max, const char *key,
                      const char *value)
{
  if (*count == max)
    return;
  snprintf(pairs[*count].key, sizeof(pairs[*count].key), "%s", key);
  snprintf(pairs[*count].value, sizeof(pairs[*count].value), "%s", value);
  ++*count;
}

void transport_terms_add(const struct config_transport *transport, struct control_pair *terms,
                         uint32_t *count)
{
  const struct pst_option *table;
  char key[64], text[CONTROL_VALUE_MAX + 1];
  size_t options;

  control_pair_add(terms, count, CONTROL_TERMS_MAX, CONTROL_TERM_WIRE,
                   config_wire(transport->plugin.name, transport->plugin.description));
  control_pair_add(terms, count, CONTROL_TERMS_MAX, CONTROL_TERM_TRANSPORT, transport->plugin.name);
  table = options_table(transport->plugin.options, &options);
  for (size_t i = 0; i < options; i++) {
    if (!(table[i].scope & PST_SCOPE_STREAM))
      continue;
    snprintf(key, sizeof(key), CONTROL_TERM_OPTION "%s", table[i].name);
    if (options_text(transport->plugin.options, table[i].name, text, sizeof(text)) == 0)
      control_pair_add(terms, count, CONTROL_TERMS_MAX, key, text);
  }
}
