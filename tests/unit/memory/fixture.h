/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of memory: fixture. */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_host.h"

static inline const struct pst_memory_ops *memory_ops(void)
{
  return pst_plugin_v1.ops;
}

/* Open the plugin; `options` is an array of struct fake_option. */
static inline struct pst_memory *open_memory(const struct fake_option *options)
{
  struct pst_memory_params params = {sizeof(params), 0, FAKE_OPTIONS(options)};
  struct pst_memory *memory = NULL;
  fake_log_clear();
  assert_int_equal(memory_ops()->open(&fake_host, &params, &memory), 0);
  return memory;
}

static inline int allocate(struct pst_memory *memory, uint64_t length, uint64_t alignment,
                           uint32_t needs, struct pst_region *region)
{
  struct pst_alloc_params params = {
      .struct_size = sizeof(params),
      .length = length,
      .alignment = alignment,
      .needs = needs,
      .label = "test ring",
  };
  memset(region, 0, sizeof(*region));
  region->struct_size = sizeof(*region);
  return memory_ops()->alloc(memory, &params, region);
}

#define OPTIONS(...)                                                                               \
  (const struct fake_option[])                                                                     \
  {                                                                                                \
    __VA_ARGS__,                                                                                   \
    {                                                                                              \
      NULL, NULL                                                                                   \
    }                                                                                              \
  }

#define assert_logged(text)                                                                        \
  do {                                                                                             \
    if (!strstr(fake_log(), (text)))                                                               \
      fail_msg("\"%s\" is not in the log:\n%s", (text), fake_log());                               \
  } while (0)

#endif
