/* SPDX-License-Identifier: Apache-2.0 */
/* Values by type: parsed, checked, printed. */
#include "value.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/suggest.h"
#include "util/text.h"
#include "util/units.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LONGEST_QUOTE 60 /* characters of a wrong value that a message repeats */

static const struct type_words {
  uint32_t type;
  const char *what;
  const char *remedy;
} types[] = {
    {PST_OPTION_BOOL, "true or false", "write true or false"},
    {PST_OPTION_UINT, "a whole number", "write digits only, as in 4096"},
    {PST_OPTION_SIZE, "a size", "write a whole number of bytes, as in 8 KiB or 1462 B"},
    {PST_OPTION_DURATION, "a time",
     "write a number with a unit (ns, us, ms, s, min, h), as in 250 ms"},
    {PST_OPTION_RATE, "a rate", "write a number of bits per second, as in 68.75 Gbps"},
    {PST_OPTION_STRING, "a text", ""},
    {PST_OPTION_LIST, "a list", "write [a, b]"},
    {PST_CONFIG_NUMBER, "a number", "write a number that is not negative, as in 68.5"},
    {PST_CONFIG_SHARE, "a share", "write a number from 0 to 1, or a percentage, as in 0.1%"},
};

static const struct type_words *value_words_of(uint32_t type)
{
  for (size_t i = 0; i < COUNT(types); i++)
    if (types[i].type == type)
      return &types[i];
  return NULL;
}

static size_t value_choice_count(const char *const *choices)
{
  size_t n = 0;
  while (choices && choices[n])
    n++;
  return n;
}

void value_type_words(const struct pst_option *rule, char *words, size_t size)
{
  if (rule->type == PST_OPTION_ENUM) {
    char list[192] = "";
    text_add_list(list, sizeof(list), rule->choices, value_choice_count(rule->choices));
    snprintf(words, size, "one of %s", list);
    return;
  }
  const struct type_words *type = value_words_of(rule->type);
  snprintf(words, size, "%s", type ? type->what : "a value");
}

static bool value_is_numeric(uint32_t type)
{
  return type == PST_OPTION_UINT || type == PST_OPTION_SIZE || type == PST_OPTION_DURATION ||
         type == PST_OPTION_RATE;
}

void value_range_words(const struct pst_option *rule, char *words, size_t size)
{
  char low[VALUE_TEXT_MAX] = "", high[VALUE_TEXT_MAX] = "";
  words[0] = '\0';
  if (rule->type == PST_OPTION_STRING && rule->max > 0)
    snprintf(words, size, rule->min ? "1 to %llu bytes" : "at most %llu bytes",
             (unsigned long long)rule->max);
  if (!value_is_numeric(rule->type))
    return;
  value_print(rule, &(struct value){.number = rule->min}, low, sizeof(low));
  value_print(rule, &(struct value){.number = rule->max}, high, sizeof(high));
  if (rule->max > 0)
    snprintf(words, size, "%s to %s", low, high);
  else if (rule->min > 0)
    snprintf(words, size, "at least %s", low);
}

void value_print(const struct pst_option *rule, const struct value *value, char *text, size_t size)
{
  if (rule->type == PST_OPTION_BOOL)
    snprintf(text, size, "%s", value->number ? "true" : "false");
  else if (rule->type == PST_CONFIG_NUMBER || rule->type == PST_CONFIG_SHARE)
    units_print_real(value->real, text, size);
  else
    units_print(rule->type, value->number, text, size);
}

static int value_parse_enum(const struct pst_option *rule, const char *text, struct value *value,
                            char *why, size_t why_size)
{
  size_t count = value_choice_count(rule->choices);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(text, rule->choices[i]) == 0) {
      value->number = i;
      return 0;
    }
  }
  char list[160] = "";
  const char *near = suggest_name(text, rule->choices, count);
  text_add_list(list, sizeof(list), rule->choices, count);
  snprintf(why, why_size, "\"%.*s\" is not one of %s%s%s%s", LONGEST_QUOTE, text, list,
           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return -EINVAL;
}

static int value_parse_by_type(const struct pst_option *rule, const char *text, struct value *value)
{
  switch (rule->type) {
  case PST_OPTION_BOOL:
    value->number = strcmp(text, "true") == 0;
    return value->number || strcmp(text, "false") == 0 ? 0 : -EINVAL;
  case PST_CONFIG_NUMBER:
  case PST_CONFIG_SHARE:
    return units_parse_real(text, rule->type == PST_CONFIG_SHARE, &value->real);
  case PST_OPTION_STRING:
    value->number = strlen(text);
    return 0;
  default:
    return units_parse(rule->type, text, &value->number);
  }
}

static int value_explain(const struct pst_option *rule, const char *text, int rc, char *why,
                         size_t why_size)
{
  const struct type_words *type = value_words_of(rule->type);
  const char *unit = units_meant(rule->type, text);
  char range[2 * VALUE_TEXT_MAX];
  value_range_words(rule, range, sizeof(range));
  if (rc == -ERANGE && rule->type == PST_OPTION_STRING)
    snprintf(why, why_size, "the text is %s; it takes %s", *text ? "too long" : "empty", range);
  else if (rc == -ERANGE && rule->type == PST_CONFIG_SHARE)
    snprintf(why, why_size, "%.*s is out of range; it takes 0 to 1, or 0%% to 100%%", LONGEST_QUOTE,
             text);
  else if (rc == -ERANGE)
    snprintf(why, why_size, "%.*s is out of range; it takes %s", LONGEST_QUOTE, text,
             range[0] ? range : "at most 2^64 - 1");
  else if (!type)
    snprintf(why, why_size, "its type is not known to this version");
  else if (unit)
    snprintf(why, why_size, "\"%.*s\" is not %s; did you mean the unit \"%s\"?", LONGEST_QUOTE,
             text, type->what, unit);
  else
    snprintf(why, why_size, "\"%.*s\" is not %s; %s", LONGEST_QUOTE, text, type->what,
             type->remedy);
  return rc;
}

int value_parse(const struct pst_option *rule, const char *text, struct value *value, char *why,
                size_t why_size)
{
  struct value parsed = {0, 0};
  if (rule->type == PST_OPTION_ENUM) {
    int rc = value_parse_enum(rule, text, &parsed, why, why_size);
    if (rc)
      return rc;
  } else {
    int rc = value_parse_by_type(rule, text, &parsed);
    if (rc == 0 && (value_is_numeric(rule->type) || rule->type == PST_OPTION_STRING) &&
        (parsed.number < rule->min || (rule->max > 0 && parsed.number > rule->max)))
      rc = -ERANGE;
    if (rc)
      return value_explain(rule, text, rc, why, why_size);
  }
  if (rule->type != PST_CONFIG_NUMBER && rule->type != PST_CONFIG_SHARE)
    parsed.real = (double)parsed.number;
  *value = parsed;
  return 0;
}
