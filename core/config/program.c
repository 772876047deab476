/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings and keys of a stream that are the program's: what it has registered, and its checks. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#define KEYS_MAX 32
#define TEXT_MAX 1024
#define KEY_MAX 64 /* bytes of one that the program names, NUL included */

/* A mapping as the schema has it. */
static struct program_map {
  struct schema_map map;
  struct schema_key keys[KEYS_MAX + 1];
  char path[96];
} program_maps[SCHEMA_PROGRAM_MAX];
static void (*program_check)(const struct pst_config_stream *stream);

static void program_clear(void)
{
  for (size_t i = 0; i < 3; i++)
    for (struct schema_key *key = schema_program_keys[i]; key->rule.name; key++)
      if (key->program)
        *key = (struct schema_key){.map = NULL};
  memset(program_maps, 0, sizeof(program_maps));
  program_check = NULL;
}

/* NULL: no place of the program's. */
static const struct schema_map *program_parent(uint32_t place)
{
  const struct schema_map *const parents[] = {&schema_stream, &schema_sender, &schema_receiver};

  return place >= PST_CONFIG_STREAM && place <= PST_CONFIG_RECEIVER ? parents[place - 1] : NULL;
}

/* Keys that stand beside the library's. */
static bool program_bare_fit(const struct schema_map *parent, const struct pst_config_map *map)
{
  if (!map->keys || map->help || map->summary || map->shorthand || map->foreign_default ||
      (map->is_shared && map->place != PST_CONFIG_SENDER) ||
      (map->only_foreign && map->place != PST_CONFIG_RECEIVER))
    return false;
  for (uint32_t i = 0; i < map->key_count; i++)
    if (map->keys[i].scope || schema_find(parent, map->keys[i].name))
      return false;
  return true;
}

static bool program_named_fit(const struct schema_map *parent, const struct pst_config_map *map)
{
  return map->help && map->summary && !map->only_foreign && !schema_find(parent, map->name);
}

static int program_refuse(const struct pst_config_map *map)
{
  const struct schema_map *parent = program_parent(map->place);

  if (!parent || !(map->name ? program_named_fit(parent, map) : program_bare_fit(parent, map)))
    return -EINVAL;
  if (!map->keys)
    return map->key_count || map->shorthand ? -EINVAL : 0;
  if (map->key_count == 0 || map->key_count > KEYS_MAX ||
      (map->shorthand && !option_find(map->keys, map->key_count, map->shorthand)) ||
      (map->foreign_default && !map->shorthand))
    return -EINVAL;
  for (uint32_t i = 0; i < map->key_count; i++)
    if (map->keys[i].type == PST_OPTION_LIST)
      return -EINVAL;
  return 0;
}

/* Behind those that are there. */
static int program_append(uint32_t place, const struct schema_key *key)
{
  struct schema_key *keys = schema_program_keys[place - 1], *end = keys;

  while (end->rule.name)
    end++;
  if (end + 1 >= keys + SCHEMA_KEYS_MAX)
    return -ENOSPC;
  *end = *key;
  return 0;
}

static int program_add(struct program_map *to, const struct pst_config_map *map)
{
  const uint32_t bit = map->is_shared ? SCHEMA_SENDER_OWN : map->only_foreign ? SCHEMA_FOREIGN : 0;
  int rc = 0;

  for (uint32_t i = 0; !map->name && i < map->key_count && rc == 0; i++) {
    struct schema_key key = {.rule = map->keys[i], .program = map};
    key.rule.scope = bit;
    rc = program_append(map->place, &key);
  }
  if (!map->name)
    return rc;
  snprintf(to->path, sizeof(to->path), "%s.%.31s", program_parent(map->place)->path, map->name);
  for (uint32_t i = 0; i < map->key_count; i++)
    to->keys[i] = (struct schema_key){.rule = map->keys[i]};
  to->map = (struct schema_map){to->path, map->help, map->shorthand, to->keys};
  const struct schema_key key = {
      .rule = {.name = map->name,
               .help = map->summary,
               .type = map->keys ? (uint32_t)SCHEMA_MAP : (uint32_t)SCHEMA_OTHERS_MAP},
      .map = map->keys ? &to->map : NULL,
      .program = map};
  return program_append(map->place, &key);
}

PST_EXPORT int pst_config_program(const struct pst_config_program *program)
{
  struct pst_config_program in = {.map_count = 0};

  if (program)
    pst_struct_read(&in, sizeof(in), program);
  program_clear();
  if (in.map_count > SCHEMA_PROGRAM_MAX)
    return -ENOSPC;
  for (uint32_t i = 0; i < in.map_count; i++) {
    int rc = program_refuse(&in.maps[i]);
    if (rc == 0)
      rc = program_add(&program_maps[i], &in.maps[i]);
    if (rc < 0) {
      program_clear();
      return rc;
    }
  }
  program_check = in.check;
  return 0;
}

/* Returns whether the first key of the map says which others there are. */
static bool program_is_typed(const struct schema_map *map)
{
  return map->shorthand && map->keys[0].rule.type == PST_OPTION_ENUM &&
         strcmp(map->keys[0].rule.name, map->shorthand) == 0;
}

/* The keys of the type that the first key says. */
static void program_check_typed(struct check *check, const struct schema_key *key,
                                struct node *mapping, const struct place *place, struct node *out)
{
  const struct pst_option *rule = &key->map->keys[0].rule;
  const struct node *written = node_value(mapping, rule->name);
  const char *text = written && written->type == NODE_SCALAR ? written->text : rule->default_value;
  char because[128], why[VALUE_WHY_MIN];
  struct value type = {0, 0};

  if (text && value_parse(rule, text, &type, why, sizeof(why))) {
    findings_add(check->findings, &written->place, "%s: %s", rule->name, why);
    return;
  }
  snprintf(because, sizeof(because), "is not for %ss of type %s", key->rule.name,
           rule->choices[type.number]);
  check_keys(check, key->map, mapping, place, NULL, out, 1u << type.number, because);
}

static void program_check_map(struct check *check, const struct schema_key *key, struct node *node,
                              const struct place *place, struct node *effective)
{
  const char *otherwise = check->owner->config.control.none ? key->program->foreign_default : NULL;

  if (otherwise && (!node || node->null))
    node = node_new(check->arena, NODE_SCALAR, otherwise, &place_default);
  struct node *mapping = check_map(check, key->map, node);
  const struct place *own = node_place(mapping, &place_default);
  struct node *out = node_add(check->arena, NULL, NODE_MAP, key->rule.name, NULL, own);
  if (!out)
    return;
  place = mapping ? own : place;
  if (program_is_typed(key->map))
    program_check_typed(check, key, mapping, place, out);
  else
    check_keys(check, key->map, mapping, place, NULL, out, 0, NULL);
  if (out->first)
    node_append(effective, out);
}

void check_program(struct check *check, const struct schema_map *parent, const struct node *map,
                   const struct place *place, struct node *effective)
{
  bool shares = node_value(map, "share");

  for (const struct schema_key *key = parent->keys; key->rule.name; key++) {
    struct node *node = node_find(map, key->rule.name);
    if (!key->program || key->rule.type != SCHEMA_MAP)
      continue;
    if (!shares || !key->program->is_shared)
      program_check_map(check, key, node, place, effective);
    else if (node && !node->null)
      findings_add(check->findings, &node->key_place,
                   "\"%s\" has no effect beside \"share\", which takes it from the other stream; "
                   "remove it",
                   key->rule.name);
  }
}

struct program_stream {
  struct pst_config_stream stream;
  struct check *check;
  const struct node *node; /* as it is written */
};

/* Where the value is written, else what is around it. */
static const struct place *program_place(const struct node *node, const char *path)
{
  char key[KEY_MAX];

  for (; *path; path += path[strlen(key)] == '.' ? strlen(key) + 1 : strlen(key)) {
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(path, "."), path);
    const struct node *next = node_value(node, key);
    if (!next)
      break;
    node = next;
  }
  return &node->place;
}

static void program_report(const struct pst_config_stream *stream, const char *path,
                           const char *format, ...)
{
  const struct program_stream *at = (const struct program_stream *)stream;
  char text[TEXT_MAX];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  findings_add(at->check->findings, program_place(at->node, path), "%s", text);
}

void check_program_stream(struct check *check, const struct node *node, uint32_t index)
{
  const struct config_stream *stream = &check->owner->config.streams[index];
  const struct program_stream at = {.stream = {.struct_size = sizeof(at.stream),
                                               .index = index,
                                               .config = check->owner,
                                               .transport = stream->receiver.transport.plugin.name,
                                               .lacks = stream->lacks,
                                               .is_foreign = check->owner->config.control.none,
                                               .report = program_report},
                                    .check = check,
                                    .node = node};

  if (program_check)
    program_check(&at.stream);
}
