/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/report.c. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "log.h"
#include "result.h"
#include "runner.h"
#include "schema.h"
#include "support.h"

static struct pst_stats sent, received; /* what the library says of either side */
static struct pst_config *config;
static uint32_t left; /* why the receiver has left; PST_STOP_UNKNOWN: it has not */

int __wrap_pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats);
int __wrap_pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats)
{
  (void)sender;
  *stats = sent;
  return 0;
}

int __wrap_pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats);
int __wrap_pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  (void)receiver;
  *stats = received;
  return 0;
}

int __wrap_pst_sender_counters(const struct pst_sender *sender, struct pst_counter_value *values,
                               uint32_t max);
int __wrap_pst_sender_counters(const struct pst_sender *sender, struct pst_counter_value *values,
                               uint32_t max)
{
  (void)sender;
  (void)values;
  (void)max;
  return 0;
}

int __wrap_pst_receiver_counters(const struct pst_receiver *receiver,
                                 struct pst_counter_value *values, uint32_t max);
int __wrap_pst_receiver_counters(const struct pst_receiver *receiver,
                                 struct pst_counter_value *values, uint32_t max)
{
  (void)receiver;
  (void)values;
  (void)max;
  return 0;
}

static int open_config(void **state)
{
  static const char text[] =
      "penstock: 1\nstreams: [{name: packets, expect: {verified: true, max_loss: 0}}]\n";
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  app_log_level(NOTICE_NONE);
  assert_int_equal(pst_config_program(&app_schema_program), 0);
  return pst_config_open_text(text, sizeof(text) - 1, "test.yaml", NULL, 0, &config, &error);
}

static int close_config(void **state)
{
  (void)state;
  pst_config_close(config);
  return 0;
}

static struct json_object *at(struct json_object *object, const char *key)
{
  struct json_object *value = NULL;

  if (!json_object_object_get_ex(object, key, &value))
    fail_msg("no key '%s'", key);
  return value;
}

static int exit_status; /* of the stream last reported */

/* The stream's part of the result of a process with these sides. */
static struct json_object *report(bool has_sender, bool has_receiver, struct json_object **result)
{
  static const struct command command = {.name = "run", .roles = PST_SESSION_SENDER};
  static const struct arguments arguments = {.operand = "test.yaml"};
  struct runner runner = {.config = config};
  struct app_stream own = {.runner = &runner, .name = "packets"};

  if (has_sender)
    own.sender.handle = (struct pst_sender *)&own;
  if (has_receiver)
    own.receiver.handle = (struct pst_receiver *)&own;
  own.receiver.cut = left != PST_STOP_UNKNOWN;
  own.receiver.stopped = left;
  *result = app_result_new(&command, &arguments, config);
  app_report_stream(&own, *result);
  exit_status = own.exit_status;
  return json_object_array_get_idx(at(*result, "streams"), 0);
}

static struct pst_stats failed_stats(int error, uint32_t peer_failed, uint64_t messages)
{
  return (struct pst_stats){.struct_size = sizeof(struct pst_stats),
                            .state = PST_STATE_FAILED,
                            .error = error,
                            .peer_failed = peer_failed,
                            .error_text = "the reason",
                            .messages_sent = messages,
                            .messages_delivered = messages,
                            .sent_basis = PST_SENT_COUNTED,
                            .started_ns = 1,
                            .ended_ns = 2};
}

static void what_failed_has_one_error(void **state)
{
  struct json_object *result, *stream;

  (void)state;
  for (uint64_t messages = 0; messages < 2; messages++) {
    received = failed_stats(-EIO, 0, messages);
    stream = report(false, true, &result);
    assert_int_equal(json_object_array_length(at(stream, "errors")), 1);
    for (size_t i = 0; i < 2; i++) {
      struct json_object *expect = json_object_array_get_idx(at(stream, "expect"), i);
      assert_int_equal(!at(expect, "met"), messages == 0);
    }
    assert_int_equal(!at(at(stream, "verdict"), "limited_by"), messages == 0);
    json_object_put(result);
  }
}

static void a_failure_is_that_of_the_side_that_failed(void **state)
{
  static const struct {
    int error;
    uint32_t peer_failed;
    bool has_sender, has_receiver;
    const char *stopped;
  } rows[] = {
      {-EIO, 0, false, true, "failure"}, {-EIO, 1, false, true, "peer"},
      {-EIO, 1, true, false, "peer"},    {-ECONNRESET, 0, false, true, "peer"},
      {-EIO, 1, true, true, "failure"},
  };
  struct json_object *result;

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    sent = received = failed_stats(rows[i].error, rows[i].peer_failed, 5);
    struct json_object *stream = report(rows[i].has_sender, rows[i].has_receiver, &result);
    assert_string_equal(json_object_get_string(at(stream, "stopped")), rows[i].stopped);
    json_object_put(result);
  }
}

/* Whether the sender had sent something by then is chance. */
static void what_is_not_possible_here_says_so_whatever_was_sent(void **state)
{
  struct json_object *result;

  (void)state;
  for (uint64_t messages = 0; messages <= 1000; messages += 1000) {
    received = failed_stats(-EOPNOTSUPP, 0, messages);
    received.messages_delivered = 0;
    received.drop_count = messages > 0;
    received.drops[0] = (struct pst_drop){.cause = "aborted", .messages = messages};
    report(false, true, &result);
    assert_int_equal(exit_status, PST_EXIT_UNAVAILABLE);
    json_object_put(result);
  }
}

static void a_receiver_that_leaves_has_one_error(void **state)
{
  static const struct {
    uint32_t stopped;
    const char *word, *said;
  } rows[] = {{PST_STOP_SIGNAL, "signal", "left before"},
              {PST_STOP_DURATION, "duration", "--duration"}};
  struct json_object *result;

  (void)state;
  for (size_t i = 0; i < 2; i++) {
    received = failed_stats(-ECANCELED, 0, 5);
    received.verified = 5;
    left = rows[i].stopped;
    struct json_object *stream = report(false, true, &result), *errors = at(stream, "errors");
    left = PST_STOP_UNKNOWN;
    assert_string_equal(json_object_get_string(at(stream, "stopped")), rows[i].word);
    assert_int_equal(json_object_array_length(errors), 1);
    struct json_object *error = json_object_array_get_idx(errors, 0);
    assert_string_equal(json_object_get_string(at(error, "code")), "stopped");
    assert_non_null(strstr(json_object_get_string(at(error, "text")), rows[i].said));
    json_object_put(result);
  }
}

static void a_sender_that_is_stopped_before_it_connects_has_one_error(void **state)
{
  struct json_object *result;

  (void)state;
  sent = (struct pst_stats){.struct_size = sizeof(sent),
                            .state = PST_STATE_WAITING,
                            .stopped = PST_STOP_SIGNAL | PST_STOP_SHORT};
  struct json_object *stream = report(true, false, &result), *errors = at(stream, "errors");
  assert_string_equal(json_object_get_string(at(stream, "stopped")), "signal");
  assert_int_equal(json_object_array_length(errors), 1);
  struct json_object *error = json_object_array_get_idx(errors, 0);
  assert_string_equal(json_object_get_string(at(error, "code")), "stopped");
  json_object_put(result);
}

static void a_failed_run_hides_an_unmet_expect(void **state)
{
  static const int rows[][3] = {
      {0, 0, 0}, {0, 4, 4}, {4, 0, 4}, {4, 1, 1}, {1, 4, 1}, {2, 3, 3}, {3, 1, 1}, {2, 4, 2},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    assert_int_equal(app_finding_worse(rows[i][0], rows[i][1]), rows[i][2]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_failed_has_one_error),
      cmocka_unit_test(a_failure_is_that_of_the_side_that_failed),
      cmocka_unit_test(what_is_not_possible_here_says_so_whatever_was_sent),
      cmocka_unit_test(a_receiver_that_leaves_has_one_error),
      cmocka_unit_test(a_sender_that_is_stopped_before_it_connects_has_one_error),
      cmocka_unit_test(a_failed_run_hides_an_unmet_expect),
  };
  return cmocka_run_group_tests(tests, open_config, close_config) ? 1 : 0;
}
