/* SPDX-License-Identifier: Apache-2.0 */
/* One scalar value: text checked against a rule. */
#ifndef VALUE_H
#define VALUE_H

#include <stddef.h>
#include <stdint.h>

enum rule_type {
  RULE_STRING,
  RULE_BOOL,
  RULE_UINT,
  RULE_DURATION, /* nanoseconds; written with a unit, 0 alone without */
  RULE_SHARE,    /* 0 to 1, as 0.001 or 0.1% */
  RULE_ENUM,     /* one of `choices`; the value is its index */
  RULE_NODE,     /* a mapping or list of its own */
};

struct rule {
  const char *name;
  enum rule_type type;
  uint64_t min, max; /* UINT, DURATION; max 0: no upper bound */
  const char *const *choices;
  const char *default_value;
  const char *help;
};

struct value {
  uint64_t number; /* BOOL, UINT, DURATION, ENUM */
  double real;     /* SHARE */
};

enum { VALUE_WHY_MIN = 256 /* bytes that `why` has at least */ };

/* 0; -EINVAL: wrong type, unit or choice; -ERANGE: outside of [min, max]. `why` then says what is
 * wrong and what would be right. */
int value_parse(const struct rule *rule, const char *text, struct value *value, char *why,
                size_t why_size);
/* "a time", "one of a, b": what the rule takes, in words. */
void value_type_words(const struct rule *rule, char *words, size_t size);
/* In the largest unit that has no fraction: "250 ms". */
void value_print_duration(uint64_t ns, char *text, size_t size);

#endif
