/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "counters.h"

static char folder[] = "/tmp/penstock-counters-XXXXXX";

static void put(const char *name, const char *value)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(value, file) >= 0);
  fclose(file);
}

static void those_that_grew_are_named(void **state)
{
  (void)state;
  char text[256];
  struct vb_counters before, now;
  vb_counters_read(folder, &now);
  vb_counters_text(&now, &now, text, sizeof(text));
  assert_string_equal(text, "none can be read");
  char path[128];
  snprintf(path, sizeof(path), "%s/hw_counters", folder);
  assert_int_equal(mkdir(path, 0700), 0);
  put("hw_counters/completer_retry_err", "3\n");
  put("hw_counters/sent_pkts", "10\n");
  put("hw_counters/duplicate_request", "0\n");
  vb_counters_read(folder, &before);
  assert_int_equal(before.count, 3);
  vb_counters_text(&before, &before, text, sizeof(text));
  assert_string_equal(text, "none has grown");
  put("hw_counters/completer_retry_err", "363\n");
  put("hw_counters/sent_pkts", "999\n");
  vb_counters_read(folder, &now);
  vb_counters_text(&before, &now, text, sizeof(text));
  assert_string_equal(text, "completer_retry_err +360");
  put("hw_counters/duplicate_request", "18446744073709551615\n");
  vb_counters_read(folder, &now);
  vb_counters_text(&before, &now, text, sizeof(text));
  assert_non_null(strstr(text, "duplicate_request +18446744073709551615"));
  assert_non_null(strstr(text, ", "));
  memset(text, '#', sizeof(text));
  vb_counters_text(&before, &now, text, 10);
  assert_int_equal(strlen(text), 9);
}

static int set_up(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  static const char *const files[] = {"hw_counters/completer_retry_err", "hw_counters/sent_pkts",
                                      "hw_counters/duplicate_request", "hw_counters", ""};
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
    remove(path);
  }
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(those_that_grew_are_named)};
  return cmocka_run_group_tests(tests, set_up, tear_down) ? 1 : 0;
}
