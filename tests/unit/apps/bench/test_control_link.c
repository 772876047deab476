/* SPDX-License-Identifier: Apache-2.0 */
/* A bench server meets clients that join correctly and then send wrong messages; and the link
 * itself. */
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/control_link.h"
#include "bench/run.h"
#include "support.h"

#define DEADLINE_S 60
#define NS_PER_S UINT64_C(1000000000)
#define HELLO "{\"penstock_bench\": 1, \"transport\": \"loopback\"}"

static const struct bench_plan plan = {.side = {.transport = "loopback", .memory = "host"},
                                       .cpus = {-1, -1}};

struct server {
  struct control_link_server listening;
  pthread_t thread;
  atomic_bool ends;
  const char *token;
  int result; /* of the last that was served */
};

static void *serve(void *argument)
{
  struct server *server = argument;

  while (!atomic_load(&server->ends)) {
    struct control_link *link;
    if (bench_link_take(&server->listening, NS_PER_S / 100, &link) < 0)
      continue;
    server->result = bench_serve(link, &plan, server->token, 0, -1);
    bench_link_close(link);
  }
  return NULL;
}

static void open_server(struct server *server, const char *token)
{
  struct pst_error error = PST_ERROR_INIT;

  *server = (struct server){.token = token};
  if (bench_link_listen("bench", "127.0.0.1:0", 0, NULL, -1, &server->listening, &error) < 0)
    fail_msg("%s", error.text);
  assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void close_server(struct server *server)
{
  atomic_store(&server->ends, true);
  pthread_join(server->thread, NULL);
  bench_link_unlisten(&server->listening);
}

static struct control_link *connect_to(const struct server *server)
{
  struct pst_error error = PST_ERROR_INIT;
  struct control_link *link = NULL;

  if (bench_link_connect("bench", "127.0.0.1", pst_node_port(server->listening.node), NULL, -1,
                         &link, &error) < 0)
    fail_msg("%s", error.text);
  return link;
}

static const char *text_of(struct json_object *object, const char *key)
{
  struct json_object *member = NULL;

  return json_object_object_get_ex(object, key, &member) ? json_object_get_string(member) : "";
}

/* Says raw bytes, and gives what the server answers last: NULL: it has hung up. */
static char *say(const struct server *server, const char *const *messages, char *answer)
{
  struct control_link *link = connect_to(server);
  struct json_object *said = NULL;
  char *result = answer;

  for (size_t i = 0; messages[i] && result; i++) {
    assert_int_equal(pst_peer_send(link->far, messages[i], strlen(messages[i])), 0);
    int got = bench_link_receive(link, DEADLINE_S * NS_PER_S, false, &said);
    if (got < 0) {
      assert_int_equal(got, -ECONNRESET);
      if (!strstr(link->text, "a message is not a JSON object"))
        fail_msg("%zu of %.40s: %d %s", i, messages[0], link->code, link->text);
      result = NULL;
    } else {
      snprintf(answer, 256, "%s", text_of(said, "error"));
      json_object_put(said);
    }
  }
  bench_link_close(link);
  return result;
}

static void a_server_outlives_hostile_clients(void **state)
{
  static char deep[30000];
  static const struct {
    const char *messages[3], *answer; /* NULL: it hangs up */
  } cases[] = {
      {{""}, NULL},
      {{"{"}, NULL},
      {{"7"}, NULL},
      {{"[]"}, NULL},
      {{deep}, NULL},
      {{"\xff\xfe"}, NULL},
      {{"{}"}, "of another version"},
      {{"{\"penstock_bench\": 1}"}, "of another version"},
      {{"{\"penstock_bench\": 2, \"transport\": \"loopback\"}"}, "of another version"},
      {{"{\"penstock_bench\": 1, \"transport\": {}}"}, "give both the same"},
      {{"{\"penstock_bench\": 1, \"transport\": null}"}, "give both the same"},
      {{"{\"penstock_bench\": 1, \"transport\": \"verbs_rc\"}"}, "this client with verbs_rc"},
      {{HELLO, "{}"}, "the request is not a JSON object"},
      {{HELLO, "{\"case\": 7}"}, "the request is not a JSON object"},
      {{HELLO, "nonsense"}, NULL},
      {{HELLO, "{\"case\": {\"op\": \"send\", \"measure\": \"bandwidth\", \"size_bytes\": "
               "1099511627776, \"ring_slots\": 65536, \"places\": 0, \"duration_ns\": 1, "
               "\"warmup_ns\": 0, \"touch\": false, \"verify\": false, \"back_port\": 0, "
               "\"token\": \"ab\"}}"},
       "size_bytes"},
  };
  struct server server;
  char answer[256];

  (void)state;
  memset(deep, '[', sizeof(deep) - 1);
  open_server(&server, NULL);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const char *got = say(&server, cases[i].messages, answer);
    if ((!got) != (!cases[i].answer) || (got && !strstr(got, cases[i].answer)))
      fail_msg("case %zu: %s", i, got ? got : "it hung up");
  }
  const char *const fine[] = {HELLO, NULL};
  assert_non_null(say(&server, fine, answer));
  assert_string_equal(answer, "");
  close_server(&server);
}

/* More than it has room for is not sent; and nobody reads what is not asked for. */
static void a_client_that_does_not_wait_for_answers(void **state)
{
  struct json_object *said = NULL;
  struct server server;

  (void)state;
  open_server(&server, NULL);
  struct control_link *link = connect_to(&server);
  for (int i = 0; i < 1000; i++) {
    int rc = bench_link_send(link, json_tokener_parse(i == 0 ? HELLO : "{}"));
    if (rc < 0) {
      assert_int_equal(rc, -ECONNRESET); /* it hears nothing of its answers */
      break;
    }
  }
  bench_link_close(link);
  link = connect_to(&server);
  assert_int_equal(bench_link_send(link, json_tokener_parse(HELLO)), 0);
  assert_int_equal(bench_link_receive(link, DEADLINE_S * NS_PER_S, false, &said), 0);
  assert_string_equal(text_of(said, "error"), "");
  json_object_put(said);
  bench_link_close(link);
  close_server(&server);
}

/* As the process that was forked for one client alone. */
static void a_server_with_a_token_serves_its_holder(void **state)
{
  static const char *const others[] = {HELLO, NULL};
  static const char *const wrong[] = {
      "{\"penstock_bench\": 1, \"transport\": \"loopback\", \"token\": \"b\"}", NULL};
  static const char *const none[] = {
      "{\"penstock_bench\": 1, \"transport\": \"loopback\", \"token\": null}", NULL};
  static const char *const right[] = {
      "{\"penstock_bench\": 1, \"transport\": \"loopback\", \"token\": \"a\"}", NULL};
  struct server server;
  char answer[256];

  (void)state;
  open_server(&server, "a");
  assert_non_null(say(&server, others, answer));
  assert_non_null(strstr(answer, "the process that started it"));
  assert_non_null(say(&server, wrong, answer));
  assert_non_null(strstr(answer, "the process that started it"));
  assert_non_null(say(&server, none, answer));
  assert_non_null(strstr(answer, "the process that started it"));
  assert_non_null(say(&server, right, answer));
  assert_string_equal(answer, "");
  close_server(&server);
}

/* One is served, and another waits for its turn, behind one that says nothing. */
static void clients_wait_for_their_turn(void **state)
{
  struct json_object *said = NULL;
  struct server server;

  (void)state;
  open_server(&server, NULL);
  struct control_link *silent = connect_to(&server), *first = connect_to(&server);
  assert_int_equal(bench_link_send(first, json_tokener_parse(HELLO)), 0);
  assert_int_equal(bench_link_receive(first, DEADLINE_S * NS_PER_S, false, &said), 0);
  json_object_put(said);
  struct control_link *second = connect_to(&server);
  assert_int_equal(bench_link_send(second, json_tokener_parse(HELLO)), 0);
  assert_int_equal(bench_link_receive(second, NS_PER_S / 10, false, &said), -ETIMEDOUT);
  assert_int_equal(bench_link_look(second), 0);
  bench_link_close(first);
  for (time_t until = time(NULL) + DEADLINE_S; bench_link_look(second) == 0;)
    assert_true(time(NULL) < until);
  assert_string_equal(text_of(bench_link_first(second), "error"), "");
  assert_int_equal(bench_link_receive(second, 0, false, &said), 0);
  assert_null(bench_link_first(second));
  json_object_put(said);
  assert_string_equal(second->local, "127.0.0.1");
  assert_string_equal(second->remote, "127.0.0.1");
  bench_link_close(second);
  bench_link_close(silent);
  close_server(&server);
}

static void addresses_are_checked(void **state)
{
  static const struct {
    const char *where, *hint;
  } wrong[] = {
      {"[::1", "[IPV6]:PORT"},        {"", "[IPV6]:PORT"},
      {"host:", "[IPV6]:PORT"},       {"h:70000", "PORT"},
      {"10.255.255.1", "--insecure"},
  };
  struct pst_error error;
  struct control_link *link = NULL;

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    error = (struct pst_error)PST_ERROR_INIT;
    assert_true(bench_link_connect("bench", wrong[i].where, 1, NULL, -1, &link, &error) < 0);
    assert_int_equal(error.exit_status, PST_EXIT_USAGE);
    if (!strstr(error.text, wrong[i].hint))
      fail_msg("%s: %s", wrong[i].where, error.text);
  }
  assert_null(link);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_outlives_hostile_clients),
      cmocka_unit_test(a_client_that_does_not_wait_for_answers),
      cmocka_unit_test(a_server_with_a_token_serves_its_holder),
      cmocka_unit_test(clients_wait_for_their_turn),
      cmocka_unit_test(addresses_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
