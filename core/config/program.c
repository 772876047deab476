/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of a stream that are the program's: what it has registered of them, and its checks. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#define MAPS_MAX 8
#define KEYS_MAX 32
#define TEXT_MAX 1024

/* A mapping as the schema has it. */
struct program_map {
  struct schema_map map;
  struct schema_key keys[KEYS_MAX];
  char path[96];
};

static struct program_map program_maps[MAPS_MAX];
static struct schema_key program_keys[3][MAPS_MAX]; /* by place - 1 */
static void (*program_check)(const struct pst_config_stream *stream);

static struct schema_map *program_parent(uint32_t place)
{
  struct schema_map *const parents[] = {&schema_stream, &schema_sender, &schema_receiver};

  return place >= PST_CONFIG_STREAM && place <= PST_CONFIG_RECEIVER ? parents[place - 1] : NULL;
}

static void program_clear(void)
{
  for (uint32_t place = PST_CONFIG_STREAM; place <= PST_CONFIG_RECEIVER; place++) {
    program_parent(place)->program = NULL;
    program_parent(place)->program_count = 0;
  }
  program_check = NULL;
}

static bool program_has_key(const struct pst_config_map *map, const char *name)
{
  for (uint32_t i = 0; i < map->key_count; i++)
    if (strcmp(map->keys[i].name, name) == 0)
      return true;
  return false;
}

static bool program_has_list(const struct pst_config_map *map)
{
  for (uint32_t i = 0; i < map->key_count; i++)
    if (map->keys[i].type == PST_OPTION_LIST)
      return true;
  return false;
}

static int program_refuse(const struct pst_config_map *map)
{
  const struct schema_map *parent = program_parent(map->place);

  if (!map->name || !map->help || !map->summary || !parent || map->reserved ||
      schema_find(parent, map->name))
    return -EINVAL;
  if (!map->keys)
    return map->key_count || map->shorthand ? -EINVAL : 0;
  if (map->key_count == 0 || map->key_count > KEYS_MAX ||
      (map->shorthand && !program_has_key(map, map->shorthand)) ||
      (map->foreign_default && !map->shorthand) || program_has_list(map))
    return -EINVAL;
  return 0;
}

static void program_add(struct program_map *to, const struct pst_config_map *map)
{
  struct schema_map *parent = program_parent(map->place);
  struct schema_key *keys = program_keys[map->place - 1];

  snprintf(to->path, sizeof(to->path), "%s.%.31s", parent->path, map->name);
  for (uint32_t i = 0; i < map->key_count; i++)
    to->keys[i] = (struct schema_key){.rule = map->keys[i]};
  to->map = (struct schema_map){.path = to->path,
                                .help = map->help,
                                .shorthand = map->shorthand,
                                .keys = to->keys,
                                .count = map->key_count};
  keys[parent->program_count] = (struct schema_key){
      .rule = {.name = map->name,
               .help = map->summary,
               .type = map->keys ? (uint32_t)SCHEMA_MAP : (uint32_t)SCHEMA_OTHERS_MAP},
      .map = map->keys ? &to->map : NULL,
      .program = map};
  parent->program = keys;
  parent->program_count++;
}

PST_EXPORT int pst_config_program(const struct pst_config_program *program)
{
  struct pst_config_program in = {.map_count = 0};

  if (program)
    pst_struct_read(&in, sizeof(in), program);
  program_clear();
  if (in.map_count > MAPS_MAX)
    return -ENOSPC;
  for (uint32_t i = 0; i < in.map_count; i++) {
    int rc = program_refuse(&in.maps[i]);
    if (rc < 0) {
      program_clear();
      return rc;
    }
    program_add(&program_maps[i], &in.maps[i]);
  }
  program_check = in.check;
  return 0;
}

/* ---- Its mappings in a file ---------------------------------------------------- */

/* Its first key says which others there are. */
static bool program_is_typed(const struct schema_map *map)
{
  return map->shorthand && map->keys[0].rule.type == PST_OPTION_ENUM &&
         strcmp(map->keys[0].rule.name, map->shorthand) == 0;
}

/* The choice that its first key has; UINT32_MAX: none of them. */
static uint32_t program_type_of(const struct schema_map *map, const struct node *node)
{
  const struct pst_option *rule = &map->keys[0].rule;
  const struct node *type = node_value(node, rule->name);
  const char *text = type && type->type == NODE_SCALAR ? type->text : rule->default_value;

  for (uint32_t i = 0; text && rule->choices[i]; i++)
    if (strcmp(rule->choices[i], text) == 0)
      return i;
  return text ? UINT32_MAX : 0;
}

static void program_check_typed(struct check *check, const struct schema_key *key,
                                struct node *mapping, const struct place *place, struct node *out)
{
  const struct schema_map *map = key->map;
  const struct pst_option *rule = &map->keys[0].rule;
  uint32_t type = program_type_of(map, mapping);
  char because[128], why[VALUE_WHY_MIN];
  struct value value;

  if (type == UINT32_MAX) {
    const struct node *written = node_value(mapping, rule->name);
    value_parse(rule, written->text, &value, why, sizeof(why));
    findings_add(check->findings, &written->place, "%s: %s", rule->name, why);
    return;
  }
  snprintf(because, sizeof(because), "is not for %ss of type %s", key->rule.name,
           rule->choices[type]);
  check_keys(check, map, mapping, place, NULL, out, 1u << type, because);
}

static void program_check_map(struct check *check, const struct schema_key *key, struct node *node,
                              const struct place *place, struct node *effective)
{
  const char *otherwise = check->owner->config.control.none ? key->program->foreign_default : NULL;

  if (otherwise && (!node || node->null)) {
    node = node_new(check->arena, NODE_SCALAR, otherwise, &place_default);
    check->findings->no_memory |= !node;
  }
  struct node *mapping = check_map(check, key->map, node);
  const struct place *own = mapping ? &mapping->place : &place_default;
  struct node *out = effective_map(check, NULL, key->rule.name, own);
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

  for (size_t i = 0; i < parent->program_count; i++) {
    const struct schema_key *key = &parent->program[i];
    struct node *node = node_find(map, key->rule.name);
    if (key->rule.type == SCHEMA_OTHERS_MAP)
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

/* ---- Its own checks ---------------------------------------------------------------- */

struct program_stream {
  struct pst_config_stream stream;
  struct check *check;
  const struct node *node; /* as it is written */
};

/* Where the value is written, else what is around it. */
static const struct place *program_place(const struct node *node, const char *path)
{
  while (*path) {
    size_t length = strcspn(path, ".");
    const struct node *next = NULL;
    for (const struct node *child = node->type == NODE_MAP ? node->first : NULL; child;
         child = child->next)
      if (strlen(child->key) == length && strncmp(child->key, path, length) == 0 && !child->null)
        next = child;
    if (!next)
      break;
    node = next;
    path += length + (path[length] == '.');
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
