/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "support.h"

struct checker {
  uint32_t handed;
  struct pst_verify_result result;
  int verify_result;
};

static char fence_place;

static int verify(void *context, const struct pst_view *views, uint32_t n, struct pst_fence **fence)
{
  struct checker *checker = context;
  (void)views;
  checker->handed += n;
  *fence = (struct pst_fence *)&fence_place;
  return checker->verify_result;
}

static int verified(void *context, struct pst_verify_result *result)
{
  *result = ((struct checker *)context)->result;
  return 0;
}

static const char *made_from(void *context, const char *key)
{
  (void)context;
  return strcmp(key, "pattern.seed") == 0 ? "7" : NULL;
}

static const char *not_said(void *context, const char *key)
{
  (void)context;
  (void)key;
  return NULL;
}

static void open_verify(struct sink *sink)
{
  const struct sink_params params = {.stream = "s", .message = 100};
  struct pst_error error = PST_ERROR_INIT;

  memset(sink, 0, sizeof *sink);
  assert_int_equal(sink_open(sink, "verify", &params, &error), 0);
}

static void messages_are_released_behind_the_check(void **state)
{
  struct sink sink;
  struct checker checker = {0};
  const struct sink_host host = {
      .context = &checker, .param = made_from, .verify = verify, .verified = verified};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence = NULL;
  struct pst_view views[3] = {{0}};

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->take(sink.state, &host, views, 3, &fence, &error), 0);
  assert_ptr_equal(fence, &fence_place);
  assert_int_equal(checker.handed, 3);
  checker.result.checked = 2;
  assert_int_equal(sink.ops->finish(sink.state, &host, &error), -EAGAIN);
  checker.result.checked = 3;
  assert_int_equal(sink.ops->finish(sink.state, &host, &error), 0);
  sink_close(&sink);
}

static void what_is_no_pattern_is_not_called_corrupted(void **state)
{
  struct sink sink;
  struct checker checker = {0};
  const struct sink_host host = {
      .context = &checker, .param = not_said, .verify = verify, .verified = verified};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence = NULL;
  struct pst_view views[3] = {{0}};

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->take(sink.state, &host, views, 3, &fence, &error), -ENOMSG);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_int_equal(checker.handed, 0);
  sink_close(&sink);
}

static void corruption_is_for_the_account_to_judge(void **state)
{
  struct sink sink;
  struct checker checker = {.result = {.corrupted = 1, .sequence = 7, .offset = 3}};
  const struct sink_host host = {
      .context = &checker, .param = made_from, .verify = verify, .verified = verified};
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->finish(sink.state, &host, &error), 0);
  sink_close(&sink);
}

static void memory_without_a_pattern_is_an_error(void **state)
{
  struct sink sink;
  struct checker checker = {.verify_result = -EOPNOTSUPP};
  const struct sink_host host = {
      .context = &checker, .param = made_from, .verify = verify, .verified = verified};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence = NULL;
  struct pst_view view = {0};

  (void)state;
  open_verify(&sink);
  assert_int_equal(sink.ops->take(sink.state, &host, &view, 1, &fence, &error), -EOPNOTSUPP);
  assert_non_null(strstr(error.text, "discard"));
  sink_close(&sink);
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
