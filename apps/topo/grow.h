/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by one item. */
#ifndef APP_TOPO_GROW_H
#define APP_TOPO_GROW_H

#include <stdlib.h>
#include <string.h>

/* The new last item of *items, all zero; NULL: out of memory, and nothing has changed. */
static inline void *topo_grow(void **items, size_t *count, size_t item_bytes)
{
  char *longer = reallocarray(*items, *count + 1, item_bytes);

  if (!longer)
    return NULL;
  *items = longer;
  longer += *count * item_bytes;
  (*count)++;
  return memset(longer, 0, item_bytes);
}

#endif
