/* SPDX-License-Identifier: Apache-2.0 */
/* get --recursive, of a server whose listing has no end. */
#include <errno.h>
#include <string.h>

#include "log.h"
#include "serve/copy.h"
#include "support.h"

static struct serve_pending *asked;
static void (*answered)(struct serve_pending *pending, const struct serve_message *answer);

void __wrap_serve_connection_ask(struct connection *remote, struct serve_pending *pending,
                                 uint32_t wanted, const struct serve_message *message,
                                 void (*when)(struct serve_pending *pending,
                                              const struct serve_message *answer));
void __wrap_serve_connection_ask(struct connection *remote, struct serve_pending *pending,
                                 uint32_t wanted, const struct serve_message *message,
                                 void (*when)(struct serve_pending *pending,
                                              const struct serve_message *answer))
{
  (void)remote;
  assert_int_equal(message->type, SERVE_LIST);
  assert_int_equal(wanted, SERVE_LISTED);
  asked = pending;
  answered = when;
}

/* Answers until nothing is asked, or so often. How often that was. */
static uint32_t answer(uint32_t kind, uint32_t most)
{
  static struct serve_message listed = {.type = SERVE_LISTED, .cursor = 1};
  uint32_t times = 0;

  listed.entry_count = SERVE_ENTRIES_MAX;
  for (uint32_t i = 0; i < SERVE_ENTRIES_MAX; i++)
    listed.entries[i] = (struct serve_entry){kind, 1, (const uint8_t *)"n"};
  for (; asked && times < most; times++) {
    struct serve_pending *pending = asked;

    asked = NULL;
    answered(pending, &listed);
  }
  return times;
}

static void begin(struct copy *copy, struct copy_params *params)
{
  static struct transfer t;

  *copy = (struct copy){.params = params, .root = -1, .error = PST_ERROR_INIT};
  serve_get_push(copy, "", 0, SERVE_KIND_FOLDER);
  assert_int_equal(serve_get_next(copy, &t), -EAGAIN);
}

static void files_without_end(void **state)
{
  static struct copy copy;
  static struct transfer t;
  struct copy_params params = {0};

  (void)state;
  begin(&copy, &params);
  assert_in_range(answer(SERVE_KIND_FILE, 1000000), 1, 65536);
  assert_true(copy.listing);
  assert_in_range(copy.pending_count, 65536, 65536 + SERVE_ENTRIES_MAX);
  /* The listing goes on once half of the names have been fetched. */
  while (!asked)
    assert_int_equal(serve_get_next(&copy, &t), 0);
  assert_in_range(copy.pending_count, 32000, 32768);
  assert_in_range(answer(SERVE_KIND_FILE, 1000000), 1, 65536);
  serve_get_close(&copy);
  asked = NULL;
}

static void folders_without_end(void **state)
{
  static struct copy copy;
  static struct transfer t;
  struct copy_params params = {0};

  (void)state;
  begin(&copy, &params);
  assert_in_range(answer(SERVE_KIND_FOLDER, 1000000), 1, 65536);
  /* The listing goes on before the next folder is begun, up to a bound. */
  assert_int_equal(serve_get_next(&copy, &t), -EAGAIN);
  assert_int_equal(answer(SERVE_KIND_FOLDER, 1), 1);
  copy.pending_count = (1 << 22) - SERVE_ENTRIES_MAX;
  assert_int_equal(serve_get_next(&copy, &t), -EAGAIN);
  assert_int_equal(answer(SERVE_KIND_FOLDER, 10), 1);
  assert_false(copy.listing);
  assert_non_null(strstr(app_log_last_error(), "too many folders"));
  serve_get_close(&copy);
}

int main(void)
{
  quiet();
  const struct CMUnitTest tests[] = {cmocka_unit_test(files_without_end),
                                     cmocka_unit_test(folders_without_end)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
