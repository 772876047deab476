/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What malloc has given out, counted where it is given: glibc's own figure (mallinfo2) also has
 * what it keeps back by size, which grows for as long as sizes turn up in another order.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "common.h"

#ifdef __has_feature
#define HEAP_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define HEAP_SANITIZED 0
#endif

/* A sanitizer has a malloc of its own. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !HEAP_SANITIZED

/* As glibc lets a program have its own (manual, "Replacing malloc"), on top of its own. */
/* NOLINTBEGIN(bugprone-reserved-identifier): so they are called */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *old);
/* NOLINTEND(bugprone-reserved-identifier) */

#define EXPORTED __attribute__((visibility("default"))) /* plugins and libc call it, too */

static _Atomic uint64_t given_out;

static void *give(void *made)
{
  atomic_fetch_add_explicit(&given_out, malloc_usable_size(made), memory_order_relaxed);
  return made;
}

static void take(void *old)
{
  atomic_fetch_sub_explicit(&given_out, malloc_usable_size(old), memory_order_relaxed);
}

EXPORTED void *malloc(size_t size)
{
  return give(__libc_malloc(size));
}

EXPORTED void *calloc(size_t count, size_t size)
{
  return give(__libc_calloc(count, size));
}

EXPORTED void *realloc(void *old, size_t size)
{
  const size_t before = malloc_usable_size(old);
  void *made = __libc_realloc(old, size);

  if (made || size == 0) /* else the old one is still there */
    atomic_fetch_sub_explicit(&given_out, before, memory_order_relaxed);
  return give(made);
}

EXPORTED void *memalign(size_t alignment, size_t size)
{
  return give(__libc_memalign(alignment, size));
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
  return give(__libc_memalign(alignment, size));
}

EXPORTED int posix_memalign(void **made, size_t alignment, size_t size)
{
  if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || alignment == 0)
    return EINVAL;
  void *one = give(__libc_memalign(alignment, size));
  if (!one)
    return ENOMEM;
  *made = one;
  return 0;
}

EXPORTED void free(void *old)
{
  take(old);
  __libc_free(old);
}

uint64_t contract_heap_bytes(void)
{
  return atomic_load_explicit(&given_out, memory_order_relaxed);
}

#else

uint64_t contract_heap_bytes(void)
{
  return 0;
}

#endif

void contract_heap_is_at_most(uint64_t bytes)
{
  assert_in_range(contract_heap_bytes(), 0, bytes);
}
