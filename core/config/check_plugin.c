/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins with their options: found, merged level by level, checked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../util/suggest.h"
#include "check.h"
#include "rules.h"

#define NAMES_MAX 64
#define WHY_MAX 512

static const char *check_kind_word(uint32_t kind)
{
  return kind == PST_KIND_TRANSPORT ? "transport" : kind == PST_KIND_MEMORY ? "memory" : "filter";
}

static const struct pst_description *check_describe(const struct check *check, uint32_t kind,
                                                    const char *name)
{
  return check->catalog ? check->catalog->find(check->catalog->context, kind, name) : NULL;
}

/* Adds the finding that there is no such plugin: it is of another kind, or the nearest names. */
static void check_report_no_plugin(struct check *check, uint32_t kind, const char *name,
                                   const struct place *place)
{
  const char *names[NAMES_MAX];
  char words[WHY_MAX] = "", why[WHY_MAX * 4] = "";
  size_t count = 0;
  if (check->catalog)
    count = check->catalog->names(check->catalog->context, kind, names, NAMES_MAX);
  if (count > NAMES_MAX)
    count = NAMES_MAX;
  for (uint32_t other = PST_KIND_TRANSPORT; other <= PST_KIND_FILTER; other++) {
    if (other != kind && check_describe(check, other, name)) {
      findings_add(check->findings, place, "\"%.60s\" is a %s plugin; this key takes a %s", name,
                   check_kind_word(other), check_kind_word(kind));
      return;
    }
  }
  if (check->catalog && check->catalog->missing &&
      check->catalog->missing(check->catalog->context, kind, name, why, sizeof(why))) {
    size_t before = check->findings->total;
    findings_add(check->findings, place, "%s plugin \"%.60s\" cannot be used here: %s",
                 check_kind_word(kind), name, why);
    check->findings->unavailable += check->findings->total - before;
    return;
  }
  bool is_near = suggest_add(name, names, count, words, sizeof(words));
  findings_add(check->findings, place, "no %s plugin is called \"%.60s\"; %s%s%s%s",
               check_kind_word(kind), name, words, count ? "" : "none",
               why[0] == '\0' ? ""
               : is_near      ? " "
                              : "; ",
               why);
}

static void check_set_place(struct check *check, struct config_plugin *plugin,
                            const struct place *place)
{
  plugin->place = *place;
  plugin->origin = place_text(check->arena, place);
}

/* Defaults of a plugin; description NULL when there is none or no memory. */
static void check_begin_plugin(struct check *check, uint32_t kind, const char *name,
                               const struct place *place, const struct place *report_at,
                               struct config_plugin *plugin)
{
  *plugin = (struct config_plugin){.kind = kind, .name = name};
  check_set_place(check, plugin, place);
  const struct pst_description *description = check_describe(check, kind, name);
  if (!description) {
    check_report_no_plugin(check, kind, name, report_at);
    return;
  }
  int rc = options_new(description->options, description->option_count, &plugin->options);
  if (rc == -EINVAL)
    findings_add(check->findings, report_at,
                 "the option table of the %s plugin \"%.60s\" has a default that is not a value of "
                 "its type; a bug of the plugin, report it to its author",
                 check_kind_word(kind), name);
  check->arena->no_memory |= rc == -ENOMEM;
  if (rc)
    return;
  options_chain(plugin->options, &check->owner->options);
  plugin->description = description;
}

/* The parent's options are shared until something changes them. */
static bool check_own_options(struct check *check, struct config_plugin *plugin,
                              const struct config_plugin *parent)
{
  if (!parent || plugin->options != parent->options)
    return true;
  if (options_clone(parent->options, &plugin->options)) {
    check->arena->no_memory = true;
    return false;
  }
  options_chain(plugin->options, &check->owner->options);
  return true;
}

/* NULL: the option may stand here. inherits: the enclosing level has the same
 * plugin, and so a place for what both ends share. */
static const char *check_misplaced(const struct pst_option *rule, uint32_t side, bool inherits)
{
  uint32_t allowed = PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side;
  if (side == 0 || rule->scope == 0)
    return NULL;
  if (inherits && (rule->scope & PST_SCOPE_STREAM))
    return "is agreed between both ends; write it under the stream's \"transport\"";
  if (rule->scope & allowed)
    return NULL;
  return side == PST_SCOPE_SENDER ? "is the receiver's; write it under \"receiver\""
                                  : "is the sender's; write it under \"sender\"";
}

/* "NAME=VALUE", of a mapping in the place of such a list. */
static const char *check_pair(struct arena *arena, const struct node *item)
{
  const size_t size = strlen(item->key) + strlen(item->text) + 2;
  char *text = arena_alloc(arena, size);
  if (text)
    snprintf(text, size, "%s=%s", item->key, item->text);
  return text;
}

static int check_set_option(struct check *check, struct config_plugin *plugin,
                            const struct node *node, const struct pst_option *rule, char *why,
                            size_t why_size)
{
  const bool pairs = rule && (rule->flags & PST_OPTION_PAIRS);
  if (node->type == NODE_SCALAR)
    return options_set(plugin->options, node->key, node->text, why, why_size);
  if (node->type == NODE_MAP && !pairs) {
    snprintf(why, why_size, "expected one value, found a mapping");
    return -EINVAL;
  }
  const char **items = arena_alloc(check->arena, (node->count + 1) * sizeof(*items));
  size_t count = 0;
  if (!items)
    return -ENOMEM;
  for (const struct node *item = node->first; item; item = item->next) {
    if (item->type != NODE_SCALAR || item->null) {
      snprintf(why, why_size, "expected a list of single values, as in [a, b]%s",
               pairs ? ", or a mapping, as in {NAME: value}" : "");
      return -EINVAL;
    }
    items[count] = item->key ? check_pair(check->arena, item) : item->text;
    if (!items[count++])
      return -ENOMEM;
  }
  return options_set_list(plugin->options, node->key, items, count, why, why_size);
}

static void check_take_option(struct check *check, struct config_plugin *plugin,
                              const struct node *node, uint32_t side, bool inherits)
{
  char why[WHY_MAX] = "";
  const struct pst_option *rule =
      option_find(plugin->description->options, plugin->description->option_count, node->key);
  const char *wrong = rule ? check_misplaced(rule, side, inherits) : NULL;
  if (wrong) {
    findings_add(check->findings, &node->key_place, "option \"%s\" of %s %s", rule->name,
                 plugin->name, wrong);
    return;
  }
  if (node->null)
    return;
  int rc = check_set_option(check, plugin, node, rule, why, sizeof(why));
  if (rc == -ENOMEM)
    check->arena->no_memory = true;
  else if (rc == -ENOENT)
    findings_add(check->findings, &node->key_place, "%s plugin %s: %s",
                 check_kind_word(plugin->kind), plugin->name, why);
  else if (rc)
    findings_add(check->findings, &node->place, "%s: %s", node->key, why);
  else
    options_mark(plugin->options, node->key, &node->place, place_text(check->arena, &node->place));
}

static void check_take_options(struct check *check, const struct node *map, uint32_t side,
                               const struct config_plugin *parent, struct config_plugin *plugin)
{
  const struct node *options = node_value(map, "options");
  if (!options || !plugin->description)
    return;
  if (options->type != NODE_MAP) {
    findings_add(check->findings, &options->place,
                 "options: expected a mapping (\"name: value\" lines)");
    return;
  }
  bool inherits = parent && parent->options == plugin->options;
  if (!options->first || !check_own_options(check, plugin, parent))
    return;
  for (const struct node *node = options->first; node; node = node->next)
    check_take_option(check, plugin, node, side, inherits);
}

/* The plugin that a mapping names, over the parent's. */
static void check_take_plugin(struct check *check, uint32_t kind, const struct node *map,
                              const struct place *place, const char *default_name, uint32_t side,
                              const struct config_plugin *parent, struct config_plugin *plugin)
{
  const struct node *name = node_value(map, "plugin");
  if (name && name->type != NODE_SCALAR) {
    findings_add(check->findings, &name->place, "plugin: expected the name of a %s plugin",
                 check_kind_word(kind));
    name = NULL;
  }
  if (parent && (!name || strcmp(name->text, parent->name) == 0)) {
    *plugin = *parent;
    if (name)
      check_set_place(check, plugin, &name->place);
  } else if (name) {
    check_begin_plugin(check, kind, name->text, &name->place, &name->place, plugin);
  } else if (default_name) {
    check_begin_plugin(check, kind, default_name, &place_default, place, plugin);
  } else {
    findings_add(check->findings, place, "\"plugin\" is missing in a filter; write its name");
    *plugin = (struct config_plugin){.kind = kind, .name = ""};
    check_set_place(check, plugin, place);
  }
  check_take_options(check, map, side, parent, plugin);
}

static void check_take_filters(struct check *check, const struct node *map, uint32_t side,
                               struct config_transport *transport)
{
  const struct node *list = node_value(map, "filters");
  if (!list)
    return;
  if (list->type != NODE_LIST) {
    findings_add(check->findings, &list->place,
                 "filters: expected a list: [name], or \"- plugin: name\" lines");
    return;
  }
  if (list->count > SCHEMA_FILTERS_MAX) {
    findings_add(check->findings, &list->place, "filters: more than %d of them",
                 SCHEMA_FILTERS_MAX);
    return;
  }
  transport->filters = arena_alloc(check->arena, (list->count + 1) * sizeof(*transport->filters));
  transport->filter_count = 0;
  transport->filters_place = list->place;
  for (struct node *item = list->first; item && transport->filters; item = item->next) {
    const struct node *filter = check_map(check, &schema_filter, item);
    if (filter || item->null)
      check_take_plugin(check, PST_KIND_FILTER, filter, &item->place, NULL, side, NULL,
                        &transport->filters[transport->filter_count++]);
  }
}

void check_transport(struct check *check, struct node *node, const struct place *place,
                     uint32_t side, const struct config_transport *parent,
                     struct config_transport *transport)
{
  const struct node *map = check_map(check, &schema_transport, node);
  *transport = parent ? *parent : (struct config_transport){.filters_place = place_default};
  /* The file's own default is looked up only where a stream falls back on it. */
  if (!parent && !node_value(map, "plugin") && !node_value(map, "options"))
    transport->plugin = (struct config_plugin){.kind = PST_KIND_TRANSPORT};
  else
    check_take_plugin(check, PST_KIND_TRANSPORT, map, node_place(map, place),
                      schema_transport.keys[0].rule.default_value, side,
                      parent && parent->plugin.name ? &parent->plugin : NULL, &transport->plugin);
  check_take_filters(check, map, side, transport);
}

void check_memory(struct check *check, struct node *node, const struct place *place, uint32_t side,
                  struct config_plugin *plugin)
{
  const struct node *map = check_map(check, &schema_memory, node);
  check_take_plugin(check, PST_KIND_MEMORY, map, node_place(map, place),
                    schema_memory.keys[0].rule.default_value, side, NULL, plugin);
}

/* Options that do not go together: at the one that was written, and where the other was. */
static void check_rules(struct check *check, const struct config_plugin *plugin, uint32_t bits)
{
  const struct pst_option_rule *rules = plugin->description->rules;
  for (uint32_t i = 0; i < plugin->description->rule_count; i++) {
    char words[WHY_MAX * 2];
    if (!rule_applies(&rules[i], plugin->description, bits) ||
        rule_holds(&rules[i], plugin->options))
      continue;
    const struct place *place = options_place(plugin->options, rules[i].option);
    const struct place *other = options_place(plugin->options, rules[i].needs);
    if (place_is_default(place)) {
      const struct place *swapped = place;
      place = other;
      other = swapped;
    }
    rule_words(&rules[i], plugin->options, words, sizeof(words));
    const char *at = place_text(check->arena, other);
    findings_add(check->findings, place, "%s plugin %s: %s%s%s%s", check_kind_word(plugin->kind),
                 plugin->name, words, at && other->line ? " (" : "", at && other->line ? at : "",
                 at && other->line ? ")" : "");
  }
}

struct reported {
  struct check *check;
  const struct config_plugin *plugin;
  const struct place *place; /* of what encloses it */
};

/* Reports a wrong option at its place in the file; an option that is not written has the place of
 * its plugin, or of what encloses the plugin. */
static void check_report_option(void *context, const char *option, const char *text)
{
  const struct reported *reported = context;
  const struct config_plugin *plugin = reported->plugin;
  const struct place *place = options_place(plugin->options, option);

  if (place_is_default(place))
    place = place_is_default(&plugin->place) ? reported->place : &plugin->place;
  findings_add(reported->check->findings, place, "%s plugin %s: %s: %s",
               check_kind_word(plugin->kind), plugin->name, option, text);
}

void check_whole(struct check *check, const struct config_plugin *plugin, uint32_t side,
                 const struct place *place, struct pst_facts *facts)
{
  uint32_t bits = PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side;
  struct reported reported = {check, plugin, place};
  const struct facts_query query = {.side = side,
                                    .flags =
                                        check->owner->config.control.none ? PST_CHECK_FOREIGN : 0,
                                    .report = check_report_option,
                                    .context = &reported};
  if (!plugin->description)
    return;
  for (uint32_t i = 0; i < plugin->description->option_count; i++) {
    const struct pst_option *rule = &plugin->description->options[i];
    if ((rule->flags & PST_OPTION_REQUIRED) && (rule->scope == 0 || (rule->scope & bits)) &&
        !options_is_set(plugin->options, rule->name))
      findings_add(check->findings, &plugin->place,
                   "the option \"%s\" of %s plugin %s is missing; %s", rule->name,
                   check_kind_word(plugin->kind), plugin->name, rule->help ? rule->help : "set it");
  }
  check_rules(check, plugin, bits);
  plugin_facts(&query, plugin, facts);
}

void check_transport_ends(struct check *check, struct config_transport *const ends[2],
                          const struct place *place, struct pst_facts facts[2])
{
  const struct config_plugin *sender = &ends[0]->plugin, *receiver = &ends[1]->plugin;
  const char *name = NULL;
  for (size_t e = 0; e < 2; e++) {
    uint32_t side = e == 0 ? PST_SCOPE_SENDER : PST_SCOPE_RECEIVER;
    check_whole(check, &ends[e]->plugin, side, place, &facts[e]);
    for (uint32_t i = 0; i < ends[e]->filter_count; i++)
      check_whole(check, &ends[e]->filters[i], side, place, &facts[e]);
  }
  if (!sender->description || !receiver->description || check->owner->config.control.none)
    return;
  const char *wires[] = {config_wire(sender->name, sender->description),
                         config_wire(receiver->name, receiver->description)};
  if (strcmp(wires[0], wires[1]) != 0) {
    const struct place *written = &receiver->place;
    findings_add(check->findings, place_is_default(written) ? place : written,
                 "the sender's transport is %s and the receiver's %s, whose wire forms are %s and "
                 "%s; both ends need the same",
                 sender->name, receiver->name, wires[0], wires[1]);
    return;
  }
  if (options_agree(sender->options, receiver->options, PST_SCOPE_STREAM, &name))
    return;
  const struct place *differs = options_place(receiver->options, name);
  if (place_is_default(differs))
    differs = options_place(sender->options, name);
  findings_add(check->findings, differs,
               "option \"%s\" of %s differs between sender and receiver, and both must have the "
               "same; write it once, under the stream's \"transport\"",
               name, sender->name);
}
