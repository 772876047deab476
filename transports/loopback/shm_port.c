/* SPDX-License-Identifier: Apache-2.0 */
/* Ports and links: made, mapped, checked, woken. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "address.h"
#include "described.h"
#include "registry.h"
#include "shm_port.h"

#ifndef TFD_IOC_SET_TICKS /* of <linux/timerfd.h>, which clashes with <fcntl.h> */
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t)
#endif

uint64_t lb_port_bytes(uint32_t slots, uint64_t *capacity)
{
  *capacity = slots != 0; /* then a power of two */
  while (*capacity < slots)
    *capacity <<= 1;
  return sizeof(struct lb_port) + *capacity * (sizeof(struct lb_desc) + sizeof(uint32_t));
}

static void lb_port_link_lay_out(struct lb_link *link, void *memory, uint64_t capacity)
{
  link->port = memory;
  link->desc = (struct lb_desc *)((uint8_t *)memory + sizeof(struct lb_port));
  link->free_slots = (uint32_t *)(link->desc + capacity);
  assert((capacity & (capacity - 1)) == 0 && capacity >= link->slots);
  link->mask = capacity ? capacity - 1 : 0;
}

static struct lb_link *lb_port_link_alloc(uint64_t id, uint32_t slots)
{
  struct lb_link *link = aligned_alloc(LB_CACHE_LINE, sizeof(*link));
  if (!link)
    return NULL;
  memset(link, 0, sizeof(*link));
  atomic_init(&link->entry.refs, 1);
  link->entry.id = id;
  link->slots = slots;
  link->wake_fd = -1;
  link->port_fd = -1;
  return link;
}

struct lb_link *lb_link_new(uint32_t slots, bool shared, bool lends)
{
  struct lb_link *link = lb_port_link_alloc(lb_id_new(), slots);
  if (!link)
    return NULL;
  uint64_t capacity;
  link->port_bytes = lb_port_bytes(slots, &capacity);
  void *memory = NULL;
  if (shared) {
    memory = lb_memfd_open("penstock-loopback", link->port_bytes, &link->port_map, &link->port_fd);
  } else {
    uint64_t rounded = (link->port_bytes + LB_CACHE_LINE - 1) & ~(uint64_t)(LB_CACHE_LINE - 1);
    memory = aligned_alloc(LB_CACHE_LINE, rounded);
    if (memory)
      memset(memory, 0, rounded);
  }
  if (memory && lends && slots)
    link->lent = calloc(slots, sizeof(*link->lent));
  if (memory)
    lb_port_link_lay_out(link, memory, capacity);
  link->in_process = true;
  if (!memory || (lends && slots && !link->lent)) {
    int error = errno ? errno : ENOMEM;
    lb_link_unref(link);
    errno = error;
    return NULL;
  }
  return link;
}

/* Overflow-proof: is [offset, offset + slots * stride) sane, and how far does it
 * reach? */
static bool lb_port_ring_end(const struct lb_address *address, uint64_t *end)
{
  uint64_t last;
  if (address->payload_max > LB_BYTES_MAX || address->payload_max > address->stride ||
      __builtin_mul_overflow((uint64_t)address->slots - 1, address->stride, &last) ||
      __builtin_add_overflow(last, address->payload_max, &last) ||
      __builtin_add_overflow(last, address->ring_offset, end))
    return false;
  return true;
}

static int lb_port_map_ring(struct lb_link *link, const struct lb_address *address, int fd,
                            uint64_t most, const char **why)
{
  uint64_t end;
  void *at;
  if (!lb_port_ring_end(address, &end)) {
    *why = "the receive slots in its address make no sense";
    return -EPROTO;
  }
  int rc = lb_fd_check(fd, end, why);
  if (rc != 0)
    return rc;
  if (end - address->ring_offset > most) {
    *why = "its receive slots are more than this end can ever have under way; make its ring "
           "smaller, or this end's requests or messages more";
    return -EPROTO;
  }
  rc = lb_map_open(fd, address->ring_offset, end - address->ring_offset, PROT_READ | PROT_WRITE,
                   &link->ring_map, &at);
  if (rc != 0) {
    *why = "its receive slots cannot be mapped";
    return rc;
  }
  link->slot0 = at;
  link->stride = address->stride;
  link->payload_max = address->payload_max;
  return lb_map_populate(&link->ring_map, fd, why);
}

/* The peer shares the file and its flags, O_NONBLOCK among them. A timerfd is started, watched and
 * closed without waiting, whatever the peer does to it. A write to a full eventfd may wait, so may
 * the close of a socket that carries descriptors, and a FUSE file waits for its server. */
static int lb_port_take_wake(struct lb_link *link, int fd, const char **why)
{
  char path[64], kind[64] = "";
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  if (readlink(path, kind, sizeof(kind) - 1) < 0) {
    *why = "its wake-up descriptor cannot be looked at; mount /proc";
    return -errno;
  }
  if (strcmp(kind, "anon_inode:[timerfd]") != 0) {
    *why = "its wake-up descriptor is not a timerfd";
    return -EPROTO;
  }
  link->wake_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  *why = "its wake-up descriptor cannot be duplicated; raise `ulimit -n`";
  return link->wake_fd < 0 ? -errno : 0;
}

/* Maps a peer's control memory after checks of its size and seals. The peer may still write to it.
 * *why says what is wrong. */
int lb_link_map(const struct lb_address *address, const int32_t *fds, uint64_t most,
                struct lb_link **link, const char **why)
{
  uint64_t capacity;
  void *at;
  if (address->slots > LB_SLOTS_MAX ||
      lb_port_bytes(address->slots, &capacity) != address->port_bytes ||
      address->port_bytes > most) {
    *why = "its control memory does not have the size that its slots need, or they are too many";
    return -EPROTO;
  }
  int rc = lb_fd_check(fds[LB_FD_PORT], address->port_bytes, why);
  if (rc != 0)
    return rc;
  struct lb_link *made = lb_port_link_alloc(address->id, address->slots);
  if (!made)
    return -ENOMEM;
  made->port_bytes = address->port_bytes;
  rc = lb_map_open(fds[LB_FD_PORT], 0, address->port_bytes, PROT_READ | PROT_WRITE, &made->port_map,
                   &at);
  if (rc != 0) {
    *why = "its control memory cannot be mapped";
    goto fail;
  }
  lb_port_link_lay_out(made, at, capacity);
  if ((rc = lb_map_populate(&made->port_map, fds[LB_FD_PORT], why)) != 0 ||
      (rc = lb_port_take_wake(made, fds[LB_FD_WAKE], why)) != 0)
    goto fail;
  if (address->slots &&
      (rc = lb_port_map_ring(made, address, fds[LB_FD_RING], most - address->port_bytes, why)) != 0)
    goto fail;
  *link = made;
  return 0;

fail:
  lb_link_unref(made);
  return rc;
}

void lb_link_unref(struct lb_link *link)
{
  if (!link || !lb_entry_unref(&link->entry))
    return;
  lb_map_close(&link->ring_map);
  if (!link->port_map.at)
    free(link->port);
  lb_map_close(&link->port_map);
  lb_fd_close(link->port_fd);
  lb_fd_close(link->wake_fd);
  free(link->lent);
  free(link);
}

int lb_wake_open(void)
{
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  return fd < 0 ? -errno : fd;
}

/* Says that the timer has expired, at once. Only kernels with CONFIG_CHECKPOINT_RESTORE can; on
 * others a timer is started that expires a moment later. */
void lb_link_wake(struct lb_link *link)
{
  const uint64_t once = 1;
  const struct itimerspec past = {.it_value = {.tv_nsec = 1}};
  if (link->wake_fd >= 0 && ioctl(link->wake_fd, TFD_IOC_SET_TICKS, &once) != 0)
    timerfd_settime(link->wake_fd, TFD_TIMER_ABSTIME, &past, NULL);
}
