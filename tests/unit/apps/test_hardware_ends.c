/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of a hardware check: neither holds the other by saying nothing of use, and what a server
 * tells is valid JSON. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/control_link.h"
#include "clock.h"
#include "hardware/remote.h"
#include "support.h"

#define HOUR_NS (3600 * NS_PER_S)
#define LIMIT_NS (60 * NS_PER_S)

static struct control_link link_to_other;
static const char *const *lines; /* that the other end says; then "{}" each second */
static uint64_t now_ns, began_ns;

static void begin(const char *const *said)
{
  lines = said;
  began_ns = now_ns;
}

/* The time passes while this end waits: the test takes none of the machine's. */
static void pass(uint64_t ns)
{
  now_ns += ns;
  assert_true(now_ns - began_ns < HOUR_NS);
}

__attribute__((visibility("default"))) int __wrap_clock_gettime(clockid_t id,
                                                                struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
  (void)id;
  time->tv_sec = (time_t)(now_ns / NS_PER_S);
  time->tv_nsec = (long)(now_ns % NS_PER_S);
  return 0;
}

int __wrap_bench_link_receive(struct control_link *link, uint64_t timeout_ns, bool heeds_stop,
                              struct json_object **object);
int __wrap_bench_link_receive(struct control_link *link, uint64_t timeout_ns, bool heeds_stop,
                              struct json_object **object)
{
  (void)heeds_stop;
  assert_ptr_equal(link, &link_to_other);
  if (*lines) {
    *object = json_tokener_parse(*lines++);
    return 0;
  }
  if (timeout_ns < NS_PER_S) {
    pass(timeout_ns);
    return -ETIMEDOUT;
  }
  pass(NS_PER_S);
  *object = json_object_new_object();
  return 0;
}

int __wrap_bench_link_send(struct control_link *link, struct json_object *object);
int __wrap_bench_link_send(struct control_link *link, struct json_object *object)
{
  assert_ptr_equal(link, &link_to_other);
  json_object_put(object);
  return 0;
}

/* The client says nothing more. */
int __wrap_bench_link_look(struct control_link *link);
int __wrap_bench_link_look(struct control_link *link)
{
  assert_ptr_equal(link, &link_to_other);
  pass(30 * NS_PER_S);
  return 0;
}

int __wrap_bench_link_listen(const char *command, const char *where, uint16_t port,
                             const struct link_access *access, int cpu,
                             struct control_link_server *server, struct pst_error *error);
int __wrap_bench_link_listen(const char *command, const char *where, uint16_t port,
                             const struct link_access *access, int cpu,
                             struct control_link_server *server, struct pst_error *error)
{
  (void)command, (void)where, (void)port, (void)access, (void)cpu, (void)error;
  *server = (struct control_link_server){.node = NULL};
  return 0;
}

int __wrap_bench_link_take(struct control_link_server *server, uint64_t timeout_ns,
                           struct control_link **link);
int __wrap_bench_link_take(struct control_link_server *server, uint64_t timeout_ns,
                           struct control_link **link)
{
  (void)server, (void)timeout_ns;
  *link = &link_to_other;
  return 0;
}

void __wrap_bench_link_close(struct control_link *link);
void __wrap_bench_link_close(struct control_link *link)
{
  assert_ptr_equal(link, &link_to_other);
}

uint16_t __wrap_pst_node_port(const struct pst_node *node);
uint16_t __wrap_pst_node_port(const struct pst_node *node)
{
  (void)node;
  return HARDWARE_PORT;
}

/* The program listens, and waits for a client. */
int __wrap_hardware_serve(struct hardware_end *end, const struct hardware_ask *ask,
                          const char *host, uint16_t port, char why[HARDWARE_WHY]);
int __wrap_hardware_serve(struct hardware_end *end, const struct hardware_ask *ask,
                          const char *host, uint16_t port, char why[HARDWARE_WHY])
{
  (void)end, (void)host, (void)port, (void)why;
  assert_int_equal(ask->limit_ns, LIMIT_NS);
  return 0;
}

static void a_server_that_says_other_things_is_given_up(void **state)
{
  static const char *const none[] = {NULL};
  struct hardware_remote far = {.link = &link_to_other, .end.child = CHILD_NONE};
  const struct hardware_ask ask = {.transport = "udp", .limit_ns = LIMIT_NS};
  char why[HARDWARE_WHY];

  (void)state;
  begin(none);
  assert_int_equal(hardware_remote_start(&far, &ask, why), -ECONNRESET);
  assert_string_equal(why, "the other end does not answer");
  assert_true(far.has_gone);
  assert_in_range(now_ns - began_ns, LIMIT_NS, 2 * LIMIT_NS);
  far.has_gone = false;
  begin(none);
  assert_null(hardware_remote_finish(&far, NULL, false));
  assert_true(far.has_gone);
}

static void a_client_that_says_nothing_is_dropped(void **state)
{
  char hello[128];
  const char *const said[] = {hello,
                              "{\"start\": \"address\", \"step\": 0, \"transport\": \"udp\", "
                              "\"memory\": \"host\", \"limit_ns\": 60000000000}",
                              NULL};
  struct hardware_plan plan = {.insecure = false};
  struct hardware_end end = {
      .plan = &plan,
      .child = CHILD_NONE,
      .has = {.transports = {.all = {{.name = "udp", .devices.count = 1}}, .count = 1},
              .memories = {.all = {{.name = "host", .devices.count = 1}}, .count = 1}}};

  (void)state;
  snprintf(hello, sizeof(hello), "{\"penstock_hardware_check\": 1, \"version\": \"%s\"}",
           pst_version());
  begin(said);
  assert_int_equal(hardware_server(&end, "127.0.0.1", true), 0);
  assert_null(*lines); /* the step was taken */
  assert_true(now_ns - began_ns > 2 * LIMIT_NS);
}

static void what_a_server_tells_is_json(void **state)
{
  static const char *const said[] = {
      "{\"told\": {\"exit_status\": -5, \"counters\": {\"cycles\": \"inf\", "
      "\"instructions\": 7.5}}}",
      "{\"told\": {\"exit_status\": 3, \"counters\": {\"cycles\": true, \"instructions\": 8}}}",
      NULL};
  struct hardware_remote far = {.link = &link_to_other, .end.child = CHILD_NONE};

  (void)state;
  begin(said);
  struct json_object *told = hardware_remote_finish(&far, NULL, false);
  const char *text = json_object_to_json_string_ext(told, JSON_C_TO_STRING_PLAIN);
  assert_non_null(strstr(text, "\"exit_status\":null,"));
  assert_non_null(strstr(text, "\"cycles\":null,"));
  assert_non_null(strstr(text, "\"instructions\":7.5,"));
  json_object_put(told);
  told = hardware_remote_finish(&far, NULL, false);
  text = json_object_to_json_string_ext(told, JSON_C_TO_STRING_PLAIN);
  assert_non_null(strstr(text, "\"exit_status\":3,"));
  assert_non_null(strstr(text, "\"cycles\":null,"));
  assert_non_null(strstr(text, "\"instructions\":8,"));
  json_object_put(told);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_that_says_other_things_is_given_up),
      cmocka_unit_test(a_client_that_says_nothing_is_dropped),
      cmocka_unit_test(what_a_server_tells_is_json),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
