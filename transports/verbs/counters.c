/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"

static void read_one(const char *folder, const char *name, struct vb_counters *counters)
{
  char path[640], line[64];

  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (!file)
    return;
  if (fgets(line, sizeof(line), file)) {
    snprintf(counters->at[counters->count].name, sizeof(counters->at[0].name), "%s", name);
    counters->at[counters->count++].value = strtoull(line, NULL, 10);
  }
  fclose(file);
}

static void read_folder(const char *port, const char *which, struct vb_counters *counters)
{
  char folder[384];

  snprintf(folder, sizeof(folder), "%s/%s", port, which);
  DIR *all = opendir(folder);
  for (struct dirent *one; all && (one = readdir(all)) && counters->count < VB_COUNTERS_MAX;)
    if (one->d_name[0] != '.' && strcmp(one->d_name, "lifespan") != 0 &&
        strlen(one->d_name) < sizeof(counters->at[0].name))
      read_one(folder, one->d_name, counters);
  if (all)
    closedir(all);
}

void vb_counters_read(const char *folder, struct vb_counters *counters)
{
  counters->count = 0;
  read_folder(folder, "hw_counters", counters);
  read_folder(folder, "counters", counters);
}

/* What grows when all is well, too, says nothing. */
static int is_trouble(const char *name)
{
  static const char *const signs[] = {"err",    "retry",    "retries", "timeout", "discard",
                                      "out_of", "drop",     "nak",     "dup",     "down",
                                      "wait",   "exceeded", "cnp",     "rnr"};
  for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
    if (strstr(name, signs[i]))
      return 1;
  return 0;
}

static uint64_t value_of(const struct vb_counters *counters, const char *name)
{
  for (uint32_t i = 0; i < counters->count; i++)
    if (strcmp(counters->at[i].name, name) == 0)
      return counters->at[i].value;
  return 0;
}

void vb_counters_text(const struct vb_counters *before, const struct vb_counters *now, char *text,
                      size_t size)
{
  size_t used = 0;

  snprintf(text, size, "%s", now->count ? "none has grown" : "none can be read");
  for (uint32_t i = 0; i < now->count && used < size; i++) {
    uint64_t was = value_of(before, now->at[i].name);
    if (now->at[i].value <= was || !is_trouble(now->at[i].name))
      continue;
    int n = snprintf(text + used, size - used, "%s%s +%" PRIu64, used ? ", " : "", now->at[i].name,
                     now->at[i].value - was);
    used += n > 0 ? (size_t)n : 0;
  }
}
