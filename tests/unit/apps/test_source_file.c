/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/source_file.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

#define MESSAGE 100u

static int open_file(const char *path, bool loop, struct source *source, struct pst_error *error)
{
  const struct source_params params = {
      .stream = "s", .file = path, .message = MESSAGE, .loop = loop};
  memset(source, 0, sizeof(*source));
  return app_source_open(source, "file", &params, error);
}

static void check_file(size_t length)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  struct run run;
  char *bytes = malloc(length + 1);

  assert_non_null(bytes);
  for (size_t i = 0; i < length; i++)
    bytes[i] = (char)(i * 31 + i / 256);
  write_file("in", bytes, length);
  assert_int_equal(open_file("in", false, &source, &error), 0);
  drain_source(&source, NULL, MESSAGE, &run);
  assert_int_equal(run.result, -ENODATA);
  assert_int_equal(run.length, length);
  assert_memory_equal(run.bytes ? run.bytes : "", bytes, length);
  assert_int_equal(run.count, (length + MESSAGE - 1) / MESSAGE);
  for (uint32_t i = 0; i + 1 < run.count; i++)
    assert_int_equal(run.lengths[i], MESSAGE);
  app_source_close(&source);
  free(run.bytes);
  free(bytes);
}

static void empty_file_has_no_message(void **state)
{
  (void)state;
  check_file(0);
}

static void one_byte_is_one_message(void **state)
{
  (void)state;
  check_file(1);
}

static void exact_multiple_ends_with_a_full_message(void **state)
{
  (void)state;
  check_file(3 * MESSAGE);
}

static void only_the_last_message_is_short(void **state)
{
  (void)state;
  check_file(1000 * MESSAGE + 7);
}

static void empty_file_in_a_loop_ends(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  uint64_t until_ns = UINT64_MAX;

  (void)state;
  write_file("in", "", 0);
  assert_int_equal(open_file("in", true, &source, &error), 0);
  assert_int_equal(source.ops->ready(source.state, 1, &until_ns, &error), -ENODATA);
  app_source_close(&source);
}

static void loop_begins_again_with_a_new_message(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_slot *slots = make_slots(4, MESSAGE);
  char bytes[MESSAGE + 50];
  uint64_t until_ns = UINT64_MAX;

  (void)state;
  for (size_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (char)i;
  write_file("in", bytes, sizeof(bytes));
  assert_int_equal(open_file("in", true, &source, &error), 0);
  for (int round = 0; round < 3; round++) {
    assert_int_equal(source.ops->ready(source.state, 4, &until_ns, &error), 2);
    assert_int_equal(source.ops->fill(source.state, NULL, slots, 2, &error), 0);
    assert_int_equal(slots[0].length, MESSAGE);
    assert_int_equal(slots[1].length, 50);
    assert_memory_equal(slots[0].host, bytes, MESSAGE);
    assert_memory_equal(slots[1].host, bytes + MESSAGE, 50);
  }
  app_source_close(&source);
  free(slots[0].host);
  free(slots);
}

static void missing_file_is_named(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(open_file("no/such/file", false, &source, &error), -ENOENT);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_non_null(strstr(error.text, "no/such/file"));
}

static void directory_is_refused(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(open_file(".", false, &source, &error), -EISDIR);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
}

static void unreadable_file_is_not_taken_for_an_empty_one(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(open_file("/proc/self/mem", false, &source, &error), -EIO);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_non_null(strstr(error.text, "cannot read source file /proc/self/mem"));
}

static void *feed_fifo(void *arg)
{
  const char *bytes = arg;
  int fd = open("fifo", O_WRONLY);
  for (size_t i = 0; i < 1234; i += 10) {
    size_t part = 1234 - i < 10 ? 1234 - i : 10;
    if (write(fd, bytes + i, part) != (ssize_t)part)
      break;
  }
  close(fd);
  return NULL;
}

static void fifo_waits_for_its_writer_and_keeps_every_byte(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  struct run run;
  char bytes[1234];
  uint64_t until_ns = UINT64_MAX;
  pthread_t writer;

  (void)state;
  for (size_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (char)(i * 7);
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_int_equal(open_file("fifo", false, &source, &error), 0);
  assert_int_equal(source.ops->ready(source.state, 1, &until_ns, &error), 0);
  assert_true(until_ns != UINT64_MAX);
  assert_int_equal(pthread_create(&writer, NULL, feed_fifo, bytes), 0);
  drain_source(&source, NULL, MESSAGE, &run);
  pthread_join(writer, NULL);
  assert_int_equal(run.result, -ENODATA);
  assert_int_equal(run.length, sizeof(bytes));
  assert_memory_equal(run.bytes, bytes, sizeof(bytes));
  assert_int_equal(run.count, 13);
  assert_int_equal(run.lengths[12], 34);
  free(run.bytes);
  app_source_close(&source);
  unlink("fifo");
}

static void fifo_in_a_loop_is_refused(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_int_equal(open_file("fifo", true, &source, &error), -ESPIPE);
  unlink("fifo");
}

static void file_cut_while_sent_is_an_error(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_slot *slots = make_slots(2, MESSAGE);
  char bytes[2 * MESSAGE] = {0};
  uint64_t until_ns = UINT64_MAX;

  (void)state;
  write_file("in", bytes, sizeof(bytes));
  assert_int_equal(open_file("in", false, &source, &error), 0);
  assert_int_equal(source.ops->ready(source.state, 2, &until_ns, &error), 2);
  assert_int_equal(truncate("in", 150), 0);
  assert_int_equal(source.ops->fill(source.state, NULL, slots, 2, &error), -EIO);
  assert_non_null(strstr(error.text, "shorter"));
  app_source_close(&source);
  free(slots[0].host);
  free(slots);
}

static void memory_without_cpu_access_is_refused(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_slot slot = {.capacity = MESSAGE};

  (void)state;
  write_file("in", "abc", 3);
  assert_int_equal(open_file("in", false, &source, &error), 0);
  assert_int_equal(source.ops->fill(source.state, NULL, &slot, 1, &error), -EOPNOTSUPP);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  app_source_close(&source);
}

static void unknown_type_is_refused(void **state)
{
  struct source source = {0};
  struct pst_error error = PST_ERROR_INIT;
  const struct source_params params = {.stream = "s", .message = MESSAGE};

  (void)state;
  assert_int_equal(app_source_open(&source, "fil", &params, &error), -EINVAL);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  app_source_close(&source);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_file_has_no_message),
      cmocka_unit_test(one_byte_is_one_message),
      cmocka_unit_test(exact_multiple_ends_with_a_full_message),
      cmocka_unit_test(only_the_last_message_is_short),
      cmocka_unit_test(empty_file_in_a_loop_ends),
      cmocka_unit_test(loop_begins_again_with_a_new_message),
      cmocka_unit_test(missing_file_is_named),
      cmocka_unit_test(directory_is_refused),
      cmocka_unit_test(unreadable_file_is_not_taken_for_an_empty_one),
      cmocka_unit_test(fifo_waits_for_its_writer_and_keeps_every_byte),
      cmocka_unit_test(fifo_in_a_loop_is_refused),
      cmocka_unit_test(file_cut_while_sent_is_an_error),
      cmocka_unit_test(memory_without_cpu_access_is_refused),
      cmocka_unit_test(unknown_type_is_refused),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown) ? 1 : 0;
}
