/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory a kernel may touch. A copy of the driver's finds out by itself, and takes
 * any; a kernel that reads what is not mapped ends the whole context. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"

int cuda_range_add(struct pst_memory *memory, uint64_t begin, uint64_t length, bool registered,
                   bool reachable)
{
  int code = 0;
  pthread_mutex_lock(&memory->lock);
  struct cuda_range *grown =
      realloc(memory->ranges, (memory->range_count + 1) * sizeof(*memory->ranges));
  if (grown) {
    grown[memory->range_count++] =
        (struct cuda_range){begin, begin + length, registered, reachable};
    memory->ranges = grown;
  } else {
    code = -ENOMEM;
  }
  pthread_mutex_unlock(&memory->lock);
  if (code)
    cuda_error_log(memory, "no memory to note a region");
  return code;
}

void cuda_range_remove(struct pst_memory *memory, uint64_t begin, uint64_t length)
{
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < memory->range_count; i++)
    if (memory->ranges[i].begin == begin && memory->ranges[i].end == begin + length) {
      memory->ranges[i] = memory->ranges[--memory->range_count];
      break;
    }
  pthread_mutex_unlock(&memory->lock);
}

/* The lock is held. */
static const struct cuda_range *range_of(const struct pst_memory *memory, uint64_t begin,
                                         uint64_t end)
{
  for (uint32_t i = 0; i < memory->range_count; i++)
    if (begin >= memory->ranges[i].begin && end <= memory->ranges[i].end)
      return &memory->ranges[i];
  return NULL;
}

static bool holds(const struct cuda_range *range, uint64_t begin, uint64_t end)
{
  return range && begin >= range->begin && end <= range->end;
}

bool cuda_ranges_reach(struct pst_memory *memory, const struct pst_copy *pieces, uint32_t n)
{
  const struct cuda_range *from = NULL, *to = NULL;
  bool reach = true;
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < n && reach; i++) {
    uint64_t source = pieces[i].source, destination = pieces[i].destination;
    uint64_t length = pieces[i].length;
    if (length == 0)
      continue;
    if (!holds(from, source, source + length))
      from = range_of(memory, source, source + length);
    if (!holds(to, destination, destination + length))
      to = range_of(memory, destination, destination + length);
    reach = from && to && from->reachable && to->reachable;
  }
  pthread_mutex_unlock(&memory->lock);
  return reach;
}

bool cuda_ranges_hold(struct pst_memory *memory, const struct pst_payload *payloads, uint32_t n)
{
  const struct cuda_range *range = NULL;
  bool held = true;
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < n && held; i++) {
    uint64_t begin = payloads[i].address, end = begin + payloads[i].length;
    if (begin == end)
      continue;
    if (!holds(range, begin, end))
      range = range_of(memory, begin, end);
    held = end > begin && range && range->reachable;
  }
  pthread_mutex_unlock(&memory->lock);
  return held;
}

static void whole_pages(const void *address, uint64_t length, uint64_t *begin, uint64_t *end)
{
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  *begin = (uintptr_t)address / page * page;
  *end = cuda_round_up((uintptr_t)address + length, page);
}

int cuda_host_register(struct pst_memory *memory, void *address, uint64_t length)
{
  uint64_t begin, end;
  if (!address || length == 0 || length >= CUDA_LENGTH_MAX) {
    cuda_error_log(memory, "host_register: no such memory: %p, %lu bytes", address,
                   (unsigned long)length);
    return -EINVAL;
  }
  whole_pages(address, length, &begin, &end);
  pthread_mutex_lock(&memory->lock);
  bool there = range_of(memory, begin, end);
  pthread_mutex_unlock(&memory->lock);
  if (there)
    return 0;
  unsigned int flags = CUDA_REGISTER_PORTABLE | CUDA_REGISTER_DEVICEMAP;
  cuda_enter(memory);
  cuda_status status =
      memory->driver->MemHostRegister((void *)(uintptr_t)begin, end - begin, flags);
  if (status != CUDA_SUCCESS && !cuda_is_lost(status)) /* a mapping for reading only? */
    status = memory->driver->MemHostRegister((void *)(uintptr_t)begin, end - begin,
                                             flags | CUDA_REGISTER_READ_ONLY);
  if (status == CUDA_SUCCESS &&
      cuda_range_add(memory, begin, end - begin, true, memory->has.same_host_pointer) < 0)
    memory->driver->MemHostUnregister((void *)(uintptr_t)begin);
  cuda_leave(memory);
  if (status == CUDA_SUCCESS)
    return 0;
  if (cuda_is_lost(status))
    return cuda_failed(memory, "cuMemHostRegister", status);
  cuda_log(memory, PST_LOG_WARN,
           "%.1f MiB of host memory cannot be pinned: %s; copies from it go through the driver's "
           "own buffer, slowly",
           (double)(end - begin) / 1048576.0, cuda_status_text(memory->driver, status).text);
  return -EOPNOTSUPP;
}

void cuda_host_unregister(struct pst_memory *memory, void *address, uint64_t length)
{
  uint64_t begin, end;
  bool mine = false;
  whole_pages(address, length, &begin, &end);
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < memory->range_count && !mine; i++)
    mine = memory->ranges[i].registered && memory->ranges[i].begin == begin &&
           memory->ranges[i].end == end;
  pthread_mutex_unlock(&memory->lock);
  if (!mine)
    return;
  cuda_range_remove(memory, begin, end - begin);
  cuda_enter(memory);
  memory->driver->MemHostUnregister((void *)(uintptr_t)begin);
  cuda_leave(memory);
}
