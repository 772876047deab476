/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what malloc has given out, by the call that asked for it. A program that is linked with
 * this file has these calls instead of glibc's, as do its libraries and plugins (glibc's manual,
 * "Replacing malloc").
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap_sites.h"

/* NOLINTBEGIN(bugprone-reserved-identifier): so they are called */
extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *old);
/* NOLINTEND(bugprone-reserved-identifier) */

#define EXPORTED __attribute__((visibility("default")))
#define SITES 8192u
#define MAGIC 0x70737468u

static struct {
  _Atomic uintptr_t at;
  _Atomic int64_t bytes, blocks;
} sites[SITES];

/* The last bytes of each block. */
struct heap_tail {
  uint64_t size; /* as was asked for */
  uint32_t magic, site;
};

static uint32_t heap_site(uintptr_t at)
{
  for (uint32_t i = (uint32_t)(at * 2654435761u >> 7) % SITES;; i = (i + 1) % SITES) {
    uintptr_t there = 0;
    if (atomic_compare_exchange_strong(&sites[i].at, &there, at) || there == at)
      return i;
  }
}

static void heap_count(const struct heap_tail *tail, int sign)
{
  /* As glibc cuts them: a word of its own, in steps of 16 from 32 on. */
  const int64_t chunk = tail->size < 24 ? 32 : (int64_t)((tail->size + 8 + 15) / 16 * 16);

  atomic_fetch_add_explicit(&sites[tail->site].bytes, sign * chunk, memory_order_relaxed);
  atomic_fetch_add_explicit(&sites[tail->site].blocks, sign, memory_order_relaxed);
}

static char *heap_end(void *block)
{
  return (char *)block + malloc_usable_size(block) - sizeof(struct heap_tail);
}

static void *heap_give(void *made, size_t size, const void *at)
{
  if (!made)
    return NULL;
  const struct heap_tail tail = {size, MAGIC, heap_site((uintptr_t)at)};
  memcpy(heap_end(made), &tail, sizeof(tail));
  heap_count(&tail, 1);
  return made;
}

static void heap_take(void *old)
{
  struct heap_tail tail;

  if (!old || malloc_usable_size(old) < sizeof(tail))
    return;
  memcpy(&tail, heap_end(old), sizeof(tail));
  if (tail.magic == MAGIC && tail.site < SITES) /* else glibc made it for itself */
    heap_count(&tail, -1);
}

static void *heap_make(size_t alignment, size_t size, const void *at)
{
  const size_t whole = size + sizeof(struct heap_tail);

  if (whole < size) {
    errno = ENOMEM;
    return NULL;
  }
  return heap_give(alignment ? __libc_memalign(alignment, whole) : __libc_malloc(whole), size, at);
}

EXPORTED void *malloc(size_t size)
{
  return heap_make(0, size, __builtin_return_address(0));
}

EXPORTED void *calloc(size_t count, size_t size)
{
  size_t whole;

  if (__builtin_mul_overflow(count, size, &whole)) {
    errno = ENOMEM;
    return NULL;
  }
  void *made = heap_make(0, whole, __builtin_return_address(0));
  return made ? memset(made, 0, whole) : NULL;
}

EXPORTED void free(void *old)
{
  heap_take(old);
  __libc_free(old);
}

EXPORTED void *realloc(void *old, size_t size)
{
  if (size > SIZE_MAX - sizeof(struct heap_tail)) {
    errno = ENOMEM;
    return NULL;
  }
  heap_take(old); /* out of memory ends the program */
  void *made = __libc_realloc(old, size + sizeof(struct heap_tail));
  return heap_give(made, size, __builtin_return_address(0));
}

EXPORTED void *memalign(size_t alignment, size_t size)
{
  return heap_make(alignment, size, __builtin_return_address(0));
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
  return heap_make(alignment, size, __builtin_return_address(0));
}

EXPORTED int posix_memalign(void **made, size_t alignment, size_t size)
{
  if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || alignment == 0)
    return EINVAL;
  void *one = heap_make(alignment, size, __builtin_return_address(0));
  if (!one)
    return ENOMEM;
  *made = one;
  return 0;
}

void heap_sites_print(void)
{
  for (uint32_t i = 0; i < SITES; i++) {
    const uintptr_t at = atomic_load(&sites[i].at);
    const long long bytes = atomic_load(&sites[i].bytes), blocks = atomic_load(&sites[i].blocks);
    Dl_info info;
    if (blocks && dladdr((const void *)at, &info))
      printf("heap: %s 0x%llx %lld %lld\n", info.dli_fname,
             (unsigned long long)(at - (uintptr_t)info.dli_fbase), bytes, blocks);
  }
}
