/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <penstock/page.h>

#include "host.h"

struct host_text host_size_text(uint64_t bytes)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  struct host_text out;
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
    bytes /= 1024;
    unit++;
  }
  snprintf(out.text, sizeof(out.text), "%" PRIu64 " %s", bytes, units[unit]);
  return out;
}

/* "19.6 GiB" */
static struct host_text host_about_text(uint64_t bytes)
{
  struct host_text out;
  bool gib = bytes >= UINT64_C(1) << 30;
  snprintf(out.text, sizeof(out.text), "%.1f %s", (double)bytes / (double)(1u << (gib ? 30 : 20)),
           gib ? "GiB" : "MiB");
  return out;
}

bool host_read_number(const char *path, uint64_t *value)
{
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  bool read = fscanf(file, "%" SCNu64, value) == 1;
  fclose(file);
  return read;
}

static uint64_t meminfo_bytes(const char *name)
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
  return meminfo_bytes("MemAvailable");
}

uint64_t host_total_bytes(void)
{
  return meminfo_bytes("MemTotal") + meminfo_bytes("SwapTotal");
}

/* What RLIMIT_AS leaves; UINT64_MAX: it is not set. */
static uint64_t address_space_left(void)
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

struct host_line host_room_text(void)
{
  struct host_line out;
  uint64_t left = address_space_left(), available = host_available_bytes();

  if (left < available)
    snprintf(out.text, sizeof(out.text), "`ulimit -v` leaves %s", host_about_text(left).text);
  else
    snprintf(out.text, sizeof(out.text), "%s are available", host_about_text(available).text);
  return out;
}

struct host_line host_remedy_text(const struct pst_alloc_params *params)
{
  struct host_line out;

  snprintf(out.text, sizeof(out.text), "%s%s%s", params->lower ? "lower " : "ask for less",
           params->lower ? params->lower : "",
           address_space_left() < host_available_bytes() ? ", or raise that limit"
                                                         : ", or free memory");
  return out;
}
