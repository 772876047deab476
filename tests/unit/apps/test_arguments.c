/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/arguments.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "arguments.h"
#include "log.h"
#include "support.h"

static const struct command all = {
    .name = "run",
    .operand = "FILE",
    .options = OPTION_DURATION | OPTION_COUNT | OPTION_JSON | OPTION_STREAM | OPTION_SET |
               OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .help = "",
};
static const struct command few = {
    .name = "check", .operand = "FILE", .options = OPTION_SET, .help = ""};

/* Parse words, NULL-terminated; what was said on stderr goes to `said`. */
static enum arguments_result parse(const struct command *command, const char *const *words,
                                   struct arguments *arguments, char *said, size_t size)
{
  char *argv[16] = {(char *)(uintptr_t)command->name};
  int argc = 1, pipes[2], kept = dup(STDERR_FILENO);

  for (; words[argc - 1] != NULL; argc++)
    argv[argc] = (char *)(uintptr_t)words[argc - 1];
  assert_int_equal(pipe(pipes), 0);
  dup2(pipes[1], STDERR_FILENO);
  app_log_level(PST_LOG_ERROR);
  enum arguments_result result = app_arguments_parse(command, argc, argv, arguments);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(pipes[1]);
  ssize_t got = read(pipes[0], said, size - 1);
  said[got > 0 ? got : 0] = '\0';
  close(pipes[0]);
  return result;
}

static unsigned long is_secure; /* the file has capabilities, or is set-user-ID */

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type)
{
  return type == AT_SECURE ? is_secure : __real_getauxval(type);
}

static void plugins_are_not_the_callers_where_privileges_are_not(void **state)
{
  const char *const words[] = {"--plugin-path", "here", "a.yaml", NULL};
  struct arguments arguments;
  char said[512];

  (void)state;
  assert_int_equal(parse(&all, words, &arguments, said, sizeof(said)), ARGUMENTS_OK);
  assert_int_equal(arguments.plugin_path_count, 1);
  app_arguments_free(&arguments);
  is_secure = 1;
  assert_int_equal(parse(&all, words, &arguments, said, sizeof(said)), ARGUMENTS_WRONG);
  is_secure = 0;
  assert_non_null(strstr(said, "--plugin-path is refused"));
  app_arguments_free(&arguments);
}

static void every_option_arrives(void **state)
{
  const char *const words[] = {"--duration", "1.5",      "a.yaml", "--count=7", "--json",
                               "-",          "--set",    "a=1",    "--set",     "b=2=3",
                               "-qvv",       "--stream", "s",      NULL};
  struct arguments arguments;
  char said[512];

  (void)state;
  assert_int_equal(parse(&all, words, &arguments, said, sizeof(said)), ARGUMENTS_OK);
  assert_string_equal(said, "");
  assert_string_equal(arguments.operand, "a.yaml");
  assert_true(arguments.duration_set);
  assert_int_equal(arguments.duration_ns, 1500000000);
  assert_true(arguments.count_set);
  assert_int_equal(arguments.count, 7);
  assert_string_equal(arguments.json, "-");
  assert_int_equal(arguments.set_count, 2);
  assert_string_equal(arguments.sets[1], "b=2=3");
  assert_int_equal(arguments.stream_count, 1);
  assert_true(arguments.quiet);
  assert_int_equal(arguments.verbose, 2);
  assert_string_equal(arguments.line, "penstock run --duration 1.5 a.yaml --count=7 --json - --set "
                                      "a=1 --set b=2=3 -qvv --stream s");
  app_arguments_free(&arguments);
}

static void table_of_what_is_wrong(void **state)
{
  static const struct {
    const struct command *command;
    const char *words[7];
    const char *said, *where;
  } wrong[] = {
      {&all, {NULL}, "FILE is missing", NULL},
      {&all, {"a", "b", NULL}, "'b' is too many", NULL},
      {&all, {"a", "--jsno", "x", NULL}, "did you mean '--json'?", "--jsno"},
      {&all, {"a", "--duratoin=3", NULL}, "did you mean '--duration'?", "--duratoin"},
      {&all, {"a", "-x", NULL}, "unknown option '-x'", "-x"},
      {&all, {"a", "--wholly-different", NULL}, "unknown option", "--wholly-different"},
      {&all, {"a", "--json", NULL}, "'--json' needs a value", "--json"},
      {&all, {"a", "--duration", "--json", "x", NULL}, "'--duration' needs a value", "--duration"},
      {&all, {"a", "--quiet=yes", NULL}, "takes no value", "--quiet"},
      {&all, {"a", "--duration", "soon", NULL}, "--duration 'soon'", "--duration"},
      {&all, {"a", "--duration", "0", NULL}, "above 0", "--duration"},
      {&all, {"a", "--duration", "-1", NULL}, "--duration '-1'", "--duration"},
      {&all, {"a", "--count", "-1", NULL}, "--count '-1'", "--count"},
      {&all, {"a", "--count", "1k", NULL}, "--count '1k'", "--count"},
      {&all, {"a", "--count", "99999999999999999999", NULL}, "2^64", "--count"},
      {&all, {"a", "--set", "novalue", NULL}, "PATH=VALUE", "--set"},
      {&all, {"a", "--set", "=1", NULL}, "PATH=VALUE", "--set"},
      {&few, {"a", "--count", "1", NULL}, "option of other subcommands", "--count"},
      {&all, {"a", "--count", "1", "--count=2", NULL}, "'2'; write it once", "--count"},
      {&all, {"a", "--count=1", "--count", "1", NULL}, "--count is written twice", "--count"},
      {&all, {"--json", "x", "a", "--json", "y", NULL}, "--json is written twice", "--json"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    struct arguments arguments;
    char said[1024];
    assert_int_equal(parse(wrong[i].command, wrong[i].words, &arguments, said, sizeof(said)),
                     ARGUMENTS_WRONG);
    if (!strstr(said, wrong[i].said))
      fail_msg("row %zu: '%s' is not in '%s'", i, wrong[i].said, said);
    assert_non_null(strstr(said, "--help"));
    if (!wrong[i].where)
      assert_null(app_log_last_where());
    else
      assert_string_equal(app_log_last_where(), wrong[i].where);
    app_arguments_free(&arguments);
  }
}

/* The result that says what is wrong has a FILE, on whichever side of the fault it is named. */
static void what_is_wrong_hides_no_json(void **state)
{
  static const struct {
    const struct command *command;
    const char *words[6], *json;
  } rows[] = {
      {&all, {"a", "--jsno", "x", "--json", "out", NULL}, "out"},
      {&all, {"a", "--json=out", "-x", NULL}, "out"},
      {&all, {"a", "--count", "1k", "--json", "out", NULL}, "out"},
      {&all, {"a", "b", "--json", "out", NULL}, "out"},
      {&all, {"--json", "out", NULL}, "out"},
      {&all, {"a", "-x", "--json=", NULL}, NULL},
      {&all, {"a", "--json=", NULL}, NULL},
      {&all, {"a", "-x", "--json", NULL}, NULL},
      {&all, {"a", "-x", "--count", "--json", "out", NULL}, "out"},
      {&all, {"a", "-x", "--json", "--count", "5", NULL}, NULL},
      {&few, {"a", "-x", "--json", "out", NULL}, NULL},
      {&all, {"a", "--json", "x", "--json", "out", NULL}, "out"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct arguments arguments;
    char said[1024];
    assert_int_equal(parse(rows[i].command, rows[i].words, &arguments, said, sizeof(said)),
                     ARGUMENTS_WRONG);
    if (!rows[i].json ? arguments.json != NULL
                      : !arguments.json || strcmp(arguments.json, rows[i].json) != 0)
      fail_msg("row %zu: %s", i, arguments.json);
    assert_non_null(strchr(said, '\n'));
    assert_string_equal(strchr(said, '\n') + 1, ""); /* the first fault alone */
    app_arguments_free(&arguments);
  }
}

static void help_wins_over_a_missing_file(void **state)
{
  const char *const words[] = {"--help", NULL};
  struct arguments arguments;
  char said[256];

  (void)state;
  assert_int_equal(parse(&few, words, &arguments, said, sizeof(said)), ARGUMENTS_HELP);
  assert_string_equal(said, "");
  app_arguments_free(&arguments);
}

static void table_of_durations(void **state)
{
  static const struct {
    const char *text;
    int result;
    uint64_t ns;
  } rows[] = {
      {"3", 0, 3000000000},      {"1.5", 0, 1500000000},    {"250ms", 0, 250000000},
      {"250 ms", 0, 250000000},  {"10us", 0, 10000},        {"7ns", 0, 7},
      {"2min", 0, 120000000000}, {"1 h", 0, 3600000000000}, {"0", 0, 0},
      {"", -EINVAL, 0},          {"ms", -EINVAL, 0},        {"3 sec", -EINVAL, 0},
      {"0x10", -EINVAL, 0},      {"1e3", -EINVAL, 0},       {"inf", -EINVAL, 0},
      {"nan", -EINVAL, 0},       {".", -EINVAL, 0},         {"99999999999999 h", -ERANGE, 0},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    uint64_t ns = 0;
    assert_int_equal(app_arguments_duration(rows[i].text, &ns), rows[i].result);
    assert_true(ns == rows[i].ns);
  }
}

static void nearest_is_near_or_nothing(void **state)
{
  static const char *const names[] = {"run", "send", "receive", "check", "plugins"};
  static const char *const words[][2] = {
      {"recieve", "; 'receive'?"},
      {"plugin", "; 'plugins'?"},
      {"sned", "; 'send'?"},
      {"benchmark", ""},
      {"", ""},
  };
  char meant[ARGUMENTS_MEANT_BYTES];

  (void)state;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    assert_string_equal(app_arguments_meant(words[i][0], names, 5, "; '", meant), words[i][1]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plugins_are_not_the_callers_where_privileges_are_not),
      cmocka_unit_test(every_option_arrives),
      cmocka_unit_test(table_of_what_is_wrong),
      cmocka_unit_test(what_is_wrong_hides_no_json),
      cmocka_unit_test(help_wins_over_a_missing_file),
      cmocka_unit_test(table_of_durations),
      cmocka_unit_test(nearest_is_near_or_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
