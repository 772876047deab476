/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/sink_verify.c. */
#include <errno.h>
#include <string.h>

#include "support.h"

struct checker {
  uint32_t handed;
  struct pst_verify_result result;
  int verify_result;
  const char *seed; /* as the sender told; NULL: it did not */
};

static char fence_place;

/* ---- The library's calls: the receiver is a struct checker ---------------------------- */

static struct checker *checker_of(struct pst_receiver *receiver)
{
  return (struct checker *)receiver;
}

static struct pst_receiver *receiver_of(struct checker *checker)
{
  return (struct pst_receiver *)checker;
}

int pst_receiver_verify(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                        struct pst_fence **fence)
{
  (void)views;
  checker_of(receiver)->handed += n;
  *fence = (struct pst_fence *)&fence_place;
  return checker_of(receiver)->verify_result;
}

int pst_receiver_verified(struct pst_receiver *receiver, struct pst_verify_result *result)
{
  *result = checker_of(receiver)->result;
  return 0;
}

const char *pst_receiver_param(struct pst_receiver *receiver, const char *key)
{
  return strcmp(key, "pattern.seed") == 0 ? checker_of(receiver)->seed : NULL;
}

static void open_verify(struct sink *sink)
{
  const struct sink_params params = {.stream = "s", .message = 100};
  struct pst_error error = PST_ERROR_INIT;

  memset(sink, 0, sizeof(*sink));
  assert_int_equal(app_sink_open(sink, "verify", &params, &error), 0);
}

static void messages_are_released_behind_the_check(void **state)
{
  struct sink sink;
  struct checker checker = {.seed = "7"};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence = NULL;
  struct pst_view views[3] = {{0}};

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->take(sink.state, receiver_of(&checker), views, 3, &fence, &error), 0);
  assert_ptr_equal(fence, &fence_place);
  assert_int_equal(checker.handed, 3);
  checker.result.checked = 2;
  assert_int_equal(sink.ops->finish(sink.state, receiver_of(&checker), &error), -EAGAIN);
  checker.result.checked = 3;
  assert_int_equal(sink.ops->finish(sink.state, receiver_of(&checker), &error), 0);
  app_sink_close(&sink);
}

static void what_is_no_pattern_is_not_called_corrupted(void **state)
{
  struct sink sink;
  struct checker checker = {0};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence = NULL;
  struct pst_view views[3] = {{0}};

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->take(sink.state, receiver_of(&checker), views, 3, &fence, &error),
                   -ENOMSG);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_int_equal(checker.handed, 0);
  app_sink_close(&sink);
}

static void corruption_is_for_the_account_to_judge(void **state)
{
  struct sink sink;
  struct checker checker = {.seed = "7", .result = {.corrupted = 1, .sequence = 7, .offset = 3}};
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->finish(sink.state, receiver_of(&checker), &error), 0);
  app_sink_close(&sink);
}

static void memory_without_a_pattern_is_an_error(void **state)
{
  struct sink sink;
  struct checker checker = {.seed = "7", .verify_result = -EOPNOTSUPP};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence = NULL;
  struct pst_view view = {0};

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->take(sink.state, receiver_of(&checker), &view, 1, &fence, &error),
                   -EOPNOTSUPP);
  assert_non_null(strstr(error.text, "discard"));
  app_sink_close(&sink);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_are_released_behind_the_check),
      cmocka_unit_test(what_is_no_pattern_is_not_called_corrupted),
      cmocka_unit_test(corruption_is_for_the_account_to_judge),
      cmocka_unit_test(memory_without_a_pattern_is_an_error),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown) ? 1 : 0;
}
