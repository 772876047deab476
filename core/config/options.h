/* SPDX-License-Identifier: Apache-2.0 */
/* Option values of one plugin at one place: text checked against the plugin's
 * table, parsed once, read through the getters of struct pst_host. */
#ifndef PST_CONFIG_OPTIONS_H
#define PST_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

#include "findings.h"

struct pst_options;

/* NULL: no such option, or no name. */
const struct pst_option *option_find(const struct pst_option *table, size_t count,
                                     const char *name);

/* All defaults. The table must live as long as the options. -ENOMEM; -EINVAL: a
 * default that does not parse. A required option has none, and is not set. */
int options_new(const struct pst_option *table, size_t count, struct pst_options **options);
/* The same values; `from` stays, as its texts are shared. -ENOMEM. */
int options_clone(const struct pst_options *from, struct pst_options **options);
/* Puts the options at the head of a list, which options_free() of the head frees as a whole. */
void options_chain(struct pst_options *options, struct pst_options **list);
void options_free(struct pst_options *options);

/* Sets one value from text (a LIST: items separated by ','). On failure `why`, of at least 256
 * bytes, says what is wrong, without a place. -ENOENT: no such option, with the nearest name;
 * -EINVAL: wrong type or unit; -ERANGE: outside [min, max], which it names; -ENOMEM. */
int options_set(struct pst_options *options, const char *name, const char *text, char *why,
                size_t why_size);
/* Sets a LIST from its items. Errors as options_set(). */
int options_set_list(struct pst_options *options, const char *name, const char *const *items,
                     size_t count, char *why, size_t why_size);
/* Where an option that is in the table was written; `origin` is that place as text and outlives
 * the options. */
void options_mark(struct pst_options *options, const char *name, const struct place *place,
                  const char *origin);
/* Where the value was written; place_default if it was not, or if there is no such option. */
const struct place *options_place(const struct pst_options *options, const char *name);
/* The source of options_place(). */
const char *options_origin(const struct pst_options *options, const char *name);

/* Same values for all options that both tables have and whose scope has any of the bits; *name is
 * the first that differs. */
bool options_agree(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                   const char **name);
/* The table that the options were made from. */
const struct pst_option *options_table(const struct pst_options *options, size_t *count);
/* A value in canonical text, units as in YAML, for printing and comparing. */
int options_text(const struct pst_options *options, const char *name, char *text, size_t size);

/* The option getters of struct pst_host. */
uint64_t options_get_uint(const struct pst_options *options, const char *name);
const char *options_get_string(const struct pst_options *options, const char *name);
const char *options_get_item(const struct pst_options *options, const char *name, uint32_t index);
int options_is_set(const struct pst_options *options, const char *name);

#endif
