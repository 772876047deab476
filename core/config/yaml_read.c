/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml's events into a tree, with every amount bounded. */
#include <string.h>

#include <yaml.h>

#include "tree.h"

struct anchor {
  const char *name;
  const struct node *node; /* NULL while it is being read: an alias within itself */
};

struct frame {
  struct node *node;
  const char *key; /* a mapping's, while its value is awaited */
  struct place key_place;
  struct anchor *anchor; /* NULL: none */
};

struct reader {
  struct arena *arena;
  struct findings *findings;
  const char *source;
  bool lines;
  struct frame frames[TREE_DEPTH_MAX];
  size_t depth;
  struct anchor anchors[TREE_ANCHORS_MAX];
  size_t anchor_count;
  size_t nodes;
  size_t alias_nodes;
  struct node *root;
  unsigned documents;
};

static struct place yaml_place_at(const struct reader *reader, const yaml_mark_t *mark)
{
  if (!reader->lines)
    return (struct place){reader->source, 0, 0};
  return (struct place){reader->source, (uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

static bool yaml_count_nodes(struct reader *reader, const struct place *place)
{
  if (++reader->nodes <= TREE_NODES_MAX)
    return true;
  findings_add(reader->findings, place, "more than %d values in one configuration; split it",
               TREE_NODES_MAX);
  return false;
}

/* A later anchor of the same name takes over, as YAML says. */
static bool yaml_anchor_add(struct reader *reader, const yaml_char_t *name,
                            const struct place *place, struct anchor **anchor)
{
  *anchor = NULL;
  if (!name)
    return true;
  size_t at = 0;
  while (at < reader->anchor_count && strcmp(reader->anchors[at].name, (const char *)name) != 0)
    at++;
  if (at == TREE_ANCHORS_MAX) {
    findings_add(reader->findings, place, "more than %d anchors; write the values out",
                 TREE_ANCHORS_MAX);
    return false;
  }
  if (at == reader->anchor_count) {
    const char *copy = arena_string(reader->arena, (const char *)name);
    if (!copy)
      return false;
    reader->anchors[at].name = copy;
    reader->anchor_count++;
  }
  *anchor = &reader->anchors[at];
  (*anchor)->node = NULL;
  return true;
}

/* Depth is bounded: what is copied was read within TREE_DEPTH_MAX. */
static struct node *yaml_copy_tree(struct reader *reader, const struct node *from, size_t depth,
                                   const struct place *alias)
{
  if (depth > TREE_DEPTH_MAX) {
    findings_add(reader->findings, alias,
                 "this alias nests deeper than %d levels; no key is that deep", TREE_DEPTH_MAX);
    return NULL;
  }
  if (++reader->alias_nodes > TREE_ALIAS_NODES_MAX) {
    findings_add(reader->findings, alias,
                 "aliases stand for more than %d values; write the values out",
                 TREE_ALIAS_NODES_MAX);
    return NULL;
  }
  struct node *copy = arena_alloc(reader->arena, sizeof(*copy));
  if (!copy)
    return NULL;
  *copy = *from;
  copy->first = copy->last = copy->next = NULL;
  copy->count = 0;
  for (const struct node *child = from->first; child; child = child->next) {
    struct node *child_copy = yaml_copy_tree(reader, child, depth + 1, alias);
    if (!child_copy)
      return NULL;
    node_append(copy, child_copy);
  }
  return copy;
}

static struct node *yaml_expand_alias(struct reader *reader, const char *name,
                                      const struct place *place)
{
  for (size_t i = 0; i < reader->anchor_count; i++) {
    if (strcmp(reader->anchors[i].name, name) != 0)
      continue;
    if (!reader->anchors[i].node) {
      findings_add(reader->findings, place,
                   "the alias *%.60s is inside its own anchor; write its value here", name);
      return NULL;
    }
    return yaml_copy_tree(reader, reader->anchors[i].node, reader->depth + 1, place);
  }
  findings_add(reader->findings, place, "the alias *%.60s has no anchor &%.60s above it", name,
               name);
  return NULL;
}

static bool yaml_take_key(struct reader *reader, struct frame *frame, const struct node *key)
{
  frame->key = key->text;
  frame->key_place = key->place;
  if (frame->node->count >= TREE_KEYS_MAX) {
    findings_add(reader->findings, &key->place, "more than %d keys in one mapping", TREE_KEYS_MAX);
    return false;
  }
  if (strcmp(key->text, "<<") == 0) {
    findings_add(reader->findings, &key->place,
                 "merge keys (<<) are not supported; write the keys out, or use a global "
                 "`transport`");
    return false;
  }
  const struct node *twin = node_find(frame->node, key->text);
  if (twin && twin->key_place.line > 0)
    findings_add(reader->findings, &key->place,
                 "duplicate key \"%.60s\"; it stands on line %u already", key->text,
                 twin->key_place.line);
  else if (twin)
    findings_add(reader->findings, &key->place, "duplicate key \"%.60s\"; remove one", key->text);
  return true;
}

/* Put a finished or begun node where it belongs. */
static bool yaml_place_node(struct reader *reader, struct node *node)
{
  if (!yaml_count_nodes(reader, &node->place))
    return false;
  if (reader->depth == 0) {
    reader->root = node;
    return true;
  }
  struct frame *frame = &reader->frames[reader->depth - 1];
  if (frame->node->type == NODE_MAP) {
    if (!frame->key) {
      if (node->type == NODE_SCALAR)
        return yaml_take_key(reader, frame, node);
      findings_add(reader->findings, &node->place,
                   "expected a key (plain text), found a list or mapping");
      return false;
    }
    node->key = frame->key;
    node->key_place = frame->key_place;
    frame->key = NULL;
    /* A duplicate has been reported; the first one stays. */
    if (node_find(frame->node, node->key))
      return true;
  }
  node_append(frame->node, node);
  return true;
}

static void yaml_refuse_tag(struct reader *reader, const yaml_char_t *tag,
                            const struct place *place)
{
  if (tag)
    findings_add(reader->findings, place,
                 "the tag \"%.60s\" has no meaning here; remove it, types follow from the keys",
                 (const char *)tag);
}

static bool yaml_on_scalar(struct reader *reader, const yaml_event_t *event,
                           const struct place *place)
{
  const char *text = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length, at = 0;
  struct anchor *anchor;
  yaml_refuse_tag(reader, event->data.scalar.tag, place);
  const char *problem = text_problem(text, length, false, &at);
  if (problem) {
    findings_add(reader->findings, place, "the value holds %s", problem);
    text = "";
  }
  /* A value that was reported is from here on as if it were not written. */
  struct node *node = node_new(reader->arena, NODE_SCALAR, text, place);
  if (!node)
    return false;
  bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  node->null =
      problem || (plain && (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0));
  if (!yaml_anchor_add(reader, event->data.scalar.anchor, place, &anchor))
    return false;
  if (anchor)
    anchor->node = node;
  return yaml_place_node(reader, node);
}

static bool yaml_on_begin(struct reader *reader, enum node_type type, const yaml_char_t *tag,
                          const yaml_char_t *anchor_name, const struct place *place)
{
  struct anchor *anchor;
  yaml_refuse_tag(reader, tag, place);
  if (reader->depth == TREE_DEPTH_MAX) {
    findings_add(reader->findings, place, "nested deeper than %d levels; no key is that deep",
                 TREE_DEPTH_MAX);
    return false;
  }
  struct node *node = node_new(reader->arena, type, NULL, place);
  if (!node)
    return false;
  if (!yaml_anchor_add(reader, anchor_name, place, &anchor) || !yaml_place_node(reader, node))
    return false;
  reader->frames[reader->depth++] = (struct frame){.node = node, .anchor = anchor};
  return true;
}

static void yaml_on_end(struct reader *reader)
{
  const struct frame *frame = &reader->frames[--reader->depth];
  if (frame->anchor)
    frame->anchor->node = frame->node;
}

static bool yaml_on_alias(struct reader *reader, const yaml_event_t *event,
                          const struct place *place)
{
  struct node *node = yaml_expand_alias(reader, (const char *)event->data.alias.anchor, place);
  return node && yaml_place_node(reader, node);
}

static bool yaml_on_document(struct reader *reader, const struct place *place)
{
  if (reader->documents++ == 0)
    return true;
  findings_add(reader->findings, place,
               "a second document begins here; keep one per file, without a further ---");
  return false;
}

static bool yaml_on_event(struct reader *reader, const yaml_event_t *event)
{
  struct place place = yaml_place_at(reader, &event->start_mark);
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    return yaml_on_document(reader, &place);
  case YAML_SCALAR_EVENT:
    return yaml_on_scalar(reader, event, &place);
  case YAML_ALIAS_EVENT:
    return yaml_on_alias(reader, event, &place);
  case YAML_MAPPING_START_EVENT:
    return yaml_on_begin(reader, NODE_MAP, event->data.mapping_start.tag,
                         event->data.mapping_start.anchor, &place);
  case YAML_SEQUENCE_START_EVENT:
    return yaml_on_begin(reader, NODE_LIST, event->data.sequence_start.tag,
                         event->data.sequence_start.anchor, &place);
  case YAML_MAPPING_END_EVENT:
  case YAML_SEQUENCE_END_EVENT:
    yaml_on_end(reader);
    return true;
  default:
    return true;
  }
}

static const char *yaml_syntax_remedy(const char *problem)
{
  static const struct {
    const char *part;
    const char *remedy;
  } remedies[] = {
      {"cannot start any token",
       "indent with spaces, not tabs, and put quotes around a value that begins with @, ` or %"},
      {"mapping values are not allowed",
       "check the indentation, and put quotes around a value that holds a colon and a space"},
      {"expected ',' or", "close the bracket, or put a comma between the items"},
      {"did not find expected node content",
       "put quotes around a text that begins with [ or {; on a command line, inside those of the "
       "shell: '\"[::1]:18515\"'"},
      {"did not find expected key", "check the indentation of this line and the one above"},
      {"could not find expected ':'", "a key needs a colon and a space behind it"},
      {"did not find expected '-' indicator", "check the indentation of this list"},
      {"unexpected end of stream", "a quote is not closed"},
      {"unexpected document indicator", "a quote or bracket is not closed"},
  };
  for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
    if (problem && strstr(problem, remedies[i].part))
      return remedies[i].remedy;
  return "check indentation, brackets and quotes";
}

static void yaml_report_syntax(struct reader *reader, const yaml_parser_t *parser)
{
  struct place place = yaml_place_at(reader, &parser->problem_mark);
  if (parser->error == YAML_MEMORY_ERROR) {
    reader->arena->no_memory = true;
    return;
  }
  findings_add(reader->findings, &place, "not YAML: %s%s%s; %s",
               parser->context ? parser->context : "", parser->context ? ", " : "",
               parser->problem ? parser->problem : "it cannot be read",
               yaml_syntax_remedy(parser->problem));
}

static bool yaml_check_text(struct reader *reader, const char *text, size_t length)
{
  size_t at = 0;
  if (length > TREE_FILE_MAX) {
    findings_add(reader->findings, &(struct place){reader->source, 0, 0},
                 "longer than %u MiB; is this a configuration?", TREE_FILE_MAX >> 20);
    return false;
  }
  const char *problem = text_problem(text, length, true, &at);
  if (!problem)
    return true;
  yaml_mark_t mark = {0, 0, 0};
  for (size_t i = 0; i < at; i++) {
    if (text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n')) {
      mark.line++;
      mark.column = 0;
    } else if (((unsigned char)text[i] & 0xc0) != 0x80 && text[i] != '\r') {
      mark.column++;
    }
  }
  struct place place = yaml_place_at(reader, &mark);
  findings_add(reader->findings, &place, "found %s", problem);
  return false;
}

void tree_read(struct arena *arena, struct findings *findings, const char *source, bool lines,
               const char *text, size_t length, struct node **root)
{
  struct reader *reader = arena_alloc(arena, sizeof(*reader));
  yaml_parser_t parser;
  bool is_good = true;
  *root = NULL;
  if (!reader)
    return;
  /* libyaml asserts that there is a text, be it empty. */
  text = text ? text : "";
  *reader = (struct reader){.arena = arena, .findings = findings, .source = source, .lines = lines};
  if (!yaml_check_text(reader, text, length))
    return;
  if (!yaml_parser_initialize(&parser)) {
    arena->no_memory = true;
    return;
  }
  /* Told the encoding, libyaml does not look for a byte order mark. */
  if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    length -= 3;
  }
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
  for (bool is_last = false; is_good && !is_last;) {
    yaml_event_t event;
    is_good = yaml_parser_parse(&parser, &event);
    if (!is_good) {
      yaml_report_syntax(reader, &parser);
      break;
    }
    is_last = event.type == YAML_STREAM_END_EVENT;
    is_good = yaml_on_event(reader, &event);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  *root = is_good ? reader->root : NULL;
}
