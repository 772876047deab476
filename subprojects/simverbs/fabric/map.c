/* SPDX-License-Identifier: Apache-2.0 */
/* The file, and this process' slot in it. */
#include "fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct fabric *fab;
uint32_t fab_slot = UINT32_MAX;
uint16_t fab_host;
static int file = -1;

bool fab_back(uint64_t offset, uint64_t bytes)
{
  int error = posix_fallocate(file, (off_t)offset, (off_t)bytes);
  if (error)
    fab_log(1, "no room for %llu bytes in the fabric's file: %s; free some of the file system",
            (unsigned long long)bytes, strerror(error));
  return !error;
}

static int fab_map_file(const char *path, int flags)
{
  int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd < 0)
    return errno;
  if ((flags & O_CREAT) && ftruncate(fd, FAB_SIZE)) {
    int error = errno;
    close(fd);
    return error;
  }
  struct stat st;
  if (fstat(fd, &st) || (uint64_t)st.st_size != FAB_SIZE) {
    close(fd);
    return EPROTO;
  }
  void *at = mmap(NULL, FAB_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) {
    int error = errno;
    close(fd);
    return error;
  }
  file = fd;
  fab = at;
  return 0;
}

static void fab_map_unmap(void)
{
  munmap(fab, FAB_SIZE);
  close(file);
  fab = NULL;
  file = -1;
  fab_slot = UINT32_MAX;
}

/* Backs the memory that every process writes to without asking: all but the tables of objects. */
static bool fab_map_back_header(void)
{
  size_t pages = sizeof(fab->page_owner);
  return fab_back(0, offsetof(struct fabric, pd)) &&
         fab_back(offsetof(struct fabric, page_owner), pages);
}

static void fab_map_set_up(struct fabric *f)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  f->version = FAB_VERSION;
  f->size = FAB_SIZE;
  f->clock_start_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  f->clock_scale = 1;
  /* Not zero: programs take a time stamp of 0 for none. */
  f->clock_base_ns = 1000000000;
  f->next_serial = 1;
  for (uint32_t i = 0; i < (sizeof(*f) + FAB_PAGE - 1) / FAB_PAGE; i++)
    f->page_owner[i] = UINT16_MAX;
  fab_lock_init(&f->lock);
}

int fab_create(const char *path, int (*describe)(struct fabric *f, void *argument), void *argument)
{
  int error = fab_map_file(path, O_CREAT | O_EXCL);
  if (error)
    return error;
  if (fab_map_back_header()) {
    fab_map_set_up(fab);
    error = describe(fab, argument);
  } else {
    error = ENOSPC;
  }
  if (error) {
    fab_map_unmap();
    unlink(path);
    return error;
  }
  for (uint32_t i = 0; i < fab->devices; i++)
    fab_lock_init(&fab->device[i].atomics);
  fab_routes_changed(fab);
  fab->magic = FAB_MAGIC;
  atomic_store(&fab->ready, 1);
  return 0;
}

int fab_open(const char *path)
{
  int error = fab_map_file(path, 0);
  if (error)
    return error;
  if (atomic_load(&fab->ready) && fab->magic == FAB_MAGIC && fab->version == FAB_VERSION)
    return 0;
  fab_map_unmap();
  return EPROTO;
}

/* A process holds the byte of its slot locked; the kernel lets go of it when the process dies. */
static bool fab_map_slot_lock(uint32_t slot, short type)
{
  struct flock lock = {
      .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(FAB_SIZE + slot), .l_len = 1};
  return !fcntl(file, F_SETLK, &lock);
}

bool fab_slot_held(uint32_t slot)
{
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(FAB_SIZE + slot), .l_len = 1};
  return fcntl(file, F_GETLK, &lock) || lock.l_type != F_UNLCK;
}

bool fab_is_dead(uint32_t slot)
{
  if (slot == fab_slot)
    return false;
  if (atomic_load(&fab->process[slot].state) != FAB_SLOT_USED)
    return true;
  if (fab_slot_held(slot))
    return false;
  fab_reap(slot);
  return true;
}

bool fab_seems_dead(uint32_t slot)
{
  static _Atomic int64_t looked_at_ns[FAB_PROCESSES];
  if (slot == fab_slot)
    return false;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  int64_t ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  if (atomic_exchange_explicit(&looked_at_ns[slot], ns, memory_order_relaxed) == ns)
    return false;
  return fab_is_dead(slot);
}

static int fab_map_find_host(const char *host)
{
  for (uint32_t i = 0; i < fab->hosts; i++) {
    if (!host || !strcmp(fab->host[i], host))
      return (int)i;
  }
  return -1;
}

static int fab_map_take_slot(void)
{
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    struct fab_process *process = &fab->process[i];
    if (atomic_load(&process->state) != FAB_SLOT_FREE || !fab_map_slot_lock(i, F_WRLCK))
      continue;
    process->pid = getpid();
    process->host = fab_host;
    process->serial = atomic_fetch_add(&fab->next_serial, 1);
    atomic_store(&process->asleep, 0);
    atomic_store(&process->serves, 0);
    fab_slot = i;
    atomic_store(&process->state, FAB_SLOT_USED);
    return 0;
  }
  return EUSERS;
}

int fab_attach(const char *path, const char *host)
{
  int error = fab_open(path);
  if (error)
    return error;
  int number = fab_map_find_host(host);
  if (number < 0) {
    fab_log(1, "the fabric has no host %s", host);
    fab_map_unmap();
    return ENOENT;
  }
  fab_host = (uint16_t)number;
  fab_reap_all();
  fab_lock(&fab->lock);
  error = fab_map_take_slot();
  fab_unlock(&fab->lock);
  if (error) {
    fab_map_unmap();
    return error;
  }
  /* Peers move bytes with process_vm_writev, which Yama would keep to a process' parents. */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  return 0;
}

void fab_detach(void)
{
  if (!fab)
    return;
  if (fab_slot != UINT32_MAX)
    fab_reap(fab_slot);
  fab_map_unmap();
}

void fab_forget(void)
{
  if (fab)
    fab_map_unmap();
}
