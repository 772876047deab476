/* SPDX-License-Identifier: Apache-2.0 */
/* Ports and links: made, mapped, checked, woken. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loopback.h"

static uint64_t power_of_two(uint64_t at_least)
{
  uint64_t power = 1;
  while (power < at_least)
    power <<= 1;
  return power;
}

uint64_t lb_port_bytes(uint32_t slots, uint64_t *capacity)
{
  *capacity = slots ? power_of_two(slots) : 0;
  return sizeof(struct lb_port) + *capacity * (sizeof(struct lb_desc) + sizeof(uint32_t));
}

static void link_lay_out(struct lb_link *link, void *memory, uint64_t capacity)
{
  link->port = memory;
  link->desc = (struct lb_desc *)((uint8_t *)memory + sizeof(struct lb_port));
  link->free_slots = (uint32_t *)(link->desc + capacity);
  link->mask = capacity ? capacity - 1 : 0;
}

static struct lb_link *link_alloc(uint64_t id, uint32_t slots)
{
  struct lb_link *link = aligned_alloc(LB_CACHE_LINE, sizeof(*link));
  if (!link)
    return NULL;
  memset(link, 0, sizeof(*link));
  atomic_init(&link->refs, 1);
  link->id = id;
  link->slots = slots;
  link->wake_fd = -1;
  link->port_fd = -1;
  return link;
}

static void *memfd_map(const char *name, uint64_t bytes, int *fd)
{
  int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0)
    return NULL;
  void *map = MAP_FAILED;
  if (ftruncate(made, (off_t)bytes) == 0 &&
      fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, made, 0);
  if (map == MAP_FAILED) {
    int error = errno;
    close(made);
    errno = error;
    return NULL;
  }
  *fd = made;
  return map;
}

struct lb_link *lb_link_new(uint64_t id, uint32_t slots, bool shared, bool lends)
{
  struct lb_link *link = link_alloc(id, slots);
  if (!link)
    return NULL;
  uint64_t capacity;
  link->port_bytes = lb_port_bytes(slots, &capacity);
  void *memory = NULL;
  if (shared) {
    memory = memfd_map("penstock-loopback", link->port_bytes, &link->port_fd);
  } else {
    uint64_t rounded = (link->port_bytes + LB_CACHE_LINE - 1) & ~(uint64_t)(LB_CACHE_LINE - 1);
    memory = aligned_alloc(LB_CACHE_LINE, rounded);
    if (memory)
      memset(memory, 0, rounded);
  }
  if (memory && lends && slots)
    link->lent = calloc(slots, sizeof(*link->lent));
  if (memory)
    link_lay_out(link, memory, capacity);
  link->in_process = true;
  if (!memory || (lends && slots && !link->lent)) {
    int error = errno ? errno : ENOMEM;
    lb_link_unref(link);
    errno = error;
    return NULL;
  }
  return link;
}

int lb_fd_check(int fd, uint64_t bytes, uint64_t *size, const char **why)
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
  *size = (uint64_t)info.st_size;
  return 0;
}

/* Overflow-proof: is [offset, offset + slots * stride) sane, and how far does it
 * reach? */
static bool ring_end(const struct lb_address *address, uint64_t *end)
{
  uint64_t last;
  if (address->payload_max > LB_BYTES_MAX || address->payload_max > address->stride ||
      __builtin_mul_overflow((uint64_t)address->slots - 1, address->stride, &last) ||
      __builtin_add_overflow(last, address->payload_max, &last) ||
      __builtin_add_overflow(last, address->ring_offset, end))
    return false;
  return true;
}

static int map_ring(struct lb_link *link, const struct lb_address *address, int fd,
                    const char **why)
{
  uint64_t end;
  if (!ring_end(address, &end)) {
    *why = "the receive slots in its address make no sense";
    return -EPROTO;
  }
  int rc = lb_fd_check(fd, end, &link->ring_map_bytes, why);
  if (rc != 0)
    return rc;
  /* The whole file, from its beginning: offsets into huge pages would have to
   * be theirs. Address space only. */
  void *map = mmap(NULL, link->ring_map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    *why = "its receive slots cannot be mapped";
    return -errno;
  }
  link->ring_map = map;
  link->slot0 = (uint8_t *)map + address->ring_offset;
  link->stride = address->stride;
  link->payload_max = address->payload_max;
#ifdef MADV_POPULATE_WRITE
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t from = address->ring_offset & ~(page - 1);
  madvise((uint8_t *)map + from, end - from, MADV_POPULATE_WRITE);
#endif
  return 0;
}

int lb_link_map(const struct lb_address *address, const int32_t *fds, struct lb_link **link,
                const char **why)
{
  uint64_t capacity, size;
  if (address->slots > LB_SLOTS_MAX ||
      lb_port_bytes(address->slots, &capacity) != address->port_bytes) {
    *why = "its control memory does not have the size that its slots need";
    return -EPROTO;
  }
  int rc = lb_fd_check(fds[LB_FD_PORT], address->port_bytes, &size, why);
  if (rc != 0)
    return rc;
  struct lb_link *made = link_alloc(address->id, address->slots);
  if (!made)
    return -ENOMEM;
  void *map = mmap(NULL, address->port_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                   fds[LB_FD_PORT], 0);
  if (map == MAP_FAILED) {
    rc = -errno;
    *why = "its control memory cannot be mapped";
    goto fail;
  }
  made->port_bytes = address->port_bytes;
  link_lay_out(made, map, capacity);
  if (address->slots && (rc = map_ring(made, address, fds[LB_FD_RING], why)) != 0)
    goto fail;
  made->wake_fd = fcntl(fds[LB_FD_WAKE], F_DUPFD_CLOEXEC, 0);
  made->wake_socket = true;
  if (made->wake_fd < 0) {
    rc = -errno;
    *why = "its wake-up descriptor cannot be duplicated";
    goto fail;
  }
  *link = made;
  return 0;

fail:
  lb_link_unref(made);
  return rc;
}

void lb_link_unref(struct lb_link *link)
{
  if (!link || atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (link->ring_map)
    munmap(link->ring_map, link->ring_map_bytes);
  if (link->port && (link->port_fd >= 0 || !link->in_process))
    munmap(link->port, link->port_bytes);
  else
    free(link->port);
  if (link->port_fd >= 0)
    close(link->port_fd);
  if (link->wake_fd >= 0)
    close(link->wake_fd);
  free(link->lent);
  free(link);
}

/* Per-call flags on a socket, because a peer could change those of a descriptor
 * that it shares and make us block. */
void lb_link_wake(struct lb_link *link)
{
  static const uint64_t one = 1;
  if (link->wake_fd < 0)
    return;
  ssize_t written = link->wake_socket ? send(link->wake_fd, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL)
                                      : write(link->wake_fd, &one, sizeof(one));
  (void)written; /* full means that it is readable already */
}
