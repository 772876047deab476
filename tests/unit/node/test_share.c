/* SPDX-License-Identifier: Apache-2.0 */
/* What the peers of a node share: those that do not read stop nobody else, and what they held is
 * there again once they have gone. */
#include "support.h"

#define CLIENTS 8u
#define MESSAGES 8u /* as some_params() has it: on their way with one peer, each way */

static struct side server, clients[CLIENTS];
static struct pst_peer *peers[CLIENTS]; /* the server's */

static void join(uint32_t i)
{
  const struct pst_node_params params = some_params();

  side_open(&clients[i], &params);
  connect_sides(&server, &clients[i]);
  peers[i] = server.peer;
}

static void open_all(void)
{
  struct pst_node_params params = some_params();

  params.listen = "127.0.0.1:0";
  params.peers = CLIENTS;
  side_open(&server, &params);
  for (uint32_t i = 0; i < CLIENTS; i++)
    join(i);
}

static void close_all(void)
{
  for (uint32_t i = 0; i < CLIENTS; i++)
    side_close(&clients[i]);
  side_close(&server);
}

static void leave(uint32_t i)
{
  side_close(&clients[i]);
  await(&server, NULL, PST_NODE_LEFT);
}

/* To a client that does not read: until nothing more goes, and nothing is done any more. */
static uint32_t send_all(uint32_t to)
{
  uint32_t sent = 0, before;

  do {
    for (before = sent; pst_peer_send(peers[to], &sent, sizeof(sent)) == 0;)
      sent++;
    side_turn(&server);
  } while (sent != before);
  return sent;
}

static void hear(uint32_t at, uint32_t number)
{
  struct pst_node_event event;
  uint64_t deadline = now_ns() + DEADLINE_NS;
  char text[256];
  uint32_t heard;

  while (!side_take(&clients[at], PST_NODE_MESSAGE, &event, text)) {
    side_turn(&clients[at]);
    side_turn(&server);
    assert_true(now_ns() < deadline);
  }
  memcpy(&heard, text, sizeof(heard));
  assert_int_equal(heard, number);
}

static void who_does_not_read_stops_nobody_else(void **state)
{
  uint32_t sent[CLIENTS];

  (void)state;
  open_all();
  for (uint32_t i = 0; i < CLIENTS - 1; i++)
    sent[i] = send_all(i);
  assert_int_equal(sent[0], 2 * MESSAGES);           /* in its ring, and here */
  assert_int_equal(sent[CLIENTS - 2], MESSAGES + 1); /* others have the rest */
  for (uint32_t i = 0; i < 100; i++) {
    uint64_t deadline = now_ns() + DEADLINE_NS;
    while (pst_peer_send(peers[CLIENTS - 1], &i, sizeof(i)) != 0) {
      side_turn(&server);
      assert_true(now_ns() < deadline);
    }
    hear(CLIENTS - 1, i);
  }
  /* Nothing of theirs was lost or mixed up. */
  for (uint32_t i = 0; i < CLIENTS - 1; i++)
    for (uint32_t k = 0; k < sent[i]; k++)
      hear(i, k);
  /* It gives the last one back when it polls again. */
  assert_int_equal(send_all(CLIENTS - 1), 2 * MESSAGES - 1);
  close_all();
}

static void what_the_dead_held_is_there_again(void **state)
{
  (void)state;
  open_all();
  for (uint32_t round = 0; round < 3; round++) {
    assert_int_equal(send_all(0), 2 * MESSAGES);
    for (uint32_t i = 1; i < CLIENTS; i++)
      assert_in_range(send_all(i), MESSAGES + 1, 2 * MESSAGES);
    assert_int_equal(send_all(CLIENTS - 1), 0);
    for (uint32_t i = 0; i < CLIENTS - 1; i++)
      leave(i);
    assert_int_equal(send_all(CLIENTS - 1), MESSAGES - 1);
    leave(CLIENTS - 1);
    for (uint32_t i = 0; i < CLIENTS; i++)
      join(i);
  }
  close_all();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_does_not_read_stops_nobody_else),
      cmocka_unit_test(what_the_dead_held_is_there_again),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
