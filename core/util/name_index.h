/* SPDX-License-Identifier: Apache-2.0 */
/* Items by name: sorted once, then found without going through all of them. */
#ifndef PST_UTIL_NAME_INDEX_H
#define PST_UTIL_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct name_index_entry {
  const char *name; /* the item's own, which outlives the index */
  uint32_t item;
};

/* By name, and those of one name by item. */
void name_index_sort(struct name_index_entry *entries, size_t count);
/* The first entry whose name is these `length` bytes; NULL: none. Others of the name
 * follow it. */
const struct name_index_entry *name_index_find(const struct name_index_entry *entries, size_t count,
                                               const char *name, size_t length);

#endif
