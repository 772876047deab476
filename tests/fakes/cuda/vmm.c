/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: bytes and addresses apart. */
#include "fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULARITY (UINT64_C(2) << 20)

struct physical {
  int fd, device;
  uint64_t length;
  uint32_t mappings;
  bool released, shareable, imported;
};

static struct physical *physical_of(cuda_handle handle)
{
  return (struct physical *)(uintptr_t)handle;
}

static void physical_drop(struct physical *p)
{
  if (!p->released || p->mappings)
    return;
  pthread_mutex_lock(&fake.mutex);
  if (!p->imported)
    fake.used[p->device] -= p->length;
  pthread_mutex_unlock(&fake.mutex);
  close(p->fd);
  free(p);
}

cuda_status fake_MemGetAllocationGranularity(size_t *granularity,
                                             const struct cuda_allocation *properties, int option)
{
  if (fake_config.no_vmm)
    return CUDA_NOT_SUPPORTED;
  if (properties->type != CUDA_ALLOCATION_PINNED || option > CUDA_GRANULARITY_RECOMMENDED)
    return CUDA_INVALID_VALUE;
  *granularity = GRANULARITY;
  return CUDA_SUCCESS;
}

cuda_status fake_MemCreate(cuda_handle *handle, size_t length,
                           const struct cuda_allocation *properties, unsigned long long flags)
{
  if (fake_config.no_vmm)
    return CUDA_NOT_SUPPORTED;
  if (length == 0 || length % GRANULARITY || flags || properties->type != CUDA_ALLOCATION_PINNED ||
      properties->location.type != CUDA_LOCATION_DEVICE ||
      (properties->handle_types && fake_config.no_posix))
    return CUDA_INVALID_VALUE;
  struct physical *made = calloc(1, sizeof(*made));
  if (!made)
    return CUDA_OUT_OF_MEMORY;
  *made = (struct physical){.device = properties->location.id,
                            .length = length,
                            .shareable = properties->handle_types == CUDA_HANDLE_POSIX};
  pthread_mutex_lock(&fake.mutex);
  bool fits = length <= fake_config.memory - fake.used[made->device];
  if (fits)
    fake.used[made->device] += length;
  pthread_mutex_unlock(&fake.mutex);
  made->fd = fits ? fake_bytes_new(length, made->device) : -1;
  if (made->fd < 0) {
    free(made);
    return CUDA_OUT_OF_MEMORY;
  }
  *handle = (uintptr_t)made;
  return CUDA_SUCCESS;
}

cuda_status fake_MemRelease(cuda_handle handle)
{
  physical_of(handle)->released = true;
  physical_drop(physical_of(handle));
  return CUDA_SUCCESS;
}

cuda_status fake_MemAddressReserve(cuda_pointer *address, size_t length, size_t alignment,
                                   cuda_pointer hint, unsigned long long flags)
{
  if (length % GRANULARITY || alignment & (alignment - 1) || hint || flags)
    return CUDA_INVALID_VALUE;
  if (alignment < GRANULARITY)
    alignment = GRANULARITY;
  /* Cut to size and alignment, so that MemAddressFree() needs to know no more. */
  uint8_t *at =
      mmap(NULL, length + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return CUDA_OUT_OF_MEMORY;
  uint64_t lead = (alignment - (uintptr_t)at % alignment) % alignment;
  if (lead)
    munmap(at, lead);
  if (alignment - lead)
    munmap(at + lead + length, alignment - lead);
  *address = (uintptr_t)at + lead;
  return CUDA_SUCCESS;
}

cuda_status fake_MemAddressFree(cuda_pointer address, size_t length)
{
  return munmap((void *)(uintptr_t)address, length) == 0 ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

/* The device reaches it from MemSetAccess() on. */
struct mapping {
  struct mapping *next;
  struct physical *physical;
  uint64_t address, length;
  struct fake_range *range;
};
static struct mapping *mappings;

cuda_status fake_MemMap(cuda_pointer address, size_t length, size_t offset, cuda_handle handle,
                        unsigned long long flags)
{
  struct physical *physical = physical_of(handle);
  if (offset || flags || address % GRANULARITY)
    return CUDA_INVALID_VALUE;
  if (length != physical->length)
    return CUDA_NOT_SUPPORTED; /* as driver 580.159 has it */
  struct mapping *made = calloc(1, sizeof(*made));
  if (!made)
    return CUDA_OUT_OF_MEMORY;
  pthread_mutex_lock(&fake.mutex);
  *made = (struct mapping){mappings, physical, address, length, NULL};
  mappings = made;
  physical->mappings++;
  pthread_mutex_unlock(&fake.mutex);
  return CUDA_SUCCESS;
}

cuda_status fake_MemSetAccess(cuda_pointer address, size_t length, const struct cuda_access *access,
                              size_t count)
{
  cuda_status status = CUDA_INVALID_VALUE;
  struct fake_range *range = calloc(1, sizeof(*range));
  if (!range || count != 1 || access->flags != CUDA_ACCESS_READWRITE) {
    free(range);
    return CUDA_INVALID_VALUE;
  }
  pthread_mutex_lock(&fake.mutex);
  for (struct mapping *m = mappings; m && status; m = m->next)
    if (m->address == address && m->length == length && !m->range) {
      if (access->location.type != CUDA_LOCATION_DEVICE ||
          (access->location.id != m->physical->device && fake_config.no_peer)) {
        status = CUDA_INVALID_DEVICE;
        break;
      }
      *range = (struct fake_range){.next = fake.ranges,
                                   .kind = FAKE_VMM,
                                   .address = address,
                                   .length = length,
                                   .fd = m->physical->fd,
                                   .device = m->physical->device};
      range->bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, range->fd, 0);
      fake.ranges = m->range = range;
      status = CUDA_SUCCESS;
    }
  pthread_mutex_unlock(&fake.mutex);
  if (status)
    free(range);
  return status;
}

cuda_status fake_MemUnmap(cuda_pointer address, size_t length)
{
  struct mapping *found = NULL;
  fake_check_range("cuMemUnmap", address, length);
  pthread_mutex_lock(&fake.mutex);
  for (struct mapping **at = &mappings; *at; at = &(*at)->next)
    if ((*at)->address == address && (*at)->length == length) {
      found = *at;
      *at = found->next;
      break;
    }
  for (struct fake_range **at = &fake.ranges; found && found->range && *at; at = &(*at)->next)
    if (*at == found->range) {
      *at = found->range->next;
      break;
    }
  pthread_mutex_unlock(&fake.mutex);
  if (!found)
    return CUDA_INVALID_VALUE;
  if (found->range) {
    munmap(found->range->bytes, length);
    fake_nic_free(found->range);
  }
  found->physical->mappings--;
  physical_drop(found->physical);
  free(found->range);
  free(found);
  return CUDA_SUCCESS;
}

cuda_status fake_MemExportToShareableHandle(void *shareable, cuda_handle handle, int type,
                                            unsigned long long flags)
{
  struct physical *physical = physical_of(handle);
  if (type != CUDA_HANDLE_POSIX || flags || !physical->shareable)
    return CUDA_INVALID_VALUE;
  int fd = fcntl(physical->fd, F_DUPFD, 3);
  memcpy(shareable, &fd, sizeof(fd));
  return fd >= 0 ? CUDA_SUCCESS : CUDA_OPERATING_SYSTEM;
}

cuda_status fake_MemImportFromShareableHandle(cuda_handle *handle, void *shareable, int type)
{
  int fd = (int)(intptr_t)shareable;
  off_t length = lseek(fd, 0, SEEK_END);
  int device = fake_device_of(fd);
  if (type != CUDA_HANDLE_POSIX || length <= 0 || device < 0)
    return CUDA_INVALID_VALUE;
  struct physical *made = calloc(1, sizeof(*made));
  if (!made)
    return CUDA_OUT_OF_MEMORY;
  *made =
      (struct physical){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
                        .device = device,
                        .length = (uint64_t)length,
                        .imported = true}; /* whether it could be exported again, no manual says */
  *handle = (uintptr_t)made;
  return CUDA_SUCCESS;
}
