/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of files that the peer has, too, and can truncate at any time. */
#ifndef LOOPBACK_MAP_H
#define LOOPBACK_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* SIGBUS in such a range is the end of a connection, not of the process. */
struct lb_guard;
/* How often it has happened, in any range of this process. */
extern _Atomic uint32_t lb_guard_hits;
/* The range, rounded to pages of `page` bytes, all of which is mapped until lb_guard_close(). */
int lb_guard_open(void *at, uint64_t bytes, uint64_t page, struct lb_guard **guard);
void lb_guard_close(struct lb_guard *guard);
bool lb_guard_hit(const struct lb_guard *guard);

/* Something that may never have been opened is -1. */
static inline void lb_fd_close(int fd)
{
  if (fd >= 0)
    close(fd);
}

/* map.c: of a file that a peer has, too. */
struct lb_map {
  void *at; /* NULL: nothing is mapped */
  uint64_t bytes;
  struct lb_guard *guard;
};
/* Seals on fd that keep its maker from cutting it short under our feet, and at
 * least `bytes` in it. */
int lb_fd_check(int fd, uint64_t bytes, const char **why);
/* The pages of [offset, offset + length). *at: where offset is. */
int lb_map_open(int fd, uint64_t offset, uint64_t length, int prot, struct lb_map *map, void **at);
void lb_map_close(struct lb_map *map);
/* Pages that exist already are made known to the CPU; none is made, on our account, that does not.
 * -ENOMEM with *why: they cannot be had. */
int lb_map_populate(const struct lb_map *map, int fd, const char **why);
/* A sealed memfd of one's own and its mapping, with memory behind it, so that nobody else has to
 * find some. NULL: errno. */
void *lb_memfd_open(const char *name, uint64_t bytes, struct lb_map *map, int *fd);
/* The most bytes of one peer's memory that are mapped at a time. */
uint64_t lb_mapped_max(void);

#endif
