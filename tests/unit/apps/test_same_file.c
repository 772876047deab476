/* SPDX-License-Identifier: Apache-2.0 */
#include "same_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static void made(void **state)
{
  (void)state;
  write_file("a", "1", 1);
  write_file("b", "2", 1);
  assert_int_equal(link("a", "hard"), 0);
  assert_int_equal(symlink("a", "soft"), 0);
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_int_equal(mkdir("folder", 0700), 0);
  assert_true(same_file("a", "./a"));
  assert_true(same_file("folder/../a", "a"));
  assert_true(same_file("hard", "a"));
  assert_true(same_file("a", "soft"));
  assert_true(same_file("fifo", "fifo"));
  assert_false(same_file("a", "b"));
  assert_false(same_file("a", "none"));
  assert_false(same_file("/dev/null", "/dev/null"));
}

static void still_to_be_made(void **state)
{
  (void)state;
  assert_int_equal(symlink("folder", "way"), 0);
  assert_true(same_file("none", "./none"));
  assert_true(same_file("folder/none", "way/none"));
  assert_false(same_file("none", "folder/none"));
  assert_false(same_file("none", "nobody"));
  assert_false(same_file("missing/none", "missing/none"));
}

static void part(void **state)
{
  (void)state;
  assert_true(same_file_written("folder/out", "way/out"));
  assert_true(same_file_written("folder/.out.penstock-part", "way/out"));
  assert_true(same_file_written(".out.penstock-part", "out"));
  assert_false(same_file_written("folder/.in.penstock-part", "way/out"));
  assert_false(same_file_written("out", ".out.penstock-part"));
}

static void below(void **state)
{
  (void)state;
  assert_int_equal(mkdir("folder/inner", 0700), 0);
  assert_true(same_file_below("none", "."));
  assert_true(same_file_below("folder/inner/none", "way"));
  assert_true(same_file_below("way/none", test_folder));
  assert_true(same_file_below("a", "/"));
  assert_false(same_file_below("a", "folder"));
  assert_false(same_file_below("a", "b"));
  assert_false(same_file_below("a", "none"));
  assert_false(same_file_below("missing/a", "."));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(made), cmocka_unit_test(still_to_be_made),
                                     cmocka_unit_test(part), cmocka_unit_test(below)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown) ? 1 : 0;
}
