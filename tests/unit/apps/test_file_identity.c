/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of one file, however it is named. */
#include <sys/stat.h>
#include <unistd.h>

#include "file_identity.h"
#include "support.h"

static void what_exists(void **state)
{
  (void)state;
  write_file("here", "x", 1);
  write_file("other", "x", 1);
  assert_int_equal(symlink("here", "link"), 0);
  assert_int_equal(link("here", "hard"), 0);
  assert_true(app_file_identity_same("here", "here"));
  assert_true(app_file_identity_same("here", "./here"));
  assert_true(app_file_identity_same("link", "here"));
  assert_true(app_file_identity_same("here", "hard"));
  assert_false(app_file_identity_same("here", "other"));
  assert_false(app_file_identity_same("here", "absent"));
}

static void what_is_to_be_made(void **state)
{
  (void)state;
  assert_int_equal(mkdir("folder", 0700), 0);
  assert_int_equal(symlink("folder", "to_folder"), 0);
  assert_true(app_file_identity_same("new", "new"));
  assert_true(app_file_identity_same("new", "./new"));
  assert_true(app_file_identity_same("new", "folder/../new"));
  assert_true(app_file_identity_same("folder/new", "to_folder/new"));
  assert_false(app_file_identity_same("new", "folder/new"));
  assert_false(app_file_identity_same("new", "newer"));
  assert_false(app_file_identity_same("folder", "folder"));
  assert_false(app_file_identity_same("folder/", "folder/"));
  assert_false(app_file_identity_same("nowhere/new", "nowhere/new"));
}

/* Several may write to them at a time. */
static void what_nobody_replaces(void **state)
{
  (void)state;
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_false(app_file_identity_same("fifo", "fifo"));
  assert_false(app_file_identity_same("/dev/null", "/dev/null"));
}

static void what_lies_below(void **state)
{
  (void)state;
  assert_int_equal(mkdir("folder/inner", 0700), 0);
  assert_true(app_file_identity_below("new", "."));
  assert_true(app_file_identity_below("folder/inner/new", "to_folder"));
  assert_true(app_file_identity_below("to_folder/new", test_folder));
  assert_true(app_file_identity_below("here", "/"));
  assert_false(app_file_identity_below("here", "folder"));
  assert_false(app_file_identity_below("here", "other"));
  assert_false(app_file_identity_below("here", "absent"));
  assert_false(app_file_identity_below("nowhere/new", "."));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_exists), cmocka_unit_test(what_is_to_be_made),
      cmocka_unit_test(what_nobody_replaces), cmocka_unit_test(what_lies_below)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
