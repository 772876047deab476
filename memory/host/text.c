/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

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

struct host_text host_about_text(uint64_t bytes)
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
