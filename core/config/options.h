/* SPDX-License-Identifier: Apache-2.0 */
/* Option values of one plugin at one place: text checked against the plugin's
 * table, parsed once, read through the getters of struct pst_host. */
#ifndef PST_CONFIG_OPTIONS_H
#define PST_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

struct pst_options;

/* All defaults. The table must live as long as the options. -ENOMEM; -EINVAL: a
 * default that does not parse, or a required option left out is found only by
 * options_missing. */
int options_new(const struct pst_option *table, size_t count, struct pst_options **options);
int options_clone(const struct pst_options *from, struct pst_options **options);
void options_free(struct pst_options *options);

/* Set one value from text (a LIST: items separated by ','). On failure `why`
 * (of at least 256 bytes) says what is wrong in words, without a place:
 * -ENOENT: no such option, with the nearest name; -EINVAL: wrong type or unit;
 * -ERANGE: outside [min, max], which it names. */
int options_set(struct pst_options *options, const char *name, const char *text, char *why,
                size_t why_size);
int options_set_list(struct pst_options *options, const char *name, const char *const *items,
                     size_t count, char *why, size_t why_size);

/* The first required option that is not set, or NULL. */
const char *options_missing(const struct pst_options *options);

/* Same values for all options whose scope has any of the bits; *name is the
 * first that differs. */
bool options_equal(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                   const char **name);
/* The same for options of the scope that both tables have. */
bool options_agree(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                   const char **name);
/* The table it was made from, and a value in canonical text (units as in YAML)
 * for printing and comparing. */
const struct pst_option *options_table(const struct pst_options *options, size_t *count);
int options_text(const struct pst_options *options, const char *name, char *text, size_t size);

/* What struct pst_host hands out. */
uint64_t options_get_uint(const struct pst_options *options, const char *name);
const char *options_get_string(const struct pst_options *options, const char *name);
const char *options_get_item(const struct pst_options *options, const char *name, uint32_t index);
int options_is_set(const struct pst_options *options, const char *name);

#endif
