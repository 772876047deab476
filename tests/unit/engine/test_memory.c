/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins that an engine uses, each once, and its memories, one for each set of options; what
 * ends tell each other of a transport. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/control.h"
#include "engine/engine.h"
#include "util/log.h"

static struct {
  int load, open, copy_again, poll; /* what is answered */
  const char *said;                 /* by the plugin, as it does not open */
  int opens, closes;
  uint64_t done, polls;
} fake;

static int fake_open(const struct pst_host *host, const struct pst_memory_params *params,
                     struct pst_memory **memory)
{
  (void)host;
  (void)params;
  if (fake.said)
    pst_log(PST_LOG_ERROR, "%s", fake.said);
  if (fake.open < 0)
    return fake.open;
  *memory = (struct pst_memory *)(uintptr_t)(8 + 8 * (unsigned)fake.opens++);
  return 0;
}

static void fake_close(struct pst_memory *memory)
{
  assert_non_null(memory);
  fake.closes++;
}

static int fake_copy(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                     uint64_t *ticket)
{
  (void)queue;
  assert_int_equal(n, 1);
  if (fake.copy_again-- > 0)
    return -EAGAIN;
  *ticket = rows->length;
  return 0;
}

static int fake_poll(struct pst_queue *queue, uint64_t *done)
{
  (void)queue;
  fake.polls++;
  *done = ++fake.done;
  return fake.poll;
}

static const struct pst_memory_ops ops = {
    .open = fake_open, .close = fake_close, .copy_rows = fake_copy, .queue_poll = fake_poll};
static const struct loader_plugin plugin = {
    .kind = PST_KIND_MEMORY, .name = "shelf", .memory = &ops};

int __wrap_loader_load(uint32_t kind, const char *name, const struct loader_plugin **out,
                       struct pst_error *error);
int __wrap_loader_load(uint32_t kind, const char *name, const struct loader_plugin **out,
                       struct pst_error *error)
{
  (void)kind;
  if (fake.load < 0)
    return pst_fail(error, PST_EXIT_USAGE, fake.load, "no plugin %s", name);
  *out = &plugin;
  return 0;
}

/* Sets of options agree where they are one. */
bool __wrap_options_agree(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                          const char **name);
bool __wrap_options_agree(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                          const char **name)
{
  (void)scope;
  (void)name;
  return a == b;
}

static struct engine engine;
static const struct config_plugin ours = {
    .name = "shelf", .origin = "t.yaml:3:1", .options = (struct pst_options *)(uintptr_t)16};
static const struct config_plugin theirs = {
    .name = "shelf", .origin = "t.yaml:4:1", .options = (struct pst_options *)(uintptr_t)32};

static int begin(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof(fake));
  return 0;
}

static int close_engine(void **state)
{
  (void)state;
  engine_close(&engine);
  assert_int_equal(fake.closes, fake.opens);
  assert_int_equal(engine.memory_count, 0);
  return 0;
}

static void one_memory_for_each_set_of_options(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  struct engine_memory *first = NULL, *again = NULL, *other = NULL;

  (void)state;
  assert_int_equal(engine_memory_open(&engine, &ours, &first, &error), 0);
  assert_int_equal(engine_memory_open(&engine, &theirs, &other, &error), 0);
  assert_int_equal(engine_memory_open(&engine, &ours, &again, &error), 0);
  assert_ptr_equal(first, again);
  assert_ptr_not_equal(first, other);
  assert_int_equal(fake.opens, 2);
  assert_int_equal(engine.plugin_count, 1);
}

static void one_that_does_not_open_says_why(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  struct engine_memory *memory = (struct engine_memory *)(uintptr_t)8;

  (void)state;
  fake.open = -EINVAL;
  assert_int_equal(engine_memory_open(&engine, &ours, &memory, &error), -EINVAL);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_non_null(strstr(error.text, "t.yaml:3:1: memory shelf does not open: Invalid argument; "
                                     "`penstock plugins shelf` says what it needs"));
  error = (struct pst_error)PST_ERROR_INIT;
  fake.open = -ENODEV;
  fake.said = "memory shelf: no boards";
  assert_int_equal(engine_memory_open(&engine, &ours, &memory, &error), -ENODEV);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  assert_non_null(strstr(error.text, "no boards"));
  assert_null(strstr(error.text, "does not open"));
  fake.load = -ENOENT;
  assert_int_equal(engine_memory_open(&engine, &ours, &memory, &error), -ENOENT);
  assert_ptr_equal(memory, (struct engine_memory *)(uintptr_t)8); /* untouched */
  assert_int_equal(engine.memory_count, 0);
}

static void a_copy_waits_for_room_and_for_its_end(void **state)
{
  const struct engine_memory memory = {.plugin = &plugin, .ops = &ops};
  const struct pst_copy_row row = {.length = 5, .count = 1}; /* its ticket is 5 */

  (void)state;
  fake.copy_again = 2;
  assert_int_equal(engine_memory_copy(&memory, NULL, &row), 0);
  assert_int_equal(fake.polls, 5); /* two for room, and on until the fifth ticket is done */
  fake.polls = 0;
  assert_int_equal(engine_memory_await(&memory, NULL, 5), 0); /* done at the first look */
  assert_int_equal(fake.polls, 1);
  fake.poll = -EIO;
  assert_int_equal(engine_memory_await(&memory, NULL, 100), -EIO);
  assert_int_equal(fake.polls, 2);
}

static void pairs_stop_where_there_is_no_room(void **state)
{
  struct control_pair pairs[2] = {0};
  uint32_t count = 0;
  char key[sizeof(pairs[0].key) + 8];

  (void)state;
  memset(key, 'k', sizeof(key));
  key[sizeof(key) - 1] = '\0';
  control_pair_add(pairs, &count, 2, key, "cut");
  assert_int_equal(strlen(pairs[0].key), sizeof(pairs[0].key) - 1);
  assert_string_equal(pairs[0].value, "cut");
  control_pair_add(pairs, &count, 1, "b", "no room");
  assert_int_equal(count, 1);
  assert_string_equal(pairs[1].key, "");
  control_pair_add(pairs, &count, 2, "b", "room");
  assert_int_equal(count, 2);
}

static void a_plugin_that_is_not_there_has_no_info(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_plugin_info info = {.struct_size = sizeof(info)};
  const struct loader_plugin *got = NULL;

  (void)state;
  assert_int_equal(engine_plugin_info(&engine, 0, &info), -ENOENT);
  assert_int_equal(engine_plugin_load(&engine, PST_KIND_MEMORY, "shelf", &got, &error), 0);
  assert_int_equal(engine_plugin_load(&engine, PST_KIND_MEMORY, "shelf", &got, &error), 0);
  assert_int_equal(engine.plugin_count, 1);
  assert_int_equal(engine_plugin_info(&engine, 1, &info), -ENOENT);
  assert_string_equal(engine_plugin_place(&ours, "memory shelf: boards: too few"), "t.yaml:3:1");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, close_engine)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(one_memory_for_each_set_of_options), CASE(one_that_does_not_open_says_why),
      CASE(a_copy_waits_for_room_and_for_its_end), CASE(pairs_stop_where_there_is_no_room),
      CASE(a_plugin_that_is_not_there_has_no_info)};

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
