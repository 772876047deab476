/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for a test's files, and slots and views on plain buffers. */
#ifndef TEST_APPS_SUPPORT_H
#define TEST_APPS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink.h"
#include "source.h"

/* Group set-up and tear-down: test_folder is a fresh one, and the current one. */
extern char test_folder[];
int folder_setup(void **state);
int folder_teardown(void **state);

/* Lines on stderr are kept away from the test's output. */
void quiet(void);

void write_file(const char *path, const void *bytes, size_t length);
/* Malloc'd; asserts that it exists. */
char *read_whole(const char *path, size_t *length);
/* Entries of the current folder, dot-files included. */
unsigned count_entries(void);

/* n slots of `capacity` bytes, freed with free(slots[0].host) and free(slots). */
struct pst_slot *make_slots(uint32_t n, uint32_t capacity);

/* A source read to its end: its messages one after the other, freed by the caller. */
struct run {
  char *bytes;
  size_t length;
  size_t room; /* of bytes */
  uint32_t count;
  uint32_t lengths[4096];
  uint64_t metas[4096];
  int result; /* -ENODATA, or the error that ended it */
};
void drain_source(const struct source *source, struct pst_sender *sender, uint32_t capacity,
                  struct run *run);

#endif
