/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as a tree of nodes that know where they were written. */
#ifndef PST_CONFIG_TREE_H
#define PST_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "findings.h"

#define TREE_FILE_MAX (UINT32_C(4) << 20) /* bytes */
#define TREE_DEPTH_MAX 32
#define TREE_NODES_MAX 200000
#define TREE_ALIAS_NODES_MAX 50000 /* made by expanding aliases */
#define TREE_ANCHORS_MAX 256
#define TREE_KEYS_MAX 256 /* of one mapping */

enum node_type { NODE_SCALAR, NODE_MAP, NODE_LIST };

struct node {
  enum node_type type;
  bool null;        /* nothing, ~ or null: as if it were not written */
  const char *key;  /* in a mapping */
  const char *text; /* SCALAR */
  struct place place;
  struct place key_place;
  struct node *first, *last, *next; /* children; the next sibling */
  size_t count;                     /* children */
  /* Only effective values have it. */
  uint64_t number;
  double real;
  bool quantity; /* prints as it is, without quotes */
};

struct node *node_new(struct arena *arena, enum node_type type, const char *text,
                      const struct place *place);
/* A new node under `key`, appended to the parent (NULL: to none). NULL: out of memory. */
struct node *node_add(struct arena *arena, struct node *parent, enum node_type type,
                      const char *key, const char *text, const struct place *place);
/* Appends a node that has no parent. */
void node_append(struct node *parent, struct node *child);
/* Put `child`, which has a key, behind `before`. */
void node_insert(struct node *parent, struct node *before, struct node *child);
/* Put `child` where `old` stands, under its key. */
void node_replace(struct node *parent, struct node *old, struct node *child);
/* NULL: no such key, or not a mapping. */
struct node *node_find(const struct node *map, const char *key);
/* NULL for what is not there, and for what is null. */
struct node *node_value(const struct node *map, const char *key);
static inline const struct place *node_place(const struct node *node, const struct place *otherwise)
{
  return node ? &node->place : otherwise;
}
/* The element of a list of mappings that a dotted path begins with: by `name`
 * (names may hold dots: the longest one counts), by `plugin`, or by index. *rest is
 * what follows behind the dot, NULL at the end. NULL: none. */
struct node *node_element(const struct node *list, const char *path, const char **rest);

/* Read YAML. *root is NULL when the text holds no value, or when it is so wrong
 * that checking it further would mislead; findings tell which. lines: marks get
 * line and column. */
void tree_read(struct arena *arena, struct findings *findings, const char *source, bool lines,
               const char *text, size_t length, struct node **root);

/* The effective tree as YAML that reads back to the same; free() it.
 * origins: each value with where it came from, as a comment. 0; -ENOMEM. */
int print_tree(const struct node *root, bool origins, char **text);

/* Is it UTF-8 without NUL and control characters (tab and line ends are legal
 * when `lines`)? If not, *at is the first offending byte, and the returned text
 * says what it is; NULL when all is well. */
const char *text_problem(const char *text, size_t length, bool lines, size_t *at);
/* A name that is safe in a comment and in a message. */
const char *text_printable(struct arena *arena, const char *text);

#endif
