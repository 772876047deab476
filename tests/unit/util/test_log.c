/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/log.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/log.h"

/* ---- As a child: what stderr gets --------------------------------------------- */

enum { THREADS = 4, LINES = 500 };

static void *log_many(void *arg)
{
  for (int i = 0; i < LINES; i++)
    pst_log(PST_LOG_INFO, "%s", (const char *)arg);
  return NULL;
}

static void number_line(void *context, int level, const char *line)
{
  (void)context;
  fprintf(stderr, "%d %s\n", level, line);
}

static void child(const char *what)
{
  pthread_t threads[THREADS];
  char lines[THREADS][3000];

  if (strcmp(what, "levels") == 0) {
    pst_log(PST_LOG_ERROR, "one");
    pst_log(PST_LOG_WARN, "two");
    pst_log(PST_LOG_INFO, "three");
    pst_log(PST_LOG_DEBUG, "four");
    return;
  }
  if (strcmp(what, "sink") == 0) {
    fprintf(stderr, "level %d\n", pst_log_level());
    pst_log_set(number_line, NULL, PST_LOG_WARN);
    fprintf(stderr, "level %d\n", pst_log_level());
    return;
  }
  for (int i = 0; i < THREADS; i++) {
    memset(lines[i], 'a' + i, sizeof(lines[i]) - 1);
    lines[i][sizeof(lines[i]) - 1] = '\0';
    pthread_create(&threads[i], NULL, log_many, lines[i]);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* stderr of this program run again with `what`, PENSTOCK_LOG set to `level`. */
static char *run_child(const char *what, const char *level)
{
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  int ends[2], status;
  ssize_t n;
  pid_t pid;

  assert_int_equal(pipe(ends), 0);
  pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (level)
      setenv("PENSTOCK_LOG", level, 1);
    else
      unsetenv("PENSTOCK_LOG");
    execl("/proc/self/exe", "test_log", what, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  while ((n = read(ends[0], text + size, room - size - 1)) > 0) {
    size += (size_t)n;
    if (room - size < 4096)
      text = realloc(text, room *= 2);
  }
  text[size] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  return text;
}

static void expect_child_of(const char *what, const char *level, const char *expected)
{
  char *text = run_child(what, level);

  assert_string_equal(text, expected);
  free(text);
}

static void expect_child(const char *level, const char *expected)
{
  expect_child_of("levels", level, expected);
}

/* A program that sets a sink may keep the level that its user asked for. */
static void test_level_and_complaint_reach_a_sink(void **state)
{
  (void)state;
  expect_child_of("sink", NULL, "level 2\nlevel 1\n");
  expect_child_of("sink", "debug", "level 3\nlevel 1\n");
  expect_child_of("sink", "loud",
                  "level 2\n1 PENSTOCK_LOG=loud is not a log level, and info is used; "
                  "write error, warn, info or debug\nlevel 1\n");
}

static void test_default_level(void **state)
{
  (void)state;
  expect_child(NULL, "penstock: error: one\npenstock: warning: two\npenstock: three\n");
  expect_child("", "penstock: error: one\npenstock: warning: two\npenstock: three\n");
}

static void test_level_from_environment(void **state)
{
  (void)state;
  expect_child("error", "penstock: error: one\n");
  expect_child("warn", "penstock: error: one\npenstock: warning: two\n");
  expect_child("debug", "penstock: error: one\npenstock: warning: two\npenstock: three\n"
                        "penstock: debug: four\n");
}

static void test_unknown_level_is_reported(void **state)
{
  (void)state;
  expect_child("loud", "penstock: warning: PENSTOCK_LOG=loud is not a log level, and info is used; "
                       "write error, warn, info or debug\n"
                       "penstock: error: one\npenstock: warning: two\npenstock: three\n");
}

static void test_lines_stay_whole(void **state)
{
  char *text = run_child("many", NULL), *line = text, *end;
  int lines = 0;

  (void)state;
  for (; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++) {
    *end = '\0';
    assert_int_equal(end - line, 10 + 2999);
    assert_memory_equal(line, "penstock: ", 10);
    for (const char *c = line + 10; *c; c++)
      assert_int_equal(*c, line[10]);
  }
  assert_int_equal(lines, THREADS * LINES);
  free(text);
}

/* ---- In this process ----------------------------------------------------------- */

static char seen[8192];
static int seen_level, seen_count;

static void sink(void *context, int level, const char *line)
{
  assert_ptr_equal(context, &seen);
  snprintf(seen, sizeof(seen), "%s", line);
  seen_level = level;
  seen_count++;
  errno = EBADF;
}

static int use_sink(void **state)
{
  (void)state;
  seen[0] = '\0';
  seen_count = 0;
  pst_log_set(sink, &seen, PST_LOG_INFO);
  pst_log_clear_error();
  return 0;
}

static void test_sink_and_level(void **state)
{
  (void)state;
  pst_log(PST_LOG_WARN, "%d of %s", 3, "four");
  assert_string_equal(seen, "3 of four");
  assert_int_equal(seen_level, PST_LOG_WARN);
  pst_log(PST_LOG_DEBUG, "unheard");
  assert_int_equal(seen_count, 1);
  assert_false(pst_log_enabled(PST_LOG_DEBUG));
  pst_log_set(sink, &seen, PST_LOG_DEBUG);
  assert_true(pst_log_enabled(PST_LOG_DEBUG));
  pst_log(PST_LOG_DEBUG, "heard");
  assert_string_equal(seen, "heard");
}

static void test_errno_is_kept(void **state)
{
  (void)state;
  errno = ENOSPC;
  pst_log(PST_LOG_WARN, "x");
  assert_int_equal(errno, ENOSPC);
  assert_int_equal(pst_fail(NULL, 1, -EIO, "x"), -EIO);
  assert_int_equal(errno, ENOSPC);
}

static void test_length_is_bounded(void **state)
{
  char text[9000];
  size_t n;

  (void)state;
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  pst_log(PST_LOG_INFO, "%s", text);
  n = strlen(seen);
  assert_true(n > 4000 && n < 4096);
  assert_string_equal(seen + n - 4, "x…");
}

/* A cut never leaves half a character. */
static void test_cut_between_characters(void **state)
{
  char text[9000];

  (void)state;
  for (int shift = 0; shift < 4; shift++) {
    size_t n = (size_t)shift;

    memset(text, 'x', n);
    while (n + 3 < sizeof(text)) {
      memcpy(text + n, "€", 3);
      n += 3;
    }
    text[n] = '\0';
    pst_log(PST_LOG_INFO, "%s", text);
    n = strlen(seen);
    assert_string_equal(seen + n - 6, "€…");
  }
}

/* A peer's text can neither begin a line of its own nor steer a terminal. */
static void test_control_characters(void **state)
{
  (void)state;
  pst_log(PST_LOG_INFO, "%s", "a\nb\r\tc\033[31md\177 µ");
  assert_string_equal(seen, "a b  c [31md  µ");
  /* CSI as UTF-8 and as a byte, right-to-left override and isolate, line separator */
  pst_log(PST_LOG_INFO, "%s",
          "a\xc2\x9b"
          "2Jb\x9b"
          "c\u202ed\u2067e\u2028f\u00a0g\xe2\x80");
  assert_string_equal(seen, "a  2Jb c   d   e   f\u00a0g  ");
}

static void test_last_error(void **state)
{
  (void)state;
  assert_string_equal(pst_log_last_error(), "");
  pst_log(PST_LOG_WARN, "a warning");
  assert_string_equal(pst_log_last_error(), "");
  pst_log(PST_LOG_ERROR, "first");
  pst_log(PST_LOG_ERROR, "second");
  pst_log(PST_LOG_INFO, "news");
  assert_string_equal(pst_log_last_error(), "second");
  pst_log_clear_error();
  assert_string_equal(pst_log_last_error(), "");
}

static void *other_thread(void *arg)
{
  (void)arg;
  return (void *)(intptr_t)(pst_log_last_error()[0] == '\0');
}

static void test_last_error_is_the_threads(void **state)
{
  pthread_t thread;
  void *was_empty;

  (void)state;
  pst_log(PST_LOG_ERROR, "mine");
  assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
  pthread_join(thread, &was_empty);
  assert_non_null(was_empty);
}

static void nested_sink(void *context, int level, const char *line)
{
  (void)level;
  (void)line;
  ++*(int *)context;
  pst_log(PST_LOG_DEBUG, "from a sink");
  pst_log_set(sink, &seen, PST_LOG_INFO);
}

static void test_sink_that_logs(void **state)
{
  int calls = 0;

  (void)state;
  pst_log_set(nested_sink, &calls, PST_LOG_INFO);
  pst_log(PST_LOG_INFO, "once");
  assert_int_equal(calls, 1);
  pst_log(PST_LOG_INFO, "twice");
  assert_int_equal(calls, 1);
  assert_string_equal(seen, "twice");
}

/* ---- pst_fail -------------------------------------------------------------------- */

static void test_fail_fills_and_appends(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(pst_fail(&error, PST_EXIT_USAGE, -EINVAL, "a.yaml:%d: no", 1), -EINVAL);
  assert_string_equal(seen, "a.yaml:1: no");
  assert_int_equal(seen_level, PST_LOG_ERROR);
  assert_int_equal(pst_fail(&error, PST_EXIT_FAILED, -ENOMEM, "two"), -ENOMEM);
  assert_string_equal(error.text, "a.yaml:1: no\ntwo");
  assert_int_equal(error.code, -EINVAL);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_int_equal(seen_count, 2);
}

static void test_fail_without_error(void **state)
{
  (void)state;
  assert_int_equal(pst_fail(NULL, PST_EXIT_FAILED, -EIO, "gone"), -EIO);
  assert_string_equal(seen, "gone");
  assert_string_equal(pst_log_last_error(), "gone");
}

static void test_fail_text_is_bounded(void **state)
{
  struct {
    struct pst_error error;
    char guard[16];
  } s = {.error = PST_ERROR_INIT, .guard = "untouched"};

  (void)state;
  for (int i = 0; i < 100; i++)
    pst_fail(&s.error, 1, -EIO, "line %d of a hundred, with some words to fill it", i);
  assert_int_equal(strlen(s.error.text), sizeof(s.error.text) - 1);
  assert_string_equal(s.error.text + sizeof(s.error.text) - 4, "…");
  assert_string_equal(s.guard, "untouched");
}

/* An application built with an older, shorter struct. */
static void test_fail_keeps_to_struct_size(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  memset(error.text, 'q', sizeof(error.text));
  error.text[0] = '\0';
  error.struct_size = offsetof(struct pst_error, text) + 32;
  pst_fail(&error, 1, -EIO, "%s", "0123456789012345678901234567890123456789");
  assert_int_equal(strlen(error.text), 31);
  assert_int_equal(error.text[32], 'q');
  error.struct_size = 4;
  error.code = 0;
  pst_fail(&error, 1, -EIO, "x");
  assert_int_equal(error.code, 0);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_default_level),
      cmocka_unit_test(test_level_from_environment),
      cmocka_unit_test(test_unknown_level_is_reported),
      cmocka_unit_test(test_level_and_complaint_reach_a_sink),
      cmocka_unit_test(test_lines_stay_whole),
      cmocka_unit_test_setup(test_sink_and_level, use_sink),
      cmocka_unit_test_setup(test_errno_is_kept, use_sink),
      cmocka_unit_test_setup(test_length_is_bounded, use_sink),
      cmocka_unit_test_setup(test_cut_between_characters, use_sink),
      cmocka_unit_test_setup(test_control_characters, use_sink),
      cmocka_unit_test_setup(test_last_error, use_sink),
      cmocka_unit_test_setup(test_last_error_is_the_threads, use_sink),
      cmocka_unit_test_setup(test_sink_that_logs, use_sink),
      cmocka_unit_test_setup(test_fail_fills_and_appends, use_sink),
      cmocka_unit_test_setup(test_fail_without_error, use_sink),
      cmocka_unit_test_setup(test_fail_text_is_bounded, use_sink),
      cmocka_unit_test_setup(test_fail_keeps_to_struct_size, use_sink),
  };

  if (argc > 1) {
    child(argv[1]);
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
