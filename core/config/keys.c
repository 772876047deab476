/* SPDX-License-Identifier: Apache-2.0 */
/* Reports each key of a configuration and each option of a plugin from the tables that check them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "schema.h"
#include "util/text.h"

#define PLUGINS_MAX 64
#define WORDS_MAX 512

struct keys_walk {
  void (*key)(void *context, const struct pst_config_key *key);
  void *context;
};

static uint32_t keys_kind(const struct pst_option *rule)
{
  switch (rule->type) {
  case SCHEMA_MAP:
  case SCHEMA_TRANSPORT:
  case SCHEMA_MEMORY:
    return PST_KEY_MAP;
  case SCHEMA_OTHERS_MAP:
    return PST_KEY_ANY;
  case SCHEMA_LIST:
  case SCHEMA_FILTERS:
    return PST_KEY_LIST;
  case SCHEMA_PLUGIN_NAME:
    return PST_KEY_PLUGIN;
  case SCHEMA_OPTIONS:
    return PST_KEY_OPTIONS;
  default:
    return PST_KEY_VALUE;
  }
}

/* One or two words without an article. */
static const char *keys_type(const struct pst_option *rule, char words[WORDS_MAX])
{
  switch (rule->type) {
  case PST_OPTION_ENUM:
    return "choice";
  case SCHEMA_TRANSPORT:
  case SCHEMA_MEMORY:
    return "plugin";
  case SCHEMA_PLUGIN_NAME:
    return "name";
  case SCHEMA_LIST:
  case SCHEMA_FILTERS:
    return "list";
  default:
    break;
  }
  if (keys_kind(rule) != PST_KEY_VALUE)
    return "mapping";
  value_type_words(rule, words, WORDS_MAX);
  return words + (strncmp(words, "a ", 2) == 0 ? 2 : 0);
}

static void keys_values(const struct pst_option *rule, char words[WORDS_MAX])
{
  words[0] = '\0';
  if (rule->type == PST_CONFIG_SHARE)
    snprintf(words, WORDS_MAX, "0 to 1");
  else if (keys_kind(rule) == PST_KEY_VALUE)
    value_range_words(rule, words, WORDS_MAX);
}

/* "`file` and `pcap`": the choices of the mapping's first key with which this key is allowed. */
static void keys_only_for(const struct schema_map *map, uint32_t bits, char words[WORDS_MAX])
{
  const char *const *choices = map->keys[0].rule.choices;

  words[0] = '\0';
  if (bits == 0 || !choices || map->keys[0].rule.type != PST_OPTION_ENUM)
    return;
  for (size_t i = 0; choices[i]; i++)
    if (bits & (1u << i))
      text_add(words, WORDS_MAX, "%s`%s`", words[0] ? " and " : "", choices[i]);
}

static void keys_report(const struct keys_walk *walk, struct pst_config_key *key,
                        const struct pst_option *rule)
{
  char type[WORDS_MAX], values[WORDS_MAX];

  keys_values(rule, values);
  key->struct_size = sizeof(*key);
  key->kind = keys_kind(rule);
  key->type = keys_type(rule, type);
  key->values = values;
  key->help = rule->help ? rule->help : "";
  key->default_value = rule->default_value ? rule->default_value : "";
  key->rule = rule;
  walk->key(walk->context, key);
}

static void keys_map(const struct keys_walk *walk, const struct schema_map *map)
{
  const struct pst_option self = {.help = map->help, .type = SCHEMA_MAP};
  struct pst_config_key head = {
      .path = map->path, .map = map->path, .shorthand = map->shorthand, .is_map = 1};

  keys_report(walk, &head, &self);
  for (const struct schema_key *at = map->keys; at->rule.name; at++) {
    char path[WORDS_MAX], only_for[WORDS_MAX];
    struct pst_config_key key = {.path = path,
                                 .map = at->map ? at->map->path : NULL,
                                 .shorthand = at->map ? at->map->shorthand : NULL,
                                 .only_for = only_for,
                                 .default_words = at->default_words};

    snprintf(path, sizeof(path), "%s%s%s", map->path, map->path[0] ? "." : "", at->rule.name);
    keys_only_for(map, at->rule.scope, only_for);
    keys_report(walk, &key, &at->rule);
  }
}

static void keys_plugin(const struct keys_walk *walk, uint32_t kind,
                        const struct pst_description *plugin)
{
  const struct pst_option self = {.help = plugin->summary, .type = SCHEMA_MAP};
  struct pst_plugin_info info = {.struct_size = sizeof(info), .kind = kind, .described = 1};
  struct pst_config_key head = {.path = "", .plugin = &info, .is_map = 1};

  config_describe_info(plugin, &info);
  keys_report(walk, &head, &self);
  for (uint32_t i = 0; i < plugin->option_count; i++) {
    struct pst_config_key key = {.path = plugin->options[i].name, .plugin = &info};
    keys_report(walk, &key, &plugin->options[i]);
  }
}

static int keys_compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void keys_plugins(const struct keys_walk *walk, const struct config_catalog *catalog,
                         uint32_t kind)
{
  const char *names[PLUGINS_MAX];
  size_t count = catalog->names(catalog->context, kind, names, PLUGINS_MAX);

  if (count > PLUGINS_MAX)
    count = PLUGINS_MAX;
  qsort(names, count, sizeof(names[0]), keys_compare_names);
  for (size_t i = 0; i < count; i++) {
    const struct pst_description *plugin = catalog->find(catalog->context, kind, names[i]);
    if (plugin)
      keys_plugin(walk, kind, plugin);
  }
}

void config_describe_info(const struct pst_description *description, struct pst_plugin_info *info)
{
  info->name = description->name;
  info->version = description->version;
  info->summary = description->summary;
  info->needs = description->needs;
  info->rung = description->rung;
  info->wire = description->wire;
  info->options = description->options;
  info->option_count = description->option_count;
  info->environment = description->environment;
  info->description = description;
}

void config_keys(const struct config_catalog *catalog,
                 void (*key)(void *context, const struct pst_config_key *key), void *context)
{
  const struct keys_walk walk = {key, context};

  for (size_t i = 0; schema_maps[i]; i++) {
    keys_map(&walk, schema_maps[i]);
    for (const struct schema_key *at = schema_maps[i]->keys; at->rule.name; at++)
      if (at->program && at->map)
        keys_map(&walk, at->map);
  }
  keys_plugins(&walk, catalog, PST_KIND_TRANSPORT);
  keys_plugins(&walk, catalog, PST_KIND_MEMORY);
  keys_plugins(&walk, catalog, PST_KIND_FILTER);
}
