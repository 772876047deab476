/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the loader's tests: the log's lines, and scratch folders of plugins. */
#ifndef TEST_LOADER_SUPPORT_H
#define TEST_LOADER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "loader/loader.h"

static inline const struct pst_description *describe(uint32_t kind, const char *name)
{
  return loader_catalog()->find(loader_catalog()->context, kind, name);
}

/* Lines logged since the last log_clear, each with its newline. */
const char *log_text(void);
/* The level of the last line. */
int log_level(void);
void log_clear(void);
void log_capture(void);
void log_capture_to(int level);

/* AT_SECURE as getauxval() reports it. */
extern unsigned long fake_secure;

/* A folder of this test's own, removed with what lies in it by scratch_free. */
char *scratch_new(void);
void scratch_free(char *folder);
/* folder/file, from the bytes of a fixture ("transport-good.so"), the first `length`
 * of them (0: all), with one byte changed (at < 0: none). Returns a static string. */
const char *scratch_copy(const char *folder, const char *file, const char *fixture, size_t length,
                         long at, unsigned char byte);

#endif
