/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a YAML file's nodes. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "util/printable.h"

struct node *node_new(struct arena *arena, enum node_type type, const char *text,
                      const struct place *place)
{
  struct node *node = arena_alloc(arena, sizeof(*node));
  if (!node)
    return NULL;
  node->type = type;
  node->place = *place;
  if (type == NODE_SCALAR) {
    node->text = arena_string(arena, text);
    if (!node->text)
      return NULL;
  }
  return node;
}

struct node *node_add(struct arena *arena, struct node *parent, enum node_type type,
                      const char *key, const char *text, const struct place *place)
{
  struct node *node = node_new(arena, type, text, place);
  if (!node)
    return NULL;
  node->key = key;
  node->key_place = *place;
  if (parent)
    node_append(parent, node);
  return node;
}

void node_append(struct node *parent, struct node *child)
{
  child->next = NULL;
  if (parent->last)
    parent->last->next = child;
  else
    parent->first = child;
  parent->last = child;
  parent->count++;
}

void node_insert(struct node *parent, struct node *before, struct node *child)
{
  child->next = before->next;
  before->next = child;
  if (parent->last == before)
    parent->last = child;
  parent->count++;
}

void node_replace(struct node *parent, struct node *old, struct node *child)
{
  struct node **link = &parent->first;
  child->key = old->key;
  child->key_place = old->key_place;
  child->next = old->next;
  while (*link != old)
    link = &(*link)->next;
  *link = child;
  if (parent->last == old)
    parent->last = child;
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

struct node *node_value(const struct node *map, const char *key)
{
  struct node *node = node_find(map, key);
  return node && !node->null ? node : NULL;
}

static bool tree_begins_with(const char *path, const char *word)
{
  size_t length = strlen(word);
  return length > 0 && strncmp(path, word, length) == 0 &&
         (path[length] == '.' || path[length] == '\0');
}

static struct node *tree_element_called(const struct node *list, const char *path, const char *key,
                                        size_t *length)
{
  struct node *found = NULL;
  *length = 0;
  for (struct node *child = list->first; child; child = child->next) {
    const struct node *name = node_find(child, key);
    if (name && name->type == NODE_SCALAR && tree_begins_with(path, name->text) &&
        strlen(name->text) > *length) {
      found = child;
      *length = strlen(name->text);
    }
  }
  return found;
}

static struct node *tree_element_at(const struct node *list, const char *path, size_t *length)
{
  *length = strspn(path, "0123456789");
  if (*length == 0 || *length > 9 || (path[*length] != '.' && path[*length] != '\0'))
    return NULL;
  unsigned long index = strtoul(path, NULL, 10);
  struct node *child = list->first;
  while (child && index-- > 0)
    child = child->next;
  return child;
}

struct node *node_element(const struct node *list, const char *path, const char **rest)
{
  size_t length = 0;
  struct node *found = tree_element_called(list, path, "name", &length);
  if (!found)
    found = tree_element_called(list, path, "plugin", &length);
  if (!found)
    found = tree_element_at(list, path, &length);
  if (found)
    *rest = path[length] == '.' ? path + length + 1 : NULL;
  return found;
}

/* YAML 1.1, 5.1: what a stream may hold. */
static bool tree_may_stand(uint32_t code, bool lines, bool first)
{
  if (code < 0x20)
    return lines && (code == '\t' || code == '\n' || code == '\r');
  if (code == 0xfeff)
    return lines && first;
  return code < 0x7f || code == 0x85 || (code >= 0xa0 && code != 0xfffe && code != 0xffff);
}

const char *text_problem(const char *text, size_t length, bool lines, size_t *at)
{
  for (size_t i = 0; i < length;) {
    uint32_t code = 0;
    size_t n = pst_utf8_decode(text + i, length - i, &code);
    *at = i;
    if (n == 0)
      return "a byte that is not UTF-8; save the text as UTF-8";
    if (code == 0)
      return "a NUL byte; is this a text file?";
    if (!tree_may_stand(code, lines, i == 0))
      return "a control character; remove it";
    i += n;
  }
  return NULL;
}

const char *text_printable(struct arena *arena, const char *text)
{
  char *copy = arena_string(arena, text);
  size_t length = strlen(text), at = 0;
  while (copy && text_problem(copy, length, false, &at))
    copy[at] = '?';
  return copy;
}
