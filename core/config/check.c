/* SPDX-License-Identifier: Apache-2.0 */
/* The top of the file, and its `threads`. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 512

static void check_cpus(struct check *check, const struct node *map, struct node *effective)
{
  const struct node *node = node_value(map, "cpus");
  struct config *config = &check->owner->config;
  struct node *list =
      node_add(check->arena, effective, NODE_LIST, "cpus", NULL, node_place(node, &place_default));
  if (!node || !list)
    return;
  if (node->type != NODE_LIST) {
    findings_add(check->findings, &node->place,
                 "cpus: expected a list of CPU numbers, as in [2, 3]");
    return;
  }
  static const struct schema_key cpu = {
      .rule = {.name = "cpus", .type = PST_OPTION_UINT, .max = 65535}, .is_stored = true};
  uint32_t *cpus = arena_alloc(check->arena, (node->count + 1) * sizeof(*cpus));
  if (node->count > SCHEMA_THREADS_MAX) {
    findings_add(check->findings, &node->place, "cpus: more than %d entries", SCHEMA_THREADS_MAX);
    return;
  }
  for (const struct node *item = node->first; item && cpus; item = item->next) {
    if (item->type != NODE_SCALAR)
      findings_add(check->findings, &item->place, "cpus: expected a CPU number, as in [2, 3]");
    else
      check_value(check, &cpu, item->text, &item->place, &cpus[config->threads.cpu_count++], list);
  }
  config->threads.cpus = config->threads.cpu_count ? cpus : NULL;
}

static void check_threads(struct check *check, struct node *node, const struct place *place,
                          struct node *effective)
{
  struct node *map = check_map(check, &schema_threads, node);
  struct node *out = node_add(check->arena, effective, NODE_MAP, "threads", NULL, &place_default);
  if (!out)
    return;
  check_keys(check, &schema_threads, map, place, &check->owner->config, out, 0, NULL);
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
  check_value(check, &schema_root.keys[0], version->text, &version->place, NULL, effective);
  return true;
}

void check_root(struct check *check, const char *source, struct node *root)
{
  struct place begin = {source, 1, 1};
  /* With an empty file the settings of a command line make up the mapping, which lacks the rest. */
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
  struct node *effective = node_add(check->arena, NULL, NODE_MAP, NULL, NULL, &root->place);
  check->owner->effective = effective;
  if (!effective || !check_version(check, root, effective))
    return;
  struct node *map = check_map(check, &schema_root, root);
  struct config_transport global;
  check_control(check, node_value(map, "control"), effective);
  check_threads(check, node_value(map, "threads"), &root->place, effective);
  check_transport(check, node_value(map, "transport"), &root->place, 0, NULL, &global);
  check_streams(check, node_value(map, "streams"), &root->place, &global, effective);
}
