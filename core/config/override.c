/* SPDX-License-Identifier: Apache-2.0 */
/* Values that `--set` puts over a configuration's. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "util/suggest.h"
#include "util/text.h"

#define ELEMENTS_SUGGESTED 256
#define ELEMENTS_NAMED 8 /* lists of up to this many elements are shown whole */

struct setting {
  struct arena *arena;
  struct findings *findings;
  struct place place;
  struct node *value;
};

/* Lone values of a list of mappings written out, so that they can be found. */
static bool override_expand_list(struct setting *setting, const struct schema_map *map,
                                 struct node *list)
{
  for (struct node *child = list->first; child; child = child->next) {
    struct node *expanded = schema_expand(setting->arena, map, child);
    if (!expanded)
      return false;
    if (expanded != child) {
      node_replace(list, child, expanded);
      child = expanded;
    }
  }
  return true;
}

static void override_report_element(struct setting *setting, const struct node *list,
                                    const char *path)
{
  const char *names[ELEMENTS_SUGGESTED];
  char words[ELEMENTS_NAMED * (SCHEMA_NAME_MAX + 3)] = "";
  size_t count = 0;
  const char *word = arena_copy(setting->arena, path, strcspn(path, "."));
  for (const struct node *child = list->first; child && count < ELEMENTS_SUGGESTED;
       child = child->next) {
    const struct node *name = node_value(child, "name");
    name = name ? name : node_value(child, "plugin");
    if (name && name->type == NODE_SCALAR)
      names[count++] = name->text;
  }
  if (!word)
    return;
  if ((count > 0 && count <= ELEMENTS_NAMED) || suggest_name(word, names, count))
    suggest_add(word, names, count, words, sizeof(words));
  else
    text_add(words, sizeof(words), "it has %zu elements; give a name, or a number counted from 0",
             list->count);
  findings_add(setting->findings, &setting->place, "\"%.60s\" is not in the list; %s", word, words);
}

/* The mapping or list to go on into, standing for `node` in `parent`. */
static struct node *override_open_node(struct setting *setting, const struct schema_map *map,
                                       struct node *parent, struct node *node)
{
  struct node *opened = node;
  bool none =
      map == &schema_control && node->type == NODE_SCALAR && strcmp(node->text, "none") == 0;
  if (node->null || none)
    opened = node_new(setting->arena, NODE_MAP, NULL, &setting->place);
  else if (map)
    opened = schema_expand(setting->arena, map, node);
  if (!opened)
    return NULL;
  if (opened != node && parent)
    node_replace(parent, node, opened);
  if (opened->type == NODE_SCALAR) {
    findings_add(setting->findings, &setting->place,
                 "\"%.60s\" is a single value and has no keys below it; shorten the path",
                 node->key ? node->key : "");
    return NULL;
  }
  return opened;
}

static void override_put_value(struct setting *setting, struct node *parent, struct node *old,
                               const char *key)
{
  struct node *value = setting->value;
  if (old) {
    node_replace(parent, old, value);
  } else {
    value->key = key;
    node_append(parent, value);
  }
  value->key_place = setting->place;
}

static bool override_missing_list(struct setting *setting, const struct node *parent,
                                  const char *key, const struct schema_key *schema)
{
  if (!schema || (schema->rule.type != SCHEMA_LIST && schema->rule.type != SCHEMA_FILTERS) ||
      node_value(parent, key))
    return false;
  findings_add(setting->findings, &setting->place,
               "the file has no %s, so no value of one can be set; add one to the file, or set the "
               "whole list as in %s=[{...}]",
               key, key);
  return true;
}

/* One step into a mapping; *path is what follows. NULL: done, or reported. */
static struct node *override_step_map(struct setting *setting, const struct schema_map **map,
                                      struct node *node, const char **path)
{
  const char *dot = strchr(*path, '.');
  size_t length = dot ? (size_t)(dot - *path) : strlen(*path);
  const char *key = arena_copy(setting->arena, *path, length);
  if (!key)
    return NULL;
  if (length == 0) {
    findings_add(setting->findings, &setting->place,
                 "an empty name in the path; write it as in streams.packets.ring=4096");
    return NULL;
  }
  if (!dot) {
    override_put_value(setting, node, node_find(node, key), key);
    return NULL;
  }
  const struct schema_key *schema = *map ? schema_find(*map, key) : NULL;
  if (override_missing_list(setting, node, key, schema))
    return NULL;
  struct node *child = node_find(node, key);
  if (!child)
    child = node_add(setting->arena, node, NODE_MAP, key, NULL, &setting->place);
  *map = schema ? schema->map : NULL;
  *path = dot + 1;
  return child ? override_open_node(setting, *map, node, child) : NULL;
}

static struct node *override_step_list(struct setting *setting, const struct schema_map *map,
                                       struct node *node, const char **path)
{
  const char *rest = NULL;
  if (map && !override_expand_list(setting, map, node))
    return NULL;
  struct node *element = node_element(node, *path, &rest);
  if (!element) {
    override_report_element(setting, node, *path);
    return NULL;
  }
  if (!rest) {
    override_put_value(setting, node, element, NULL);
    return NULL;
  }
  *path = rest;
  return override_open_node(setting, map, node, element);
}

static bool override_read_value(struct setting *setting, const char *text)
{
  size_t before = setting->findings->total;
  tree_read(setting->arena, setting->findings, setting->place.source, false, text, strlen(text),
            &setting->value);
  if (setting->findings->total != before || setting->arena->no_memory)
    return false;
  if (!setting->value) {
    setting->value = node_new(setting->arena, NODE_SCALAR, "", &setting->place);
    if (setting->value)
      setting->value->null = true;
    return setting->value != NULL;
  }
  if (setting->value->type != NODE_SCALAR && !strchr("[{", text[strspn(text, " ")])) {
    findings_add(setting->findings, &setting->place,
                 "the value reads as several; put it in quotes, or in [ ] or { }");
    return false;
  }
  return true;
}

void override_apply(struct arena *arena, struct findings *findings, const char *set,
                    struct node **root)
{
  const char *equals = strchr(set, '=');
  const char *printable = text_printable(arena, set);
  const char *source = printable ? arena_printf(arena, "--set %s", printable) : NULL;
  const char *path = equals ? arena_copy(arena, set, (size_t)(equals - set)) : "";
  struct setting setting = {.arena = arena, .findings = findings, .place = {source, 0, 0}};
  if (!source || !path)
    return;
  if (!equals) {
    findings_add(findings, &setting.place,
                 "no value; write path=value, as in streams.packets.ring=4096");
    return;
  }
  if (!override_read_value(&setting, equals + 1))
    return;
  if (!*root || (*root)->null)
    *root = node_new(arena, NODE_MAP, NULL, &setting.place);
  const struct schema_map *map = &schema_root;
  struct node *node = *root;
  /* If the top of the file is no mapping, its check reports that. */
  if (!node || node->type != NODE_MAP)
    return;
  while (node)
    node = node->type == NODE_LIST ? override_step_list(&setting, map, node, &path)
                                   : override_step_map(&setting, &map, node, &path);
}
