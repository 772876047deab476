/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "host.h"

static bool read_count(const char *root, uint64_t page_size, const char *name, uint64_t *value)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/hugepages-%" PRIu64 "kB/%s", root, page_size / 1024, name);
  return host_read_number(path, value);
}

bool host_pages_read(const char *root, uint64_t page_size, struct host_pages *pages)
{
  uint64_t total, unused, promised;
  if (!read_count(root, page_size, "nr_hugepages", &total) ||
      !read_count(root, page_size, "free_hugepages", &unused) ||
      !read_count(root, page_size, "resv_hugepages", &promised))
    return false;
  pages->total = total;
  pages->free = unused > promised ? unused - promised : 0;
  snprintf(pages->control, sizeof(pages->control), "%s/hugepages-%" PRIu64 "kB/nr_hugepages", root,
           page_size / 1024);
  return true;
}
