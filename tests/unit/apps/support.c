/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of apps. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

char test_folder[64];

int folder_setup(void **state)
{
  (void)state;
  quiet();
  snprintf(test_folder, sizeof(test_folder), "/tmp/penstock-apps-XXXXXX");
  return mkdtemp(test_folder) && chdir(test_folder) == 0 ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

int folder_teardown(void **state)
{
  (void)state;
  if (chdir("/") != 0)
    return -1;
  return nftw(test_folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void quiet(void)
{
  app_log_level(-1);
}

void write_file(const char *path, const void *bytes, size_t length)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

char *read_whole(const char *path, size_t *length)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *length = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*length + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *length, file), *length);
  fclose(file);
  return bytes;
}

unsigned count_entries(void)
{
  unsigned count = 0;
  DIR *folder = opendir(".");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(folder);
  return count;
}

struct pst_slot *make_slots(uint32_t n, uint32_t capacity)
{
  struct pst_slot *slots = calloc(n, sizeof(*slots));
  char *bytes = malloc((size_t)n * capacity);
  assert_non_null(slots);
  assert_non_null(bytes);
  for (uint32_t i = 0; i < n; i++) {
    slots[i].host = bytes + (size_t)i * capacity;
    slots[i].capacity = capacity;
  }
  return slots;
}

static void append(struct run *run, const struct pst_slot *slot)
{
  if (run->room < run->length + slot->length + 1) {
    run->room = 2 * (run->length + slot->length + 1);
    run->bytes = realloc(run->bytes, run->room);
    assert_non_null(run->bytes);
  }
  memcpy(run->bytes + run->length, slot->host, slot->length);
  run->length += slot->length;
  assert_true(run->count < 4096);
  run->lengths[run->count] = slot->length;
  run->metas[run->count++] = slot->meta;
}

void drain_source(const struct source *source, struct pst_sender *sender, uint32_t capacity,
                  struct run *run)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_slot *slots = make_slots(SOURCE_BATCH, capacity);
  uint64_t until_ns = UINT64_MAX;
  time_t deadline = time(NULL) + 20;

  memset(run, 0, sizeof(*run));
  for (;;) {
    int ready = source->ops->ready(source->state, SOURCE_BATCH, &until_ns, &error);
    assert_true(time(NULL) < deadline);
    if (ready == 0)
      continue;
    run->result = ready;
    if (ready < 0)
      break;
    /* One fewer than offered must be right too. */
    uint32_t n = ready > 1 && run->count == 0 ? (uint32_t)ready - 1 : (uint32_t)ready;
    run->result = source->ops->fill(source->state, sender, slots, n, &error);
    if (run->result < 0)
      break;
    for (uint32_t i = 0; i < n; i++)
      append(run, &slots[i]);
  }
  free(slots[0].host);
  free(slots);
}
