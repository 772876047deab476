/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars by rules: numbers, times, shares, choices. */
#include "value.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { LIST_BYTES = 160 };

static const struct {
  const char *name;
  uint64_t ns;
} value_units[] = {{"ns", 1},
                   {"us", 1000},
                   {"ms", 1000000},
                   {"s", 1000000000},
                   {"min", UINT64_C(60000000000)},
                   {"h", UINT64_C(3600000000000)}};

static const struct {
  const char *what, *remedy;
} value_types[] = {
    [RULE_STRING] = {"a text", ""},
    [RULE_BOOL] = {"true or false", "write true or false"},
    [RULE_UINT] = {"a whole number", "write digits only, as in 4096"},
    [RULE_DURATION] = {"a time",
                       "write a number with a unit (ns, us, ms, s, min, h), as in 250 ms"},
    [RULE_SHARE] = {"a share", "write a number from 0 to 1, or a percentage, as in 0.1%"},
};

static size_t value_list_choices(const struct rule *rule, char *words, size_t size)
{
  size_t count = 0;
  for (size_t at = 0; rule->choices[count]; count++)
    if (at < size)
      at +=
          (size_t)snprintf(words + at, size - at, "%s%s", count ? ", " : "", rule->choices[count]);
  return count;
}

void value_type_words(const struct rule *rule, char *words, size_t size)
{
  char list[LIST_BYTES];
  if (rule->type != RULE_ENUM) {
    snprintf(words, size, "%s", value_types[rule->type].what);
    return;
  }
  value_list_choices(rule, list, sizeof(list));
  snprintf(words, size, "one of %s", list);
}

void value_print_duration(uint64_t ns, char *text, size_t size)
{
  size_t unit = COUNT(value_units) - 1;
  while (unit && (ns == 0 || ns % value_units[unit].ns))
    unit--;
  snprintf(text, size, "%llu %s", (unsigned long long)(ns / value_units[unit].ns),
           value_units[unit].name);
}

/* A decimal number without a sign, for which no locale matters. NULL: none is there. */
static const char *value_parse_decimal(const char *text, long double *number)
{
  size_t whole = strspn(text, "0123456789");
  size_t fraction = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
  if (whole == 0 || (text[whole] == '.' && fraction == 0))
    return NULL;
  *number = 0;
  for (size_t i = 0; i < whole; i++)
    *number = *number * 10 + (text[i] - '0');
  long double scale = 1;
  for (size_t i = 0; i < fraction; i++) {
    scale *= 10;
    *number += (text[whole + 1 + i] - '0') / scale;
  }
  return text + whole + (fraction ? fraction + 1 : 0);
}

static int value_parse_uint(const char *text, uint64_t *number)
{
  if (!*text || text[strspn(text, "0123456789")])
    return -EINVAL;
  errno = 0;
  *number = strtoull(text, NULL, 10);
  return -errno;
}

static int value_parse_duration(const char *text, uint64_t *ns)
{
  long double number = 0;
  const char *unit = value_parse_decimal(text, &number);
  if (!unit)
    return -EINVAL;
  if (!*unit) {
    *ns = 0;
    return number > 0 ? -EINVAL : 0;
  }
  unit += *unit == ' ';
  for (size_t i = 0; i < COUNT(value_units); i++)
    if (strcmp(unit, value_units[i].name) == 0) {
      number *= (long double)value_units[i].ns;
      if (number >= (long double)UINT64_MAX)
        return -ERANGE;
      *ns = (uint64_t)(number + 0.5L);
      return 0;
    }
  return -EINVAL;
}

static int value_parse_share(const char *text, double *share)
{
  long double number = 0;
  const char *end = value_parse_decimal(text, &number);
  if (!end || (*end && strcmp(end, "%") != 0))
    return -EINVAL;
  *share = (double)(*end ? number / 100 : number);
  return *share > 1 ? -ERANGE : 0;
}

static int value_parse_enum(const struct rule *rule, const char *text, struct value *value,
                            char *why, size_t why_size)
{
  char list[LIST_BYTES];
  size_t count = value_list_choices(rule, list, sizeof(list));
  for (size_t i = 0; i < count; i++)
    if (strcmp(text, rule->choices[i]) == 0) {
      value->number = i;
      return 0;
    }
  const char *near = nearest_name(text, rule->choices, count);
  snprintf(why, why_size, "\"%.60s\" is not one of %s%s%s%s", text, list,
           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return -EINVAL;
}

static void value_print(const struct rule *rule, uint64_t number, char *text, size_t size)
{
  if (rule->type == RULE_DURATION && number)
    value_print_duration(number, text, size);
  else
    snprintf(text, size, "%llu", (unsigned long long)number);
}

static void value_say_range(const struct rule *rule, const char *text, char *why, size_t why_size)
{
  char low[32], high[32];
  value_print(rule, rule->min, low, sizeof(low));
  value_print(rule, rule->max, high, sizeof(high));
  if (rule->type == RULE_SHARE)
    snprintf(why, why_size, "%.60s is out of range; it takes 0 to 1, or 0%% to 100%%", text);
  else if (rule->max)
    snprintf(why, why_size, "%.60s is out of range; it takes %s to %s", text, low, high);
  else
    snprintf(why, why_size, "%.60s is out of range; it takes at least %s", text, low);
}

int value_parse(const struct rule *rule, const char *text, struct value *value, char *why,
                size_t why_size)
{
  struct value parsed = {0};
  int rc = 0;
  switch (rule->type) {
  case RULE_ENUM:
    rc = value_parse_enum(rule, text, &parsed, why, why_size);
    break;
  case RULE_BOOL:
    parsed.number = strcmp(text, "true") == 0;
    rc = parsed.number || strcmp(text, "false") == 0 ? 0 : -EINVAL;
    break;
  case RULE_UINT:
    rc = value_parse_uint(text, &parsed.number);
    break;
  case RULE_DURATION:
    rc = value_parse_duration(text, &parsed.number);
    break;
  case RULE_SHARE:
    rc = value_parse_share(text, &parsed.real);
    break;
  default:
    break;
  }
  bool has_range = rule->type == RULE_UINT || rule->type == RULE_DURATION;
  if (rc == 0 && has_range &&
      (parsed.number < rule->min || (rule->max && parsed.number > rule->max)))
    rc = -ERANGE;
  if (rc == -ERANGE)
    value_say_range(rule, text, why, why_size);
  else if (rc && rule->type != RULE_ENUM)
    snprintf(why, why_size, "\"%.60s\" is not %s; %s", text, value_types[rule->type].what,
             value_types[rule->type].remedy);
  if (rc == 0)
    *value = parsed;
  return rc;
}
