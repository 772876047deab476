/* SPDX-License-Identifier: Apache-2.0 */
/* The name that a misspelt word most likely meant. */
#ifndef NEAREST_H
#define NEAREST_H

#include <stddef.h>

/* The one of `names` that a writer of `word` most likely meant: smallest
 * Damerau-Levenshtein distance without regard to case, at most a third of the
 * longer one's length (one for short words); the first of several as near. NULL
 * when none is that near. */
const char *nearest_name(const char *word, const char *const *names, size_t count);

#endif
