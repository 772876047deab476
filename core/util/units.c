/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, times and rates with their units: parsed and printed. */
#include "units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "suggest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FRACTION_DIGITS_MAX 19 /* digits of input: 10^19 fits 64 bits */
#define PRINT_DIGITS_MAX 6
#define EXPONENT_MAX 18

struct unit {
  const char *name;
  uint64_t factor;
};

/* Smallest first. If a value prints at the same length in two units, the earlier unit is taken; for
 * rates, the larger one. */
static const struct unit size_units[] = {{"B", 1},
                                         {"KB", 1000},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"MB", 1000000},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"GB", 1000000000},
                                         {"GiB", UINT64_C(1) << 30},
                                         {"TB", UINT64_C(1000000000000)},
                                         {"TiB", UINT64_C(1) << 40}};
static const struct unit duration_units[] = {{"ns", 1},
                                             {"us", 1000},
                                             {"ms", 1000000},
                                             {"s", 1000000000},
                                             {"min", UINT64_C(60000000000)},
                                             {"h", UINT64_C(3600000000000)}};
static const struct unit rate_units[] = {{"bps", 1},
                                         {"Kbps", 1000},
                                         {"Mbps", 1000000},
                                         {"Gbps", 1000000000},
                                         {"Tbps", UINT64_C(1000000000000)}};

static const struct units {
  uint32_t type;
  const struct unit *list;
  size_t count;
  uint64_t bare; /* the factor of a number without a unit; 0: only 0 may have none */
  bool prefer_larger;
} all[] = {{PST_OPTION_UINT, NULL, 0, 1, false},
           {PST_OPTION_SIZE, size_units, COUNT(size_units), 1, false},
           {PST_OPTION_DURATION, duration_units, COUNT(duration_units), 0, false},
           {PST_OPTION_RATE, rate_units, COUNT(rate_units), 1, true}};

static const struct units *units_of(uint32_t type)
{
  for (size_t i = 0; i < COUNT(all); i++)
    if (all[i].type == type)
      return &all[i];
  return NULL;
}

static bool units_is_digit(char c)
{
  return c >= '0' && c <= '9';
}

struct decimal {
  uint64_t whole;
  uint64_t fraction; /* over `scale`, 10 to the number of `digits` */
  uint64_t scale;
  int digits;
};

/* Parses digits with an optional fraction; *end is behind them. */
static int units_parse_decimal(const char *text, struct decimal *decimal, const char **end)
{
  struct decimal d = {.scale = 1};
  bool overflow = false;
  if (!units_is_digit(*text))
    return -EINVAL;
  for (; units_is_digit(*text); text++)
    overflow |= __builtin_mul_overflow(d.whole, 10, &d.whole) ||
                __builtin_add_overflow(d.whole, (uint64_t)(*text - '0'), &d.whole);
  if (*text == '.') {
    if (!units_is_digit(*++text))
      return -EINVAL;
    for (; units_is_digit(*text); text++) {
      if (d.digits < FRACTION_DIGITS_MAX - 1) {
        d.fraction = d.fraction * 10 + (uint64_t)(*text - '0');
        d.scale *= 10;
        d.digits++;
      } else if (*text != '0') {
        return -EINVAL;
      }
    }
  }
  *decimal = d;
  *end = text;
  return overflow ? -ERANGE : 0;
}

static int units_scale_by(const struct decimal *d, uint64_t factor, uint64_t *value)
{
  unsigned __int128 part = (unsigned __int128)d->fraction * factor;
  if (part % d->scale != 0)
    return -EINVAL;
  unsigned __int128 total = (unsigned __int128)d->whole * factor + part / d->scale;
  if (total > UINT64_MAX)
    return -ERANGE;
  *value = (uint64_t)total;
  return 0;
}

int units_parse(uint32_t type, const char *text, uint64_t *value)
{
  const struct units *units = units_of(type);
  struct decimal decimal = {.scale = 1};
  const char *end = NULL;
  uint64_t factor = 0;
  int rc = units_parse_decimal(text, &decimal, &end);
  if (!units || rc == -EINVAL || (units->count == 0 && decimal.digits > 0))
    return -EINVAL;
  if (*end == '\0') {
    bool zero = rc == 0 && decimal.whole == 0 && decimal.fraction == 0;
    factor = units->bare ? units->bare : zero ? 1 : 0;
  } else {
    if (*end == ' ')
      end++;
    for (size_t i = 0; i < units->count; i++)
      if (strcmp(end, units->list[i].name) == 0)
        factor = units->list[i].factor;
  }
  if (factor == 0)
    return -EINVAL;
  return rc ? rc : units_scale_by(&decimal, factor, value);
}

static double units_power10(int exponent)
{
  double p = 1;
  while (exponent-- > 0)
    p *= 10;
  return p;
}

int units_parse_real(const char *text, bool share, double *real)
{
  struct decimal decimal = {.scale = 1};
  uint64_t mantissa = 0;
  const char *at = NULL;
  if (units_parse_decimal(text, &decimal, &at) ||
      __builtin_mul_overflow(decimal.whole, decimal.scale, &mantissa) ||
      __builtin_add_overflow(mantissa, decimal.fraction, &mantissa))
    return -EINVAL;
  int scale = decimal.digits;
  if (*at == 'e' || *at == 'E') {
    bool minus = at[1] == '-';
    int exponent = 0;
    at += at[1] == '-' || at[1] == '+' ? 2 : 1;
    if (!units_is_digit(*at))
      return -EINVAL;
    for (; units_is_digit(*at); at++)
      exponent = exponent < 100 ? exponent * 10 + (*at - '0') : exponent;
    scale += minus ? exponent : -exponent;
  }
  if (share && *at == '%') {
    scale += 2;
    at++;
  }
  if (*at != '\0' || scale > EXPONENT_MAX || scale < -EXPONENT_MAX)
    return -EINVAL;
  *real = scale >= 0 ? (double)mantissa / units_power10(scale)
                     : (double)mantissa * units_power10(-scale);
  return share && *real > 1 ? -ERANGE : 0;
}

void units_print_real(double real, char *text, size_t size)
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
    if (units_parse_real(text, false, &back) == 0 && back == real)
      return;
  }
}

/* Prints the value in this unit. False: that takes too many digits. */
static bool units_print_in(uint64_t value, const struct unit *unit, char *text, size_t size)
{
  uint64_t rest = value % unit->factor;
  char fraction[PRINT_DIGITS_MAX + 2] = "";
  for (int digit = 0; rest != 0; digit++) {
    if (digit == PRINT_DIGITS_MAX)
      return false;
    unsigned __int128 next = (unsigned __int128)rest * 10;
    fraction[0] = '.';
    fraction[digit + 1] = (char)('0' + (int)(next / unit->factor));
    fraction[digit + 2] = '\0';
    rest = (uint64_t)(next % unit->factor);
  }
  snprintf(text, size, "%llu%s %s", (unsigned long long)(value / unit->factor), fraction,
           unit->name);
  return true;
}

void units_print(uint32_t type, uint64_t value, char *text, size_t size)
{
  const struct units *units = units_of(type);
  char best[64] = "0";
  if (!units || units->count == 0) {
    snprintf(text, size, "%llu", (unsigned long long)value);
    return;
  }
  for (size_t i = 0; value != 0 && i < units->count; i++) {
    char candidate[64];
    if (!units_print_in(value, &units->list[i], candidate, sizeof(candidate)))
      continue;
    size_t length = strlen(candidate);
    if (i == 0 || length < strlen(best) || (units->prefer_larger && length == strlen(best)))
      memcpy(best, candidate, sizeof(best));
  }
  snprintf(text, size, "%s", best);
}

const char *units_meant(uint32_t type, const char *text)
{
  const struct units *units = units_of(type);
  const char *unit = text + strspn(text, "0123456789. ");
  const char *names[COUNT(size_units)];
  if (!units || unit == text || *unit == '\0')
    return NULL;
  for (size_t i = 0; i < units->count; i++) {
    names[i] = units->list[i].name;
    if (strcasecmp(unit, names[i]) == 0) /* the unit is right: "6 4KiB" */
      return strcmp(unit, names[i]) == 0 ? NULL : names[i];
  }
  return suggest_name(unit, names, units->count);
}

void units_print_about(uint64_t bytes, char *text, size_t size)
{
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;

  while (unit + 1 < COUNT(names) && bytes >> (10 * (unit + 1)))
    unit++;
  uint64_t one = UINT64_C(1) << (10 * unit);
  snprintf(text, size, "%.*f %s", bytes % one != 0, (double)bytes / (double)one, names[unit]);
}
