/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the machine, by files of /proc and /sys. */
#ifndef HOST_MEMINFO_H
#define HOST_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that can be had without swapping; 0: unknown. */
uint64_t host_available_bytes(void);
/* Bytes that the machine has, swap included; 0: unknown. */
uint64_t host_total_bytes(void);
/* Returns the bytes that RLIMIT_AS leaves; UINT64_MAX: it is not set. */
uint64_t host_address_space_left(void);

/* The kernel's reserved huge pages. */
struct host_pages {
  uint64_t total;    /* nr_hugepages */
  uint64_t free;     /* neither used nor reserved by a mapping */
  char control[128]; /* the file that sets their number */
};
/* root: "/sys/kernel/mm/hugepages". False: the kernel has no such size. */
bool host_pages_read(const char *root, uint64_t page_size, struct host_pages *pages);
#define HOST_PAGES_ROOT "/sys/kernel/mm/hugepages"

#endif
