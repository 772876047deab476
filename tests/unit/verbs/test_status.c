/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/status.c. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "status.h"

static void every_status_has_its_words(void **state)
{
  (void)state;
  for (int code = IBV_WC_SUCCESS; code <= IBV_WC_GENERAL_ERR; code++) {
    const struct vb_status *one = vb_wc_status(code);
    assert_int_equal(one->code, code);
    assert_int_equal(strncmp(one->name, "IBV_WC_", 7), 0);
    assert_true(strlen(one->cause) > 8);
    assert_true(code == IBV_WC_SUCCESS || (one->error < 0 && strlen(one->checks) > 8));
  }
  assert_string_equal(vb_wc_status(777)->name, "unknown status");
  assert_true(vb_wc_status(-3)->error < 0);
}

static void every_event_has_its_words(void **state)
{
  (void)state;
  for (int code = IBV_EVENT_CQ_ERR; code <= IBV_EVENT_WQ_FATAL; code++) {
    const struct vb_status *one = vb_event(code);
    assert_int_equal(one->code, code);
    assert_int_equal(strncmp(one->name, "IBV_EVENT_", 10), 0);
    assert_true(strlen(one->cause) > 8);
  }
  assert_string_equal(vb_event(777)->name, "unknown event");
  assert_true(vb_event(777)->code < 0 && strlen(vb_event(777)->checks) > 8);
}

/* The reference's famous failure: what is looked at first is the hop limit. */
static void silence_names_the_hop_limit_first(void **state)
{
  (void)state;
  char text[1024];
  vb_wc_text(IBV_WC_RETRY_EXC_ERR, 0x81, true, text, sizeof(text));
  const char *checks = strstr(text, "Check: ");
  assert_non_null(checks);
  assert_int_equal(strncmp(checks, "Check: `hop_limit`", 18), 0);
  assert_non_null(strstr(text, "IBV_WC_RETRY_EXC_ERR (12; vendor code 0x81, no answer"));
}

/* No word of Ethernet's. */
static void silence_on_infiniband_names_p_keys_first(void **state)
{
  (void)state;
  const char *const foreign[] = {"hop", "VLAN", "RoCE", "ARP", "UDP", "ip route"};
  char text[1280];
  vb_wc_text(IBV_WC_RETRY_EXC_ERR, 0x81, false, text, sizeof(text));
  assert_non_null(strstr(text, "Check: `pkey_index`"));
  assert_non_null(strstr(text, "sminfo"));
  assert_non_null(strstr(text, "(`perfquery`)")); /* it is all there */
  for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
    assert_null(strstr(text, foreign[i]));
}

/* All that a killed peer's device answers, or does not. */
static void a_killed_peer_is_gone(void **state)
{
  (void)state;
  const int codes[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR,
                       IBV_WC_REM_ABORT_ERR, IBV_WC_WR_FLUSH_ERR};
  for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
    assert_int_equal(vb_wc_status(codes[i])->error, -ECONNRESET);
}

static void text_is_cut_to_its_room(void **state)
{
  (void)state;
  char text[32];
  memset(text, '#', sizeof(text));
  vb_wc_text(IBV_WC_REM_ACCESS_ERR, 0, false, text, 20);
  assert_int_equal(strlen(text), 19);
  assert_int_equal(text[20], '#');
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_its_words),
      cmocka_unit_test(every_event_has_its_words),
      cmocka_unit_test(silence_names_the_hop_limit_first),
      cmocka_unit_test(silence_on_infiniband_names_p_keys_first),
      cmocka_unit_test(a_killed_peer_is_gone),
      cmocka_unit_test(text_is_cut_to_its_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
