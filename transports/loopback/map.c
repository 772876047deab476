/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a peer has, too: checked, mapped, guarded. */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "loopback.h"

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
static uint64_t page_of(int fd)
{
  struct statfs info;
  if (fstatfs(fd, &info) == 0 && info.f_type == HUGETLBFS_MAGIC)
    return (uint64_t)info.f_bsize;
  return (uint64_t)sysconf(_SC_PAGESIZE);
}

int lb_map_open(int fd, uint64_t offset, uint64_t length, int prot, struct lb_map *map, void **at)
{
  const uint64_t page = page_of(fd), ahead = offset % page;
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
#ifdef MADV_POPULATE_WRITE
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_blocks * 512 < info.st_size)
    return 0;
  if (madvise(map->at, map->bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL || errno == EINTR)
    return 0;
  *why = "its memory is not there to be written: its pages were taken away, or cannot be had; "
         "check huge pages and vm.overcommit_memory";
  return -ENOMEM;
#else
  (void)map, (void)fd, (void)why;
  return 0;
#endif
}

uint64_t lb_mapped_max(void)
{
  struct sysinfo info;
  if (sysinfo(&info) != 0)
    return MAPPED_MAX;
  const uint64_t there = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
  return there < MAPPED_MAX ? there : MAPPED_MAX;
}
