/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as a tree of nodes that know where they were written. */
#ifndef TREE_H
#define TREE_H

#include "findings.h"

enum {
  TREE_FILE_MAX = 4 << 20, /* bytes */
  TREE_DEPTH_MAX = 32,
  TREE_NODES_MAX = 50000, /* aliases expanded */
};

enum node_type { NODE_SCALAR, NODE_MAP, NODE_LIST };

struct node {
  enum node_type type;
  bool null;        /* nothing, ~ or null: as if it were not written */
  const char *key;  /* in a mapping */
  const char *text; /* SCALAR */
  struct place place, key_place;
  struct node *first, *last, *next; /* children; the next sibling */
  size_t count;                     /* children */
};

/* All nodes of a description and their texts, freed together. */
struct tree {
  struct tree_block *blocks;
  size_t nodes;
};

/* The text is copied. NULL: no memory. */
struct node *node_new(struct tree *tree, enum node_type type, const char *text,
                      const struct place *place);
void node_append(struct node *parent, struct node *child);
/* NULL: no such key, or not a mapping. */
struct node *node_find(const struct node *map, const char *key);

/* NULL for an empty text, and for one that is no YAML; findings tell which. */
struct node *tree_read(struct tree *tree, struct findings *findings, const char *source,
                       const char *text, size_t length);
void tree_free(struct tree *tree);

#endif
