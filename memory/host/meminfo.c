/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the machine, by files of /proc and /sys. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <penstock/page.h>

#include "meminfo.h"

/* The number a file holds; false when there is no such file or number. */
static bool host_meminfo_read_number(const char *path, uint64_t *value)
{
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  bool read = fscanf(file, "%" SCNu64, value) == 1;
  fclose(file);
  return read;
}

static uint64_t host_meminfo_bytes(const char *name)
{
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file)
    return 0;
  uint64_t kib = 0;
  char line[128];
  size_t length = strlen(name);
  while (fgets(line, sizeof(line), file))
    if (strncmp(line, name, length) == 0 && line[length] == ':') {
      (void)sscanf(line + length + 1, "%" SCNu64, &kib);
      break;
    }
  fclose(file);
  return kib * 1024;
}

uint64_t host_available_bytes(void)
{
  return host_meminfo_bytes("MemAvailable");
}

uint64_t host_total_bytes(void)
{
  return host_meminfo_bytes("MemTotal") + host_meminfo_bytes("SwapTotal");
}

uint64_t host_address_space_left(void)
{
  struct rlimit limit;
  unsigned long pages = 0;
  FILE *file;

  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX;
  file = fopen("/proc/self/statm", "re");
  if (file && fscanf(file, "%lu", &pages) != 1)
    pages = 0;
  if (file)
    fclose(file);
  uint64_t used = pages * pst_page_size();
  return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

static bool host_meminfo_read_count(const char *root, uint64_t page_size, const char *name,
                                    uint64_t *value)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/hugepages-%" PRIu64 "kB/%s", root, page_size / 1024, name);
  return host_meminfo_read_number(path, value);
}

bool host_pages_read(const char *root, uint64_t page_size, struct host_pages *pages)
{
  uint64_t total, unused, promised;
  if (!host_meminfo_read_count(root, page_size, "nr_hugepages", &total) ||
      !host_meminfo_read_count(root, page_size, "free_hugepages", &unused) ||
      !host_meminfo_read_count(root, page_size, "resv_hugepages", &promised))
    return false;
  pages->total = total;
  pages->free = unused > promised ? unused - promised : 0;
  snprintf(pages->control, sizeof(pages->control), "%s/hugepages-%" PRIu64 "kB/nr_hugepages", root,
           page_size / 1024);
  return true;
}
