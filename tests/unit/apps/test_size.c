/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in sentences. */
#include "support.h"

#include "size.h"

static void sizes(void **state)
{
  static const struct {
    uint64_t bytes;
    const char *exact, *about;
  } table[] = {{0, "0 B", "0 B"},
               {64, "64 B", "64 B"},
               {1462, "1462 B", "1.4 KiB"},
               {1 << 20, "1 MiB", "1.0 MiB"},
               {(1 << 20) - 1, "1048575 B", "1.0 MiB"},
               {(1 << 20) + 1, "1048577 B", "1.0 MiB"},
               {62914560, "60 MiB", "60.0 MiB"},
               {UINT64_C(1) << 40, "1 TiB", "1.0 TiB"},
               {UINT64_MAX, "18446744073709551615 B", "16777216.0 TiB"}};
  char text[SIZE_TEXT_BYTES];

  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    assert_string_equal(app_size_text(table[i].bytes, text), table[i].exact);
    assert_string_equal(app_size_about(table[i].bytes, text), table[i].about);
  }
}

static void plurals(void **state)
{
  (void)state;
  assert_string_equal(app_plural(0), "s");
  assert_string_equal(app_plural(1), "");
  assert_string_equal(app_plural(2), "s");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(plurals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
