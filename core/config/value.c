/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../util/nearest.h"
#include "units.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define EXPONENT_MAX 18
#define LONGEST_QUOTE 60 /* characters of a wrong value that a message repeats */

static const char *const size_names[] = {"B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"};
static const char *const duration_names[] = {"ns", "us", "ms", "s", "min", "h"};
static const char *const rate_names[] = {"bps", "Kbps", "Mbps", "Gbps", "Tbps"};

struct type_words {
  uint32_t type;
  const char *what;
  const char *remedy;
  const char *const *units;
  size_t unit_count;
};
static const struct type_words types[] = {
    {PST_OPTION_BOOL, "true or false", "write true or false", NULL, 0},
    {PST_OPTION_UINT, "a whole number", "write digits only, as in 4096", NULL, 0},
    {PST_OPTION_SIZE, "a size", "write a whole number of bytes, as in 8 KiB or 1462 B", size_names,
     COUNT(size_names)},
    {PST_OPTION_DURATION, "a time",
     "write a number with a unit (ns, us, ms, s, min, h), as in 250 ms", duration_names,
     COUNT(duration_names)},
    {PST_OPTION_RATE, "a rate", "write a number of bits per second, as in 68.75 Gbps", rate_names,
     COUNT(rate_names)},
    {PST_OPTION_STRING, "a text", "", NULL, 0},
    {PST_OPTION_LIST, "a list", "write [a, b]", NULL, 0},
    {PST_CONFIG_NUMBER, "a number", "write a number that is not negative, as in 68.5", NULL, 0},
    {PST_CONFIG_SHARE, "a share", "write a number from 0 to 1, or a percentage, as in 0.1%", NULL,
     0},
};

static const struct type_words *words_of(uint32_t type)
{
  for (size_t i = 0; i < COUNT(types); i++)
    if (types[i].type == type)
      return &types[i];
  return NULL;
}

static size_t choice_count(const char *const *choices)
{
  size_t n = 0;
  while (choices && choices[n])
    n++;
  return n;
}

static void list_words(const char *const *items, size_t count, char *words, size_t size)
{
  size_t at = 0;
  words[0] = '\0';
  for (size_t i = 0; i < count && at < size; i++)
    at += (size_t)snprintf(words + at, size - at, "%s%s", i == 0 ? "" : ", ", items[i]);
}

void value_type_words(const struct pst_option *rule, char *words, size_t size)
{
  if (rule->type == PST_OPTION_ENUM) {
    char list[192];
    list_words(rule->choices, choice_count(rule->choices), list, sizeof(list));
    snprintf(words, size, "one of %s", list);
    return;
  }
  const struct type_words *type = words_of(rule->type);
  snprintf(words, size, "%s", type ? type->what : "a value");
}

static bool is_numeric(uint32_t type)
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
  if (!is_numeric(rule->type))
    return;
  value_print(rule, &(struct value){.number = rule->min}, low, sizeof(low));
  value_print(rule, &(struct value){.number = rule->max}, high, sizeof(high));
  if (rule->max > 0)
    snprintf(words, size, "%s to %s", low, high);
  else if (rule->min > 0)
    snprintf(words, size, "at least %s", low);
}

/* ---- Decimal numbers ----------------------------------------------------
 * By hand, since strtod and printf follow the application's locale. */

static double power10(int exponent)
{
  double p = 1;
  while (exponent-- > 0)
    p *= 10;
  return p;
}

static const char *parse_digits(const char *at, uint64_t *mantissa, int *scale, int *digits)
{
  bool behind_point = false;
  *mantissa = 0;
  *scale = *digits = 0;
  for (;; at++) {
    if (*at == '.' && !behind_point && *digits > 0) {
      behind_point = true;
      continue;
    }
    if (*at < '0' || *at > '9')
      return at;
    if (*mantissa > (UINT64_MAX - 9) / 10)
      return NULL;
    *mantissa = *mantissa * 10 + (uint64_t)(*at - '0');
    ++*digits;
    *scale += behind_point;
  }
}

static int parse_real(const char *text, bool share, double *real)
{
  uint64_t mantissa = 0;
  int scale = 0, digits = 0;
  const char *at = parse_digits(text, &mantissa, &scale, &digits);
  if (!at || digits == 0 || at[-1] == '.')
    return -EINVAL;
  if (*at == 'e' || *at == 'E') {
    bool minus = at[1] == '-';
    int exponent = 0;
    at += at[1] == '-' || at[1] == '+' ? 2 : 1;
    if (*at < '0' || *at > '9')
      return -EINVAL;
    for (; *at >= '0' && *at <= '9'; at++)
      exponent = exponent < 100 ? exponent * 10 + (*at - '0') : exponent;
    scale += minus ? exponent : -exponent;
  }
  if (share && *at == '%') {
    scale += 2;
    at++;
  }
  if (*at != '\0' || scale > EXPONENT_MAX || scale < -EXPONENT_MAX)
    return -EINVAL;
  *real = scale >= 0 ? (double)mantissa / power10(scale) : (double)mantissa * power10(-scale);
  return share && *real > 1 ? -ERANGE : 0;
}

static void print_real(double real, char *text, size_t size)
{
  if (real < 1e15 && real == (double)(uint64_t)real) { /* 5000, not 5e+03 */
    snprintf(text, size, "%llu", (unsigned long long)real);
    return;
  }
  for (int precision = 1; precision <= 17; precision++) {
    double back = 0;
    snprintf(text, size, "%.*g", precision, real);
    for (char *c = text; *c; c++)
      if (*c == ',')
        *c = '.';
    if (parse_real(text, false, &back) == 0 && back == real)
      return;
  }
}

void value_print(const struct pst_option *rule, const struct value *value, char *text, size_t size)
{
  switch (rule->type) {
  case PST_OPTION_BOOL:
    snprintf(text, size, "%s", value->number ? "true" : "false");
    break;
  case PST_OPTION_SIZE:
    units_print_size(value->number, text, size);
    break;
  case PST_OPTION_DURATION:
    units_print_duration(value->number, text, size);
    break;
  case PST_OPTION_RATE:
    units_print_rate(value->number, text, size);
    break;
  case PST_CONFIG_NUMBER:
  case PST_CONFIG_SHARE:
    print_real(value->real, text, size);
    break;
  default:
    snprintf(text, size, "%llu", (unsigned long long)value->number);
    break;
  }
}

/* ---- Parsing ------------------------------------------------------------- */

/* The unit that a wrong one was meant to be: KIB for KiB, sec for s. */
static const char *unit_meant(const struct type_words *type, const char *text)
{
  const char *unit = text + strspn(text, "0123456789. ");
  if (unit == text || *unit == '\0' || type->unit_count == 0)
    return NULL;
  for (size_t i = 0; i < type->unit_count; i++)
    if (strcasecmp(unit, type->units[i]) == 0) /* a right one is not what is wrong: "6 4KiB" */
      return strcmp(unit, type->units[i]) == 0 ? NULL : type->units[i];
  return nearest_name(unit, type->units, type->unit_count);
}

static int parse_enum(const struct pst_option *rule, const char *text, struct value *value,
                      char *why, size_t why_size)
{
  size_t count = choice_count(rule->choices);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(text, rule->choices[i]) == 0) {
      value->number = i;
      return 0;
    }
  }
  char list[160];
  const char *near = nearest_name(text, rule->choices, count);
  list_words(rule->choices, count, list, sizeof(list));
  snprintf(why, why_size, "\"%.*s\" is not one of %s%s%s%s", LONGEST_QUOTE, text, list,
           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return -EINVAL;
}

static int parse_by_type(const struct pst_option *rule, const char *text, struct value *value)
{
  switch (rule->type) {
  case PST_OPTION_BOOL:
    value->number = strcmp(text, "true") == 0;
    return value->number || strcmp(text, "false") == 0 ? 0 : -EINVAL;
  case PST_OPTION_UINT:
    return units_parse_uint(text, &value->number);
  case PST_OPTION_SIZE:
    return units_parse_size(text, &value->number);
  case PST_OPTION_DURATION:
    return units_parse_duration(text, &value->number);
  case PST_OPTION_RATE:
    return units_parse_rate(text, &value->number);
  case PST_CONFIG_NUMBER:
  case PST_CONFIG_SHARE:
    return parse_real(text, rule->type == PST_CONFIG_SHARE, &value->real);
  case PST_OPTION_STRING:
    value->number = strlen(text);
    return 0;
  default:
    return -EINVAL;
  }
}

static int explain(const struct pst_option *rule, const char *text, int rc, char *why,
                   size_t why_size)
{
  const struct type_words *type = words_of(rule->type);
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
  else {
    const char *unit = unit_meant(type, text);
    if (unit)
      snprintf(why, why_size, "\"%.*s\" is not %s; did you mean the unit \"%s\"?", LONGEST_QUOTE,
               text, type->what, unit);
    else
      snprintf(why, why_size, "\"%.*s\" is not %s; %s", LONGEST_QUOTE, text, type->what,
               type->remedy);
  }
  return rc;
}

int value_parse(const struct pst_option *rule, const char *text, struct value *value, char *why,
                size_t why_size)
{
  struct value parsed = {0, 0};
  if (rule->type == PST_OPTION_ENUM) {
    int rc = parse_enum(rule, text, &parsed, why, why_size);
    if (rc)
      return rc;
  } else {
    int rc = parse_by_type(rule, text, &parsed);
    if (rc == 0 && (is_numeric(rule->type) || rule->type == PST_OPTION_STRING) &&
        (parsed.number < rule->min || (rule->max > 0 && parsed.number > rule->max)))
      rc = -ERANGE;
    if (rc)
      return explain(rule, text, rc, why, why_size);
  }
  if (rule->type != PST_CONFIG_NUMBER && rule->type != PST_CONFIG_SHARE)
    parsed.real = (double)parsed.number;
  *value = parsed;
  return 0;
}
