/* SPDX-License-Identifier: Apache-2.0 */
/* One scalar value: text checked against a rule. Rules are struct pst_option,
 * for core's own keys as for the options of plugins. */
#ifndef PST_CONFIG_VALUE_H
#define PST_CONFIG_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/config.h>
#include <penstock/plugin.h>

#define VALUE_TEXT_MAX 64 /* of what value_print writes, NUL included */
#define VALUE_WHY_MIN 256 /* bytes that `why` has at least */

struct value {
  uint64_t number; /* BOOL, UINT, SIZE, DURATION, RATE; ENUM: index */
  double real;     /* the same as a number; NUMBER, SHARE */
};

/* 0; -EINVAL: wrong type, unit or choice; -ERANGE: outside of [min, max]; `why`
 * then says what is wrong and what would be right. LIST is not a scalar. */
int value_parse(const struct pst_option *rule, const char *text, struct value *value, char *why,
                size_t why_size);
/* Canonical text of all types but STRING, ENUM and LIST. */
void value_print(const struct pst_option *rule, const struct value *value, char *text, size_t size);
/* "a size", "one of a, b": what the rule takes, in words. */
void value_type_words(const struct pst_option *rule, char *words, size_t size);
/* "2 to 16777216", "at most 64 KiB"; "" without bounds. */
void value_range_words(const struct pst_option *rule, char *words, size_t size);

#endif
