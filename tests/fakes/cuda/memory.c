/* SPDX-License-Identifier: Apache-2.0 */
/* The fake CUDA driver: memory. */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

#define GRANULARITY UINT64_C(65536)
#define LARGE (UINT64_C(2) << 20)
#define SUBALLOCATED 512 /* what small allocations are aligned to, and no more */

static uint64_t round_up(uint64_t value, uint64_t to)
{
  return (value + to - 1) / to * to;
}

uint8_t *fake_bytes(uint64_t address, uint64_t length)
{
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (address >= r->address && address - r->address <= r->length &&
        length <= r->length - (address - r->address))
      return r->bytes + (address - r->address);
  return NULL;
}

static bool is_host(const struct fake_range *range)
{
  return range->kind == FAKE_HOST || range->kind == FAKE_REGISTERED;
}

/* The mutex is held. */
static struct fake_range *host_range(uint64_t address)
{
  struct fake_range *range = fake.ranges;
  while (range && !(is_host(range) && address >= (uintptr_t)range->bytes &&
                    address < (uintptr_t)range->bytes + range->length))
    range = range->next;
  return range;
}

uint64_t fake_seen(uint64_t address)
{
  const struct fake_range *range = host_range(address);
  return range ? range->address + (address - (uintptr_t)range->bytes) : address;
}

uint8_t *fake_reach(uint64_t address, uint64_t length)
{
  pthread_mutex_lock(&fake.mutex);
  uint8_t *bytes = fake_bytes(address, length);
  pthread_mutex_unlock(&fake.mutex);
  return bytes;
}

static void link_range(struct fake_range *range)
{
  pthread_mutex_lock(&fake.mutex);
  range->next = fake.ranges;
  fake.ranges = range;
  pthread_mutex_unlock(&fake.mutex);
}

static uint64_t length_of(uint64_t address, enum fake_kind kind)
{
  uint64_t length = 0;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (r->address == address && r->kind == kind)
      length = r->length;
  pthread_mutex_unlock(&fake.mutex);
  return length;
}

/* Taken out of the list; or NULL when there is none of that kind at the address. */
static struct fake_range *unlink_range(uint64_t address, enum fake_kind kind)
{
  struct fake_range *found = NULL;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range **at = &fake.ranges; *at; at = &(*at)->next)
    if ((*at)->address == address && (*at)->kind == kind) {
      found = *at;
      *at = found->next;
      break;
    }
  pthread_mutex_unlock(&fake.mutex);
  return found;
}

static void free_range(struct fake_range *range)
{
  if (range->map)
    munmap(range->map, range->map_length);
  if (range->reserved)
    munmap(range->reserved, range->reserved_length);
  if (range->fd >= 0)
    close(range->fd);
  fake_nic_free(range);
  free(range);
}

static bool take(uint64_t *used, uint64_t limit, uint64_t length)
{
  pthread_mutex_lock(&fake.mutex);
  bool fits = length <= limit && *used <= limit - length;
  if (fits)
    *used += length;
  pthread_mutex_unlock(&fake.mutex);
  return fits;
}

static void give(uint64_t *used, uint64_t length)
{
  pthread_mutex_lock(&fake.mutex);
  *used -= length;
  pthread_mutex_unlock(&fake.mutex);
}

/* Addresses that nobody may touch. */
static bool reserve(struct fake_range *range, uint64_t alignment)
{
  range->reserved_length = range->length + alignment;
  range->reserved = mmap(NULL, range->reserved_length, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range->reserved == MAP_FAILED) {
    range->reserved = NULL;
    return false;
  }
  range->address = round_up((uintptr_t)range->reserved, alignment);
  return true;
}

static bool map_bytes(struct fake_range *range)
{
  range->map_length = range->length;
  range->map = mmap(NULL, range->length, PROT_READ | PROT_WRITE, MAP_SHARED, range->fd, 0);
  if (range->map == MAP_FAILED) {
    range->map = NULL;
    return false;
  }
  range->bytes = range->map;
  return true;
}

int fake_device_of(int fd)
{
  char path[64], name[128];
  int device = -1;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, name, sizeof(name) - 1);
  name[length > 0 ? length : 0] = '\0';
  if (sscanf(name, "/memfd:" FAKE_NAME, &device) != 1 || device < fake_config.first ||
      device - fake_config.first >= fake_config.devices)
    return -1;
  return device - fake_config.first;
}

int fake_bytes_new(uint64_t length, int device)
{
  char name[32];
  snprintf(name, sizeof(name), FAKE_NAME, device + fake_config.first);
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  /* As the driver's memory, it cannot be cut off under those who have it mapped. */
  if (fd >= 0 && (ftruncate(fd, (off_t)length) != 0 ||
                  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
    close(fd);
    fd = -1;
  }
  return fd;
}

cuda_status fake_MemGetInfo(size_t *available, size_t *total)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  pthread_mutex_lock(&fake.mutex);
  *total = fake_config.memory;
  *available = *total - fake.used[fake_current()->device];
  pthread_mutex_unlock(&fake.mutex);
  return CUDA_SUCCESS;
}

cuda_status fake_MemAlloc(cuda_pointer *address, size_t length)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  int device = fake_current()->device;
  uint64_t whole = round_up(length + SUBALLOCATED, GRANULARITY);
  if (length == 0)
    return CUDA_INVALID_VALUE;
  struct fake_range *range = calloc(1, sizeof(*range));
  if (!range || length > fake_config.memory ||
      !take(&fake.used[device], fake_config.memory, whole)) {
    free(range);
    return CUDA_OUT_OF_MEMORY;
  }
  *range = (struct fake_range){
      .kind = FAKE_DEVICE, .length = whole, .device = device, .context = device};
  range->fd = fake_bytes_new(whole, device);
  if (range->fd < 0 || !map_bytes(range) || !reserve(range, LARGE)) {
    give(&fake.used[device], whole);
    free_range(range);
    return CUDA_OUT_OF_MEMORY;
  }
  /* Small ones are cut from a block of the driver's. */
  uint64_t lead = length < LARGE ? SUBALLOCATED : 0;
  range->address += lead;
  range->bytes += lead;
  range->length = length;
  link_range(range);
  *address = range->address;
  return CUDA_SUCCESS;
}

/* `apart`: the device's addresses of host memory are no addresses of the CPU's, but within a
 * page. */
static bool see(struct fake_range *range, bool apart)
{
  const uint64_t length = range->length, lead = (uintptr_t)range->bytes % pst_page_size();
  range->address = (uintptr_t)range->bytes;
  if (!apart)
    return true;
  range->length += lead;
  bool reserved = reserve(range, GRANULARITY);
  range->length = length;
  range->address += lead;
  return reserved;
}

static cuda_status release(uint64_t address, enum fake_kind kind, uint64_t *used)
{
  static const char *const calls[] = {[FAKE_DEVICE] = "cuMemFree",
                                      [FAKE_IPC] = "cuIpcCloseMemHandle",
                                      [FAKE_HOST] = "cuMemFreeHost",
                                      [FAKE_REGISTERED] = "cuMemHostUnregister",
                                      [FAKE_MANAGED] = "cuMemFree"};
  if (!fake_current())
    return CUDA_INVALID_CONTEXT;
  fake_check_range(calls[kind], address, length_of(address, kind));
  struct fake_range *range = unlink_range(address, kind);
  if (!range)
    return CUDA_INVALID_VALUE;
  if (used)
    give(used, range->map_length ? range->map_length : range->length);
  free_range(range);
  return CUDA_SUCCESS;
}

cuda_status fake_MemFree(cuda_pointer address)
{
  cuda_context context = fake_current();
  if (length_of(address, FAKE_MANAGED))
    return release(address, FAKE_MANAGED, NULL);
  return release(address, FAKE_DEVICE, context ? &fake.used[context->device] : NULL);
}

cuda_status fake_MemGetAddressRange(cuda_pointer *base, size_t *length, cuda_pointer address)
{
  cuda_status status = CUDA_NOT_FOUND;
  if (!fake_current())
    return CUDA_INVALID_CONTEXT;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (address >= r->address && address < r->address + r->length &&
        (r->context == fake_current()->device || r->kind == FAKE_VMM || is_host(r))) {
      *base = r->address;
      *length = r->length;
      status = CUDA_SUCCESS;
    }
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

/* One address for both sides. */
cuda_status fake_MemAllocManaged(cuda_pointer *address, size_t length)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  struct fake_range *range = calloc(1, sizeof(*range));
  if (!range)
    return CUDA_OUT_OF_MEMORY;
  *range = (struct fake_range){.kind = FAKE_MANAGED, .length = length};
  range->fd = fake_bytes_new(length, fake_current()->device);
  if (range->fd < 0 || !map_bytes(range)) {
    free_range(range);
    return CUDA_OUT_OF_MEMORY;
  }
  range->address = (uintptr_t)range->bytes;
  link_range(range);
  *address = range->address;
  return CUDA_SUCCESS;
}

/* ---- Host memory --------------------------------------------------------------- */

cuda_status fake_MemHostAlloc(void **address, size_t length, unsigned int flags)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (length == 0 ||
      flags & ~(CUDA_HOSTALLOC_PORTABLE | CUDA_HOSTALLOC_DEVICEMAP | CUDA_HOSTALLOC_WRITECOMBINED))
    return CUDA_INVALID_VALUE;
  uint64_t whole = round_up(length + SUBALLOCATED, pst_page_size());
  struct fake_range *range = calloc(1, sizeof(*range));
  if (!range || length > fake_config.host_memory ||
      !take(&fake.host_used, fake_config.host_memory, whole)) {
    free(range);
    return CUDA_OUT_OF_MEMORY;
  }
  *range = (struct fake_range){.kind = FAKE_HOST, .length = length, .fd = -1};
  range->map_length = whole;
  range->map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range->map == MAP_FAILED) {
    range->map = NULL;
    give(&fake.host_used, whole);
    free_range(range);
    return CUDA_OUT_OF_MEMORY;
  }
  range->bytes = (uint8_t *)range->map + (length < LARGE ? SUBALLOCATED : 0);
  if (!see(range, fake_config.apart && flags & CUDA_HOSTALLOC_WRITECOMBINED)) {
    give(&fake.host_used, whole);
    free_range(range);
    return CUDA_OUT_OF_MEMORY;
  }
  link_range(range);
  *address = range->bytes;
  return CUDA_SUCCESS;
}

static cuda_status release_host(const void *address, enum fake_kind kind)
{
  pthread_mutex_lock(&fake.mutex);
  uint64_t seen = fake_seen((uintptr_t)address);
  pthread_mutex_unlock(&fake.mutex);
  return release(seen, kind, &fake.host_used);
}

cuda_status fake_MemHostGetDevicePointer(cuda_pointer *address, void *host, unsigned int flags)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS || flags)
    return flags ? CUDA_INVALID_VALUE : status;
  pthread_mutex_lock(&fake.mutex);
  bool known = host_range((uintptr_t)host);
  if (known)
    *address = fake_seen((uintptr_t)host);
  pthread_mutex_unlock(&fake.mutex);
  return known ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

cuda_status fake_MemFreeHost(void *address)
{
  return release_host(address, FAKE_HOST);
}

cuda_status fake_MemHostRegister(void *address, size_t length, unsigned int flags)
{
  cuda_status status = fake_usable();
  uint64_t begin = (uintptr_t)address, end = begin + length;
  if (status != CUDA_SUCCESS)
    return status;
  if (!address || length == 0 || end < begin || flags & ~15u)
    return CUDA_INVALID_VALUE;
  if (fake_config.no_register)
    return CUDA_NOT_SUPPORTED;
  unsigned char resident;
  const uint64_t page = pst_page_size();
  for (uint64_t at = begin / page * page; at < end; at += page)
    if (mincore((void *)(uintptr_t)at, 1, &resident) != 0)
      return CUDA_INVALID_VALUE;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (is_host(r) && begin < (uintptr_t)r->bytes + r->length && end > (uintptr_t)r->bytes)
      status = r->kind == FAKE_HOST ? CUDA_INVALID_VALUE : CUDA_ALREADY_REGISTERED; /* 580.159 */
  pthread_mutex_unlock(&fake.mutex);
  if (status != CUDA_SUCCESS)
    return status;
  if (!take(&fake.host_used, fake_config.host_memory, length))
    return CUDA_OUT_OF_MEMORY;
  struct fake_range *range = calloc(1, sizeof(*range));
  if (!range)
    return CUDA_OUT_OF_MEMORY;
  *range =
      (struct fake_range){.kind = FAKE_REGISTERED, .length = length, .bytes = address, .fd = -1};
  if (!see(range, fake_config.apart)) {
    give(&fake.host_used, length);
    free_range(range);
    return CUDA_OUT_OF_MEMORY;
  }
  link_range(range);
  return CUDA_SUCCESS;
}

cuda_status fake_MemHostUnregister(void *address)
{
  cuda_status status = release_host(address, FAKE_REGISTERED);
  return status == CUDA_INVALID_VALUE ? CUDA_NOT_REGISTERED : status;
}

/* The address of host and managed memory may be either side's. */
cuda_status fake_PointerGetAttribute(void *value, int attribute, cuda_pointer address)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  pthread_mutex_lock(&fake.mutex);
  const struct fake_range *range = fake.ranges;
  const cuda_pointer seen = fake_seen(address);
  while (range && !(seen >= range->address && seen < range->address + range->length))
    range = range->next;
  unsigned int found = 0;
  if (!range)
    status = CUDA_INVALID_VALUE; /* as of memory that CUDA does not know */
  else if (attribute == CUDA_POINTER_IS_MANAGED)
    found = range->kind == FAKE_MANAGED;
  else if (attribute == CUDA_POINTER_MEMORY_TYPE)
    found = is_host(range) ? CUDA_MEMORYTYPE_HOST : CUDA_MEMORYTYPE_DEVICE;
  else
    status = CUDA_INVALID_VALUE;
  pthread_mutex_unlock(&fake.mutex);
  if (status == CUDA_SUCCESS)
    memcpy(value, &found, sizeof(found));
  return status;
}

cuda_status fake_PointerSetAttribute(const void *value, int attribute, cuda_pointer address)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  return value && attribute == CUDA_POINTER_SYNC_MEMOPS && fake_reach(address, 1)
             ? CUDA_SUCCESS
             : CUDA_INVALID_VALUE;
}

/* ---- To others ------------------------------------------------------------------ */

static int descriptor_of(uint64_t address, uint64_t length, uint64_t *offset)
{
  int fd = -1;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (r->fd >= 0 && address >= r->address && address - r->address < r->length &&
        length <= r->length - (address - r->address)) {
      fd = fake_config.late_writes ? fake_nic_fd(r) : r->fd;
      *offset = address - r->address + (r->map ? (uint64_t)(r->bytes - (uint8_t *)r->map) : 0);
    }
  pthread_mutex_unlock(&fake.mutex);
  return fd;
}

cuda_status fake_MemGetHandleForAddressRange(void *handle, cuda_pointer address, size_t length,
                                             int type, unsigned long long flags)
{
  cuda_status status = fake_usable();
  uint64_t offset;
  if (status != CUDA_SUCCESS)
    return status;
  if (fake_config.no_dmabuf)
    return CUDA_NOT_SUPPORTED;
  if (type != CUDA_RANGE_DMABUF || flags || address % pst_page_size() || length % pst_page_size() ||
      length == 0)
    return CUDA_INVALID_VALUE;
  int fd = descriptor_of(address, length, &offset);
  if (fd < 0)
    return CUDA_INVALID_VALUE;
  /* A dma-buf begins where its range does. A memfd cannot: where it stands says so to the
   * simulated RDMA device. */
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return CUDA_OPERATING_SYSTEM;
  lseek(fd, (off_t)offset, SEEK_SET);
  *(int *)handle = fd;
  return CUDA_SUCCESS;
}

struct ipc {
  char magic[8];
  int pid, fd;
  uint64_t length, lead;
};

cuda_status fake_IpcGetMemHandle(struct cuda_ipc *handle, cuda_pointer address)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (fake_config.ipc_refused)
    return CUDA_NOT_SUPPORTED;
  struct ipc ipc = {.magic = "fakecuda", .pid = getpid(), .fd = -1};
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (r->kind == FAKE_DEVICE && address >= r->address && address < r->address + r->length) {
      ipc.fd = r->fd;
      ipc.length = r->length;
      ipc.lead = (uint64_t)(r->bytes - (uint8_t *)r->map);
    }
  pthread_mutex_unlock(&fake.mutex);
  if (ipc.fd < 0)
    return CUDA_INVALID_VALUE;
  memset(handle, 0, sizeof(*handle));
  memcpy(handle, &ipc, sizeof(ipc));
  return CUDA_SUCCESS;
}

cuda_status fake_IpcOpenMemHandle(cuda_pointer *address, struct cuda_ipc handle, unsigned int flags)
{
  cuda_status status = fake_usable();
  struct ipc ipc;
  char path[64];
  if (status != CUDA_SUCCESS)
    return status;
  memcpy(&ipc, &handle, sizeof(ipc));
  if (memcmp(ipc.magic, "fakecuda", sizeof(ipc.magic)) != 0 || flags != CUDA_IPC_LAZY_PEER_ACCESS)
    return CUDA_INVALID_VALUE;
  if (ipc.pid == getpid())
    return CUDA_INVALID_CONTEXT; /* not by who made it */
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
  struct fake_range *range = calloc(1, sizeof(*range));
  if (!range)
    return CUDA_OUT_OF_MEMORY;
  *range = (struct fake_range){.kind = FAKE_IPC,
                               .length = round_up(ipc.lead + ipc.length, pst_page_size()),
                               .context = fake_current()->device,
                               .fd = open(path, O_RDWR | O_CLOEXEC)};
  range->device = range->fd >= 0 ? fake_device_of(range->fd) : -1;
  if (range->device < 0 || !map_bytes(range) || !reserve(range, LARGE)) {
    free_range(range);
    return CUDA_INVALID_VALUE;
  }
  if (range->device != fake_current()->device && fake_config.no_peer) {
    free_range(range);
    return CUDA_PEER_ACCESS_UNSUPPORTED;
  }
  range->address += ipc.lead;
  range->bytes += ipc.lead;
  range->length = ipc.length;
  link_range(range);
  *address = range->address;
  return CUDA_SUCCESS;
}

cuda_status fake_IpcCloseMemHandle(cuda_pointer address)
{
  return release(address, FAKE_IPC, NULL);
}
