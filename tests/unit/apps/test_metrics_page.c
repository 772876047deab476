/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a page of metrics. */
#include <stdlib.h>
#include <string.h>

#include "metrics/page.h"
#include "metrics/streams.h"
#include "support.h"

static char *text_of(struct metrics_page *page)
{
  size_t length;
  char *text = metrics_page_text(page, &length);

  assert_non_null(text);
  assert_int_equal(strlen(text), length);
  return text;
}

/* Samples of a family stand together, in whatever order they came. */
static void test_families(void **state)
{
  static const struct metrics_name a = {METRICS_COUNTER, "a_total", "A."},
                                   b = {METRICS_SUMMARY, "b_seconds", "B."};
  struct metrics_page *page = metrics_page_new();

  (void)state;
  metrics_page_put(page, &a, UINT64_MAX);
  metrics_page_labels(page, "x", "1", "y", "2", NULL);
  metrics_page_put_ns_by(page, &b, "quantile", "0.5", 1000000001);
  metrics_page_put_sum_ns(page, &b, 3, 5);
  metrics_page_put(page, &a, 7);
  char *text = text_of(page);
  assert_string_equal(text,
                      "# HELP a_total A.\n# TYPE a_total counter\na_total 18446744073709551615\n"
                      "a_total{x=\"1\",y=\"2\"} 7\n"
                      "# HELP b_seconds B.\n# TYPE b_seconds summary\n"
                      "b_seconds{x=\"1\",y=\"2\",quantile=\"0.5\"} 1.000000001\n"
                      "b_seconds_sum{x=\"1\",y=\"2\"} 0.000000005\n"
                      "b_seconds_count{x=\"1\",y=\"2\"} 3\n");
  free(text);
}

/* The text of a label ends neither the label nor the line, and is UTF-8; a text that is too long is
 * cut. */
static void test_labels(void **state)
{
  static const struct metrics_name a = {METRICS_GAUGE, "a", "A."};
  struct metrics_page *page = metrics_page_new();
  char longest[5000];

  (void)state;
  metrics_page_labels(page, "x", "a\"b\\c\nd\xff\xc3\xa9", "y", NULL, NULL);
  metrics_page_put(page, &a, 1);
  memset(longest, '"', sizeof(longest) - 1);
  longest[sizeof(longest) - 1] = '\0';
  metrics_page_labels(page, "x", longest, "y", longest, NULL);
  metrics_page_put_by(page, &a, "z", longest, 1);
  char *text = text_of(page);
  const char *wanted = "# HELP a A.\n# TYPE a gauge\na{x=\"a\\\"b\\\\c\\nd?\xc3\xa9\",y=\"\"} 1\n";
  assert_int_equal(strncmp(text, wanted, strlen(wanted)), 0);
  const char *rest = text + strlen(wanted);
  assert_ptr_equal(strchr(rest, '\n'), rest + strlen(rest) - 1);
  assert_string_equal(rest + strlen(rest) - 5, "\"} 1\n");
  free(text);
}

/* A plugin's counter gets a name as Prometheus has them, and times are seconds. */
static void test_counters(void **state)
{
  const struct pst_counter_value counters[] = {
      {.name = "jitter_ns", .value = 1500000000, .flags = PST_COUNTER_GAUGE},
      {.name = "wait_us", .value = 2},
      {.name = "Odd-name_count", .value = 3},
      {.name = "x_total", .value = 4},
      {.name = "lost", .value = 5, .flags = PST_COUNTER_ENTRY}};
  struct metrics_page *page = metrics_page_new();

  (void)state;
  metrics_put_counters(page, "transport", counters, 5);
  char *text = text_of(page);
  assert_non_null(strstr(text, "\npenstock_transport_jitter_seconds 1.500000000\n"));
  assert_non_null(strstr(text, "# TYPE penstock_transport_jitter_seconds gauge\n"));
  assert_non_null(strstr(text, "\npenstock_transport_wait_seconds_total 0.000002000\n"));
  assert_non_null(strstr(text, "\npenstock_transport__dd_name_total 3\n"));
  assert_non_null(strstr(text, "\npenstock_transport_x_total 4\n"));
  assert_null(strstr(text, "lost"));
  free(text);
}

static void put_drops(struct metrics_kept *kept, uint64_t messages, char **text)
{
  const struct pst_stats stats = {.state = PST_STATE_CONNECTED};
  const struct account account = {.drop_count = 1,
                                  .drops = {{.cause = "wire", .messages = messages}}};
  const struct result_stream stream = {.name = "s", .receiver = &stats, .account = &account};
  struct metrics_page *page = metrics_page_new();

  metrics_put_stream(page, &stream, kept);
  *text = text_of(page);
}

/* A loss that was none after all: no counter falls, and their difference is what is lost. */
static void test_recovered(void **state)
{
  struct metrics_kept kept = {.count = 0};
  char *text;

  (void)state;
  put_drops(&kept, 10, &text);
  free(text);
  put_drops(&kept, 7, &text);
  free(text);
  put_drops(&kept, 8, &text);
  assert_non_null(
      strstr(text, "penstock_dropped_messages_total{stream=\"s\",cause=\"wire\"} 11\n"));
  assert_non_null(
      strstr(text, "penstock_recovered_messages_total{stream=\"s\",cause=\"wire\"} 3\n"));
  free(text);
}

/* A datagram stream shows its losses from 0 on; a reliable one has no such cause. */
static void test_no_loss_yet(void **state)
{
  (void)state;
  for (int lossy = 0; lossy < 2; lossy++) {
    struct metrics_kept kept = {.count = 0};
    const struct pst_stats stats = {.state = PST_STATE_CONNECTED};
    const struct account account = {.lossy = lossy == 1};
    const struct result_stream stream = {.name = "s", .receiver = &stats, .account = &account};
    struct metrics_page *page = metrics_page_new();
    metrics_put_stream(page, &stream, &kept);
    char *text = text_of(page);
    const char *wanted = "penstock_dropped_messages_total{stream=\"s\",cause=\"wire\"} 0\n";
    assert_int_equal(strstr(text, wanted) != NULL, lossy);
    free(text);
  }
}

/* 10 intervals of 100 ns, then 11 whose mean is rounded to less. */
static void test_sum_never_falls(void **state)
{
  const struct pst_times times[] = {{.count = 10, .mean_ns = 100}, {.count = 11, .mean_ns = 90}};
  struct metrics_kept kept = {.count = 0};

  (void)state;
  for (int i = 0; i < 2; i++) {
    const struct pst_stats stats = {.state = PST_STATE_CONNECTED, .intervals = times[i]};
    const struct account account = {.lossy = false};
    const struct result_stream stream = {.name = "s", .receiver = &stats, .account = &account};
    struct metrics_page *page = metrics_page_new();
    metrics_put_stream(page, &stream, &kept);
    char *text = text_of(page);
    assert_non_null(
        strstr(text, "penstock_arrival_interval_seconds_sum{stream=\"s\"} 0.000001000\n"));
    free(text);
  }
}

/* A session of two devices of one transport, with two threads. */
int __wrap_pst_session_device(const struct pst_session *session, uint32_t index,
                              struct pst_device_info *info);
int __wrap_pst_session_device(const struct pst_session *session, uint32_t index,
                              struct pst_device_info *info)
{
  (void)session;
  info->transport = "udp";
  return index < 2 ? 0 : -1;
}

uint32_t __wrap_pst_session_threads(const struct pst_session *session);
uint32_t __wrap_pst_session_threads(const struct pst_session *session)
{
  (void)session;
  return 2;
}

int __wrap_pst_session_device_counters(struct pst_session *session, uint32_t index,
                                       struct pst_counter_value *values, uint32_t max);
int __wrap_pst_session_device_counters(struct pst_session *session, uint32_t index,
                                       struct pst_counter_value *values, uint32_t max)
{
  (void)session;
  (void)index;
  (void)max;
  values[0] = (struct pst_counter_value){.name = "resets"};
  return 1;
}

int __wrap_pst_session_worker_counters(struct pst_session *session, uint32_t index, uint32_t thread,
                                       struct pst_counter_value *values, uint32_t max);
int __wrap_pst_session_worker_counters(struct pst_session *session, uint32_t index, uint32_t thread,
                                       struct pst_counter_value *values, uint32_t max)
{
  (void)thread;
  return __wrap_pst_session_device_counters(session, index, values, max);
}

/* No name and labels come twice: Prometheus drops the second sample. */
static void test_devices(void **state)
{
  struct metrics_page *page = metrics_page_new();
  char *lines[32], *rest = NULL;
  size_t count = 0;

  (void)state;
  metrics_put_devices(page, NULL);
  char *text = text_of(page);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    for (size_t i = 0; i < count; i++)
      assert_string_not_equal(line, lines[i]);
    assert_true(count < 32);
    lines[count++] = line;
  }
  assert_int_equal(count, 2 * 2 + 2 + 2 * 2); /* two families' heads, devices, workers */
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_families),    cmocka_unit_test(test_labels),
      cmocka_unit_test(test_counters),    cmocka_unit_test(test_recovered),
      cmocka_unit_test(test_no_loss_yet), cmocka_unit_test(test_sum_never_falls),
      cmocka_unit_test(test_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
