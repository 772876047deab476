/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one configuration: everything that lives exactly as long as it. */
#ifndef PST_CONFIG_ARENA_H
#define PST_CONFIG_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/plugin.h>

struct arena_block;
struct arena {
  struct arena_block *blocks;
  bool no_memory; /* an allocation has failed: whoever asked may go on with NULL until that is
                   * reported
                   */
};

/* Zeroed, aligned for any object. NULL: no memory. */
void *arena_alloc(struct arena *arena, size_t size_bytes);
char *arena_copy(struct arena *arena, const char *text, size_t length);
char *arena_string(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *format, ...) PST_PRINTF(2, 3);
void arena_free(struct arena *arena);

#endif
