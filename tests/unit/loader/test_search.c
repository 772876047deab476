/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are found, which one wins, and the message for a missing one. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "util/log.h"

#define T PST_KIND_TRANSPORT

static const struct loader_plugin *load(const char *name)
{
  const struct loader_plugin *plugin = NULL;
  struct pst_error error = PST_ERROR_INIT;

  log_capture();
  if (loader_load(T, name, &plugin, &error) < 0)
    fail_msg("%s", error.text);
  return plugin;
}

static void expect_missing(uint32_t kind, const char *name, int exit_status, const char *head)
{
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;

  log_capture();
  assert_int_equal(loader_load(kind, name, &plugin, &error), -ENOENT);
  assert_int_equal(error.exit_status, exit_status);
  if (strncmp(error.text, head, strlen(head)) != 0)
    fail_msg("%s", error.text);
  assert_non_null(strstr(error.text, "looked in: "));
}

static void test_beside_the_program(void **state)
{
  const struct loader_plugin *plugin = load("good");

  (void)state;
  assert_string_equal(plugin->path, PST_FIXTURES "/transport-good.so");
  assert_string_equal(plugin->name, "good");
  assert_int_equal(plugin->kind, T);
  assert_non_null(plugin->transport);
  assert_null(plugin->memory);
  assert_string_equal(plugin->description->summary, "A fixture of the loader's tests");
  assert_string_equal(log_text(), "");
}

static void test_loaded_once(void **state)
{
  (void)state;
  assert_ptr_equal(load("good"), load("good"));
}

static void test_kinds_are_apart(void **state)
{
  const struct loader_plugin *filter;

  (void)state;
  assert_int_equal(loader_load(PST_KIND_FILTER, "good", &filter, NULL), 0);
  assert_ptr_not_equal(filter, load("good"));
  assert_string_equal(filter->path, PST_FIXTURES "/filter-good.so");
}

static void test_nearest_name(void **state)
{
  (void)state;
  expect_missing(T, "goood", PST_EXIT_USAGE,
                 "no transport is named 'goood'; did you mean 'good'? looked in: ");
  expect_missing(T, "descirbed", PST_EXIT_USAGE,
                 "no transport is named 'descirbed'; did you mean 'described'? looked in: ");
}

static void test_no_name_near(void **state)
{
  (void)state;
  expect_missing(T, "quantum", PST_EXIT_USAGE, "no transport is named 'quantum'; looked in: ");
}

static void test_other_kind_of_that_name(void **state)
{
  (void)state;
  expect_missing(T, "heap", PST_EXIT_USAGE,
                 "no transport is named 'heap', but there is a memory of that name; looked in: ");
}

static void test_name_is_no_path(void **state)
{
  (void)state;
  expect_missing(T, "../good", PST_EXIT_USAGE, "no transport is named '../good'");
  expect_missing(T, "", PST_EXIT_USAGE, "no transport is named ''");
  assert_null(describe(T, "../good"));
}

static void test_described_but_not_built(void **state)
{
  (void)state;
  expect_missing(T, "described", PST_EXIT_UNAVAILABLE,
                 "transport 'described' is known but not built here: it needs libfixture and a "
                 "device of that kind; looked in: ");
  assert_string_equal(describe(T, "described")->name, "described");
}

static void test_missing_folder_is_reported(void **state)
{
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  log_capture();
  assert_int_equal(pst_plugin_path_add("/nowhere/at/all"), 0);
  assert_int_equal(loader_load(T, "quantum", &plugin, &error), -ENOENT);
  assert_non_null(strstr(error.text, "/nowhere/at/all (No such file or directory), "));
  assert_int_equal(pst_plugin_path_add(""), -EINVAL);
  assert_int_equal(pst_plugin_path_add(NULL), -EINVAL);
}

static void test_environment(void **state)
{
  char *folder = scratch_new(), *path, value[4096];
  const struct loader_plugin *plugin;

  (void)state;
  path = strdup(scratch_copy(folder, "transport-twin.so", "transport-twin.so", 0, -1, 0));
  snprintf(value, sizeof(value), ":/nowhere::%s:%s", folder, folder);
  setenv("PENSTOCK_PLUGIN_PATH", value, 1);
  plugin = load("twin");
  unsetenv("PENSTOCK_PLUGIN_PATH");
  assert_string_equal(plugin->path, path);
  /* The build tree comes later. That its twin is not used is no news to a user. */
  assert_int_equal(log_level(), PST_LOG_DEBUG);
  snprintf(value, sizeof(value), "%s/transport-twin.so: shadowed by %s\n", PST_FIXTURES, path);
  assert_string_equal(log_text(), value);
  free(path);
  scratch_free(folder);
}

static void test_environment_of_others_is_ignored(void **state)
{
  char *folder = scratch_new();
  const struct loader_plugin *plugin;

  (void)state;
  scratch_copy(folder, "transport-linked.so", "transport-linked.so", 0, -1, 0);
  setenv("PENSTOCK_PLUGIN_PATH", folder, 1);
  fake_secure = 1;
  plugin = load("linked");
  assert_string_equal(plugin->path, PST_FIXTURES "/transport-linked.so");
  assert_string_equal(log_text(),
                      "PENSTOCK_PLUGIN_PATH is ignored: this program runs with other privileges "
                      "than its caller's; install the plugins\n");
  fake_secure = 0;
  unsetenv("PENSTOCK_PLUGIN_PATH");
  scratch_free(folder);
}

/* An installed tree that was moved: its plugins lie beside the library. */
static void test_moved_installation(void **state)
{
  char folder[4096], file[4200];
  ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 32);
  const struct loader_plugin *plugin = NULL;
  int rc;

  (void)state;
  assert_true(n > 0);
  folder[n] = '\0';
  strcpy(strrchr(folder, '/'), "/penstock");
  assert_int_equal(mkdir(folder, 0755), 0);
  snprintf(file, sizeof(file), "%s",
           scratch_copy(folder, "transport-moved.so", "moved.so", 0, -1, 0));
  log_capture();
  rc = loader_load(T, "moved", &plugin, NULL);
  unlink(file);
  rmdir(folder);
  assert_int_equal(rc, 0);
  assert_string_equal(plugin->path, file);
}

/* A rejected one does not hide a good one of a later folder, and is not silent. */
static void test_rejected_then_good(void **state)
{
  char *folder = scratch_new(), expected[4096];
  const char *path;

  (void)state;
  path = scratch_copy(folder, "transport-unusable.so", "transport-good.so", 100, -1, 0);
  assert_int_equal(pst_plugin_path_add(folder), 0);
  assert_string_equal(load("unusable")->path, PST_FIXTURES "/transport-unusable.so");
  snprintf(expected, sizeof(expected), "%s: cut short: has 100 bytes, its headers speak of ", path);
  assert_memory_equal(log_text(), expected, strlen(expected));
  scratch_free(folder);
}

static void test_stale_description(void **state)
{
  const struct pst_description *description = describe(T, "stale");

  (void)state;
  assert_string_equal(description->version, "0");
  load("stale");
  assert_string_equal(log_text(),
                      PST_FIXTURES "/transport-stale.so: the description beside it is of another "
                                   "build, so its options may have been checked wrongly; build "
                                   "both anew\n");
}

static void test_describe_without_description_file(void **state)
{
  const struct pst_description *description = describe(PST_KIND_MEMORY, "heap");

  (void)state;
  assert_non_null(description);
  assert_string_equal(description->name, "heap");
  assert_int_equal(description->kind, PST_KIND_MEMORY);
  assert_ptr_equal(description, describe(PST_KIND_MEMORY, "heap"));
}

static void test_bad_description_is_reported_once(void **state)
{
  (void)state;
  log_capture();
  assert_null(describe(T, "bad_described"));
  assert_string_equal(log_text(),
                      PST_FIXTURES "/transport-bad_described.desc.so: its pst_description has 8 "
                                   "bytes, this host's has 96; build it with this host's "
                                   "headers\n");
  log_clear();
  assert_null(describe(T, "bad_described"));
  assert_string_equal(log_text(), "");
}

static void test_catalog(void **state)
{
  const struct config_catalog *catalog = loader_catalog();
  const char *names[200], *few[2] = {NULL, NULL};
  size_t count = catalog->names(catalog->context, T, names, 200);
  int good = 0, described = 0, heap = 0;

  (void)state;
  assert_true(count > 10 && count < 200);
  for (size_t i = 0; i < count; i++) {
    good += strcmp(names[i], "good") == 0;
    described += strcmp(names[i], "described") == 0;
    heap += strcmp(names[i], "heap") == 0;
  }
  assert_int_equal(good, 1);
  assert_int_equal(described, 1);
  assert_int_equal(heap, 0);
  assert_int_equal(catalog->names(catalog->context, T, few, 1), 1);
  assert_null(few[1]);
  assert_ptr_equal(catalog->find(catalog->context, T, "described"), describe(T, "described"));
  assert_null(catalog->find(catalog->context, T, "nothing"));
  assert_null(catalog->find(catalog->context, 77, "good"));
}

/* The list of the build's folders cannot be read then: that is not an empty list. */
static void test_no_descriptor_left(void **state)
{
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;
  struct rlimit before, none;
  char why[512];

  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
  log_capture();
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  int rc = loader_load(T, "major2", &plugin, &error);
  bool rejected = loader_catalog()->missing(NULL, T, "major2", why, sizeof(why));
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(rc, -EMFILE);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  assert_string_equal(error.text, "transport 'major2': plugins cannot be looked for: Too many open "
                                  "files; raise `ulimit -n`");
  assert_true(rejected);
  assert_string_equal(why, "plugins cannot be looked for: Too many open files; raise `ulimit -n`");
}

static void test_no_such_kind(void **state)
{
  const struct loader_plugin *plugin;

  (void)state;
  log_capture();
  assert_int_equal(loader_load(0, "good", &plugin, NULL), -EINVAL);
  assert_int_equal(loader_load(9, "good", &plugin, NULL), -EINVAL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beside_the_program),
      cmocka_unit_test(test_loaded_once),
      cmocka_unit_test(test_kinds_are_apart),
      cmocka_unit_test(test_nearest_name),
      cmocka_unit_test(test_no_name_near),
      cmocka_unit_test(test_other_kind_of_that_name),
      cmocka_unit_test(test_name_is_no_path),
      cmocka_unit_test(test_described_but_not_built),
      cmocka_unit_test(test_missing_folder_is_reported),
      cmocka_unit_test(test_environment),
      cmocka_unit_test(test_environment_of_others_is_ignored),
      cmocka_unit_test(test_moved_installation),
      cmocka_unit_test(test_rejected_then_good),
      cmocka_unit_test(test_stale_description),
      cmocka_unit_test(test_describe_without_description_file),
      cmocka_unit_test(test_bad_description_is_reported_once),
      cmocka_unit_test(test_catalog),
      cmocka_unit_test(test_no_descriptor_left),
      cmocka_unit_test(test_no_such_kind),
  };

  unsetenv("PENSTOCK_PLUGIN_PATH");
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
