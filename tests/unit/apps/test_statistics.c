/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/statistics.c. */
#include <string.h>

#include "statistics.h"
#include "support.h"

static void expect_line(const struct statistics_sample *sample, const char *wanted)
{
  char line[256];
  app_statistics_line(sample, line, sizeof(line));
  assert_string_equal(line, wanted);
}

static void receiver_line(void **state)
{
  (void)state;
  expect_line(&(struct statistics_sample){.stream = "packets",
                                          .messages = 5877704,
                                          .bytes = UINT64_C(8593750000),
                                          .interval_ns = 1000000000,
                                          .path = PST_PATH_DIRECT},
              "packets: Got 5877704 packets | 68.75 Gbps during 1.00 sec | 0 dropped | direct");
}

/* A camera's. */
static void slow_streams_are_shown_in_megabits(void **state)
{
  struct statistics_sample sample = {.stream = "camera",
                                     .messages = 437,
                                     .bytes = 500000,
                                     .interval_ns = 1000000000,
                                     .path = PST_PATH_DIRECT};

  (void)state;
  expect_line(&sample, "camera: Got 437 packets | 4.00 Mbps during 1.00 sec | 0 dropped | direct");
  sample.bytes = 12500000;
  expect_line(&sample, "camera: Got 437 packets | 0.10 Gbps during 1.00 sec | 0 dropped | direct");
}

static void percents_have_no_exponent_and_no_false_all(void **state)
{
  static const struct {
    double share;
    const char *text;
  } rows[] = {
      {1, "100%"},
      {0, "0%"},
      {.48, "48%"},
      {.013, "1.3%"},
      {.01, "1%"},
      {.1, "10%"},
      {.987, "99%"},
      {.995, "99.5%"},
      {.9997, "99.97%"},
      {.999999, "99.9999%"},
      {.000129272, "0.013%"},
      {2e-9, "0.0000002%"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char text[STATISTICS_PERCENT_BYTES];
    assert_string_equal(app_statistics_percent(rows[i].share, text), rows[i].text);
  }
}

static void gpu_line_of_a_staged_stream(void **state)
{
  (void)state;
  expect_line(&(struct statistics_sample){.stream = "a",
                                          .gpu = true,
                                          .messages = 1,
                                          .bytes = 1000,
                                          .dropped = 7,
                                          .interval_ns = 1004000000,
                                          .path = PST_PATH_STAGED,
                                          .staged_by = "sender"},
              "a: Got 1 GPU packet | 0.01 Mbps during 1.00 sec | 7 dropped | staged by the sender");
  expect_line(
      &(struct statistics_sample){
          .stream = "a", .interval_ns = 1000000000, .path = PST_PATH_STAGED, .staged_by = "both"},
      "a: Got 0 packets | 0.00 Gbps during 1.00 sec | 0 dropped | staged by both");
}

static void sender_line_without_time_divides_by_nothing(void **state)
{
  (void)state;
  expect_line(&(struct statistics_sample){.stream = "a", .sent = true, .path = PST_PATH_MAPPED},
              "a: Sent 0 packets | 0.00 Gbps during 0.00 sec | 0 dropped | mapped");
}

static void unknown_loss_is_no_zero(void **state)
{
  struct statistics_sample sample = {
      .stream = "a", .messages = 5, .path = PST_PATH_DIRECT, .loss_unknown = true};

  (void)state;
  expect_line(&sample, "a: Got 5 packets | 0.00 Gbps during 0.00 sec | loss ? | direct");
  sample.dropped = 3;
  sample.restarts = 2;
  expect_line(&sample,
              "a: Got 5 packets | 0.00 Gbps during 0.00 sec | 3 dropped, loss ? | direct | "
              "2 restarts");
  sample.restarts = 0;
  sample.jitter_ns = 1500;
  sample.p99_ns = 20000000;
  expect_line(&sample,
              "a: Got 5 packets | 0.00 Gbps during 0.00 sec | 3 dropped, loss ? | direct | "
              "jitter 0.002 ms | 99% within 20.000 ms");
}

static void differences_are_taken_and_never_negative(void **state)
{
  struct statistics_mark mark = {.time_ns = 1000, .messages = 10, .bytes = 100, .dropped = 5};
  struct pst_stats stats = {.messages_delivered = 25,
                            .bytes_delivered = 250,
                            .messages_sent = 999,
                            .drop_count = 2,
                            .drops = {{"a", 1}, {"b", 2}},
                            .path.path = PST_PATH_STAGED};
  struct statistics_sample sample = {.stream = "s"};

  (void)state;
  app_statistics_since(&mark, &stats, false, 3000, &sample);
  assert_int_equal(sample.messages, 15);
  assert_int_equal(sample.bytes, 150);
  assert_int_equal(sample.dropped, 0);
  assert_int_equal(sample.interval_ns, 2000);
  assert_int_equal(sample.path, PST_PATH_STAGED);
  app_statistics_since(&mark, &stats, false, 4000, &sample);
  assert_int_equal(sample.messages, 0);
  assert_int_equal(sample.interval_ns, 1000);
}

static void drop_count_beyond_the_array_is_bounded(void **state)
{
  struct pst_stats stats = {.drop_count = 1000};

  (void)state;
  for (size_t i = 0; i < 16; i++)
    stats.drops[i].messages = 1;
  assert_int_equal(app_statistics_dropped(&stats), 16);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(receiver_line),
      cmocka_unit_test(slow_streams_are_shown_in_megabits),
      cmocka_unit_test(gpu_line_of_a_staged_stream),
      cmocka_unit_test(percents_have_no_exponent_and_no_false_all),
      cmocka_unit_test(sender_line_without_time_divides_by_nothing),
      cmocka_unit_test(unknown_loss_is_no_zero),
      cmocka_unit_test(differences_are_taken_and_never_negative),
      cmocka_unit_test(drop_count_beyond_the_array_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
