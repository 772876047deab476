/* SPDX-License-Identifier: Apache-2.0 */
/* Does a plugin keep what plugin.h, transport.h and memory.h promise, as far as its
 * tables show it. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/options.h"
#include "config/rules.h"
#include "config/value.h"
#include "constructors.h"
#include "plugin_names.h"
#include "reason.h"

#define OPTIONS_MAX 256u
#define RULES_MAX 64u

static int check_option_breach(struct loader_reason *why, const struct pst_option *option,
                               const char *what)
{
  return loader_reject(why, -EPROTO, "option '%s': %s", option->name, what);
}

static int check_option_unknown(struct loader_reason *why, const struct pst_option *option,
                                const char *field)
{
  return loader_reject(why, -EPROTO,
                       "option '%s': its %s is unknown to ABI %u; build it with this host's "
                       "headers, or install a newer host",
                       option->name, field, PST_ABI_MAJOR);
}

int check_size(const char *type, uint32_t its, size_t ours, struct loader_reason *why)
{
  if (its == ours)
    return 0;
  return loader_reject(
      why, -EPROTO, "its %s has %u bytes, this host's has %zu; build it with this host's headers",
      type, its, ours);
}

static int check_default(const struct pst_option *option, struct loader_reason *why)
{
  struct pst_options *options;
  int rc = options_new(option, 1, &options);

  if (rc < 0)
    return loader_reject(why, rc == -ENOMEM ? rc : -EPROTO,
                         "option '%s': its default '%s' does not parse", option->name,
                         option->default_value ? option->default_value : "");
  options_free(options);
  return 0;
}

/* Checks one entry of a plugin's table of options. -EPROTO with *why. */
static int check_option(const struct pst_option *table, uint32_t index, struct loader_reason *why)
{
  const struct pst_option *option = &table[index];
  const uint32_t scopes =
      PST_SCOPE_DEVICE | PST_SCOPE_STREAM | PST_SCOPE_SENDER | PST_SCOPE_RECEIVER;
  const uint32_t flags = PST_OPTION_REQUIRED | PST_OPTION_TESTING | PST_OPTION_PAIRS;

  if (!loader_name_ok(option->name))
    return loader_reject(
        why, -EPROTO, "option %u: its name is not valid: write lower case, digits and '_'", index);
  for (uint32_t i = 0; i < index; i++) {
    if (strcmp(table[i].name, option->name) == 0)
      return check_option_breach(why, option, "is in the table twice");
  }
  if (option->type < PST_OPTION_BOOL || option->type > PST_OPTION_LIST)
    return check_option_unknown(why, option, "type");
  if (option->scope == 0)
    return check_option_breach(why, option, "has no scope");
  if (option->scope & ~scopes)
    return check_option_unknown(why, option, "scope");
  if (option->flags & ~flags || option->reserved)
    return check_option_unknown(why, option, "set of flags");
  if (!option->help || !*option->help)
    return check_option_breach(why, option, "has no help text");
  if ((option->type == PST_OPTION_ENUM) != (option->choices && option->choices[0]))
    return check_option_breach(why, option, "choices belong to an ENUM, and an ENUM has some");
  if ((option->flags & PST_OPTION_PAIRS) && option->type != PST_OPTION_LIST)
    return check_option_breach(why, option, "has pairs and is no LIST");
  if (option->max && option->min > option->max)
    return check_option_breach(why, option, "its min is above its max");
  if ((option->flags & PST_OPTION_REQUIRED) && option->default_value)
    return check_option_breach(why, option, "is required, and has a default");
  return check_default(option, why);
}

static int check_words(const struct pst_description *description, struct loader_reason *why)
{
  const struct {
    const char *field, *text;
  } words[] = {{"version", description->version},
               {"summary", description->summary},
               {"rung", description->rung}};

  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    if (!words[i].text)
      return loader_reject(why, -EPROTO, "its description has no %s; \"\" says none",
                           words[i].field);
  }
  return 0;
}

static int check_wire(const struct pst_description *description, struct loader_reason *why)
{
  const char *wire = description->wire;

  if (!wire)
    return 0;
  if (description->kind != PST_KIND_TRANSPORT)
    return loader_reject(why, -EPROTO,
                         "its description has a wire form, which only a transport has");
  if (wire[0] < 'a' || wire[0] > 'z' || strlen(wire) >= LOADER_NAME_BYTES ||
      wire[strspn(wire, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
    return loader_reject(why, -EPROTO,
                         "its wire form is '%.64s'; write at most 31 lower-case letters, digits "
                         "and '-', a letter first",
                         wire);
  return 0;
}

static int check_rule_breach(struct loader_reason *why, uint32_t index, const char *what)
{
  return loader_reject(why, -EPROTO, "rule %u: %s", index, what);
}

static bool check_takes(const struct pst_option *option, const char *text)
{
  char why[VALUE_WHY_MIN];
  struct value value;

  return text && (option->type == PST_OPTION_STRING ||
                  value_parse(option, text, &value, why, sizeof(why)) == 0);
}

static int check_rule(const struct pst_description *description, const struct pst_option_rule *rule,
                      uint32_t index, struct loader_reason *why)
{
  const struct pst_option *option =
      option_find(description->options, description->option_count, rule->option);
  const struct pst_option *needs =
      option_find(description->options, description->option_count, rule->needs);

  if (!option || !needs || option == needs)
    return check_rule_breach(why, index,
                             "it names an option that is not in the table, or one option twice");
  if (option->type == PST_OPTION_LIST || needs->type == PST_OPTION_LIST)
    return check_rule_breach(why, index, "an option of it is a LIST, which has no one value");
  if (!check_takes(option, rule->value) || !check_takes(needs, rule->needed))
    return check_rule_breach(why, index, "one of its values is not valid for its option");
  for (size_t i = 0; i < sizeof(rule->reserved) / sizeof(rule->reserved[0]); i++)
    if (rule->reserved[i] || rule->flags & ~(uint32_t)(PST_RULE_UNLESS | PST_RULE_OTHER))
      return loader_reject(why, -EPROTO,
                           "rule %u: its set of flags is unknown to ABI %u; build it with this "
                           "host's headers, or install a newer host",
                           index, PST_ABI_MAJOR);
  return 0;
}

static int check_rules(const struct pst_description *description, struct loader_reason *why)
{
  const struct pst_option_rule *rules = description->rules;
  struct pst_options *defaults;
  uint32_t count = description->rule_count;
  int rc = 0;

  if (count == 0)
    return 0;
  if (count > RULES_MAX || !rules)
    return loader_reject(why, -EPROTO, "claims %u rules but %s", count,
                         rules ? "64 is the most" : "has none");
  for (uint32_t i = 0; i < count && rc == 0; i++)
    rc = check_rule(description, &rules[i], i, why);
  if (rc < 0)
    return rc;
  if (options_new(description->options, description->option_count, &defaults) < 0)
    return loader_reject(why, -ENOMEM, "no memory to read it");
  for (uint32_t i = 0; i < count && rc == 0; i++)
    if (!rule_holds(&rules[i], defaults))
      rc = check_rule_breach(why, i, "the defaults break it");
  options_free(defaults);
  return rc;
}

static bool check_is_variable(const char *text)
{
  const size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789_");

  return length > 0 && length < LOADER_VARIABLE_BYTES && text[length] == '=' &&
         (text[0] < '0' || text[0] > '9');
}

static int check_environment(const struct pst_description *description, struct loader_reason *why)
{
  const char *const *environment = environment_of(description);

  for (uint32_t i = 0; environment[i]; i++) {
    if (i == LOADER_VARIABLES_MAX)
      return loader_reject(why, -EPROTO,
                           "names over 64 environment variables; or does NULL not end the list?");
    if (!check_is_variable(environment[i]))
      return loader_reject(why, -EPROTO,
                           "its environment has '%.64s'; write NAME=value, the name of at most 63 "
                           "letters, digits and '_'",
                           environment[i]);
  }
  return 0;
}

/* Checks a plugin's description against its file name and the ABI. 0, or -errno with *why. */
int check_description(uint32_t kind, const char *name, const struct pst_described *described,
                      struct loader_reason *why)
{
  const struct pst_description *description = described ? described->description : NULL;
  int rc;

  if (!description)
    return loader_reject(why, -EPROTO, "has no description; add PST_DESCRIPTION() in options.c");
  rc = check_size("pst_description", described->struct_size, sizeof(*description), why);
  if (rc < 0)
    return rc;
  if (description->kind != kind)
    return loader_reject(why, -EPROTO,
                         "describes itself as a %s, its file name says %s; rename one of them",
                         loader_kind_name(description->kind) ? loader_kind_name(description->kind)
                                                             : "plugin of unknown kind",
                         loader_kind_name(kind));
  if (!description->name || strcmp(description->name, name) != 0)
    return loader_reject(why, -EPROTO,
                         "describes itself as '%.64s', its file name says '%s'; "
                         "rename one of them",
                         description->name ? description->name : "", name);
  rc = check_words(description, why);
  if (rc < 0)
    return rc;
  if (description->option_count > OPTIONS_MAX ||
      (description->option_count && !description->options))
    return loader_reject(why, -EPROTO, "claims %u options but %s", description->option_count,
                         description->options ? "256 is the most" : "has no table of them");
  for (uint32_t i = 0; i < description->option_count && rc == 0; i++)
    rc = check_option(description->options, i, why);
  if (rc == 0)
    rc = check_rules(description, why);
  if (rc == 0)
    rc = check_wire(description, why);
  return rc < 0 ? rc : check_environment(description, why);
}
