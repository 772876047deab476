/* SPDX-License-Identifier: Apache-2.0 */
/* The name that a mistyped word most likely meant. */
#include "nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

/* Longer words are not names; they match nothing. */
#define NEAREST_BYTES 63

static size_t nearest_least(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Insertions, deletions, substitutions and swaps of neighbours (the restricted
 * form), letters compared without case. */
static size_t nearest_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
  size_t rows[3][NEAREST_BYTES + 1];
  size_t *before = rows[0], *last = rows[1], *now = rows[2];

  for (size_t j = 0; j <= b_len; j++)
    last[j] = j;
  for (size_t i = 1; i <= a_len; i++) {
    size_t *spare = before;

    now[0] = i;
    for (size_t j = 1; j <= b_len; j++) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);

      now[j] = nearest_least(nearest_least(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
      if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
          y == tolower((unsigned char)a[i - 2]))
        now[j] = nearest_least(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
    now = spare;
  }
  return last[b_len];
}

const char *nearest_name(const char *word, const char *const *names, size_t count)
{
  const char *best = NULL;
  size_t best_distance = SIZE_MAX;
  size_t word_len = strlen(word);

  if (word_len > NEAREST_BYTES)
    return NULL;
  for (size_t i = 0; i < count; i++) {
    size_t len = names[i] ? strlen(names[i]) : 0;
    size_t longer = len > word_len ? len : word_len;
    size_t allowed = longer >= 6 ? longer / 3 : 1;
    size_t d;

    if (len == 0 || len > NEAREST_BYTES)
      continue;
    d = nearest_distance(word, word_len, names[i], len);
    if (d <= allowed && d < longer && d < best_distance) {
      best = names[i];
      best_distance = d;
    }
  }
  return best;
}
