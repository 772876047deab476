/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel whose pages have PENSTOCK_TEST_PAGE_SIZE bytes, for a program that has this library in
 * LD_PRELOAD. Mappings begin at a page, and what is not aligned to one is refused as that kernel
 * refuses it. Not faked: mappings that the C library makes for itself (programs, stacks, large
 * malloc()s), and faults: SIGBUS, userfaultfd and copy-on-write go by 4 KiB. */
/* With it, mmap and fopen would be names of mmap64 and fopen64, which are defined here, too. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAKED __attribute__((visibility("default")))

enum { HARDWARE = 4096 };

static uintptr_t fake_page;

__attribute__((constructor)) static void read_page_size(void)
{
  const char *text = getenv("PENSTOCK_TEST_PAGE_SIZE");
  fake_page = text ? strtoul(text, NULL, 10) : HARDWARE;
  if (fake_page < HARDWARE || (fake_page & (fake_page - 1)) != 0) {
    fprintf(stderr, "PENSTOCK_TEST_PAGE_SIZE=%s: want a power of two from %d\n", text, HARDWARE);
    abort();
  }
}

static uintptr_t page(void)
{
  if (!fake_page)
    read_page_size();
  return fake_page;
}

static uintptr_t whole(size_t bytes)
{
  return (bytes + page() - 1) & ~(page() - 1);
}

static bool is_aligned(const void *at)
{
  return (uintptr_t)at % page() == 0;
}

static int refused(int number)
{
  errno = number;
  return -1;
}

static void *map(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

/* Maps the rest of a file's last page behind its end: zeros, which may be written. */
static void map_end(char *at, size_t length, int prot, int fd, off_t offset)
{
  struct stat file;
  if (fd < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size <= offset)
    return;
  const size_t there = (size_t)(file.st_size - offset);
  const size_t begin = (there + HARDWARE - 1) & ~(size_t)(HARDWARE - 1);
  if (begin < length && begin < whole(there))
    map(at + begin, whole(there) - begin, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

FAKED long sysconf(int name)
{
  static long (*real)(int);
  if (!real)
    real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  if (name == _SC_PAGESIZE)
    return (long)page();
  const long is = real(name);
  return name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES ? is / (long)(page() / HARDWARE) : is;
}

FAKED int getpagesize(void)
{
  return (int)page();
}

FAKED void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
  const bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  if (bytes == 0 || (uintptr_t)offset % page() != 0 || (fixed && !is_aligned(at))) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if (flags & MAP_HUGETLB)
    return map(at, bytes, prot, flags, fd, offset);
  const size_t length = whole(bytes);
  if (fixed) {
    void *made = map(at, length, prot, flags, fd, offset);
    if (made != MAP_FAILED)
      map_end(made, length, prot, fd, offset);
    return made;
  }
  /* Kept from other threads until what was asked for takes its place. */
  char *room =
      map(at, length + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return MAP_FAILED;
  const size_t ahead = whole((uintptr_t)room) - (uintptr_t)room;
  void *made = map(room + ahead, length, prot, flags | MAP_FIXED, fd, offset);
  const int failed = errno;
  if (made == MAP_FAILED) {
    syscall(SYS_munmap, room, length + page());
    errno = failed;
    return MAP_FAILED;
  }
  if (ahead > 0)
    syscall(SYS_munmap, room, ahead);
  if (ahead < page())
    syscall(SYS_munmap, room + ahead + length, page() - ahead);
  map_end(made, length, prot, fd, offset);
  return made;
}

FAKED void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
  return mmap(at, bytes, prot, flags, fd, offset);
}

FAKED int munmap(void *at, size_t bytes)
{
  return is_aligned(at) ? (int)syscall(SYS_munmap, at, whole(bytes)) : refused(EINVAL);
}

FAKED int mprotect(void *at, size_t bytes, int prot)
{
  return is_aligned(at) ? (int)syscall(SYS_mprotect, at, whole(bytes), prot) : refused(EINVAL);
}

FAKED int madvise(void *at, size_t bytes, int advice)
{
  return is_aligned(at) ? (int)syscall(SYS_madvise, at, whole(bytes), advice) : refused(EINVAL);
}

/* A part is enough of a page that ends within the C library's heap. */
static bool is_mapped(char *at)
{
  bool mapped = false;
  for (size_t part = 0; part < page() && !mapped; part += HARDWARE)
    mapped = syscall(SYS_msync, at + part, HARDWARE, MS_ASYNC) == 0;
  return mapped;
}

FAKED int msync(void *at, size_t bytes, int flags)
{
  if (!is_aligned(at))
    return refused(EINVAL);
  if (syscall(SYS_msync, at, whole(bytes), flags) == 0)
    return 0;
  if (errno != ENOMEM)
    return -1;
  for (size_t i = 0; i < bytes; i += page())
    if (!is_mapped((char *)at + i))
      return refused(ENOMEM);
  return 0;
}

/* One byte for each page; a page is there if all of it is. */
FAKED int mincore(void *at, size_t bytes, unsigned char *there)
{
  if (!is_aligned(at))
    return refused(EINVAL);
  for (size_t i = 0; i * page() < bytes; i++) {
    there[i] = 1;
    for (size_t part = 0; part < page(); part += HARDWARE) {
      unsigned char is_there;
      if (syscall(SYS_mincore, (char *)at + i * page() + part, HARDWARE, &is_there) != 0)
        return -1;
      there[i] &= is_there;
    }
  }
  return 0;
}

/* The kernel rounds to whole pages at both ends. */
static int lock(long number, const void *at, size_t bytes)
{
  const uintptr_t ahead = (uintptr_t)at % page();
  return (int)syscall(number, (const char *)at - ahead, whole(bytes + ahead));
}

FAKED int mlock(const void *at, size_t bytes)
{
  return lock(SYS_mlock, at, bytes);
}

FAKED int munlock(const void *at, size_t bytes)
{
  return lock(SYS_munlock, at, bytes);
}

FAKED void *mremap(void *at, size_t old_bytes, size_t bytes, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  void *to = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
  va_end(arguments);
  if (!is_aligned(at) || !is_aligned(to)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return (void *)syscall(SYS_mremap, at, whole(old_bytes), whole(bytes), flags, to);
}

/* /proc/self/statm counts pages. */
FAKED FILE *fopen(const char *path, const char *mode)
{
  static FILE *(*real)(const char *, const char *);
  if (!real)
    real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
  FILE *file = real(path, mode);
  if (!file || strcmp(path, "/proc/self/statm") != 0)
    return file;
  unsigned long counts[2] = {0, 0};
  const int found = fscanf(file, "%lu %lu", &counts[0], &counts[1]);
  fclose(file);
  FILE *scaled = found == 2 ? tmpfile() : NULL;
  if (scaled) {
    fprintf(scaled, "%lu %lu\n", counts[0] * HARDWARE / page(), counts[1] * HARDWARE / page());
    rewind(scaled);
  }
  return scaled;
}

FAKED FILE *fopen64(const char *path, const char *mode)
{
  return fopen(path, mode);
}
