/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/blob.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/blob.h"

/* The last descriptor of a pipe's write end is closed, soon, by another thread. */
static void await_end(int read_end)
{
  char byte;
  assert_int_equal(read(read_end, &byte, 1), 0);
}

static void a_copy_has_bytes_and_descriptors_of_its_own(void **state)
{
  uint8_t bytes[] = {1, 2, 3};
  int pipes[2];
  struct stat mine, its;
  struct pst_blob copy;
  (void)state;

  assert_int_equal(pipe(pipes), 0);
  const struct pst_blob from = {.struct_size = sizeof(from),
                                .bytes = bytes,
                                .length = sizeof(bytes),
                                .fd_count = 2,
                                .fds = {pipes[0], pipes[1]}};
  assert_int_equal(blob_keep(&from, &copy), 0);
  memset(bytes, 9, sizeof(bytes));
  assert_memory_equal(copy.bytes, "\x01\x02\x03", 3);
  assert_int_equal(copy.length, 3);
  assert_int_equal(copy.capacity, 3);
  assert_int_equal(copy.fd_count, 2);
  for (int i = 0; i < 2; i++) {
    assert_true(copy.fds[i] >= 3 && copy.fds[i] != pipes[i]);
    assert_int_equal(fcntl(copy.fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fstat(pipes[i], &mine), 0);
    assert_int_equal(fstat(copy.fds[i], &its), 0);
    assert_int_equal(mine.st_ino, its.st_ino);
  }
  close(pipes[1]);
  blob_free(&copy);
  assert_null(copy.bytes);
  assert_int_equal(copy.length, 0);
  assert_int_equal(copy.fd_count, 0);
  await_end(pipes[0]);
  close(pipes[0]);
}

static void nothing_can_be_kept(void **state)
{
  const struct pst_blob from = {.struct_size = sizeof(from)};
  struct pst_blob copy;
  (void)state;

  assert_int_equal(blob_keep(&from, &copy), 0);
  assert_int_equal(copy.length, 0);
  assert_int_equal(copy.fd_count, 0);
  blob_free(&copy);
}

/* The descriptor before the bad one was kept, and is given back. */
static void a_descriptor_that_is_none_leaves_nothing(void **state)
{
  int pipes[2];
  struct pst_blob copy;
  (void)state;

  assert_int_equal(pipe(pipes), 0);
  const struct pst_blob from = {
      .struct_size = sizeof(from), .fd_count = 2, .fds = {pipes[1], INT_MAX}};
  assert_int_equal(blob_keep(&from, &copy), -EBADF);
  assert_null(copy.bytes);
  assert_int_equal(copy.fd_count, 0);
  close(pipes[1]);
  await_end(pipes[0]);
  close(pipes[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_has_bytes_and_descriptors_of_its_own),
      cmocka_unit_test(nothing_can_be_kept),
      cmocka_unit_test(a_descriptor_that_is_none_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
