/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a peer has, too: checked, mapped, guarded. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <penstock/page.h>
#include <penstock/plugin.h>

#include "map.h"

/*
 * Memory that a peer can take away: SIGBUS in such a range becomes the end of that peer's
 * connection.
 *
 * Seals keep a file from shrinking. Its pages can go all the same: by fallocate(2), with huge
 * pages that are used up, under vm.overcommit_memory=2. The handler puts zero pages of this
 * process's own in place of the range and marks it; the worker that has the range sees the mark.
 */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14; before, it is EINVAL */
#endif
#define SPARE_BYTES 65536u

struct lb_guard {
  _Atomic uint32_t turn; /* odd: begin and end are being changed */
  _Atomic uintptr_t begin;
  _Atomic uintptr_t end; /* 0: the place is free */
  _Atomic uint32_t hit;
  struct lb_guard *next; /* none is ever freed, since the handler may be reading it */
};

_Atomic uint32_t lb_guard_hits;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lb_guard *_Atomic guards;
static uint32_t guards_used;
static struct sigaction previous;
/* The handler that was there before, if a handler that was installed after ours passes signals on
 * to ours, and ours is now above it again. */
static struct sigaction below;
static bool has_below;
static int spare_fd = -1;

static void lb_map_set_range(struct lb_guard *guard, uintptr_t begin, uintptr_t end)
{
  uint32_t turn = atomic_load_explicit(&guard->turn, memory_order_relaxed);
  atomic_store(&guard->turn, turn + 1);
  atomic_store(&guard->begin, begin);
  atomic_store(&guard->end, end);
  atomic_store(&guard->turn, turn + 2);
}

static bool lb_map_get_range(const struct lb_guard *guard, uintptr_t *begin, uintptr_t *end)
{
  uint32_t turn = atomic_load(&guard->turn);
  *begin = atomic_load(&guard->begin);
  *end = atomic_load(&guard->end);
  return turn % 2 == 0 && atomic_load(&guard->turn) == turn && *end != 0;
}

/* Zeros for the range or, where so much cannot be promised, the spare pages behind `at`: those are
 * allocated already. The range stays mapped either way: mmap(2) in its place would unmap it before
 * it is refused under vm.overcommit_memory=2. */
static bool lb_map_replace(uintptr_t begin, uintptr_t end, uintptr_t at)
{
  const int prot = PROT_READ | PROT_WRITE;
  const size_t all = end - begin;
  void *zeros = mmap(NULL, all, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros != MAP_FAILED) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a signal gives an address
    if (mremap(zeros, all, all, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)begin) != MAP_FAILED)
      return true;
    munmap(zeros, all);
  }
  at -= at % SPARE_BYTES;
  if (at < begin)
    at = begin;
  const uintptr_t bytes = end - at < SPARE_BYTES ? end - at : SPARE_BYTES;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return mmap((void *)at, bytes, prot, MAP_SHARED | MAP_FIXED, spare_fd, 0) != MAP_FAILED;
}

/* Several guards may cover one address: registrations may overlap. */
static bool lb_map_replace_all(uintptr_t at)
{
  bool found = false;
  for (struct lb_guard *guard = atomic_load(&guards); guard; guard = guard->next) {
    uintptr_t begin, end;
    if (!lb_map_get_range(guard, &begin, &end) || at < begin || at >= end)
      continue;
    if (!lb_map_replace(begin, end, at))
      return false;
    atomic_store(&guard->hit, 1);
    found = true;
  }
  if (found)
    atomic_fetch_add(&lb_guard_hits, 1);
  return found;
}

/* Not ours: as if there were no handler of ours. */
static void lb_map_pass_on(const struct sigaction *to, int number, siginfo_t *info, void *context)
{
  if (to->sa_flags & SA_SIGINFO) {
    to->sa_sigaction(number, info, context);
  } else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) {
    to->sa_handler(number);
  } else {
    const bool caused = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
    if (!caused && to->sa_handler == SIG_IGN)
      return;
    signal(number, SIG_DFL);
    /* A signal that an access caused comes again when this returns; one that was sent does not. */
    if (!caused)
      raise(number);
  }
}

static void lb_map_handle(int number, siginfo_t *info, void *context)
{
  static siginfo_t *_Atomic passing;
  int error = errno;
  bool ours = (info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR) &&
              lb_map_replace_all((uintptr_t)info->si_addr);
  if (!ours) {
    const bool again = atomic_exchange(&passing, info) == info;
    lb_map_pass_on(again && has_below ? &below : &previous, number, info, context);
    atomic_store(&passing, NULL);
  }
  errno = error;
}

static int lb_map_spare_open(void)
{
  static const char zeros[4096];
  int fd = memfd_create("penstock-loopback-spare", MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  for (uint32_t at = 0; at < SPARE_BYTES; at += sizeof(zeros))
    if (pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros)) {
      int rc = -errno;
      close(fd);
      return rc;
    }
  spare_fd = fd;
  return 0;
}

static bool lb_map_is_ours(const struct sigaction *action)
{
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == lb_map_handle;
}

static int lb_map_install(void)
{
  struct sigaction ours = {.sa_sigaction = lb_map_handle, .sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
  int rc = spare_fd < 0 ? lb_map_spare_open() : 0;
  if (rc != 0)
    return rc;
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, NULL, &now) != 0)
    return -errno;
  if (lb_map_is_ours(&now))
    return 0;
  previous = now;
  return sigaction(SIGBUS, &ours, NULL) == 0 ? 0 : -errno;
}

static void lb_map_uninstall(void)
{
  struct sigaction now;
  close(spare_fd);
  spare_fd = -1;
  if (sigaction(SIGBUS, NULL, &now) != 0)
    return;
  if (lb_map_is_ours(&now)) {
    sigaction(SIGBUS, &previous, NULL);
  } else {
    below = previous;
    has_below = true;
  }
}

/* A free one. NULL: out of memory. */
static struct lb_guard *lb_map_guard_find(void)
{
  struct lb_guard *guard = atomic_load(&guards);
  while (guard && atomic_load_explicit(&guard->end, memory_order_relaxed) != 0)
    guard = guard->next;
  if (!guard && (guard = calloc(1, sizeof(*guard)))) {
    guard->next = atomic_load(&guards);
    atomic_store(&guards, guard);
  }
  return guard;
}

int lb_guard_open(void *at, uint64_t bytes, uint64_t page, struct lb_guard **guard)
{
  const uint64_t system_page = pst_page_size();
  if (page < system_page)
    page = system_page;
  const uintptr_t begin = (uintptr_t)at - (uintptr_t)at % page;
  uintptr_t end = (uintptr_t)at + bytes;
  end += (page - end % page) % page;
  pthread_mutex_lock(&lock);
  int rc = guards_used == 0 ? lb_map_install() : 0;
  struct lb_guard *made = rc == 0 ? lb_map_guard_find() : NULL;
  if (made) {
    atomic_store(&made->hit, 0);
    lb_map_set_range(made, begin, end);
    guards_used++;
    *guard = made;
  } else if (rc == 0) {
    rc = -ENOMEM;
  }
  if (rc != 0 && guards_used == 0 && spare_fd >= 0)
    lb_map_uninstall();
  pthread_mutex_unlock(&lock);
  return rc;
}

void lb_guard_close(struct lb_guard *guard)
{
  if (!guard)
    return;
  pthread_mutex_lock(&lock);
  assert(guards_used && guard->end);
  lb_map_set_range(guard, 0, 0);
  if (--guards_used == 0)
    lb_map_uninstall();
  pthread_mutex_unlock(&lock);
}

bool lb_guard_hit(const struct lb_guard *guard)
{
  return guard && atomic_load_explicit(&guard->hit, memory_order_acquire);
}

#define MAPPED_MAX (UINT64_C(1) << 40)

int lb_fd_check(int fd, uint64_t bytes, const char **why)
{
  struct stat info;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
    *why = "the peer's memory is not sealed against shrinking: its memory plugin must export a "
           "memfd with F_SEAL_SHRINK";
    return -EPROTO;
  }
  if (fstat(fd, &info) != 0 || info.st_size < 0 || (uint64_t)info.st_size < bytes) {
    *why = "the peer's memory is shorter than its address says";
    return -EPROTO;
  }
  return 0;
}

/* Huge pages are mapped, and replaced, whole. */
static uint64_t lb_map_page_of(int fd)
{
  struct statfs info;
  if (fstatfs(fd, &info) == 0 && info.f_type == HUGETLBFS_MAGIC)
    return (uint64_t)info.f_bsize;
  return pst_page_size();
}

int lb_map_open(int fd, uint64_t offset, uint64_t length, int prot, struct lb_map *map, void **at)
{
  const uint64_t page = lb_map_page_of(fd), ahead = offset % page;
  uint64_t bytes = ahead + (length ? length : 1);
  bytes += (page - bytes % page) % page;
  struct lb_map made = {.bytes = bytes};
  made.at = mmap(NULL, bytes, prot, MAP_SHARED, fd, (off_t)(offset - ahead));
  if (made.at == MAP_FAILED)
    return -errno;
  int rc = lb_guard_open(made.at, bytes, page, &made.guard);
  if (rc != 0) {
    munmap(made.at, bytes);
    return rc;
  }
  *map = made;
  *at = (uint8_t *)made.at + ahead;
  return 0;
}

void lb_map_close(struct lb_map *map)
{
  if (!map->at)
    return;
  lb_guard_close(map->guard);
  munmap(map->at, map->bytes);
  *map = (struct lb_map){0};
}

int lb_map_populate(const struct lb_map *map, int fd, const char **why)
{
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_blocks * 512 < info.st_size)
    return 0;
  if (madvise(map->at, map->bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL || errno == EINTR)
    return 0;
  *why = "its memory is not there to be written: its pages were taken away, or cannot be had; "
         "check huge pages and vm.overcommit_memory";
  return -ENOMEM;
}

void *lb_memfd_open(const char *name, uint64_t bytes, struct lb_map *map, int *fd)
{
  const char *why;
  void *at = NULL;
  int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0)
    return NULL;
  int rc = fallocate(made, 0, 0, (off_t)bytes) == 0 &&
                   fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0
               ? 0
               : -errno;
  if (rc == 0)
    rc = lb_map_open(made, 0, bytes, PROT_READ | PROT_WRITE, map, &at);
  if (rc != 0) {
    close(made);
    errno = -rc;
    return NULL;
  }
  lb_map_populate(map, made, &why);
  *fd = made;
  return at;
}

uint64_t lb_mapped_max(void)
{
  struct sysinfo info;
  if (sysinfo(&info) != 0)
    return MAPPED_MAX;
  const uint64_t there = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
  return there < MAPPED_MAX ? there : MAPPED_MAX;
}
