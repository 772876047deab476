/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration file: what checks them, what fills struct config,
 * and what config/README.md is made from. */
#ifndef PST_CONFIG_SCHEMA_H
#define PST_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

#include "tree.h"
#include "value.h"

/* Beside enum pst_option_type and enum value_type. */
enum schema_type {
  SCHEMA_MAP = 200,   /* a mapping of `map`; a single value means its `shorthand` key */
  SCHEMA_OTHERS_MAP,  /* another program's: passed over */
  SCHEMA_LIST,        /* a list of mappings of `map` */
  SCHEMA_TRANSPORT,   /* a plugin with options and filters */
  SCHEMA_MEMORY,      /* a plugin with options */
  SCHEMA_FILTERS,     /* a list of plugins with options */
  SCHEMA_PLUGIN_NAME, /* name of a plugin */
  SCHEMA_OPTIONS,     /* a mapping by the plugin's own table */
};

struct schema_map;

struct schema_key {
  /* Name, help, default, choices, range, type, PST_OPTION_REQUIRED. `scope` is, for
   * a key that only some types of a program's mapping, only senders without `share`, or
   * only streams of messages have, a bit for each; 0: all. */
  struct pst_option rule;
  const struct schema_map *map;
  bool is_stored; /* in a struct, as check_keys() has it for the type */
  size_t offset;
  const struct pst_config_map *program; /* the program's: its own words */
  /* In place of rule.default_value, where it depends on keys before this one, which
   * `base` has; and in words. */
  uint64_t (*default_of)(const void *base);
  const char *default_words;
};

struct schema_map {
  const char *path;      /* "streams[].sender"; "" is the file */
  const char *help;      /* whole sentences */
  const char *shorthand; /* the key that a single value stands for; NULL: must be a mapping */
  const struct schema_key *keys; /* the program's behind core's; one without a name at the end */
};

#define SCHEMA_VERSION 1
/* Bits in the scope of a stream's and its ends' keys. */
#define SCHEMA_SENDER_OWN 1u
#define SCHEMA_SENDER_SHARING 2u
#define SCHEMA_CONTROLLED 4u /* with a control channel */
#define SCHEMA_FOREIGN 8u    /* with `control: none` */
#define SCHEMA_STREAMS_MAX 4096
#define SCHEMA_THREADS_MAX 1024
#define SCHEMA_FILTERS_MAX 16
#define SCHEMA_NAME_MAX 63

#define SCHEMA_PROGRAM_MAX 8 /* mappings of the program's */
#define SCHEMA_KEYS_MAX 24   /* of a mapping that they may stand in, with the end */

extern const struct schema_map schema_root, schema_control, schema_tls, schema_threads,
    schema_transport, schema_filter, schema_memory, schema_assemble, schema_stream, schema_sender,
    schema_receiver;
/* By enum pst_config_place - 1: the keys to which program.c adds the program's, SCHEMA_MAP or
 * SCHEMA_OTHERS_MAP each. */
extern struct schema_key *const schema_program_keys[3];
/* Core's, in the order of the documentation, NULL at the end. Those of the program are reached by
 * `program` of each. */
extern const struct schema_map *const schema_maps[];

const struct schema_key *schema_find(const struct schema_map *map, const char *name);
/* `node`, or, where it is a single value that stands for the mapping's shorthand key, that
 * mapping. NULL: no memory. */
struct node *schema_expand(struct arena *arena, const struct schema_map *map, struct node *node);

#endif
