/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../util/nearest.h"

#define WORDS_MAX 512
#define NAMES_MAX 32 /* keys of a mapping that are suggested from */

const struct place place_default = {"default", 0, 0};

void *check_alloc(struct check *check, size_t size_bytes)
{
  void *at = arena_alloc(check->arena, size_bytes);
  if (!at)
    check->findings->no_memory = true;
  return at;
}

/* ---- Effective values ------------------------------------------------------ */

static struct node *effective_node(struct check *check, struct node *parent, enum node_type type,
                                   const char *key, const char *text, const struct place *place)
{
  struct node *node = node_new(check->arena, type, text, place);
  if (!node) {
    check->findings->no_memory = true;
    return NULL;
  }
  node->key = key;
  if (parent)
    node_append(parent, node);
  return node;
}

struct node *effective_map(struct check *check, struct node *parent, const char *key,
                           const struct place *place)
{
  return effective_node(check, parent, NODE_MAP, key, NULL, place);
}

struct node *effective_list(struct check *check, struct node *parent, const char *key,
                            const struct place *place)
{
  return effective_node(check, parent, NODE_LIST, key, NULL, place);
}

struct node *effective_scalar(struct check *check, struct node *parent, const char *key,
                              const char *text, const struct place *place)
{
  return effective_node(check, parent, NODE_SCALAR, key, text, place);
}

/* ---- Mappings ----------------------------------------------------------------- */

struct node *schema_expand(struct arena *arena, const struct schema_map *map, struct node *node)
{
  if (node->type != NODE_SCALAR || node->null || !map->shorthand)
    return node;
  struct node *expanded = node_new(arena, NODE_MAP, NULL, &node->place);
  struct node *value = arena_alloc(arena, sizeof(*value));
  if (!expanded || !value)
    return NULL;
  *value = *node;
  value->key = map->shorthand;
  value->key_place = node->place;
  expanded->key = node->key;
  expanded->key_place = node->key_place;
  node_append(expanded, value);
  return expanded;
}

static const char *map_words(const struct schema_map *map)
{
  return map->path[0] ? map->path : "the file";
}

/* Where else a key of this name stands: "streams[].sender or workers". */
static void elsewhere(const char *key, char *words, size_t size)
{
  size_t at = 0;
  words[0] = '\0';
  for (size_t i = 0; schema_maps[i] && at < size; i++)
    if (schema_find(schema_maps[i], key))
      at += (size_t)snprintf(words + at, size - at, "%s%s", at ? " or " : "",
                             map_words(schema_maps[i]));
}

static void report_unknown(struct check *check, const struct schema_map *map,
                           const struct node *node)
{
  const char *names[NAMES_MAX];
  size_t count = map->count < NAMES_MAX ? map->count : NAMES_MAX;
  char words[WORDS_MAX] = "";
  size_t at = 0;
  for (size_t i = 0; i < count; i++)
    names[i] = map->keys[i].rule.name;
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

static void take_value(struct check *check, const struct schema_key *key, const char *text,
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
      take_value(check, key, child->text, &child->place, base, effective);
    } else if (key->default_of && base) {
      char text[24];
      snprintf(text, sizeof(text), "%llu", (unsigned long long)key->default_of(base));
      take_value(check, key, text, &place_default, base, effective);
    } else if (key->rule.default_value) {
      take_value(check, key, key->rule.default_value, &place_default, base, effective);
    } else if (key->rule.flags & PST_OPTION_REQUIRED) {
      report_missing(check, key, map, place);
    }
  }
}

/* ---- The file ---------------------------------------------------------------------- */

static void check_cpus(struct check *check, const struct node *map, struct node *effective)
{
  const struct node *node = node_value(map, "cpus");
  struct config *config = &check->owner->config;
  struct node *list =
      effective_list(check, effective, "cpus", node ? &node->place : &place_default);
  if (!node || !list)
    return;
  if (node->type != NODE_LIST) {
    findings_add(check->findings, &node->place,
                 "cpus: expected a list of CPU numbers, as in [2, 3]");
    return;
  }
  static const struct schema_key cpu = {
      .rule = {.name = "cpus", .type = PST_OPTION_UINT, .max = 65535}, .store = STORE_U32};
  uint32_t *cpus = check_alloc(check, (node->count + 1) * sizeof(*cpus));
  if (node->count > SCHEMA_WORKERS_MAX) {
    findings_add(check->findings, &node->place, "cpus: more than %d entries", SCHEMA_WORKERS_MAX);
    return;
  }
  for (const struct node *item = node->first; item && cpus; item = item->next) {
    if (item->type != NODE_SCALAR)
      findings_add(check->findings, &item->place, "cpus: expected a CPU number, as in [2, 3]");
    else
      take_value(check, &cpu, item->text, &item->place, &cpus[config->workers.cpu_count++], list);
  }
  config->workers.cpus = config->workers.cpu_count ? cpus : NULL;
}

static void check_workers(struct check *check, struct node *node, const struct place *place,
                          struct node *effective)
{
  struct node *map = check_map(check, &schema_workers, node);
  struct node *out = effective_map(check, effective, "workers", &place_default);
  if (!out)
    return;
  check_keys(check, &schema_workers, map, place, &check->owner->config, out, 0, NULL);
  check_cpus(check, map, out);
}

/* False: the rest of the file is of another version, and not worth checking. */
static bool check_version(struct check *check, const struct node *root, struct node *effective)
{
  const struct node *version = node_value(root, "penstock");
  char why[WORDS_MAX];
  struct value value = {0, 0};
  if (!version) {
    findings_add(check->findings, &root->place,
                 "\"penstock\" is missing; begin the file with the line \"penstock: 1\"");
    return true;
  }
  if (version->type != NODE_SCALAR ||
      value_parse(&schema_root.keys[0].rule, version->text, &value, why, sizeof(why)) ||
      value.number != SCHEMA_VERSION) {
    findings_add(check->findings, &version->place,
                 "the file's version is \"%.60s\", and this penstock reads version %d; write "
                 "\"penstock: %d\", or take a penstock for that version",
                 version->type == NODE_SCALAR ? version->text : "(no number)", SCHEMA_VERSION,
                 SCHEMA_VERSION);
    return false;
  }
  take_value(check, &schema_root.keys[0], version->text, &version->place, NULL, effective);
  return true;
}

void check_root(struct check *check, const char *source, struct node *root)
{
  struct place begin = {source, 1, 1};
  /* Of an empty file the settings of a command line make a mapping that lacks the rest. */
  bool is_empty = root && root->type == NODE_MAP && strcmp(root->place.source, source) != 0 &&
                  !node_value(root, "penstock") && !node_value(root, "streams");
  if (!root || root->null || is_empty) {
    if (check->findings->total == 0)
      findings_add(check->findings, root && !is_empty ? &root->place : &begin,
                   "nothing is configured; the least is \"penstock: 1\" and one stream with a "
                   "name under \"streams:\"");
    return;
  }
  if (root->type != NODE_MAP) {
    findings_add(check->findings, &root->place,
                 "expected a mapping; begin with the line \"penstock: 1\"");
    return;
  }
  struct node *effective = effective_map(check, NULL, NULL, &root->place);
  check->owner->effective = effective;
  if (!effective || !check_version(check, root, effective))
    return;
  struct node *map = check_map(check, &schema_root, root);
  struct transport_state global;
  check_control(check, node_value(map, "control"), effective);
  check_workers(check, node_value(map, "workers"), &root->place, effective);
  check_transport(check, node_value(map, "transport"), &root->place, 0, NULL, &global);
  check_streams(check, node_value(map, "streams"), &root->place, &global, effective);
}
