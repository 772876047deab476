/* SPDX-License-Identifier: Apache-2.0 */
/* Effects of a library's constructors on the process that opens a plugin, and of the process on
 * them. */
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "util/log.h"

#define WORDS "opened with FIXTURE_MODE=quiet, FIXTURE_OTHER=1 in the environment\n"
#define RESTORED                                                                                   \
  "changed the handling of signals; restored: 1 (Hangup), 11 (Segmentation fault), 64 (Real-time " \
  "signal 30)\n"

static volatile sig_atomic_t handled;

static void handle(int number)
{
  handled = number;
}

/* Returns the value that the constructor of a library saw in the environment. */
static const char *saw(const char *library)
{
  char path[512];
  void *handle_of;

  snprintf(path, sizeof(path), "%s/lib%s.so", PST_FIXTURES, library);
  handle_of = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(handle_of);
  dlclose(handle_of);
  return dlsym(handle_of, "fixture_saw");
}

static char **environment_copy(void)
{
  size_t count = 0;
  char **copy;

  while (environ[count])
    count++;
  copy = calloc(count + 1, sizeof(*copy));
  assert_non_null(copy);
  memcpy(copy, environ, count * sizeof(*copy));
  return copy;
}

static void assert_environment(char **expected)
{
  size_t i = 0;

  for (; expected[i]; i++)
    assert_ptr_equal(environ[i], expected[i]);
  assert_null(environ[i]);
  free(expected);
}

/* A handler of the program's own, a signal that is ignored, one that ends the program. cmocka has
 * handlers of its own before each test; under nohup SIGHUP is ignored. */
static void signals_set(void)
{
  const struct sigaction own = {.sa_handler = handle, .sa_flags = SA_RESTART};
  const struct sigaction ignored = {.sa_handler = SIG_IGN};
  const struct sigaction usual = {.sa_handler = SIG_DFL};

  assert_int_equal(sigaction(SIGSEGV, &own, NULL), 0);
  assert_int_equal(sigaction(SIGRTMAX, &ignored, NULL), 0);
  assert_int_equal(sigaction(SIGHUP, &usual, NULL), 0);
}

static void assert_signals(void)
{
  struct sigaction now;

  assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
  assert_ptr_equal(now.sa_handler, handle);
  assert_true(now.sa_flags & SA_RESTART);
  assert_int_equal(sigaction(SIGRTMAX, NULL, &now), 0);
  assert_ptr_equal(now.sa_handler, SIG_IGN);
  assert_int_equal(sigaction(SIGHUP, NULL, &now), 0);
  assert_ptr_equal(now.sa_handler, SIG_DFL);
  handled = 0;
  raise(SIGSEGV);
  assert_int_equal(handled, SIGSEGV);
}

static int load(const char *name)
{
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;

  return loader_load(PST_KIND_TRANSPORT, name, &plugin, &error);
}

static int begin(void **state)
{
  (void)state;
  log_capture();
  unsetenv("FIXTURE_MADE");
  return 0;
}

static void variables_are_there_while_it_is_opened(void **state)
{
  char **before = environment_copy();

  (void)state;
  signals_set();
  assert_int_equal(load("patching"), 0);
  assert_string_equal(saw("fixture_patching"), "quiet");
  /* A variable that the library sets itself stays. */
  assert_string_equal(getenv("FIXTURE_MADE"), "by a library");
  unsetenv("FIXTURE_MADE");
  assert_environment(before);
  assert_signals();
  assert_string_equal(log_text(), PST_FIXTURES "/transport-patching.so: " WORDS PST_FIXTURES
                                               "/transport-patching.so: opening it " RESTORED);
  assert_int_equal(log_level(), PST_LOG_DEBUG);
}

static void what_the_user_has_set_stays(void **state)
{
  char **before;

  (void)state;
  setenv("FIXTURE_MODE", "the user's", 1);
  before = environment_copy();
  assert_int_equal(load("patching_user"), 0);
  assert_string_equal(saw("fixture_patching_user"), "the user's");
  unsetenv("FIXTURE_MADE");
  assert_environment(before);
  assert_non_null(strstr(log_text(), ": opened with FIXTURE_OTHER=1 in the environment\n"));
  assert_non_null(strstr(log_text(), ": opened with the environment's own FIXTURE_MODE\n"));
  unsetenv("FIXTURE_MODE");
}

static void without_any_environment(void **state)
{
  char **before = environ;

  (void)state;
  environ = NULL;
  assert_int_equal(load("environment_unopened"), -ELIBBAD);
  assert_true(!environ || !environ[0]);
  environ = before;
}

static void a_file_that_cannot_be_opened_leaves_nothing(void **state)
{
  char **before = environment_copy();

  (void)state;
  assert_int_equal(load("environment_unopened"), -ELIBBAD);
  assert_non_null(strstr(log_text(), WORDS));
  assert_environment(before);
}

static void signals_are_restored_behind_a_library_bound_at_run_time(void **state)
{
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;
  void *library = NULL;

  (void)state;
  assert_int_equal(loader_load(PST_KIND_TRANSPORT, "good", &plugin, &error), 0);
  signals_set();
  log_clear();
  assert_int_equal(plugin->host->library_open(
                       plugin->host, PST_FIXTURES "/libfixture_patching_bound.so", &library),
                   0);
  assert_string_equal(saw("fixture_patching_bound"), "");
  assert_signals();
  assert_string_equal(log_text(), "transport good: opening " PST_FIXTURES
                                  "/libfixture_patching_bound.so " RESTORED);
}

static int calls;

static void calling_sink(void *context, int level, const char *line)
{
  (void)context, (void)level, (void)line;
  if (calls++ == 0)
    assert_non_null(describe(PST_KIND_TRANSPORT, "good"));
}

/* The loader's lock is free by then. */
static void a_sink_may_call_the_loader(void **state)
{
  (void)state;
  pst_log_set(calling_sink, NULL, PST_LOG_DEBUG);
  assert_null(describe(PST_KIND_TRANSPORT, "bad_described"));
  assert_int_equal(load("environment_unopened"), -ELIBBAD);
  assert_true(calls > 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(variables_are_there_while_it_is_opened, begin),
      cmocka_unit_test_setup(what_the_user_has_set_stays, begin),
      cmocka_unit_test_setup(without_any_environment, begin),
      cmocka_unit_test_setup(a_file_that_cannot_be_opened_leaves_nothing, begin),
      cmocka_unit_test_setup(signals_are_restored_behind_a_library_bound_at_run_time, begin),
      cmocka_unit_test_setup(a_sink_may_call_the_loader, begin),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
