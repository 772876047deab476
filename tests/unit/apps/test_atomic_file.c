/* SPDX-License-Identifier: Apache-2.0 */
/* A filesystem without O_TMPFILE: the link wraps openat(). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.h"
#include "support.h"

static int tmpfile_errno; /* 0: let it through */

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat64(int folder, const char *path, int flags, ...);

int __wrap_openat(int folder, const char *path, int flags, ...)
{
  va_list args;

  va_start(args, flags);
  mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
  va_end(args);
  if ((flags & __O_TMPFILE) != 0 && tmpfile_errno != 0) {
    errno = tmpfile_errno;
    return -1;
  }
  return __real_openat(folder, path, flags, mode);
}

int __wrap_openat64(int folder, const char *path, int flags, ...)
{
  va_list args;

  va_start(args, flags);
  mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
  va_end(args);
  return __wrap_openat(folder, path, flags, mode);
}

static void make(const char *text, bool overwrite, bool commit, int wanted)
{
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;

  assert_int_equal(app_atomic_file_open(&output, "test", "out", overwrite, &error), 0);
  assert_int_equal(write(output.fd, text, strlen(text)), strlen(text));
  if (commit)
    assert_int_equal(app_atomic_file_commit(&output, "test", &error), wanted);
  app_atomic_file_discard(&output);
}

static void expect_text(const char *wanted)
{
  char text[32] = "";
  int fd = open("out", O_RDONLY);
  assert_true(fd >= 0);
  assert_int_equal(read(fd, text, sizeof(text) - 1), strlen(wanted));
  assert_string_equal(text, wanted);
  close(fd);
  assert_int_equal(count_entries(), 1);
}

static void every_way(int code)
{
  tmpfile_errno = code;
  make("first", false, false, 0);
  assert_int_equal(count_entries(), 0);
  make("second", false, true, 0);
  expect_text("second");
  make("third", true, true, 0);
  expect_text("third");
  unlink("out");
}

static void without_a_name_until_it_is_whole(void **state)
{
  (void)state;
  every_way(0);
}

static void without_o_tmpfile_under_a_dot_name(void **state)
{
  static const int codes[] = {EOPNOTSUPP, EISDIR, EINVAL};

  (void)state;
  for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
    every_way(codes[i]);
}

static void dot_file_is_seen_meanwhile_and_keeps_what_appeared(void **state)
{
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  tmpfile_errno = EOPNOTSUPP;
  assert_int_equal(app_atomic_file_open(&output, "test", "out", false, &error), 0);
  assert_int_equal(count_entries(), 1);
  assert_int_equal(access("out", F_OK), -1);
  write_file("out", "other", 5);
  assert_int_equal(app_atomic_file_commit(&output, "test", &error), -EEXIST);
  assert_int_equal(unlink(".out.penstock-part"), 0);
  expect_text("other");
  unlink("out");
}

static void folder_that_appears_meanwhile_leaves_the_part(void **state)
{
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  tmpfile_errno = 0;
  assert_int_equal(app_atomic_file_open(&output, "test", "out", ATOMIC_FILE_OVERWRITE, &error), 0);
  assert_int_equal(mkdir("out", 0777), 0);
  assert_int_equal(app_atomic_file_commit(&output, "test", &error), -EISDIR);
  assert_non_null(strstr(error.text, "kept as .out.penstock-part"));
  assert_int_equal(rmdir("out"), 0);
  assert_int_equal(unlink(".out.penstock-part"), 0);
  assert_int_equal(count_entries(), 0);
}

static void part_of_a_long_name_has_what_fits(void **state)
{
  static const int errnos[] = {0, EOPNOTSUPP};
  char name[NAME_MAX + 1], part[NAME_MAX + 1];
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  memset(name, 'n', NAME_MAX);
  name[NAME_MAX] = '\0';
  snprintf(part, sizeof(part), ".%.*s.penstock-part", NAME_MAX - 15, name);
  for (size_t i = 0; i < sizeof(errnos) / sizeof(*errnos); i++) {
    tmpfile_errno = errnos[i];
    assert_int_equal(app_atomic_file_open(&output, "test", name, false, &error), 0);
    assert_int_equal(app_atomic_file_partial(&output), 0);
    assert_string_equal(output.path, part);
    assert_int_equal(app_atomic_file_commit(&output, "test", &error), 0);
    assert_int_equal(unlink(part), 0);
    assert_int_equal(count_entries(), 0);
  }
}

static void other_failures_are_not_worked_around(void **state)
{
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  tmpfile_errno = EACCES;
  assert_int_equal(app_atomic_file_open(&output, "test", "out", false, &error), -EACCES);
  assert_int_equal(count_entries(), 0);
}

static int made(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

  return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? close(fd) : -1;
}

static char seen[8];

/* The folder's owner exchanges it for another between the look and the replacing. */
static const char *exchanges(int fd)
{
  assert_true(read(fd, seen, sizeof(seen) - 1) > 0);
  assert_int_equal(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE), 0);
  return NULL;
}

static const char *refuses(int fd)
{
  (void)fd;
  return "is dear";
}

static void what_is_replaced_is_what_was_looked_at(void **state)
{
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;
  char text[8] = "";

  (void)state;
  tmpfile_errno = 0;
  assert_int_equal(mkdir("a", 0700) | mkdir("b", 0700), 0);
  assert_int_equal(made("a/out", "old") | made("b/out", "dear"), 0);
  assert_int_equal(
      app_atomic_file_open_over(&output, "test", "b/out", ATOMIC_FILE_OVERWRITE, refuses, &error),
      -EEXIST);
  assert_non_null(strstr(error.text, "b/out is dear; name another file"));
  error.text[0] = '\0';
  assert_int_equal(
      app_atomic_file_open_over(&output, "test", "a/out", ATOMIC_FILE_OVERWRITE, exchanges, &error),
      0);
  assert_string_equal(seen, "old");
  assert_int_equal(write(output.fd, "new", 3), 3);
  assert_int_equal(app_atomic_file_commit(&output, "test", &error), 0);
  int fd = open("a/out", O_RDONLY);
  assert_int_equal(read(fd, text, sizeof(text)), 4);
  assert_memory_equal(text, "dear", 4);
  close(fd);
  assert_int_equal(unlink("a/out") | unlink("b/out") | rmdir("a") | rmdir("b"), 0);
}

static void fifo_that_another_user_planted_is_refused(void **state)
{
  struct atomic_file output;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  if (geteuid() != 0)
    skip();
  assert_int_equal(mkdir("all", 0700) | chmod("all", 01777) | mkfifo("all/out", 0666), 0);
  assert_int_equal(chown("all/out", 65534, 65534), 0);
  int reader = open("all/out", O_RDONLY | O_NONBLOCK);
  assert_int_equal(app_atomic_file_open(&output, "test", "all/out", ATOMIC_FILE_OVERWRITE, &error),
                   -EACCES);
  assert_non_null(strstr(error.text, "is a FIFO of user 65534"));
  assert_int_equal(symlink("all/out", "link"), 0);
  assert_int_equal(app_atomic_file_open(&output, "test", "link", ATOMIC_FILE_OVERWRITE, &error),
                   -EACCES);
  assert_int_equal(unlink("link"), 0);
  assert_int_equal(chmod("all", 0777), 0); /* whoever owns the folder trusts who writes to it */
  assert_int_equal(app_atomic_file_open(&output, "test", "all/out", ATOMIC_FILE_OVERWRITE, &error),
                   0);
  app_atomic_file_discard(&output);
  close(reader);
  assert_int_equal(unlink("all/out") | rmdir("all"), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_name_until_it_is_whole),
      cmocka_unit_test(without_o_tmpfile_under_a_dot_name),
      cmocka_unit_test(dot_file_is_seen_meanwhile_and_keeps_what_appeared),
      cmocka_unit_test(folder_that_appears_meanwhile_leaves_the_part),
      cmocka_unit_test(part_of_a_long_name_has_what_fits),
      cmocka_unit_test(other_failures_are_not_worked_around),
      cmocka_unit_test(what_is_replaced_is_what_was_looked_at),
      cmocka_unit_test(fifo_that_another_user_planted_is_refused),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown) ? 1 : 0;
}
