/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/cm_status.c. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "status.h"

static void every_event_has_words(void **state)
{
  (void)state;
  for (int event = RDMA_CM_EVENT_ADDR_RESOLVED; event <= RDMA_CM_EVENT_TIMEWAIT_EXIT; event++) {
    const struct vb_status *one = vb_cm_event(event);
    assert_int_equal(one->code, event);
    assert_string_equal(one->name + strlen("RDMA_CM_EVENT_"),
                        strlen(rdma_event_str(event)) > 14 ? rdma_event_str(event) + 14 : "");
    assert_true(one->cause[0]);
    if (one->error)
      assert_true(one->reasons[0] || event == RDMA_CM_EVENT_REJECTED);
  }
  assert_int_equal(vb_cm_event(77)->error, -EIO);
}

static void what_is_not_answered_names_the_hop_limit_first(void **state)
{
  (void)state;
  char text[1024];
  vb_cm_text(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, text, sizeof(text));
  assert_ptr_equal(strstr(text, "RDMA_CM_EVENT_UNREACHABLE (Connection timed out)"), text);
  assert_non_null(strstr(text, "Usual reasons: they do not reach it"));
  assert_non_null(strstr(text, "Check: `hop_limit`"));
}

static void refusals_are_reported_by_their_reason(void **state)
{
  (void)state;
  char text[1024];
  vb_cm_text(RDMA_CM_EVENT_REJECTED, 8, text, sizeof(text));
  assert_non_null(strstr(text, "(8, invalid service ID): nobody listens"));
  vb_cm_text(RDMA_CM_EVENT_REJECTED, 28, text, sizeof(text));
  assert_non_null(strstr(text, "the program at the peer refuses"));
  vb_cm_text(RDMA_CM_EVENT_REJECTED, 33, text, sizeof(text));
  assert_non_null(strstr(text, "(33, another reason)"));
  assert_int_equal(vb_cm_rejection(33)->error, -ECONNRESET);
}

static void only_what_may_pass_is_tried_again(void **state)
{
  (void)state;
  assert_true(vb_cm_is_passing(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT));
  assert_true(vb_cm_is_passing(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH));
  assert_false(vb_cm_is_passing(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV));
  assert_true(vb_cm_is_passing(RDMA_CM_EVENT_REJECTED, 10));
  assert_false(vb_cm_is_passing(RDMA_CM_EVENT_REJECTED, 8));
  assert_false(vb_cm_is_passing(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_event_has_words),
      cmocka_unit_test(what_is_not_answered_names_the_hop_limit_first),
      cmocka_unit_test(refusals_are_reported_by_their_reason),
      cmocka_unit_test(only_what_may_pass_is_tried_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
