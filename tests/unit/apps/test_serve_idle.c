/* SPDX-License-Identifier: Apache-2.0 */
/* Who is idle: over the fuzz target's node, with times that are made up. */
#include "clock.h"
#include "notice.h"
#include "serve/server.h"
#include "server_model.h"
#include "server_world.h"
#include "signals.h"
#include "support.h"

#define HOUR UINT64_C(3600000000000)
#define IDLE (HOUR / 60)
#define BUSY (HOUR / 12) /* for so long a client may prepare its memory */

static bool over;
static unsigned turn;
static struct server server;
static struct pst_peer *peer;

bool signals_stop(void)
{
  return over;
}

static void say(const struct serve_message *message)
{
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;

  assert_int_equal(serve_encode(message, bytes, sizeof bytes, &length), 0);
  if (message->type != SERVE_HELLO)
    world_expect(peer, message->tag);
  world_say(peer, bytes, length);
}

static void ping(uint64_t tag, uint32_t flags)
{
  say(&(struct serve_message){.type = SERVE_PING, .tag = tag, .flags = flags});
}

/* Is it sent away when it says nothing for so long? */
static bool is_idle(uint64_t for_ns)
{
  client_check_idle(server.clients, now_ns() + for_ns);
  return server.clients->closing;
}

/* What is said in one turn has come in the next. */
bool world_turn(void)
{
  const struct serve_message hello = {.type = SERVE_HELLO, .major = SERVE_MAJOR, .program = "0"};

  switch (turn++) {
  case 0:
    peer = world_join();
    say(&hello);
    ping(1, SERVE_FLAG_BUSY);
    return true;
  case 1: /* it prepares memory, and its region comes: it has asked for nothing */
    assert_false(is_idle(BUSY / 2));
    world_offer(peer, 1, 4096, PST_ACCESS_REMOTE_WRITE);
    return true;
  case 2:
    assert_false(is_idle(BUSY / 2));
    ping(2, 0);
    return true;
  case 3:
    assert_int_equal(server.clients->jobs, 0);
    assert_false(server.clients->closing);
    assert_false(is_idle(IDLE / 2));
    ping(3, SERVE_FLAG_BUSY);
    return true;
  case 4: /* it has its place no longer than that */
    assert_true(is_idle(BUSY + HOUR / 60));
    over = true;
    return true;
  default:
    return false;
  }
}

static void test_busy_is_not_idle(void **state)
{
  struct server_params params = {.listen = "",
                                 .memory = "host",
                                 .clients = WORLD_PEERS,
                                 .in_flight = 2 << 20,
                                 .request_max = 1 << 20,
                                 .idle_ns = IDLE};
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  notice_level(PST_LOG_ERROR);
  world_node_begin();
  model_begin(false, false, params.request_max);
  world_io_drain(true);
  assert_int_equal(server_open(&params, &server, &error), 0);
  assert_int_equal(server_run(&server, -1), 0);
  assert_int_equal(turn, 5);
  server_close(&server);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_busy_is_not_idle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
