/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of the effective tree. Where memory lacks, the findings know. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void *check_alloc(struct check *check, size_t size_bytes)
{
  void *at = arena_alloc(check->arena, size_bytes);
  if (!at)
    check->findings->no_memory = true;
  return at;
}

static struct node *effective_node(struct check *check, struct node *parent, enum node_type type,
                                   const char *key, const char *text, const struct place *place)
{
  struct node *node = node_new(check->arena, type, text, place);
  if (!node) {
    check->findings->no_memory = true;
    return NULL;
  }
  node->key = key;
  if (parent)
    node_append(parent, node);
  return node;
}

struct node *effective_map(struct check *check, struct node *parent, const char *key,
                           const struct place *place)
{
  return effective_node(check, parent, NODE_MAP, key, NULL, place);
}

struct node *effective_list(struct check *check, struct node *parent, const char *key,
                            const struct place *place)
{
  return effective_node(check, parent, NODE_LIST, key, NULL, place);
}

struct node *effective_scalar(struct check *check, struct node *parent, const char *key,
                              const char *text, const struct place *place)
{
  return effective_node(check, parent, NODE_SCALAR, key, text, place);
}

/* Plugins in the effective tree and in struct config. What both ends share stands
 * with the stream, what one end uses with that end, so that the text is valid
 * input and means the same. */

#define TEXT_GUESS 256

/* The text of an option however long it is, in the arena. */
static const char *option_text(struct check *check, const struct pst_options *options,
                               const char *name)
{
  for (size_t size = TEXT_GUESS;; size *= 4) {
    char *text = check_alloc(check, size);
    if (!text)
      return NULL;
    if (options_text(options, name, text, size) != -ENOSPC)
      return text;
  }
}

static void effective_list_option(struct check *check, struct node *out,
                                  const struct plugin_state *state, const struct pst_option *rule,
                                  const struct place *place)
{
  struct node *list = effective_list(check, out, rule->name, place);
  for (uint32_t i = 0; list; i++) {
    const char *item = options_get_item(state->options, rule->name, i);
    if (!item)
      break;
    effective_scalar(check, list, NULL, item, place);
  }
}

static void effective_option(struct check *check, struct node *out,
                             const struct plugin_state *state, uint32_t index)
{
  const struct pst_option *rule = &state->description->options[index];
  const struct place *place = &state->origins[index];
  if (!rule->default_value && !options_is_set(state->options, rule->name))
    return;
  if (rule->type == PST_OPTION_LIST) {
    effective_list_option(check, out, state, rule, place);
    return;
  }
  const char *text = option_text(check, state->options, rule->name);
  struct node *node = text ? effective_scalar(check, out, rule->name, text, place) : NULL;
  if (!node)
    return;
  node->quantity = rule->type != PST_OPTION_STRING && rule->type != PST_OPTION_ENUM;
  if (rule->type != PST_OPTION_STRING)
    node->number = options_get_uint(state->options, rule->name);
  node->real = (double)node->number;
}

/* Options that have one of `with` and none of `without`. */
static struct node *effective_plugin(struct check *check, struct node *parent, const char *key,
                                     const struct plugin_state *state, uint32_t with,
                                     uint32_t without)
{
  struct node *map = effective_map(check, parent, key, &state->place);
  struct node *options = NULL;
  if (!map)
    return NULL;
  effective_scalar(check, map, "plugin", state->name, &state->place);
  options = effective_map(check, map, "options", &place_default);
  for (uint32_t i = 0; options && state->description && i < state->description->option_count; i++) {
    uint32_t scope = state->description->options[i].scope;
    scope = scope ? scope : PST_SCOPE_DEVICE;
    if ((scope & with) && !(scope & without))
      effective_option(check, options, state, i);
  }
  return map;
}

static void effective_end(struct check *check, struct node *parent,
                          const struct transport_state *stream, const struct transport_state *end,
                          uint32_t side)
{
  bool shared = strcmp(stream->plugin.name, end->plugin.name) == 0;
  struct node *map =
      effective_plugin(check, parent, "transport", &end->plugin,
                       PST_SCOPE_DEVICE | side | (shared ? 0 : (uint32_t)PST_SCOPE_STREAM),
                       shared ? PST_SCOPE_STREAM : 0);
  struct node *filters = map ? effective_list(check, map, "filters", &end->filters_place) : NULL;
  for (uint32_t i = 0; filters && i < end->filter_count; i++)
    effective_plugin(check, filters, NULL, &end->filters[i],
                     PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side, 0);
}

void effective_transports(struct check *check, struct node *stream_node, struct node *sender_node,
                          struct node *receiver_node, const struct transport_state *stream,
                          const struct transport_state *sender,
                          const struct transport_state *receiver)
{
  if (!stream->plugin.name || (strcmp(stream->plugin.name, sender->plugin.name) != 0 &&
                               strcmp(stream->plugin.name, receiver->plugin.name) != 0))
    stream = sender;
  /* A stream's own values of options that an end, begun afresh, has otherwise: the
   * end's count. */
  const struct transport_state *shown =
      strcmp(stream->plugin.name, sender->plugin.name) == 0 ? sender : receiver;
  effective_plugin(check, stream_node, "transport", &shown->plugin, PST_SCOPE_STREAM, 0);
  effective_end(check, sender_node, shown, sender, PST_SCOPE_SENDER);
  effective_end(check, receiver_node, shown, receiver, PST_SCOPE_RECEIVER);
}

void effective_memory(struct check *check, struct node *parent, const struct plugin_state *state,
                      uint32_t side)
{
  effective_plugin(check, parent, "memory", state, PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side, 0);
}

void store_plugin(struct check *check, const struct plugin_state *state, struct config_plugin *to)
{
  to->name = state->name;
  to->description = state->description;
  to->options = state->options;
  to->mark.origin = place_text(check->arena, &state->place);
  if (!to->mark.origin)
    check->findings->no_memory = true;
  const uint32_t count =
      state->description && state->origins ? state->description->option_count : 0;
  to->option_marks = check_alloc(check, (count + 1) * sizeof(*to->option_marks));
  for (uint32_t i = 0; to->option_marks && i < count; i++)
    to->option_marks[i].origin = place_text(check->arena, &state->origins[i]);
}

void store_transport(struct check *check, const struct transport_state *state,
                     struct config_transport *to)
{
  store_plugin(check, &state->plugin, &to->plugin);
  to->filters = check_alloc(check, (state->filter_count + 1) * sizeof(*to->filters));
  for (uint32_t i = 0; to->filters && i < state->filter_count; i++)
    store_plugin(check, &state->filters[i], &to->filters[to->filter_count++]);
}
