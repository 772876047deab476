/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the suites of transports and of memories. */
#include "common.h"

#include <dirent.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_S 180u

uint64_t contract_deadline_ns = UINT64_C(20000000000);

/* A number from 1 to 100 in the environment: 1 where there is none. */
static unsigned int number_in(const char *name)
{
  const char *text = getenv(name);
  const unsigned long number = text ? strtoul(text, NULL, 10) : 0;
  return number >= 1 && number <= 100 ? (unsigned int)number : 1;
}

static unsigned int patience(void)
{
  return number_in("PENSTOCK_PATIENCE");
}

uint32_t contract_rounds(uint32_t rounds)
{
  return rounds / number_in("PENSTOCK_FEWER");
}

__attribute__((constructor)) static void set_deadline(void)
{
  contract_deadline_ns *= patience();
}

unsigned int contract_watch_s(void)
{
  return WATCH_S * patience();
}

uint64_t contract_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t contract_random(void)
{
  static _Thread_local uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

unsigned int contract_descriptors(void)
{
  unsigned int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (readdir(folder))
    count++;
  closedir(folder);
  return count;
}

uint64_t contract_mapped_bytes(void)
{
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu", &pages), 1);
  fclose(file);
  return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void contract_descriptors_are(unsigned int count)
{
  unsigned int now = contract_descriptors();
  if (now != count)
    fail_msg("%u descriptors are open, not %u as before: %s", now, count,
             now > count ? "some are never closed" : "some are closed that are another's");
}

void contract_untouched(const void *made, const void *before, const char *call)
{
  if (made == before)
    return;
  contract_rule("Out-parameters stay untouched on failure.");
  fail_msg("%s refused, and yet wrote where it puts what it makes", call);
}

/* The case that runs, of an array of them. */
static struct {
  const struct CMUnitTest *cases;
  size_t next;
  pthread_t thread;
  const char *rule;
  bool has_ended;
} running;

static void on_alarm(int number)
{
  static const char text[] = "\npenstock-contract: the case above does not end: a call into the "
                             "plugin waits for ever. What was tried: ";
  const char *rule = running.rule ? running.rule : "";
  (void)number;
  (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
  (void)!write(STDERR_FILENO, rule, strlen(rule));
  _exit(1);
}

int contract_watch(void **state)
{
  (void)state;
  signal(SIGALRM, on_alarm);
  alarm(contract_watch_s());
  return 0;
}

static const char *const *wanted_names, *const *unwanted_names;
static bool has_picked;

static bool is_one_of(const char *name, const char *const *patterns)
{
  for (; patterns && *patterns; patterns++)
    if (fnmatch(*patterns, name, 0) == 0)
      return true;
  return false;
}

void contract_pick(const char *const *wanted, const char *const *unwanted)
{
  wanted_names = wanted && *wanted ? wanted : NULL;
  unwanted_names = unwanted;
}

bool contract_picked(void)
{
  return !wanted_names || has_picked;
}

static bool stops_at_failure, has_stopped;

void contract_stop_at_failure(void)
{
  stops_at_failure = true;
}

const char *contract_rule(const char *sentence)
{
  const char *before = NULL;

  /* The threads that a case starts leave the rule alone: they run side by side. */
  if (pthread_equal(pthread_self(), running.thread)) {
    before = running.rule;
    running.rule = sentence;
  }
  return before;
}

void contract_skip(const char *file, int line)
{
  running.has_ended = true;
  _skip(file, line);
}

static void case_tell_rule(void)
{
  const struct contract_place *place = contract_places;
  while (place && place->sentence && strcmp(place->sentence, running.rule) != 0)
    place++;
  if (place && place->sentence)
    print_error("[  RULE    ] --- %s:%d: %s\n", place->header, place->line, running.rule);
  else
    print_error("[  RULE    ] --- %s\n", running.rule);
}

static int case_begin(void **state)
{
  const struct CMUnitTest *now = &running.cases[running.next++];
  running.thread = pthread_self();
  running.rule = NULL;
  running.has_ended = false;
  return now->setup_func ? now->setup_func(state) : 0;
}

static void case_run(void **state)
{
  running.cases[running.next - 1].test_func(state);
  if (contract_places && !running.rule)
    fail_msg("the case names no rule: contract_rule()");
  running.has_ended = true;
}

static int case_end(void **state)
{
  const struct CMUnitTest *now = &running.cases[running.next - 1];
  if (!running.has_ended && running.rule)
    case_tell_rule();
  has_stopped |= stops_at_failure && !running.has_ended;
  return now->teardown_func ? now->teardown_func(state) : 0;
}

/* All in one run of cmocka's, or one by one until one fails. */
static int group_run(const char *name, const struct CMUnitTest *cases, size_t count)
{
  struct CMUnitTest *wrapped = calloc(count, sizeof(*wrapped));
  const size_t step = stops_at_failure ? 1 : count;
  int failed = 0;
  if (!wrapped)
    return 1;
  for (size_t i = 0; i < count; i++)
    wrapped[i] = (struct CMUnitTest){.name = cases[i].name,
                                     .test_func = case_run,
                                     .setup_func = case_begin,
                                     .teardown_func = case_end,
                                     .initial_state = cases[i].initial_state};
  running.cases = cases;
  running.next = 0;
  for (size_t i = 0; i < count && !has_stopped; i += step)
    failed += _cmocka_run_group_tests(name, wrapped + i, step, NULL, NULL);
  free(wrapped);
  return failed;
}

int contract_group(const char *name, const struct CMUnitTest *cases, size_t count,
                   CMFixtureFunction setup)
{
  struct CMUnitTest *chosen = calloc(count, sizeof(*chosen));
  void *none = NULL;
  size_t n = 0;
  int failed = 0;
  if (!chosen)
    return 1;
  for (size_t i = 0; i < count; i++)
    if ((!wanted_names || is_one_of(cases[i].name, wanted_names)) &&
        !is_one_of(cases[i].name, unwanted_names))
      chosen[n++] = cases[i];
  if (n > 0 && !has_stopped) {
    has_picked |= wanted_names != NULL;
    printf("\n%s\n", name);
    failed = setup && setup(&none) != 0 ? 1 : group_run(name, chosen, n);
  }
  free(chosen);
  return failed;
}

void contract_await_ends(uint64_t deadline_ns, const char *file, int line, const char *format, ...)
{
  char what[256];
  va_list list;
  if (contract_now_ns() < deadline_ns)
    return;
  va_start(list, format);
  vsnprintf(what, sizeof(what), format, list);
  va_end(list);
  print_error("[  ERROR   ] --- time is up, and what was waited for has not come: %s\n", what);
  _fail(file, line);
}

static const char *value_text(uintmax_t value, bool is_status, char *text, size_t size)
{
  intmax_t number = (intmax_t)value;
  if (is_status && number < 0 && number >= -133) /* the last errno of Linux */
    snprintf(text, size, "%jd (%s)", number, strerror((int)-number));
  else if (number < 0)
    snprintf(text, size, "%#jx", value);
  else
    snprintf(text, size, "%ju", value);
  return text;
}

void contract_int_equal(uintmax_t found, uintmax_t expected, bool is_status, const char *found_text,
                        const char *expected_text, const char *file, int line)
{
  char is[96], wanted[96];
  if (found == expected)
    return;
  print_error("[  ERROR   ] --- %s is %s, not %s", found_text,
              value_text(found, is_status, is, sizeof(is)),
              value_text(expected, is_status, wanted, sizeof(wanted)));
  if (strcmp(expected_text, wanted) != 0)
    print_error(", which is %s", expected_text);
  print_error("\n");
  _fail(file, line);
}
