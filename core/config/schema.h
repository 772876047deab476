/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration file: what checks them, what fills struct config,
 * and what config/README.md is made from. */
#ifndef PST_CONFIG_SCHEMA_H
#define PST_CONFIG_SCHEMA_H

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

/* How a value is stored in its struct. */
enum schema_store {
  STORE_NONE,
  STORE_BOOL,
  STORE_U32,
  STORE_U64,
  STORE_DOUBLE,
  STORE_ENUM,
  STORE_STRING,
};

struct schema_map;

struct schema_key {
  /* Name, help, default, choices, range, type, PST_OPTION_REQUIRED. `scope` is, for
   * a key that only some types of a program's mapping, only senders without `share`, or
   * only streams of messages have, a bit for each; 0: all. */
  struct pst_option rule;
  const struct schema_map *map;
  enum schema_store store;
  size_t offset;
  const struct pst_config_map *program; /* of a mapping of the program's: its own words */
  /* In place of rule.default_value, where it depends on keys before this one, which
   * `base` has; and in words. */
  uint64_t (*default_of)(const void *base);
  const char *default_words;
};

struct schema_map {
  const char *path;      /* "streams[].sender"; "" is the file */
  const char *help;      /* whole sentences */
  const char *shorthand; /* the key that a single value stands for; NULL: must be a mapping */
  const struct schema_key *keys;
  size_t count;
  /* Mappings of the program's that stand in it, SCHEMA_MAP or SCHEMA_OTHERS_MAP each. */
  const struct schema_key *program;
  size_t program_count;
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

extern const struct schema_map schema_root, schema_control, schema_threads, schema_transport,
    schema_filter, schema_memory, schema_assemble;
/* program.c adds the program's mappings to these. */
extern struct schema_map schema_stream, schema_sender, schema_receiver;
/* Core's, in the order of the documentation, NULL at the end. Those of the program are reached by
 * `program` of each. */
extern const struct schema_map *const schema_maps[];

const struct schema_key *schema_find(const struct schema_map *map, const char *name);
/* `node`, or, where it is a single value that stands for the mapping's shorthand key, that
 * mapping. NULL: no memory. */
struct node *schema_expand(struct arena *arena, const struct schema_map *map, struct node *node);

#endif
