/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of one file, however it is named. */
#include <sys/stat.h>
#include <unistd.h>

#include "file_identity.h"
#include "support.h"

static bool is_same_file(const char *a, const char *b)
{
  const struct file_identity first = file_identity(a), second = file_identity(b);
  return file_identity_equal(&first, &second);
}

static void what_exists(void **state)
{
  (void)state;
  write_file("here", "x", 1);
  write_file("other", "x", 1);
  assert_int_equal(symlink("here", "link"), 0);
  assert_int_equal(link("here", "hard"), 0);
  assert_true(is_same_file("here", "here"));
  assert_true(is_same_file("here", "./here"));
  assert_true(is_same_file("link", "here"));
  assert_true(is_same_file("here", "hard"));
  assert_false(is_same_file("here", "other"));
  assert_false(is_same_file("here", "absent"));
}

static void what_is_to_be_made(void **state)
{
  (void)state;
  assert_int_equal(mkdir("folder", 0700), 0);
  assert_int_equal(symlink("folder", "to_folder"), 0);
  assert_true(is_same_file("new", "new"));
  assert_true(is_same_file("new", "./new"));
  assert_true(is_same_file("new", "folder/../new"));
  assert_true(is_same_file("folder/new", "to_folder/new"));
  assert_false(is_same_file("new", "folder/new"));
  assert_false(is_same_file("new", "newer"));
  assert_false(is_same_file("folder", "folder"));
  assert_false(is_same_file("folder/", "folder/"));
  assert_false(is_same_file("nowhere/new", "nowhere/new"));
}

/* Several may write to them at a time. */
static void what_nobody_replaces(void **state)
{
  (void)state;
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_false(is_same_file("fifo", "fifo"));
  assert_false(is_same_file("/dev/null", "/dev/null"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_exists),
                                     cmocka_unit_test(what_is_to_be_made),
                                     cmocka_unit_test(what_nobody_replaces)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
