/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/stream/verdict.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#define SECOND UINT64_C(1000000000)

static struct pst_stats side(int stage, uint64_t ms)
{
  struct pst_stats stats = {.struct_size = sizeof(stats), .started_ns = 1, .ended_ns = 1 + SECOND};
  stats.blocked_ns[stage] = ms * 1000000;
  return stats;
}

static void check(struct pst_stats *sender, struct pst_stats *receiver, int expected,
                  double expected_share)
{
  double share = -1;

  assert_int_equal(pst_verdict(sender, receiver, &share), expected);
  assert_true(share > expected_share - 0.001 && share < expected_share + 0.001);
}

static void a_slow_source_is_named(void **state)
{
  struct pst_stats s = side(PST_STAGE_SOURCE, 900), r = side(PST_STAGE_EMPTY, 950);
  (void)state;
  check(&s, &r, PST_STAGE_SOURCE, 0.9);
}

static void a_slow_sink_is_named_not_the_credit_it_withholds(void **state)
{
  struct pst_stats s = side(PST_STAGE_CREDIT, 900), r = side(PST_STAGE_SINK, 950);
  (void)state;
  check(&s, &r, PST_STAGE_SINK, 0.95);
}

static void slow_copies_are_named(void **state)
{
  struct pst_stats s = side(PST_STAGE_CREDIT, 900), r = side(PST_STAGE_STAGING, 800);
  (void)state;
  check(&s, &r, PST_STAGE_STAGING, 0.8);
}

static void slow_copies_out_of_the_senders_memory_are_named(void **state)
{
  struct pst_stats s = side(PST_STAGE_STAGING, 800), r = side(PST_STAGE_EMPTY, 900);
  struct pst_stats told = side(PST_STAGE_EMPTY, 900);
  (void)state;
  check(&s, &r, PST_STAGE_STAGING, 0.8);
  r.blocked_ns[PST_STAGE_STAGING] = 300 * 1000000; /* both are staged */
  check(&s, &r, PST_STAGE_STAGING, 0.8);
  told.peer_known = 1;
  told.peer_seconds_ns = SECOND;
  told.peer_blocked_ns[PST_STAGE_STAGING] = 600 * 1000000;
  check(NULL, &told, PST_STAGE_STAGING, 0.6);
}

static void credit_is_named_when_the_receiver_waits_too(void **state)
{
  struct pst_stats s = side(PST_STAGE_CREDIT, 700), r = side(PST_STAGE_EMPTY, 800);
  (void)state;
  check(&s, &r, PST_STAGE_CREDIT, 0.7);
}

static void a_slow_transport_is_named(void **state)
{
  struct pst_stats s = side(PST_STAGE_TRANSPORT, 900), r = side(PST_STAGE_EMPTY, 900);
  (void)state;
  check(&s, &r, PST_STAGE_TRANSPORT, 0.9);
}

static void a_receiver_alone_can_say_empty(void **state)
{
  struct pst_stats r = side(PST_STAGE_EMPTY, 600);
  (void)state;
  check(NULL, &r, PST_STAGE_EMPTY, 0.6);
}

static void a_receiver_uses_the_values_of_its_peer(void **state)
{
  struct pst_stats r = side(PST_STAGE_EMPTY, 600);
  (void)state;
  r.peer_known = 1;
  r.peer_seconds_ns = SECOND;
  r.peer_blocked_ns[PST_STAGE_SOURCE] = SECOND / 2;
  check(NULL, &r, PST_STAGE_SOURCE, 0.5);
}

static void nothing_blocked_is_the_cpu(void **state)
{
  struct pst_stats s = side(PST_STAGE_SOURCE, 50), r = side(PST_STAGE_SINK, 90);
  (void)state;
  check(&s, &r, -1, 0.09);
  assert_string_equal(pst_stage_name(-1), "cpu");
}

static struct pst_stats starved(struct pst_stats stats, uint64_t waited_ms)
{
  stats.cpu_span_ns = SECOND;
  stats.cpu_ns = SECOND - waited_ms * 1000000;
  stats.cpu_wait_ns = waited_ms * 1000000;
  return stats;
}

static void a_rate_that_is_kept_is_the_limit_whatever_else_runs(void **state)
{
  struct pst_stats s = starved(side(PST_STAGE_RATE, 950), 800), r = side(PST_STAGE_EMPTY, 950);
  (void)state;
  check(&s, &r, PST_STAGE_RATE, 0.95);
  s.blocked_ns[PST_STAGE_RATE] = 700 * 1000000; /* the rest of its line time was lost */
  check(&s, &r, PST_LIMIT_STARVATION, 0.8);
}

static void ends_that_wait_for_each_other_without_a_cpu_lack_no_slots(void **state)
{
  struct pst_stats s = side(PST_STAGE_CREDIT, 820), r = starved(side(PST_STAGE_EMPTY, 800), 590);
  (void)state;
  check(&s, &r, PST_LIMIT_STARVATION, 0.59);
  r.cpu_wait_ns = 20 * 1000000;
  check(&s, &r, PST_STAGE_CREDIT, 0.82);
  r.cpu_wait_ns = UINT64_MAX; /* nobody knows */
  check(&s, &r, PST_STAGE_CREDIT, 0.82);
}

static void work_without_a_whole_cpu_is_starved(void **state)
{
  struct pst_stats s = starved(side(PST_STAGE_SINK, 0), 60);
  (void)state;
  check(&s, NULL, PST_LIMIT_STARVATION, 0.06);
  assert_string_equal(pst_stage_name(PST_LIMIT_STARVATION), "starvation");
  s.cpu_wait_ns = 40 * 1000000;
  check(&s, NULL, PST_LIMIT_CPU, 0);
}

static void a_slow_sink_limits_a_thread_that_waits_a_little(void **state)
{
  struct pst_stats s = side(PST_STAGE_CREDIT, 900), r = starved(side(PST_STAGE_SINK, 900), 200);
  (void)state;
  check(&s, &r, PST_STAGE_SINK, 0.9);
}

static void a_source_is_slow_whatever_the_receiver_lacks(void **state)
{
  struct pst_stats s = side(PST_STAGE_SOURCE, 600), r = starved(side(PST_STAGE_EMPTY, 600), 900);
  (void)state;
  check(&s, &r, PST_STAGE_SOURCE, 0.6);
  s = side(PST_STAGE_SOURCE, 120); /* it does not hold the sender back */
  check(&s, &r, PST_LIMIT_STARVATION, 0.9);
  s = side(PST_STAGE_TRANSPORT, 600);
  check(&s, &r, PST_LIMIT_STARVATION, 0.9);
}

static void a_short_wait_for_a_cpu_is_no_limit(void **state)
{
  struct pst_stats s = side(PST_STAGE_SINK, 0);

  (void)state;
  s.cpu_span_ns = 20 * 1000000;
  s.cpu_ns = 3 * 1000000;
  s.cpu_wait_ns = 17 * 1000000;
  check(&s, NULL, PST_LIMIT_CPU, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slow_source_is_named),
      cmocka_unit_test(a_slow_sink_is_named_not_the_credit_it_withholds),
      cmocka_unit_test(slow_copies_are_named),
      cmocka_unit_test(slow_copies_out_of_the_senders_memory_are_named),
      cmocka_unit_test(credit_is_named_when_the_receiver_waits_too),
      cmocka_unit_test(a_slow_transport_is_named),
      cmocka_unit_test(a_receiver_alone_can_say_empty),
      cmocka_unit_test(a_receiver_uses_the_values_of_its_peer),
      cmocka_unit_test(a_rate_that_is_kept_is_the_limit_whatever_else_runs),
      cmocka_unit_test(ends_that_wait_for_each_other_without_a_cpu_lack_no_slots),
      cmocka_unit_test(work_without_a_whole_cpu_is_starved),
      cmocka_unit_test(a_slow_sink_limits_a_thread_that_waits_a_little),
      cmocka_unit_test(a_source_is_slow_whatever_the_receiver_lacks),
      cmocka_unit_test(a_short_wait_for_a_cpu_is_no_limit),
      cmocka_unit_test(nothing_blocked_is_the_cpu),
  };
  return cmocka_run_group_tests_name("stream_verdict", tests, NULL, NULL) ? 1 : 0;
}
