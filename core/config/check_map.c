/* SPDX-License-Identifier: Apache-2.0 */
/* One mapping against its schema: its keys, and its plain values. */
#include <stdio.h>
#include <string.h>

#include "../util/nearest.h"
#include "check.h"

#define WORDS_MAX 512
#define NAMES_MAX 32 /* keys of a mapping that are suggested from */

/* ---- Mappings ----------------------------------------------------------------- */

static const char *map_words(const struct schema_map *map)
{
  return map->path[0] ? map->path : "the file";
}

/* Adds a mapping that has a key of this name. */
static size_t add_place(const struct schema_map *map, const char *key, char *words, size_t size,
                        size_t at)
{
  if (!map || at >= size || !schema_find(map, key))
    return at;
  return at + (size_t)snprintf(words + at, size - at, "%s%s", at ? " or " : "", map_words(map));
}

/* Where else a key of this name stands: "streams[].sender or threads". */
static void elsewhere(const char *key, char *words, size_t size)
{
  size_t at = 0;

  words[0] = '\0';
  for (size_t i = 0; schema_maps[i]; i++) {
    at = add_place(schema_maps[i], key, words, size, at);
    for (size_t k = 0; k < schema_maps[i]->program_count; k++)
      at = add_place(schema_maps[i]->program[k].map, key, words, size, at);
  }
}

static void report_unknown(struct check *check, const struct schema_map *map,
                           const struct node *node)
{
  const char *names[NAMES_MAX];
  size_t count = 0;
  char words[WORDS_MAX] = "";
  size_t at = 0;
  for (size_t i = 0; i < map->count && count < NAMES_MAX; i++)
    names[count++] = map->keys[i].rule.name;
  for (size_t i = 0; i < map->program_count && count < NAMES_MAX; i++)
    names[count++] = map->program[i].rule.name;
  elsewhere(node->key, words, sizeof(words));
  if (words[0]) {
    findings_add(check->findings, &node->key_place,
                 "unknown key \"%.60s\" in %s; it belongs under %s", node->key, map_words(map),
                 words);
    return;
  }
  const char *near = nearest_name(node->key, names, count);
  if (near) {
    findings_add(check->findings, &node->key_place,
                 "unknown key \"%.60s\" in %s; did you mean \"%s\"?", node->key, map_words(map),
                 near);
    return;
  }
  if (schema_find(map, "options")) {
    findings_add(check->findings, &node->key_place,
                 "unknown key \"%.60s\" in %s; options of the plugin stand under \"options\"",
                 node->key, map_words(map));
    return;
  }
  for (size_t i = 0; i < count && at < sizeof(words); i++)
    at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? ", " : "", names[i]);
  findings_add(check->findings, &node->key_place, "unknown key \"%.60s\" in %s; there are: %s",
               node->key, map_words(map), words);
}

struct node *check_map(struct check *check, const struct schema_map *map, struct node *node)
{
  if (!node || node->null)
    return NULL;
  struct node *expanded = schema_expand(check->arena, map, node);
  if (!expanded) {
    check->findings->no_memory = true;
    return NULL;
  }
  if (expanded->type != NODE_MAP) {
    findings_add(check->findings, &expanded->place,
                 "%s: expected a mapping (\"key: value\" lines)%s%s%s, found a %s", map_words(map),
                 map->shorthand ? " or the " : "", map->shorthand ? map->shorthand : "",
                 map->shorthand ? " alone" : "",
                 expanded->type == NODE_LIST ? "list" : "single value");
    return NULL;
  }
  for (const struct node *child = expanded->first; child; child = child->next)
    if (!schema_find(map, child->key))
      report_unknown(check, map, child);
  return expanded;
}

/* ---- Plain values ---------------------------------------------------------------- */

static bool store(struct check *check, const struct schema_key *key, const struct value *value,
                  const char *text, void *base)
{
  char *at = (char *)base + key->offset;
  const char *copy;
  uint32_t u32 = (uint32_t)value->number;
  switch (key->store) {
  case STORE_NONE:
    return true;
  case STORE_BOOL:
    *(bool *)at = value->number != 0;
    return true;
  case STORE_U32:
  case STORE_ENUM:
    memcpy(at, &u32, sizeof(u32));
    return true;
  case STORE_U64:
    memcpy(at, &value->number, sizeof(value->number));
    return true;
  case STORE_DOUBLE:
    memcpy(at, &value->real, sizeof(value->real));
    return true;
  case STORE_STRING:
    copy = arena_string(check->arena, text);
    memcpy(at, &copy, sizeof(copy));
    return copy != NULL;
  }
  return true;
}

void check_value(struct check *check, const struct schema_key *key, const char *text,
                 const struct place *place, void *base, struct node *effective)
{
  const struct pst_option *rule = &key->rule;
  char why[WORDS_MAX], canonical[VALUE_TEXT_MAX];
  struct value value = {0, 0};
  if (value_parse(rule, text, &value, why, sizeof(why))) {
    findings_add(check->findings, place, "%s: %s", rule->name, why);
    return;
  }
  bool quantity = rule->type != PST_OPTION_STRING && rule->type != PST_OPTION_ENUM;
  if (quantity) {
    value_print(rule, &value, canonical, sizeof(canonical));
    text = canonical;
  }
  if (base && !store(check, key, &value, text, base))
    check->findings->no_memory = true;
  struct node *node = effective_scalar(check, effective, rule->name, text, place);
  if (node) {
    node->quantity = quantity;
    node->number = rule->type == PST_OPTION_STRING ? 0 : value.number;
    node->real = rule->type == PST_OPTION_STRING ? 0 : value.real;
  }
}

static void report_missing(struct check *check, const struct schema_key *key,
                           const struct schema_map *map, const struct place *place)
{
  char words[WORDS_MAX];
  value_type_words(&key->rule, words, sizeof(words));
  findings_add(check->findings, place, "\"%s\" is missing in %s; it takes %s", key->rule.name,
               map_words(map), words);
}

void check_keys(struct check *check, const struct schema_map *map, const struct node *node,
                const struct place *place, void *base, struct node *effective, uint32_t bit,
                const char *because)
{
  for (size_t i = 0; i < map->count; i++) {
    const struct schema_key *key = &map->keys[i];
    const struct node *child = node_value(node, key->rule.name);
    if (key->rule.scope && !(key->rule.scope & bit)) {
      if (child)
        findings_add(check->findings, &child->key_place, "\"%s\" %s; remove it", key->rule.name,
                     because);
      continue;
    }
    if (key->rule.type >= SCHEMA_MAP || key->rule.type == PST_OPTION_LIST)
      continue;
    if (child && child->type != NODE_SCALAR) {
      char words[WORDS_MAX];
      value_type_words(&key->rule, words, sizeof(words));
      findings_add(check->findings, &child->place,
                   "%s: expected one value, found a %s; it takes %s", key->rule.name,
                   child->type == NODE_LIST ? "list" : "mapping", words);
    } else if (child) {
      check_value(check, key, child->text, &child->place, base, effective);
    } else if (key->default_of && base) {
      char text[24];
      snprintf(text, sizeof(text), "%llu", (unsigned long long)key->default_of(base));
      check_value(check, key, text, &place_default, base, effective);
    } else if (key->rule.default_value) {
      check_value(check, key, key->rule.default_value, &place_default, base, effective);
    } else if (key->rule.flags & PST_OPTION_REQUIRED) {
      report_missing(check, key, map, place);
    }
  }
}
