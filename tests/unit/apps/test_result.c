/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/result.c. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "environment.h"
#include "log.h"
#include "result.h"
#include "support.h"

static struct json_object *at(struct json_object *object, const char *key)
{
  struct json_object *value;
  if (!json_object_object_get_ex(object, key, &value))
    fail_msg("no key '%s'", key);
  return value;
}

static struct pst_config *config;

static struct json_object *new_result(void)
{
  static const struct command command = {.name = "run", .roles = PST_SESSION_SENDER};
  char line[] = "penstock run \"a\"/b.yaml";
  const struct arguments arguments = {.operand = "b.yaml", .line = line};

  return app_result_new(&command, &arguments, config);
}

static void add_stream(struct json_object *result, bool receiver_here)
{
  struct pst_stats sender = {
      .state = PST_STATE_ENDED,
      .messages_sent = 100,
      .started_ns = 1,
      .ended_ns = 1000000001,
      .blocked_ns = {[PST_STAGE_SOURCE] = 500000000, [PST_STAGE_STAGING] = 125000000}};
  struct pst_stats receiver = {
      .state = PST_STATE_ENDED,
      .messages_delivered = 97,
      .bytes_delivered = 97000,
      .started_ns = 1,
      .ended_ns = 1000000001,
      .verified = 97,
      .drop_count = 1,
      .drops = {{"no_buffer", 3}},
      .blocked_ns = {[PST_STAGE_STAGING] = 500000000, [PST_STAGE_SINK] = 250000000}};
  struct account account;
  const struct expect_result expects[] = {
      {.key = "path",
       .wanted = {EXPECT_WORD, "direct"},
       .found = {EXPECT_WORD, "staged"},
       .checked = true,
       .met = false},
      {.key = "max_loss", .wanted = {EXPECT_NUMBER, NULL, 0.01}, .checked = false}};
  const struct pst_counter_value counters[] = {
      {.name = "sent", .value = 100},
      {.name = "at", .value = 7, .flags = PST_COUNTER_ENTRY},
      {.name = "sent", .value = 5},
      {.name = "at", .value = 9, .flags = PST_COUNTER_ENTRY}};

  strcpy(receiver.path.carrier, "udp");
  receiver.path.path = PST_PATH_STAGED;
  app_accounting_gather(&sender, receiver_here ? &receiver : NULL, &account);
  const struct result_stream stream = {.name = "packets",
                                       .sender = &sender,
                                       .receiver = receiver_here ? &receiver : NULL,
                                       .sender_counters = {counters, 4},
                                       .account = &account,
                                       .expects = expects,
                                       .expect_count = 2,
                                       .source = "pattern",
                                       .sink = "verify",
                                       .sender_memory = "host",
                                       .receiver_memory = "host",
                                       .size_bytes = 1000,
                                       .ring_slots = 64,
                                       .limited_by = PST_STAGE_SINK,
                                       .share = 0.25,
                                       .errors = json_object_new_array(),
                                       .ok = false};
  app_finding_add(stream.errors, FINDING_EXPECT, "streams.packets.expect.path", "expected, got");
  app_result_add_stream(result, &stream);
}

static void assert_finding(struct json_object *list, size_t index, const char *code,
                           const char *text, const char *where)
{
  struct json_object *finding = json_object_array_get_idx(list, index);

  assert_non_null(finding);
  assert_string_equal(json_object_get_string(at(finding, "code")), code);
  assert_string_equal(json_object_get_string(at(finding, "text")), text);
  if (!where)
    assert_null(at(finding, "where"));
  else
    assert_string_equal(json_object_get_string(at(finding, "where")), where);
}

/* Written, then parsed back: what a reader of the file gets. */
static struct json_object *written_and_read(struct json_object *result)
{
  struct pst_error error = PST_ERROR_INIT;
  assert_int_equal(app_result_write(result, "out.json", &error), 0);
  json_object_put(result);
  struct json_object *back = json_object_from_file("out.json");
  assert_non_null(back);
  assert_int_equal(count_entries(), 1);
  unlink("out.json");
  return back;
}

static void both_ends_come_back(void **state)
{
  static const char *const libraries[] = {"/lib/libx.so.1", NULL};
  const struct pst_plugin_info info = {.kind = PST_KIND_TRANSPORT,
                                       .name = "loopback",
                                       .version = "0.1.0",
                                       .rung = "kernel",
                                       .path = "/p/transport-loopback.so",
                                       .libraries = libraries};
  struct json_object *result = new_result();

  (void)state;
  app_result_add_plugin(result, &info);
  add_stream(result, true);
  app_result_finish(result, PST_EXIT_EXPECT);
  struct json_object *back = written_and_read(result);

  assert_int_equal(json_object_get_int(at(back, "format")), 1);
  assert_false(json_object_get_boolean(at(back, "ok")));
  assert_int_equal(json_object_get_int(at(back, "exit_status")), 4);
  assert_finding(at(back, "errors"), 0, "expect", "expected, got", "streams.packets.expect.path");
  assert_string_equal(json_object_get_string(at(back, "command_line")),
                      "penstock run \"a\"/b.yaml");
  assert_string_equal(json_object_get_string(at(at(back, "config"), "hash")),
                      pst_config_hash(config));
  assert_int_equal(json_object_get_int(at(at(back, "environment"), "cores")), 2);
  struct json_object *plugin = json_object_array_get_idx(at(back, "plugins"), 0);
  assert_string_equal(json_object_get_string(at(plugin, "path")), info.path);
  assert_string_equal(json_object_get_string(json_object_array_get_idx(at(plugin, "libraries"), 0)),
                      libraries[0]);

  struct json_object *stream = json_object_array_get_idx(at(back, "streams"), 0);
  assert_int_equal(json_object_get_int(at(stream, "messages_sent")), 100);
  assert_string_equal(json_object_get_string(at(stream, "sent_basis")), "counted");
  assert_int_equal(json_object_get_int(at(stream, "messages_delivered")), 97);
  assert_int_equal(json_object_get_int(at(at(stream, "dropped"), "no_buffer")), 3);
  assert_string_equal(json_object_get_string(at(stream, "dropped_basis")), "counted");
  assert_int_equal(json_object_get_int(at(stream, "bytes_delivered")), 97000);
  assert_true(json_object_get_double(at(stream, "seconds")) == 1.0);
  assert_true(json_object_get_double(at(at(stream, "blocked_seconds"), "source")) == 0.5);
  assert_true(json_object_get_double(at(at(stream, "blocked_seconds"), "sink")) == 0.25);
  assert_true(json_object_get_double(at(at(stream, "blocked_seconds"), "staging")) == 0.625);
  assert_string_equal(json_object_get_string(at(stream, "path")), "staged");
  assert_string_equal(json_object_get_string(at(stream, "staged_by")), "receiver");
  assert_string_equal(json_object_get_string(at(at(stream, "verdict"), "limited_by")), "sink");
  assert_null(at(at(stream, "verdict"), "side"));
  assert_finding(at(stream, "errors"), 0, "expect", "expected, got", "streams.packets.expect.path");
  struct json_object *expects = at(stream, "expect");
  assert_false(json_object_get_boolean(at(json_object_array_get_idx(expects, 0), "met")));
  assert_string_equal(json_object_get_string(at(json_object_array_get_idx(expects, 0), "got")),
                      "staged");
  assert_null(at(json_object_array_get_idx(expects, 1), "met"));
  assert_null(at(json_object_array_get_idx(expects, 1), "got"));
  assert_true(json_object_get_double(at(json_object_array_get_idx(expects, 1), "expected")) ==
              0.01);
  struct json_object *counters = at(at(stream, "sender"), "counters");
  assert_int_equal(json_object_get_int(at(counters, "sent")), 105);
  assert_int_equal(json_object_get_int(json_object_array_get_idx(at(counters, "at"), 1)), 9);
  json_object_put(back);
}

static void what_a_sender_cannot_know_is_null(void **state)
{
  struct json_object *result = new_result();

  (void)state;
  add_stream(result, false);
  app_result_finish(result, PST_EXIT_FAILED);
  struct json_object *back = written_and_read(result);
  struct json_object *stream = json_object_array_get_idx(at(back, "streams"), 0);
  assert_int_equal(json_object_get_int(at(stream, "messages_sent")), 100);
  assert_null(at(stream, "messages_delivered"));
  assert_null(at(stream, "verified"));
  assert_null(at(stream, "corrupted"));
  assert_null(at(stream, "bytes_delivered"));
  assert_null(at(stream, "receiver"));
  assert_null(at(at(stream, "blocked_seconds"), "sink"));
  assert_true(json_object_get_double(at(at(stream, "blocked_seconds"), "staging")) == 0.125);
  json_object_put(back);
}

static void an_older_result_is_replaced_whole(void **state)
{
  static const char older_text[] =
      "{\"format\":1,\"penstock\":\"0.1.0\",\"command\":\"run\",\"ok\":true,\"older\":1}\n";
  struct json_object *result = new_result();

  (void)state;
  write_file("out.json", older_text, strlen(older_text));
  app_result_finish(result, PST_EXIT_OK);
  struct json_object *back = written_and_read(result), *older;
  assert_false(json_object_object_get_ex(back, "older", &older));
  json_object_put(back);
}

static void what_is_no_result_is_kept(void **state)
{
  static const char *const texts[] = {"{\"older\": 1}", "{\"format\": \"gif\"}", "streams:", "{"};
  struct json_object *result = new_result();
  size_t length;

  (void)state;
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    struct pst_error error = PST_ERROR_INIT;
    write_file("data", texts[i], strlen(texts[i]));
    assert_int_equal(app_result_write(result, "data", &error), -EEXIST);
    assert_non_null(strstr(error.text, "data exists and is not the result"));
    char *kept = read_whole("data", &length);
    assert_int_equal(length, strlen(texts[i]));
    assert_memory_equal(kept, texts[i], length);
    free(kept);
  }
  json_object_put(result);
}

static void folder_that_is_missing_is_an_error(void **state)
{
  struct json_object *result = new_result();
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(app_result_write(result, "none/out.json", &error), -ENOENT);
  assert_non_null(strstr(error.text, "none/out.json"));
  json_object_put(result);
}

static void each_line_of_an_error_has_its_place(void **state)
{
  const char *sets[] = {"transport={plugin: x}", "streams.a=b"};
  const struct arguments arguments = {.sets = sets, .set_count = 2};
  struct pst_error error = {sizeof(error), -EINVAL, PST_EXIT_USAGE, 0,
                            "b.yaml:12:5: wrong: so\n--set transport={plugin: x}:1:3: no plugin\n"
                            "control: 10.0.0.1:5: refused\n--set streams.a=c: other"};
  struct json_object *list = json_object_new_array();

  (void)state;
  app_finding_add_error(list, &error, &arguments);
  assert_int_equal(json_object_array_length(list), 4);
  assert_finding(list, 0, "usage", "wrong: so", "b.yaml:12:5");
  assert_finding(list, 1, "usage", "no plugin", "--set transport={plugin: x}:1:3");
  assert_finding(list, 2, "usage", "control: 10.0.0.1:5: refused", NULL);
  assert_finding(list, 3, "usage", "--set streams.a=c: other", NULL);
  json_object_put(list);
}

static void failure_has_an_error_and_success_has_none(void **state)
{
  static const struct {
    int exit_status, code;
    enum finding finding;
  } rows[] = {
      {PST_EXIT_UNAVAILABLE, 0, FINDING_UNAVAILABLE}, {PST_EXIT_FAILED, -ECONNRESET, FINDING_PEER},
      {PST_EXIT_FAILED, -ECONNREFUSED, FINDING_PEER}, {PST_EXIT_FAILED, -EINTR, FINDING_STOPPED},
      {PST_EXIT_USAGE, -EINTR, FINDING_USAGE},        {PST_EXIT_FAILED, -EIO, FINDING_FAILED},
      {PST_EXIT_USAGE, -ETIMEDOUT, FINDING_USAGE}};
  struct json_object *result = new_result();

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    assert_int_equal(app_finding_of(rows[i].exit_status, rows[i].code), rows[i].finding);
  app_result_finish(result, PST_EXIT_OK);
  assert_int_equal(json_object_array_length(app_result_errors(result)), 0);
  app_log_level(NOTICE_NONE);
  app_log(PST_LOG_ERROR, "the device is gone");
  app_result_finish(result, PST_EXIT_UNAVAILABLE);
  assert_finding(app_result_errors(result), 0, "unavailable", "the device is gone", NULL);
  json_object_put(result);
}

static void warnings_are_listed_once_each_and_not_without_end(void **state)
{
  struct json_object *result = new_result(), *list;

  (void)state;
  app_log_level(NOTICE_NONE);
  for (unsigned i = 0; i < 200; i++)
    app_log_warn(FINDING_RECORDING, "streams.a", "hole %u", i / 2);
  app_result_finish(result, PST_EXIT_OK);
  list = at(result, "warnings");
  assert_finding(list, 1, "recording", "hole 1", "streams.a");
  assert_finding(list, json_object_array_length(list) - 1, "log", "further warnings are not listed",
                 NULL);
  json_object_put(result);
}

static void environment_is_of_this_machine(void **state)
{
  struct environment environment;

  (void)state;
  app_environment_read(&environment);
  assert_true(environment.cores > 0);
  assert_true(environment.hostname[0] != '\0');
  assert_true(strncmp(environment.kernel, "Linux ", 6) == 0);
  assert_true(environment.memory_bytes > 1 << 20);
}

static int open_config(void **state)
{
  static const char text[] = "penstock: 1\nstreams: [{name: packets}]\n";
  struct pst_error error = PST_ERROR_INIT;
  int rc = folder_setup(state);

  return rc < 0 ? rc
                : pst_config_open_text(text, sizeof(text) - 1, "b.yaml", NULL, 0, &config, &error);
}

static int close_config(void **state)
{
  pst_config_close(config);
  return folder_teardown(state);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_ends_come_back),
      cmocka_unit_test(what_a_sender_cannot_know_is_null),
      cmocka_unit_test(an_older_result_is_replaced_whole),
      cmocka_unit_test(what_is_no_result_is_kept),
      cmocka_unit_test(folder_that_is_missing_is_an_error),
      cmocka_unit_test(each_line_of_an_error_has_its_place),
      cmocka_unit_test(failure_has_an_error_and_success_has_none),
      cmocka_unit_test(warnings_are_listed_once_each_and_not_without_end),
      cmocka_unit_test(environment_is_of_this_machine),
  };
  return cmocka_run_group_tests(tests, open_config, close_config) ? 1 : 0;
}
