/* SPDX-License-Identifier: Apache-2.0 */
/* An index of names, for look-ups by bisection. */
#include "name_index.h"

#include <stdlib.h>
#include <string.h>

static int name_index_by_name(const void *a, const void *b)
{
  const struct name_index_entry *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->item > y->item) - (x->item < y->item);
}

void name_index_sort(struct name_index_entry *entries, size_t count)
{
  if (count > 0)
    qsort(entries, count, sizeof(*entries), name_index_by_name);
}

/* strcmp() of an entry's name with one that has no NUL behind it. */
static int name_index_compare(const char *entry, const char *name, size_t length)
{
  int order = strncmp(entry, name, length);
  return order ? order : (unsigned char)entry[length];
}

const struct name_index_entry *name_index_find(const struct name_index_entry *entries, size_t count,
                                               const char *name, size_t length)
{
  size_t low = 0, high = count;

  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (name_index_compare(entries[middle].name, name, length) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && name_index_compare(entries[low].name, name, length) == 0 ? &entries[low]
                                                                                 : NULL;
}
