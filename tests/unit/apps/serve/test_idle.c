/* SPDX-License-Identifier: Apache-2.0 */
/* Which clients are idle; over the fuzz target's node, with simulated time. */
#include "clock.h"
#include "server_script.h"
#include "support.h"

#define HOUR UINT64_C(3600000000000)
#define IDLE (HOUR / 60)
#define BUSY (HOUR / 12) /* for so long a client may prepare its memory */

static unsigned turn;
static struct server server;
static struct pst_peer *peer;

static void ping(uint64_t tag, uint32_t flags)
{
  script_say(peer, &(struct serve_message){.type = SERVE_PING, .tag = tag, .flags = flags});
}

/* Is it sent away when it says nothing for so long? */
static bool is_idle(uint64_t for_ns)
{
  serve_client_check_idle(server.clients, app_now_ns() + for_ns);
  return server.clients->closing;
}

/* A message that is sent in one turn has arrived in the next. */
bool world_turn(void)
{
  switch (turn++) {
  case 0:
    peer = world_join();
    script_say_hello(peer);
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
    script_end();
    return true;
  default:
    return false;
  }
}

static void test_busy_is_not_idle(void **state)
{
  (void)state;
  script_run(&server,
             (struct server_params){.in_flight = 2 << 20, .request_max = 1 << 20, .idle_ns = IDLE});
  assert_int_equal(turn, 5);
  serve_server_close(&server);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_busy_is_not_idle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
