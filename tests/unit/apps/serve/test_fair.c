/* SPDX-License-Identifier: Apache-2.0 */
/* The server over the fuzz target's node: what it posts for clients that ask for little and for
 * much, counted. No clock, no sockets, no threads. */
#include "server_script.h"
#include "support.h"

#define ASKS 60u /* of each client */
#define MUCH (1u << 20)
#define LITTLE (64u << 10)
#define AHEAD (4u << 20) /* what a client may have had more than another */

static bool asked;
static struct server server;
static struct pst_peer *clients[WORLD_PEERS];

/* The first client asks for much, all of it before the others ask for little. */
static void ask_all(void)
{
  static struct serve_message m;

  for (uint32_t i = 0; i < WORLD_PEERS; i++)
    for (uint32_t k = 0; k < ASKS; k++) {
      m = (struct serve_message){.type = SERVE_MOVE,
                                 .tag = k + 1,
                                 .region = 1,
                                 .op = SERVE_OP_WRITE,
                                 .pieces = 1,
                                 .length = i == 0 ? MUCH : LITTLE};
      script_say(clients[i], &m);
    }
}

/* Until one of the others has all that it wanted, the first has had no more than they. */
static void require_fair(void)
{
  uint64_t first = world_posted(clients[0]);
  uint64_t least = world_posted(clients[1]);

  if (world_posted(clients[2]) < least)
    least = world_posted(clients[2]);
  if (least == ASKS * LITTLE)
    return;
  if (first > least + AHEAD)
    fail_msg("%lu bytes are posted for one client, %lu for another", first, least);
}

/* One operation ends at a time. */
bool world_turn(void)
{
  if (!clients[0]) {
    for (uint32_t i = 0; i < WORLD_PEERS; i++) {
      clients[i] = world_join();
      world_offer(clients[i], 1, MUCH, PST_ACCESS_REMOTE_WRITE);
      script_say_hello(clients[i]);
    }
    return true;
  }
  if (!asked) {
    ask_all();
    asked = true;
    return true;
  }
  require_fair();
  if (world_under_way() > 0) {
    world_done(0, 0);
    return true;
  }
  if (world_posted(clients[0]) == (uint64_t)ASKS * MUCH &&
      world_posted(clients[1]) == (uint64_t)ASKS * LITTLE &&
      world_posted(clients[2]) == (uint64_t)ASKS * LITTLE)
    script_end();
  return false;
}

static void run(uint64_t bytes)
{
  asked = false;
  memset(clients, 0, sizeof(clients));
  script_run(&server, (struct server_params){.in_flight = bytes,
                                             .request_max = MUCH,
                                             .pieces = SERVER_PIECES,
                                             .idle_ns = UINT64_MAX});
  world_require_answers();
  serve_server_close(&server);
}

static void test_memory_is_short(void **state)
{
  (void)state;
  run(2u << 20);
}

static void test_memory_is_enough(void **state)
{
  (void)state;
  run(256u << 20);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_is_short),
      cmocka_unit_test(test_memory_is_enough),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
