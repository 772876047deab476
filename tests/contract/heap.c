/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the bytes that malloc has given out: glibc's own figure (mallinfo2) also has what it
 * keeps back by size, which grows for as long as sizes turn up in another order.
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

/* A sanitizer that this program is built with has a malloc of its own. One that is preloaded for
 * a plugin's sake comes behind this program's: what this malloc finds next is called, and nothing
 * is counted unless that is glibc's. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !HEAP_SANITIZED

#include <dlfcn.h>

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

static struct {
  void *(*malloc)(size_t size);
  void *(*calloc)(size_t count, size_t size);
  void *(*realloc)(void *old, size_t size);
  void *(*memalign)(size_t alignment, size_t size);
  void (*free)(void *old);
} next = {__libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign, __libc_free};
static _Thread_local bool is_looking; /* dlsym() may allocate: by glibc's */
static _Atomic bool is_found, is_foreign;

static void *heap_next(const char *name, void *own)
{
  void *found = dlsym(RTLD_NEXT, name);
  return found ? found : own;
}

/* Before main(), in one thread. */
static void heap_find(void)
{
  if (atomic_load_explicit(&is_found, memory_order_acquire) || is_looking)
    return;
  is_looking = true;
  void *found = heap_next("malloc", (void *)__libc_malloc);
  if (found != dlsym(RTLD_NEXT, "__libc_malloc") && found != (void *)__libc_malloc) {
    next.calloc = (void *(*)(size_t, size_t))heap_next("calloc", (void *)__libc_calloc);
    next.realloc = (void *(*)(void *, size_t))heap_next("realloc", (void *)__libc_realloc);
    next.memalign = (void *(*)(size_t, size_t))heap_next("memalign", (void *)__libc_memalign);
    next.free = (void (*)(void *))heap_next("free", (void *)__libc_free);
    next.malloc = (void *(*)(size_t))found;
    atomic_store(&is_foreign, true);
  }
  is_looking = false;
  atomic_store_explicit(&is_found, true, memory_order_release);
}

/* Else a call goes on by a jump, so that a sanitizer sees who called. */
static bool heap_counts(void)
{
  return !atomic_load_explicit(&is_foreign, memory_order_relaxed);
}

static void *give(void *made)
{
  atomic_fetch_add_explicit(&given_out, malloc_usable_size(made), memory_order_relaxed);
  return made;
}

static void take(void *old)
{
  if (heap_counts())
    atomic_fetch_sub_explicit(&given_out, malloc_usable_size(old), memory_order_relaxed);
}

EXPORTED void *malloc(size_t size)
{
  heap_find();
  if (!heap_counts())
    return next.malloc(size);
  return give(next.malloc(size));
}

EXPORTED void *calloc(size_t count, size_t size)
{
  heap_find();
  if (!heap_counts())
    return next.calloc(count, size);
  return give(next.calloc(count, size));
}

EXPORTED void *realloc(void *old, size_t size)
{
  heap_find();
  if (!heap_counts())
    return next.realloc(old, size);
  const size_t before = malloc_usable_size(old);
  void *made = next.realloc(old, size);

  if (made || size == 0) /* else the old one is still there */
    atomic_fetch_sub_explicit(&given_out, before, memory_order_relaxed);
  return give(made);
}

EXPORTED void *memalign(size_t alignment, size_t size)
{
  heap_find();
  if (!heap_counts())
    return next.memalign(alignment, size);
  return give(next.memalign(alignment, size));
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
  return memalign(alignment, size);
}

EXPORTED int posix_memalign(void **made, size_t alignment, size_t size)
{
  if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || alignment == 0)
    return EINVAL;
  void *one = memalign(alignment, size);
  if (!one)
    return ENOMEM;
  *made = one;
  return 0;
}

EXPORTED void free(void *old)
{
  heap_find();
  take(old);
  next.free(old);
}

uint64_t contract_heap_bytes(void)
{
  return heap_counts() ? atomic_load_explicit(&given_out, memory_order_relaxed) : 0;
}

#else

uint64_t contract_heap_bytes(void)
{
  return 0;
}

#endif

void contract_heap_is_at_most(uint64_t bytes)
{
  uint64_t now = contract_heap_bytes();
  if (now > bytes && contract_rounds(2) == 2)
    fail_msg("malloc has given out %" PRIu64 " bytes more than before, and they grow with each "
             "round: memory is never freed",
             now - bytes);
}
