/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed as one. */
#include "arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_FIRST_BYTES 256
#define ARENA_BLOCK_BYTES 16384 /* each block is twice the one before, up to this */

struct arena_block {
  struct arena_block *next;
  size_t size;
  size_t used;
  max_align_t data[];
};

void *arena_alloc(struct arena *arena, size_t size_bytes)
{
  arena->no_memory |= size_bytes > SIZE_MAX / 2;
  if (size_bytes > SIZE_MAX / 2)
    return NULL;
  size_t need = (size_bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  struct arena_block *block = arena->blocks;
  if (!block || block->size - block->used < need) {
    size_t size = block ? 2 * block->size : ARENA_FIRST_BYTES;
    size = size < ARENA_BLOCK_BYTES ? size : ARENA_BLOCK_BYTES;
    size = size > need ? size : need;
    block = calloc(1, sizeof(*block) + size);
    arena->no_memory |= !block;
    if (!block)
      return NULL;
    block->size = size;
    block->next = arena->blocks;
    arena->blocks = block;
  }
  void *at = (char *)block->data + block->used;
  block->used += need;
  return at;
}

char *arena_copy(struct arena *arena, const char *text, size_t length)
{
  char *copy = arena_alloc(arena, length + 1);
  if (copy && length > 0)
    memcpy(copy, text, length);
  return copy;
}

char *arena_string(struct arena *arena, const char *text)
{
  return arena_copy(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0)
    return NULL;
  char *text = arena_alloc(arena, (size_t)length + 1);
  if (!text)
    return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

void arena_free(struct arena *arena)
{
  while (arena->blocks) {
    struct arena_block *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
}
