/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation in turn fails: the load says so, and leaks nothing (which the
 * address sanitizer sees). */
#include <errno.h>
#include <stdlib.h>

#include "support.h"

static long allowed = -1; /* allocations before one fails; < 0: all succeed */

void *__real_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
char *__real_strdup(const char *text);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
char *__wrap_strdup(const char *text);

static bool fails(void)
{
  if (allowed > 0)
    allowed--;
  else if (allowed == 0) {
    allowed = -1;
    return true;
  }
  return false;
}

void *__wrap_calloc(size_t count, size_t size)
{
  return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
  return fails() ? NULL : __real_malloc(size);
}

char *__wrap_strdup(const char *text)
{
  return fails() ? NULL : __real_strdup(text);
}

static int restore(void **state)
{
  (void)state;
  allowed = -1;
  return 0;
}

static const char text[] =
    HEAD "  transport: {filters: [{plugin: fault, options: {drop: 3}}], options: {names: [x, y]}}\n"
         "  sender: {transport: {options: {burst: 2}}, memory: cuda, source: {seed: 3}}\n"
         "  receiver: {transport: {options: {wait: 2 s, names: [z]}}}\n"
         "- {name: b, sender: {share: a, memory: cuda}, ring: 128}\n"
         "control: \"127.0.0.1:5\"\ntransport: {options: {depth: 8 KiB}}\n";

static void loading(void **state)
{
  (void)state;
  static const char *const sets[] = {"streams.a.sender.count=5", "threads.cpus=[1, 2]"};
  struct pst_config *config = NULL;
  int failures = 0;
  for (long n = 0;; n++) {
    struct pst_error error = PST_ERROR_INIT;
    allowed = n;
    int rc =
        config_load_text(text, sizeof(text) - 1, "t.yaml", sets, 2, &test_catalog, &config, &error);
    bool reached = allowed < 0;
    allowed = -1;
    if (rc == 0 && !reached)
      break;
    assert_int_equal(rc, -ENOMEM);
    assert_int_equal(error.exit_status, PST_EXIT_FAILED);
    assert_null(config);
    failures++;
  }
  assert_true(failures > 20);
  pst_config_close(config);
}

static void refusing(void **state)
{
  (void)state;
  static const char wrong[] = HEAD "  rng: 5\n  transport: {options: {dept: 1}}\n";
  for (long n = 0;; n++) {
    struct pst_config *config = NULL;
    allowed = n;
    int rc =
        config_load_text(wrong, sizeof(wrong) - 1, "t.yaml", NULL, 0, &test_catalog, &config, NULL);
    bool reached = allowed < 0;
    allowed = -1;
    assert_true(rc == -ENOMEM || rc == -EINVAL);
    assert_null(config);
    if (!reached)
      break;
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(loading, restore),
                                     cmocka_unit_test_teardown(refusing, restore)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
