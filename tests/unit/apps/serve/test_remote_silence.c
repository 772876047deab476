/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is there and answers nothing: its client does not wait for ever. One that is slow
 * and answers pings is waited for. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "serve/client_connection.h"
#include "support.h"

#define TIMEOUT_NS (40 * NS_PER_MS)
#define WINDOW 4u

static bool is_stopping, answers_pings, has_joined;
static uint32_t pings, closed;
static uint8_t answer[256];
static size_t answer_length;

/* Each reading of the clock moves it on: nothing here takes the machine's time. */
__attribute__((visibility("default"))) int __wrap_clock_gettime(clockid_t id,
                                                                struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
  static uint64_t now;

  (void)id;
  now += NS_PER_MS / 10;
  time->tv_sec = (time_t)(now / NS_PER_S);
  time->tv_nsec = (long)(now % NS_PER_S);
  return 0;
}

bool __wrap_app_signals_stop(void);
bool __wrap_app_signals_stop(void)
{
  return is_stopping;
}

int __wrap_pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length);
int __wrap_pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length)
{
  struct serve_message message;
  char why[SERVE_WHY_MAX];

  (void)peer;
  assert_int_equal(serve_decode(bytes, length, &message, why), 0);
  if (message.type != SERVE_PING)
    return 0;
  pings++;
  if (answers_pings) {
    const struct serve_message done = {.type = SERVE_DONE, .tag = message.tag};
    assert_int_equal(serve_encode(&done, answer, sizeof(answer), &answer_length), 0);
  }
  return 0;
}

void __wrap_pst_peer_close(struct pst_peer *peer, int code, const char *text);
void __wrap_pst_peer_close(struct pst_peer *peer, int code, const char *text)
{
  (void)peer;
  (void)text;
  assert_int_equal(code, -ETIMEDOUT);
  closed++;
}

int __wrap_pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max);
int __wrap_pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max)
{
  (void)node;
  assert_true(max > 0);
  if (!has_joined) {
    has_joined = true;
    events[0] = (struct pst_node_event){.kind = PST_NODE_JOINED};
    return 1;
  }
  if (answer_length == 0)
    return 0;
  events[0] =
      (struct pst_node_event){.kind = PST_NODE_MESSAGE, .bytes = answer, .length = answer_length};
  answer_length = 0;
  return 1;
}

struct io_request *__wrap_serve_io_poll(struct io *io);
struct io_request *__wrap_serve_io_poll(struct io *io)
{
  (void)io;
  return NULL;
}

static void never(struct serve_pending *pending, const struct serve_message *message)
{
  (void)pending;
  (void)message;
  fail();
}

static struct connection remote;
static struct serve_pending pending[2 * WINDOW];

/* More is asked than the server takes at a time, and it answers none of that. */
static void ask_all(void)
{
  const struct serve_message question = {.type = SERVE_CLOSE};

  is_stopping = answers_pings = has_joined = false;
  pings = closed = 0;
  answer_length = 0;
  remote = (struct connection){.address = "127.0.0.1:1", .awake = true, .timeout_ns = TIMEOUT_NS};
  assert_int_equal(serve_connection_step(&remote), 0);
  remote.limits =
      (struct serve_message){.type = SERVE_WELCOME, .window = WINDOW, .idle_ns = UINT64_MAX};
  for (uint32_t i = 0; i < 2 * WINDOW; i++)
    serve_connection_ask(&remote, &pending[i], SERVE_DONE, &question, never);
  assert_int_equal(remote.under_way, WINDOW - 1);
}

static int step_until(uint64_t end_ns)
{
  int rc = 0;

  while (rc == 0 && app_now_ns() < end_ns)
    rc = serve_connection_step(&remote);
  return rc;
}

static void test_nothing_is_answered(void **state)
{
  (void)state;
  ask_all();
  assert_int_equal(step_until(app_now_ns() + 60 * NS_PER_S), -ETIMEDOUT);
  assert_int_equal(pings, 1);
  assert_int_equal(closed, 1);
  assert_non_null(
      strstr(remote.text, "127.0.0.1:1: the server is connected, but has not answered"));
  assert_non_null(strstr(remote.text, "--timeout"));
}

static void test_pings_are_answered(void **state)
{
  (void)state;
  ask_all();
  answers_pings = true;
  while (pings < 10)
    assert_int_equal(serve_connection_step(&remote), 0);
  assert_int_equal(closed, 0);
}

static void test_a_signal_bounds_the_wait(void **state)
{
  (void)state;
  ask_all();
  remote.timeout_ns = 3600 * NS_PER_S;
  is_stopping = true;
  assert_int_equal(step_until(app_now_ns() + 60 * NS_PER_S), -ETIMEDOUT);
  assert_non_null(strstr(remote.text, "stopped by SIG"));
}

static void test_no_welcome_comes(void **state)
{
  (void)state;
  ask_all();
  remote = (struct connection){.address = "127.0.0.1:1",
                               .awake = true,
                               .joined = true,
                               .waiting = true,
                               .timeout_ns = TIMEOUT_NS};
  assert_int_equal(step_until(app_now_ns() + 60 * NS_PER_S), -ETIMEDOUT);
  assert_int_equal(pings, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_is_answered),
      cmocka_unit_test(test_pings_are_answered),
      cmocka_unit_test(test_a_signal_bounds_the_wait),
      cmocka_unit_test(test_no_welcome_comes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
