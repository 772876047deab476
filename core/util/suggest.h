/* SPDX-License-Identifier: Apache-2.0 */
/* The name that a misspelt word most likely meant. */
#ifndef PST_UTIL_SUGGEST_H
#define PST_UTIL_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* The one of `names` that a writer of `word` most likely meant: smallest
 * Damerau-Levenshtein distance without regard to case, at most a third of the
 * longer one's length (one for short words); the first of several as near. NULL
 * when none is that near. */
const char *suggest_name(const char *word, const char *const *names, size_t count);
/* Adds `did you mean "NAME"?` to `text`, or, and then false, `there are: NAME, NAME`. */
bool suggest_add(const char *word, const char *const *names, size_t count, char *text, size_t size);

#endif
