/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml's document as a tree, its depth and size bounded. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

struct tree_block {
  struct tree_block *next;
  max_align_t data[];
};

/* State of reading a description. */
struct reader {
  struct tree *tree;
  struct findings *findings;
  const char *source;
  yaml_document_t document;
};

static void *tree_keep(struct tree *tree, size_t size)
{
  struct tree_block *block = calloc(1, sizeof(*block) + size);
  if (!block)
    return NULL;
  block->next = tree->blocks;
  tree->blocks = block;
  return block->data;
}

void tree_free(struct tree *tree)
{
  while (tree->blocks) {
    struct tree_block *next = tree->blocks->next;
    free(tree->blocks);
    tree->blocks = next;
  }
}

struct node *node_new(struct tree *tree, enum node_type type, const char *text,
                      const struct place *place)
{
  size_t length = text ? strlen(text) + 1 : 0;
  struct node *node = tree_keep(tree, sizeof(*node) + length);
  if (!node)
    return NULL;
  node->type = type;
  node->place = *place;
  tree->nodes++;
  if (text)
    node->text = memcpy(node + 1, text, length);
  return node;
}

void node_append(struct node *parent, struct node *child)
{
  if (parent->last)
    parent->last->next = child;
  else
    parent->first = child;
  parent->last = child;
  parent->count++;
}

struct node *node_find(const struct node *map, const char *key)
{
  if (!map || map->type != NODE_MAP)
    return NULL;
  for (struct node *child = map->first; child; child = child->next)
    if (strcmp(child->key, key) == 0)
      return child;
  return NULL;
}

/* ---- Reading ---- */

static struct place tree_place(const struct reader *reader, const yaml_mark_t *mark)
{
  return (struct place){reader->source, (uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

static struct node *tree_convert(struct reader *reader, int index, unsigned depth);

static bool tree_add_pair(struct reader *reader, struct node *map, const yaml_node_pair_t *pair,
                          unsigned depth)
{
  struct node *key = tree_convert(reader, pair->key, depth);
  struct node *value = key ? tree_convert(reader, pair->value, depth) : NULL;
  if (!value)
    return false;
  if (key->type != NODE_SCALAR) {
    findings_add(reader->findings, &key->place,
                 "expected a key (plain text), found a list or mapping");
    return false;
  }
  const struct node *twin = node_find(map, key->text);
  if (twin) {
    findings_add(reader->findings, &key->place,
                 "duplicate key \"%.60s\"; it stands on line %u already", key->text,
                 twin->key_place.line);
    return true;
  }
  value->key = key->text;
  value->key_place = key->place;
  node_append(map, value);
  return true;
}

static bool tree_add_children(struct reader *reader, struct node *node, const yaml_node_t *from,
                              unsigned depth)
{
  if (from->type == YAML_MAPPING_NODE) {
    for (const yaml_node_pair_t *pair = from->data.mapping.pairs.start;
         pair < from->data.mapping.pairs.top; pair++)
      if (!tree_add_pair(reader, node, pair, depth))
        return false;
    return true;
  }
  for (const yaml_node_item_t *item = from->data.sequence.items.start;
       item < from->data.sequence.items.top; item++) {
    struct node *child = tree_convert(reader, *item, depth);
    if (!child)
      return false;
    node_append(node, child);
  }
  return true;
}

static bool tree_is_null(const yaml_node_t *from)
{
  const char *text = (const char *)from->data.scalar.value;
  return from->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
         (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

/* An alias is the node that it stands for, which may be an ancestor: the depth ends that. */
static struct node *tree_convert(struct reader *reader, int index, unsigned depth)
{
  const yaml_node_t *from = yaml_document_get_node(&reader->document, index);
  struct place place = tree_place(reader, &from->start_mark);
  if (depth == TREE_DEPTH_MAX || reader->tree->nodes == TREE_NODES_MAX) {
    findings_add(reader->findings, &place,
                 depth == TREE_DEPTH_MAX ? "nested deeper than %d levels; no key is that deep"
                                         : "more than %d values in one description; shorten it",
                 depth == TREE_DEPTH_MAX ? TREE_DEPTH_MAX : TREE_NODES_MAX);
    return NULL;
  }
  bool is_scalar = from->type == YAML_SCALAR_NODE;
  struct node *node = node_new(reader->tree,
                               is_scalar                         ? NODE_SCALAR
                               : from->type == YAML_MAPPING_NODE ? NODE_MAP
                                                                 : NODE_LIST,
                               is_scalar ? (const char *)from->data.scalar.value : NULL, &place);
  if (!node)
    reader->findings->no_memory = true;
  else if (is_scalar)
    node->null = tree_is_null(from);
  else if (!tree_add_children(reader, node, from, depth + 1))
    return NULL;
  return node;
}

static void tree_report_syntax(const struct reader *reader, const yaml_parser_t *parser)
{
  struct place place = tree_place(reader, &parser->problem_mark);
  if (parser->error == YAML_MEMORY_ERROR)
    reader->findings->no_memory = true;
  else
    findings_add(reader->findings, &place,
                 "not YAML: %s%s%s; check indentation, brackets and quotes",
                 parser->context ? parser->context : "", parser->context ? ", " : "",
                 parser->problem ? parser->problem : "unreadable");
}

/* Reads the next document. Returns NULL at the end, or with a finding. */
static struct node *tree_read_document(struct reader *reader, yaml_parser_t *parser)
{
  struct node *root = NULL;
  if (!yaml_parser_load(parser, &reader->document)) {
    tree_report_syntax(reader, parser);
    return NULL;
  }
  const yaml_node_t *from = yaml_document_get_root_node(&reader->document);
  if (from)
    root = tree_convert(reader, 1, 0);
  yaml_document_delete(&reader->document);
  return root && !root->null ? root : NULL;
}

struct node *tree_read(struct tree *tree, struct findings *findings, const char *source,
                       const char *text, size_t length)
{
  struct reader reader = {.tree = tree, .findings = findings, .source = source};
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) {
    findings->no_memory = true;
    return NULL;
  }
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
  struct node *root = tree_read_document(&reader, &parser);
  struct node *second = root ? tree_read_document(&reader, &parser) : NULL;
  if (second)
    findings_add(findings, &second->place, "a second document begins here; keep one per file");
  yaml_parser_delete(&parser);
  return root;
}
