/* SPDX-License-Identifier: Apache-2.0 */
/* A description as a whole: a file, or the words of a command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const engine_words[] = {"eager", "deferred", NULL};

enum { VERSION, NAME, STRICT, ENGINE, DEFERRAL, CLOCK, SUBNETS, ROUTERS, HOSTS, FAULTS, TOP_KEYS };
static const struct key top_keys[TOP_KEYS] = {
    [VERSION] = {{.name = "simverbs",
                  .type = RULE_UINT,
                  .min = 1,
                  .max = 1,
                  .help = "the description's version, 1"},
                 true},
    [NAME] = {{.name = "name", .type = RULE_STRING}},
    [STRICT] = {{.name = "strict", .type = RULE_BOOL, .default_value = "false"}},
    [ENGINE] =
        {{.name = "engine", .type = RULE_ENUM, .choices = engine_words, .default_value = "eager"}},
    [DEFERRAL] = {{.name = "engine_delay", .type = RULE_DURATION, .default_value = "0"}},
    [CLOCK] = {{.name = "clock", .type = RULE_STRING, .default_value = "real"}},
    [SUBNETS] = {{.name = "subnets", .type = RULE_NODE}},
    [ROUTERS] = {{.name = "routers", .type = RULE_NODE}},
    [HOSTS] = {{.name = "hosts", .type = RULE_NODE, .help = "a list of hosts"}, true},
    [FAULTS] = {{.name = "faults", .type = RULE_NODE}},
};

/* The hosts are there before the faults that name them. */
static void describe_root(struct describe *d, const struct node *root,
                          const struct describe_options *options)
{
  struct taken taken[TOP_KEYS];
  struct fabric *f = d->f;
  if (!keys_take(d, root, "a description", top_keys, TOP_KEYS, taken))
    return;
  f->strict = (uint32_t)taken[STRICT].value.number;
  f->engine = taken[ENGINE].value.number ? FAB_ENGINE_DEFERRED : FAB_ENGINE_EAGER;
  f->engine_delay_ns = taken[DEFERRAL].value.number;
  if (fab_clock_set(f, taken[CLOCK].text))
    findings_add(&d->findings, &taken[CLOCK].node->place,
                 "clock: \"%.60s\" is not real, manual, or a factor as in 1000", taken[CLOCK].text);
  if (options->clock)
    fab_clock_set(f, options->clock);
  keys_each(d, taken[SUBNETS].node, "subnets", describe_subnet);
  if (!taken[SUBNETS].node) {
    f->subnets = 1;
    f->subnet[0] = (struct fab_subnet){.name = "subnet", .used = 1, .mtu = IBV_MTU_4096};
  }
  keys_each(d, taken[ROUTERS].node, "routers", describe_router);
  keys_each(d, taken[HOSTS].node, "hosts", describe_host);
  if (!f->hosts && !d->findings.total)
    findings_add(&d->findings, &taken[HOSTS].node->place, "there is no host; describe one");
  describe_check_ports(d);
  /* Where nothing is right yet, names that faults refer to may be missing for that. */
  if (!d->findings.total)
    keys_each(d, taken[FAULTS].node, "faults", describe_fault);
}

static char *describe_read_whole(const char *path, size_t *length)
{
  FILE *file = fopen(path, "re");
  char *text = file ? malloc(TREE_FILE_MAX + 1) : NULL;
  if (text)
    *length = fread(text, 1, TREE_FILE_MAX + 1, file);
  bool right = text && !ferror(file) && *length <= TREE_FILE_MAX;
  if (!right)
    fprintf(stderr, "penstock-simverbs: %s cannot be read: %s\n", path,
            text && !ferror(file) ? "it is too long to be a description" : strerror(errno));
  if (file)
    fclose(file);
  if (right)
    return text;
  free(text);
  return NULL;
}

static struct describe *describe_new(struct fabric *f)
{
  struct describe *d = calloc(1, sizeof(*d));
  if (!d)
    return NULL;
  d->f = f;
  return d;
}

/* Reports, and frees. */
static int describe_end(struct describe *d)
{
  int error = findings_report(&d->findings);
  tree_free(&d->tree);
  free(d);
  return error;
}

static int describe_file(struct fabric *f, const struct describe_options *options)
{
  size_t length = 0;
  char *text = describe_read_whole(options->path, &length);
  if (!text)
    return EINVAL;
  struct describe *d = describe_new(f);
  if (!d) {
    free(text);
    return ENOMEM;
  }
  const struct node *root = tree_read(&d->tree, &d->findings, options->path, text, length);
  if (root)
    describe_root(d, root, options);
  else if (!d->findings.total)
    findings_add(&d->findings, &(struct place){options->path, 0, 0},
                 "nothing is described; begin with \"simverbs: 1\" and \"hosts:\"");
  free(text);
  return describe_end(d);
}

int describe_fabric(struct fabric *f, void *argument)
{
  const struct describe_options *options = argument;
  int error = options->path ? describe_file(f, options) : 0;
  if (!options->path) {
    fab_describe_default(f);
    if (options->clock)
      fab_clock_set(f, options->clock);
  }
  if (options->strict >= 0)
    f->strict = (uint32_t)options->strict;
  if (options->engine >= 0)
    f->engine = (uint32_t)options->engine;
  f->description = options->hash;
  memcpy(f->name, options->name, sizeof(f->name));
  return error;
}

/* ---- whose name the file has ---- */

/* The file's own name without folder and ending. */
static void describe_name_of_file(const char *path, char name[FAB_NAME])
{
  const char *slash = strrchr(path, '/');
  snprintf(name, FAB_NAME, "%s", slash ? slash + 1 : path);
  char *dot = strrchr(name, '.');
  if (dot)
    *dot = '\0';
}

static uint64_t describe_hash_of(const char *text, size_t length)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash ? hash : 1;
}

int describe_identify(const char *path, char name[FAB_NAME], uint64_t *hash)
{
  size_t length = 0;
  char *text = describe_read_whole(path, &length);
  if (!text)
    return EINVAL;
  struct describe *d = describe_new(NULL);
  if (!d) {
    free(text);
    return ENOMEM;
  }
  const struct node *given =
      node_find(tree_read(&d->tree, &d->findings, path, text, length), "name");
  describe_name_of_file(path, name);
  if (given && given->type == NODE_SCALAR && !given->null)
    keys_name(d, &(struct taken){.node = given, .text = given->text}, name);
  *hash = describe_hash_of(text, length);
  free(text);
  return describe_end(d);
}

/* ---- a command line's ---- */

static struct node *describe_word_node(struct describe *d, const struct place *place,
                                       const char *key, const char *text)
{
  struct node *node = node_new(&d->tree, NODE_SCALAR, text, place);
  if (node) {
    node->key = key;
    node->key_place = *place;
  }
  return node;
}

/* --KEY VALUE pairs, and a lone word for `on`. */
static bool describe_add_words(struct describe *d, struct node *map, const struct place *place,
                               int count, char *const words[])
{
  for (int i = 0; i < count; i++) {
    bool option = !strncmp(words[i], "--", 2);
    const char *key = option ? words[i] + 2 : "on";
    if (option && ++i == count) {
      findings_add(&d->findings, place, "%s needs a value behind it", words[i - 1]);
      return false;
    }
    if (node_find(map, key)) {
      findings_add(&d->findings, place, "\"%s\" is given twice; leave one out", key);
      return false;
    }
    struct node *node = describe_word_node(d, place, key, words[i]);
    if (!node) {
      d->findings.no_memory = true;
      return false;
    }
    node_append(map, node);
  }
  return true;
}

int describe_fault_words(const char *kind, int count, char *const words[])
{
  struct place place = {.source = kind};
  struct describe *d = describe_new(fab);
  struct node *map = d ? node_new(&d->tree, NODE_MAP, NULL, &place) : NULL;
  struct node *what = map ? describe_word_node(d, &place, "do", kind) : NULL;
  if (!d)
    return ENOMEM;
  if (!what) {
    d->findings.no_memory = true;
  } else {
    node_append(map, what);
    if (describe_add_words(d, map, &place, count, words))
      describe_fault(d, map);
  }
  return describe_end(d);
}

int describe_target_words(const char *word, struct fab_target *target)
{
  struct place place = {.source = "penstock-simverbs"};
  struct describe *d = describe_new(fab);
  if (!d)
    return ENOMEM;
  describe_target(d, &(struct taken){.node = &(struct node){.place = place}, .text = word}, target);
  return describe_end(d);
}
