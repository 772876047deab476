/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a result was measured on. */
#include "environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static void environment_read_cpu(struct environment *environment)
{
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "re");

  if (!file)
    return;
  while (environment->cpu[0] == '\0' && fgets(line, sizeof(line), file)) {
    char *colon = strchr(line, ':');
    if (!colon ||
        (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU implementer", 15) != 0))
      continue;
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(environment->cpu, sizeof(environment->cpu), "%s", colon + 1 + strspn(colon + 1, " "));
  }
  fclose(file);
}

static void environment_read_memory(struct environment *environment)
{
  char line[256];
  uint64_t value;
  FILE *file = fopen("/proc/meminfo", "re");

  if (!file)
    return;
  while (fgets(line, sizeof(line), file)) {
    if (sscanf(line, "MemTotal: %" SCNu64, &value) == 1)
      environment->memory_bytes = value * 1024;
    else if (sscanf(line, "HugePages_Total: %" SCNu64, &value) == 1)
      environment->huge_pages = value;
    else if (sscanf(line, "HugePages_Free: %" SCNu64, &value) == 1)
      environment->huge_pages_free = value;
    else if (sscanf(line, "Hugepagesize: %" SCNu64, &value) == 1)
      environment->huge_page_bytes = value * 1024;
  }
  fclose(file);
}

void app_environment_read(struct environment *environment)
{
  struct utsname name;

  memset(environment, 0, sizeof(*environment));
  if (uname(&name) == 0) {
    snprintf(environment->hostname, sizeof(environment->hostname), "%s", name.nodename);
    snprintf(environment->kernel, sizeof(environment->kernel), "%s %s %s", name.sysname,
             name.release, name.machine);
    snprintf(environment->version, sizeof(environment->version), "%s", name.version);
  }
  environment->cores = sysconf(_SC_NPROCESSORS_ONLN);
  environment_read_cpu(environment);
  environment_read_memory(environment);
}
