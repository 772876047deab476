/* SPDX-License-Identifier: Apache-2.0 */
/* Rules between the options of one plugin. */
#include "rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <penstock/penstock.h>

#include "options.h"
#include "value.h"

#define TEXT_MAX 256

static bool rules_same_text(const char *a, const char *b)
{
  return strcmp(a ? a : "", b ? b : "") == 0;
}

bool rules_equal(const struct pst_description *a, const struct pst_description *b)
{
  const struct pst_option_rule *mine = a->rules, *its = b->rules;

  if (a->rule_count != b->rule_count)
    return false;
  for (uint32_t i = 0; i < a->rule_count; i++)
    if (!rules_same_text(mine[i].option, its[i].option) ||
        !rules_same_text(mine[i].value, its[i].value) ||
        !rules_same_text(mine[i].needs, its[i].needs) ||
        !rules_same_text(mine[i].needed, its[i].needed) || mine[i].flags != its[i].flags)
      return false;
  return true;
}

bool rule_applies(const struct pst_option_rule *rule, const struct pst_description *description,
                  uint32_t scope)
{
  const struct pst_option *option =
      option_find(description->options, description->option_count, rule->option);
  const struct pst_option *needs =
      option_find(description->options, description->option_count, rule->needs);

  return option && needs && (option->scope & scope) && (needs->scope & scope);
}

static bool rules_has(const struct pst_options *options, const char *name, const char *text)
{
  char why[VALUE_WHY_MIN];
  struct value value;
  size_t count;
  const struct pst_option *table = options_table(options, &count);
  const struct pst_option *option = option_find(table, count, name);

  if (option->type == PST_OPTION_STRING)
    return strcmp(options_get_string(options, name), text) == 0;
  return value_parse(option, text, &value, why, sizeof(why)) == 0 &&
         options_get_uint(options, name) == value.number;
}

bool rule_holds(const struct pst_option_rule *rule, const struct pst_options *options)
{
  bool concerns =
      rules_has(options, rule->option, rule->value) != !!(rule->flags & PST_RULE_UNLESS);

  return !concerns ||
         rules_has(options, rule->needs, rule->needed) != !!(rule->flags & PST_RULE_OTHER);
}

/* Writes `name: value`, as it stands in YAML. */
static const char *rules_stands(const char *name, const char *value, char *text)
{
  snprintf(text, TEXT_MAX, "`%.63s: %.127s`", name, value[0] ? value : "\"\"");
  return text;
}

static const char *rules_stands_here(const struct pst_options *options, const char *name,
                                     char *text)
{
  char value[TEXT_MAX] = "";

  options_text(options, name, value, sizeof(value));
  return rules_stands(name, value, text);
}

void rule_words(const struct pst_option_rule *rule, const struct pst_options *options, char *words,
                size_t size)
{
  char mine[TEXT_MAX], its[TEXT_MAX], needed[TEXT_MAX];
  const char *gap = rule->because ? ": " : "", *because = rule->because ? rule->because : "";

  rules_stands_here(options, rule->option, mine);
  rules_stands_here(options, rule->needs, its);
  if (rule->flags & PST_RULE_OTHER)
    snprintf(words, size, "%s does not go with %s%s%s; change one of them", mine, its, gap,
             because);
  else
    snprintf(words, size, "%s needs %s, but here %s is set%s%s; change one of them", mine,
             rules_stands(rule->needs, rule->needed, needed), its, gap, because);
}

void rule_sentence(const struct pst_option_rule *rule, char *words, size_t size)
{
  char value[TEXT_MAX], needed[TEXT_MAX];
  const char *gap = rule->because ? ": " : "", *because = rule->because ? rule->because : "";

  if (!(rule->flags & PST_RULE_UNLESS))
    rules_stands(rule->option, rule->value, value);
  else if (!rule->value[0])
    snprintf(value, sizeof(value), "`%.63s`", rule->option);
  else
    snprintf(value, sizeof(value), "`%.63s` other than `%.127s`", rule->option, rule->value);
  snprintf(words, size, "%s %s %s%s%s", value,
           rule->flags & PST_RULE_OTHER ? "does not go with" : "needs",
           rules_stands(rule->needs, rule->needed, needed), gap, because);
}

int pst_plugin_rule(const struct pst_plugin_info *info, uint32_t index, char *text, size_t size)
{
  if (!info->description || index >= info->description->rule_count)
    return -ENOENT;
  rule_sentence(&info->description->rules[index], text, size);
  return 0;
}
