/* SPDX-License-Identifier: Apache-2.0 */
/* One mapping against its schema: its keys, and its plain values. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "util/suggest.h"
#include "util/text.h"

#define WORDS_MAX 512
#define NAMES_MAX 32 /* keys of a mapping that are suggested from */

static const char *map_words(const struct schema_map *map)
{
  return map->path[0] ? map->path : "the file";
}

/* Adds a mapping that has a key of this name. */
static void check_add_place(const struct schema_map *map, const char *key, char *words, size_t size)
{
  if (map && schema_find(map, key))
    text_add(words, size, "%s%s", words[0] ? " or " : "", map_words(map));
}

/* Where else a key of this name stands: "streams[].sender or threads". */
static void check_elsewhere(const char *key, char *words, size_t size)
{
  for (size_t i = 0; schema_maps[i]; i++) {
    check_add_place(schema_maps[i], key, words, size);
    for (const struct schema_key *in = schema_maps[i]->keys; in->rule.name; in++)
      if (in->program)
        check_add_place(in->map, key, words, size);
  }
}

static void check_report_unknown(struct check *check, const struct schema_map *map,
                                 const struct node *node)
{
  const char *names[NAMES_MAX];
  size_t count = 0;
  char places[WORDS_MAX] = "", remedy[WORDS_MAX + 32] = "";
  for (const struct schema_key *key = map->keys; key->rule.name && count < NAMES_MAX; key++)
    names[count++] = key->rule.name;
  check_elsewhere(node->key, places, sizeof(places));
  if (places[0])
    snprintf(remedy, sizeof(remedy), "it belongs under %s", places);
  else if (schema_find(map, "options") && !suggest_name(node->key, names, count))
    snprintf(remedy, sizeof(remedy), "options of the plugin stand under \"options\"");
  else
    suggest_add(node->key, names, count, remedy, sizeof(remedy));
  findings_add(check->findings, &node->key_place, "unknown key \"%.60s\" in %s; %s", node->key,
               map_words(map), remedy);
}

struct node *check_map(struct check *check, const struct schema_map *map, struct node *node)
{
  if (!node || node->null)
    return NULL;
  struct node *expanded = schema_expand(check->arena, map, node);
  if (!expanded)
    return NULL;
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
      check_report_unknown(check, map, child);
  return expanded;
}

/* A bool, a uint32_t (UINT and ENUM), a uint64_t (what has a unit) or a text. */
static void check_store(struct check *check, const struct schema_key *key,
                        const struct value *value, const char *text, void *base)
{
  char *at = (char *)base + key->offset;
  const uint32_t number = (uint32_t)value->number;
  if (key->rule.type == PST_OPTION_STRING)
    *(const char **)at = arena_string(check->arena, text);
  else if (key->rule.type == PST_OPTION_BOOL)
    *(bool *)at = value->number != 0;
  else if (key->rule.type == PST_OPTION_UINT || key->rule.type == PST_OPTION_ENUM)
    memcpy(at, &number, sizeof(number));
  else
    memcpy(at, &value->number, sizeof(value->number));
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
  if (base && key->is_stored)
    check_store(check, key, &value, text, base);
  effective_value(check, effective, rule, text, &value, place);
}

static void check_report_missing(struct check *check, const struct schema_key *key,
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
  for (const struct schema_key *key = map->keys; key->rule.name; key++) {
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
      check_report_missing(check, key, map, place);
    }
  }
}
