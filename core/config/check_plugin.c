/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins with their options: found, merged level by level, checked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../util/nearest.h"
#include "ask.h"
#include "check.h"
#include "rules.h"

#define NAMES_MAX 64
#define WHY_MAX 512

static bool place_is_default(const struct place *place)
{
  return place->line == 0 && strcmp(place->source, place_default.source) == 0;
}

static const char *kind_word(uint32_t kind)
{
  return kind == PST_KIND_TRANSPORT ? "transport" : kind == PST_KIND_MEMORY ? "memory" : "filter";
}

static const struct pst_description *describe(const struct check *check, uint32_t kind,
                                              const char *name)
{
  return check->catalog ? check->catalog->find(check->catalog->context, kind, name) : NULL;
}

static void report_no_plugin(struct check *check, uint32_t kind, const char *name,
                             const struct place *place)
{
  const char *names[NAMES_MAX];
  char words[WHY_MAX] = "";
  size_t count = 0, at = 0;
  if (check->catalog)
    count = check->catalog->names(check->catalog->context, kind, names, NAMES_MAX);
  if (count > NAMES_MAX)
    count = NAMES_MAX;
  for (uint32_t other = PST_KIND_TRANSPORT; other <= PST_KIND_FILTER; other++) {
    if (other != kind && describe(check, other, name)) {
      findings_add(check->findings, place, "\"%.60s\" is a %s plugin, and here belongs a %s", name,
                   kind_word(other), kind_word(kind));
      return;
    }
  }
  char why[WHY_MAX * 4] = "";
  if (check->catalog && check->catalog->missing &&
      check->catalog->missing(check->catalog->context, kind, name, why, sizeof(why))) {
    size_t before = check->findings->total;
    findings_add(check->findings, place, "%s plugin \"%.60s\" cannot be used here: %s",
                 kind_word(kind), name, why);
    check->findings->unavailable += check->findings->total - before;
    return;
  }
  const char *gap = why[0] ? "; " : "";
  const char *near = nearest_name(name, names, count);
  if (near) {
    findings_add(check->findings, place,
                 "no %s plugin is called \"%.60s\"; did you mean \"%s\"?%s%s", kind_word(kind),
                 name, near, why[0] ? " " : "", why);
    return;
  }
  for (size_t i = 0; i < count && at < sizeof(words); i++)
    at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? ", " : "", names[i]);
  findings_add(check->findings, place, "no %s plugin is called \"%.60s\"; there are: %s%s%s",
               kind_word(kind), name, words[0] ? words : "none", gap, why);
}

/* ---- Making and copying states ---------------------------------------------- */

static bool hold(struct check *check, struct pst_options *options)
{
  struct held_options *held = check_alloc(check, sizeof(*held));
  if (!held) {
    options_free(options);
    return false;
  }
  *held = (struct held_options){check->owner->options, options};
  check->owner->options = held;
  return true;
}

/* Defaults of a plugin; description NULL when there is none or no memory. */
static void begin_plugin(struct check *check, uint32_t kind, const char *name,
                         const struct place *place, const struct place *report_at,
                         struct plugin_state *state)
{
  *state = (struct plugin_state){.kind = kind, .name = name, .place = *place};
  const struct pst_description *description = describe(check, kind, name);
  if (!description) {
    report_no_plugin(check, kind, name, report_at);
    return;
  }
  int rc = options_new(description->options, description->option_count, &state->options);
  if (rc == -EINVAL)
    findings_add(check->findings, report_at,
                 "the option table of the %s plugin \"%.60s\" has a default that is no value of "
                 "its type; a bug of the plugin, report it to its author",
                 kind_word(kind), name);
  else if (rc)
    check->findings->no_memory = true;
  if (rc || !hold(check, state->options))
    return;
  state->origins = check_alloc(check, (description->option_count + 1) * sizeof(struct place));
  for (uint32_t i = 0; state->origins && i < description->option_count; i++)
    state->origins[i] = place_default;
  if (state->origins)
    state->description = description;
}

/* The parent's state is shared until something changes it. */
static bool own_options(struct check *check, struct plugin_state *state,
                        const struct plugin_state *parent)
{
  if (!parent || state->options != parent->options)
    return true;
  size_t size = (state->description->option_count + 1) * sizeof(struct place);
  struct place *origins = check_alloc(check, size);
  if (!origins || options_clone(parent->options, &state->options)) {
    check->findings->no_memory = true;
    return false;
  }
  if (!hold(check, state->options)) {
    state->options = parent->options;
    return false;
  }
  memcpy(origins, parent->origins, size);
  state->origins = origins;
  return true;
}

/* ---- Options ------------------------------------------------------------------- */

/* NULL: the option may stand here. inherits: the enclosing level has the same
 * plugin, and so a place for what both ends share. */
static const char *misplaced(const struct pst_option *rule, uint32_t side, bool inherits)
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

static int set_option(struct check *check, struct plugin_state *state, const struct node *node,
                      char *why, size_t why_size)
{
  if (node->type == NODE_SCALAR)
    return options_set(state->options, node->key, node->text, why, why_size);
  if (node->type == NODE_MAP) {
    snprintf(why, why_size, "expected one value, found a mapping");
    return -EINVAL;
  }
  const char **items = check_alloc(check, (node->count + 1) * sizeof(*items));
  size_t count = 0;
  if (!items)
    return -ENOMEM;
  for (const struct node *item = node->first; item; item = item->next) {
    if (item->type != NODE_SCALAR || item->null) {
      snprintf(why, why_size, "expected a list of single values, as in [a, b]");
      return -EINVAL;
    }
    items[count++] = item->text;
  }
  return options_set_list(state->options, node->key, items, count, why, why_size);
}

static const struct pst_option *find_option(const struct pst_description *description,
                                            const char *name, uint32_t *index)
{
  for (*index = 0; *index < description->option_count; ++*index)
    if (strcmp(description->options[*index].name, name) == 0)
      return &description->options[*index];
  return NULL;
}

static void take_option(struct check *check, struct plugin_state *state, const struct node *node,
                        uint32_t side, bool inherits)
{
  char why[WHY_MAX] = "";
  uint32_t index = 0;
  const struct pst_option *rule = find_option(state->description, node->key, &index);
  const char *wrong = rule ? misplaced(rule, side, inherits) : NULL;
  if (wrong) {
    findings_add(check->findings, &node->key_place, "option \"%s\" of %s %s", rule->name,
                 state->name, wrong);
    return;
  }
  if (node->null)
    return;
  int rc = set_option(check, state, node, why, sizeof(why));
  if (rc == -ENOMEM)
    check->findings->no_memory = true;
  else if (rc == -ENOENT)
    findings_add(check->findings, &node->key_place, "%s plugin %s: %s", kind_word(state->kind),
                 state->name, why);
  else if (rc)
    findings_add(check->findings, &node->place, "%s: %s", node->key, why);
  else
    state->origins[index] = node->place;
}

static void take_options(struct check *check, const struct node *map, uint32_t side,
                         const struct plugin_state *parent, struct plugin_state *state)
{
  const struct node *options = node_value(map, "options");
  if (!options || !state->description)
    return;
  if (options->type != NODE_MAP) {
    findings_add(check->findings, &options->place,
                 "options: expected a mapping (\"name: value\" lines)");
    return;
  }
  bool inherits = parent && parent->options == state->options;
  if (!options->first || !own_options(check, state, parent))
    return;
  for (const struct node *node = options->first; node; node = node->next)
    take_option(check, state, node, side, inherits);
}

/* The plugin that a mapping names, over the parent's. */
static void take_plugin(struct check *check, uint32_t kind, const struct node *map,
                        const struct place *place, const char *default_name, uint32_t side,
                        const struct plugin_state *parent, struct plugin_state *state)
{
  const struct node *name = node_value(map, "plugin");
  if (name && name->type != NODE_SCALAR) {
    findings_add(check->findings, &name->place, "plugin: expected the name of a %s plugin",
                 kind_word(kind));
    name = NULL;
  }
  if (parent && (!name || strcmp(name->text, parent->name) == 0)) {
    *state = *parent;
    if (name)
      state->place = name->place;
  } else if (name) {
    begin_plugin(check, kind, name->text, &name->place, &name->place, state);
  } else if (default_name) {
    begin_plugin(check, kind, default_name, &place_default, place, state);
  } else {
    findings_add(check->findings, place, "\"plugin\" is missing in a filter; write its name");
    *state = (struct plugin_state){.kind = kind, .name = "", .place = *place};
  }
  take_options(check, map, side, parent, state);
}

/* ---- The three kinds --------------------------------------------------------------- */

static void take_filters(struct check *check, const struct node *map, uint32_t side,
                         struct transport_state *state)
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
  state->filters = check_alloc(check, (list->count + 1) * sizeof(*state->filters));
  state->filter_count = 0;
  state->filters_place = list->place;
  for (struct node *item = list->first; item && state->filters; item = item->next) {
    const struct node *filter = check_map(check, &schema_filter, item);
    if (filter || item->null)
      take_plugin(check, PST_KIND_FILTER, filter, &item->place, NULL, side, NULL,
                  &state->filters[state->filter_count++]);
  }
}

void check_transport(struct check *check, struct node *node, const struct place *place,
                     uint32_t side, const struct transport_state *parent,
                     struct transport_state *state)
{
  const struct node *map = check_map(check, &schema_transport, node);
  if (parent)
    *state = *parent;
  else
    *state = (struct transport_state){.filters_place = place_default};
  /* The file's own default is looked up only where a stream falls back on it. */
  if (!parent && !node_value(map, "plugin") && !node_value(map, "options"))
    state->plugin = (struct plugin_state){.kind = PST_KIND_TRANSPORT};
  else
    take_plugin(check, PST_KIND_TRANSPORT, map, map ? &map->place : place,
                schema_transport.keys[0].rule.default_value, side,
                parent && parent->plugin.name ? &parent->plugin : NULL, &state->plugin);
  take_filters(check, map, side, state);
}

void check_memory(struct check *check, struct node *node, const struct place *place, uint32_t side,
                  struct plugin_state *state)
{
  const struct node *map = check_map(check, &schema_memory, node);
  take_plugin(check, PST_KIND_MEMORY, map, map ? &map->place : place,
              schema_memory.keys[0].rule.default_value, side, NULL, state);
}

static const struct place *origin_of(const struct plugin_state *state, const char *name)
{
  uint32_t index = 0;
  find_option(state->description, name, &index);
  return &state->origins[index];
}

/* Options that do not go together: at the one that was written, and where the other was. */
static void check_rules(struct check *check, const struct plugin_state *state, uint32_t bits)
{
  const struct pst_option_rule *rules = state->description->rules;
  for (uint32_t i = 0; i < state->description->rule_count; i++) {
    char words[WHY_MAX * 2];
    if (!rule_applies(&rules[i], state->description, bits) || rule_holds(&rules[i], state->options))
      continue;
    const struct place *place = origin_of(state, rules[i].option);
    const struct place *other = origin_of(state, rules[i].needs);
    if (place_is_default(place)) {
      const struct place *swapped = place;
      place = other;
      other = swapped;
    }
    rule_words(&rules[i], state->options, words, sizeof(words));
    const char *at = place_text(check->arena, other);
    findings_add(check->findings, place, "%s plugin %s: %s%s%s%s", kind_word(state->kind),
                 state->name, words, at && other->line ? " (" : "", at && other->line ? at : "",
                 at && other->line ? ")" : "");
  }
}

struct reported {
  struct check *check;
  const struct plugin_state *state;
  const struct place *place;
};

/* What is not written has the place of its plugin, or of what encloses it. */
static void report_option(void *context, const char *option, const char *text)
{
  const struct reported *reported = context;
  const struct plugin_state *state = reported->state;
  const struct place *place = &place_default;
  uint32_t index = 0;

  if (find_option(state->description, option, &index))
    place = &state->origins[index];
  if (place_is_default(place))
    place = place_is_default(&state->place) ? reported->place : &state->place;
  findings_add(reported->check->findings, place, "%s plugin %s: %s: %s", kind_word(state->kind),
               state->name, option, text);
}

void check_whole(struct check *check, const struct plugin_state *state, uint32_t side,
                 const struct place *place, struct pst_facts *facts)
{
  uint32_t bits = PST_SCOPE_DEVICE | PST_SCOPE_STREAM | side;
  struct reported reported = {check, state, place};
  const struct ask ask = {.side = side,
                          .flags = check->owner->config.control.none ? PST_CHECK_FOREIGN : 0,
                          .report = report_option,
                          .context = &reported};
  if (!state->description)
    return;
  for (uint32_t i = 0; i < state->description->option_count; i++) {
    const struct pst_option *rule = &state->description->options[i];
    if ((rule->flags & PST_OPTION_REQUIRED) && (rule->scope == 0 || (rule->scope & bits)) &&
        !options_is_set(state->options, rule->name))
      findings_add(check->findings, &state->place,
                   "the option \"%s\" of %s plugin %s is missing; %s", rule->name,
                   kind_word(state->kind), state->name, rule->help ? rule->help : "set it");
  }
  check_rules(check, state, bits);
  ask_plugin(&ask, state->description, state->options, facts);
}

void check_transport_ends(struct check *check, const struct transport_state *sender,
                          const struct transport_state *receiver, const struct place *place,
                          struct pst_facts facts[2])
{
  const struct transport_state *ends[] = {sender, receiver};
  const char *name = NULL;
  uint32_t index = 0;
  for (size_t e = 0; e < 2; e++) {
    uint32_t side = e == 0 ? PST_SCOPE_SENDER : PST_SCOPE_RECEIVER;
    check_whole(check, &ends[e]->plugin, side, place, &facts[e]);
    for (uint32_t i = 0; i < ends[e]->filter_count; i++)
      check_whole(check, &ends[e]->filters[i], side, place, &facts[e]);
  }
  if (!sender->plugin.description || !receiver->plugin.description ||
      check->owner->config.control.none)
    return;
  const char *wires[] = {config_wire(sender->plugin.name, sender->plugin.description),
                         config_wire(receiver->plugin.name, receiver->plugin.description)};
  if (strcmp(wires[0], wires[1]) != 0) {
    const struct place *written = &receiver->plugin.place;
    findings_add(check->findings, place_is_default(written) ? place : written,
                 "the sender's transport is %s and the receiver's %s, whose wire forms are %s and "
                 "%s; both ends need the same",
                 sender->plugin.name, receiver->plugin.name, wires[0], wires[1]);
    return;
  }
  if (options_agree(sender->plugin.options, receiver->plugin.options, PST_SCOPE_STREAM, &name))
    return;
  find_option(sender->plugin.description, name, &index);
  const struct place *differs = &receiver->plugin.origins[index];
  if (place_is_default(differs))
    differs = &sender->plugin.origins[index];
  findings_add(check->findings, differs,
               "option \"%s\" of %s differs between sender and receiver, and both must have the "
               "same; write it once, under the stream's \"transport\"",
               name, sender->plugin.name);
}
