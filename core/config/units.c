/* SPDX-License-Identifier: Apache-2.0 */
#include "units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FRACTION_DIGITS_MAX 19 /* of input; 10^19 fits 64 bits */
#define PRINT_DIGITS_MAX 6

struct unit {
  const char *name;
  uint64_t factor;
};

/* Smallest first: what prints in the same length prefers the earlier one, save
 * for rates, which people give in the larger unit. */
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

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

struct decimal {
  uint64_t whole;
  uint64_t fraction; /* over `scale` */
  uint64_t scale;
};

/* Digits with an optional fraction; *end is behind them. */
static int parse_decimal(const char *text, struct decimal *decimal, const char **end)
{
  struct decimal d = {0, 0, 1};
  bool overflow = false;
  if (!is_digit(*text))
    return -EINVAL;
  for (; is_digit(*text); text++)
    overflow |= __builtin_mul_overflow(d.whole, 10, &d.whole) ||
                __builtin_add_overflow(d.whole, (uint64_t)(*text - '0'), &d.whole);
  if (*text == '.') {
    if (!is_digit(*++text))
      return -EINVAL;
    for (int digits = 0; is_digit(*text); text++, digits++) {
      if (digits >= FRACTION_DIGITS_MAX - 1) {
        if (*text != '0')
          return -EINVAL;
        continue;
      }
      d.fraction = d.fraction * 10 + (uint64_t)(*text - '0');
      d.scale *= 10;
    }
  }
  *decimal = d;
  *end = text;
  return overflow ? -ERANGE : 0;
}

static int scale_by(const struct decimal *d, uint64_t factor, uint64_t *value)
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

/* bare: the factor of a number without a unit; 0: only 0 may have none. */
static int parse_quantity(const char *text, const struct unit *units, size_t count, uint64_t bare,
                          uint64_t *value)
{
  struct decimal decimal = {0, 0, 1};
  const char *end = NULL;
  int rc = parse_decimal(text, &decimal, &end);
  if (rc == -EINVAL)
    return rc;
  uint64_t factor = 0;
  if (*end == '\0') {
    bool zero = rc == 0 && decimal.whole == 0 && decimal.fraction == 0;
    factor = bare ? bare : zero ? 1 : 0;
  } else {
    if (*end == ' ')
      end++;
    for (size_t i = 0; i < count; i++)
      if (strcmp(end, units[i].name) == 0)
        factor = units[i].factor;
  }
  if (factor == 0)
    return -EINVAL;
  return rc ? rc : scale_by(&decimal, factor, value);
}

int units_parse_uint(const char *text, uint64_t *value)
{
  struct decimal decimal = {0, 0, 1};
  const char *end = NULL;
  int rc = parse_decimal(text, &decimal, &end);
  if (rc == -EINVAL || *end != '\0' || strchr(text, '.'))
    return -EINVAL;
  if (rc == 0)
    *value = decimal.whole;
  return rc;
}

int units_parse_size(const char *text, uint64_t *bytes)
{
  return parse_quantity(text, size_units, COUNT(size_units), 1, bytes);
}

int units_parse_duration(const char *text, uint64_t *ns)
{
  return parse_quantity(text, duration_units, COUNT(duration_units), 0, ns);
}

int units_parse_rate(const char *text, uint64_t *bps)
{
  return parse_quantity(text, rate_units, COUNT(rate_units), 1, bps);
}

/* False when the value has too many digits in this unit. */
static bool print_in(uint64_t value, const struct unit *unit, char *text, size_t size)
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

static void print_quantity(uint64_t value, const struct unit *units, size_t count,
                           bool prefer_larger, char *text, size_t size)
{
  char best[64] = "0";
  for (size_t i = 0; value != 0 && i < count; i++) {
    char candidate[64];
    if (!print_in(value, &units[i], candidate, sizeof(candidate)))
      continue;
    size_t length = strlen(candidate);
    if (i == 0 || length < strlen(best) || (prefer_larger && length == strlen(best)))
      memcpy(best, candidate, sizeof(best));
  }
  snprintf(text, size, "%s", best);
}

void units_print_size(uint64_t bytes, char *text, size_t size)
{
  print_quantity(bytes, size_units, COUNT(size_units), false, text, size);
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

void units_print_duration(uint64_t ns, char *text, size_t size)
{
  print_quantity(ns, duration_units, COUNT(duration_units), false, text, size);
}

void units_print_rate(uint64_t bps, char *text, size_t size)
{
  print_quantity(bps, rate_units, COUNT(rate_units), true, text, size);
}
