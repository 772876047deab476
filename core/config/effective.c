/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins in the effective tree. A plugin that both ends share stands with the stream, one that one
 * end uses with that end, so that the text is valid input and means the same. */
#include <string.h>

#include "check.h"

void effective_value(struct check *check, struct node *parent, const struct pst_option *rule,
                     const char *text, const struct value *value, const struct place *place)
{
  struct node *node = node_add(check->arena, parent, NODE_SCALAR, rule->name, text, place);
  if (!node || rule->type == PST_OPTION_STRING)
    return;
  node->quantity = rule->type != PST_OPTION_ENUM;
  node->number = value->number;
  node->real = value->real;
}

static void effective_list_option(struct check *check, struct node *out,
                                  const struct config_plugin *plugin, const char *name)
{
  const struct place *place = options_place(plugin->options, name);
  struct node *list = node_add(check->arena, out, NODE_LIST, name, NULL, place);
  const char *item;
  for (uint32_t i = 0; list && (item = options_get_item(plugin->options, name, i)); i++)
    node_add(check->arena, list, NODE_SCALAR, NULL, item, place);
}

static void effective_option(struct check *check, struct node *out,
                             const struct config_plugin *plugin, const struct pst_option *rule)
{
  const struct pst_options *options = plugin->options;
  char canonical[VALUE_TEXT_MAX];
  const char *text = canonical;
  if (!rule->default_value && !options_is_set(options, rule->name))
    return;
  if (rule->type == PST_OPTION_LIST) {
    effective_list_option(check, out, plugin, rule->name);
    return;
  }
  if (rule->type == PST_OPTION_STRING || rule->type == PST_OPTION_ENUM)
    text = options_get_string(options, rule->name);
  else
    options_text(options, rule->name, canonical, sizeof(canonical));
  const uint64_t number = options_get_uint(options, rule->name);
  effective_value(check, out, rule, text, &(struct value){number, (double)number},
                  options_place(options, rule->name));
}

/* Options that have one of `with` and none of `without`. */
static struct node *effective_plugin(struct check *check, struct node *parent, const char *key,
                                     const struct config_plugin *plugin, uint32_t with,
                                     uint32_t without)
{
  const struct pst_description *description = plugin->description;
  struct node *map = node_add(check->arena, parent, NODE_MAP, key, NULL, &plugin->place);
  if (!map)
    return NULL;
  node_add(check->arena, map, NODE_SCALAR, "plugin", plugin->name, &plugin->place);
  struct node *options = node_add(check->arena, map, NODE_MAP, "options", NULL, &place_default);
  for (uint32_t i = 0; options && description && i < description->option_count; i++) {
    const struct pst_option *rule = &description->options[i];
    uint32_t scope = rule->scope ? rule->scope : (uint32_t)PST_SCOPE_DEVICE;
    if ((scope & with) && !(scope & without))
      effective_option(check, options, plugin, rule);
  }
  return map;
}

static void effective_end(struct check *check, struct node *parent,
                          const struct config_transport *stream, const struct config_transport *end,
                          uint32_t side)
{
  bool shared = strcmp(stream->plugin.name, end->plugin.name) == 0;
  struct node *map =
      effective_plugin(check, parent, "transport", &end->plugin,
                       PST_SCOPE_DEVICE | side | (shared ? 0 : (uint32_t)PST_SCOPE_STREAM),
                       shared ? PST_SCOPE_STREAM : 0);
  struct node *filters =
      map ? node_add(check->arena, map, NODE_LIST, "filters", NULL, &end->filters_place) : NULL;
  for (uint32_t i = 0; filters && i < end->filter_count; i++)
    effective_plugin(check, filters, NULL, &end->filters[i],
                     PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side, 0);
}

void effective_transports(struct check *check, struct node *stream_node,
                          struct node *const nodes[2], const struct config_transport *stream,
                          struct config_transport *const ends[2])
{
  const char *name = stream->plugin.name;
  if (!name || (strcmp(name, ends[0]->plugin.name) != 0 && strcmp(name, ends[1]->plugin.name) != 0))
    name = ends[0]->plugin.name;
  /* A stream's own values of options that an end, begun afresh, has otherwise: the
   * end's count. */
  const struct config_transport *shown = ends[strcmp(name, ends[0]->plugin.name) == 0 ? 0 : 1];
  effective_plugin(check, stream_node, "transport", &shown->plugin, PST_SCOPE_STREAM, 0);
  effective_end(check, nodes[0], shown, ends[0], PST_SCOPE_SENDER);
  effective_end(check, nodes[1], shown, ends[1], PST_SCOPE_RECEIVER);
}

void effective_memory(struct check *check, struct node *parent, const struct config_plugin *memory,
                      uint32_t side)
{
  effective_plugin(check, parent, "memory", memory, PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side, 0);
}
