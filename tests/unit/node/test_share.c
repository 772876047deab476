/* SPDX-License-Identifier: Apache-2.0 */
/* Resources that the peers of a node share: peers that do not read stop no other, and their share
 * is free again once they have gone. */
#include "support.h"

#define CLIENTS 8u
#define MESSAGES 8u /* as some_params() has it: on their way with one peer, each way */

#define SLOTS (CLIENTS + 4 * (MESSAGES - 1)) /* of a node with so many peers */

static struct pst_node_params all; /* of all nodes here */
static bool receiver_picks;        /* the slot of each message, by the transport itself */
static struct side server, clients[CLIENTS];
static struct pst_peer *peers[CLIENTS]; /* the server's */

/* Counts of the server's device, as the filter `counting` has reported them. */
static struct {
  unsigned long long mrs, rings, slots;
  unsigned int endpoints, of_each; /* of the last ring */
} counted;

static void count(void *context, int level, const char *line)
{
  const char *at = strstr(line, "counting: ");
  unsigned long long bytes;

  (void)context, (void)level;
  if (!at)
    return;
  sscanf(at, "counting: %llu registrations of %llu bytes, %llu rings of %llu slots", &counted.mrs,
         &bytes, &counted.rings, &counted.slots);
  sscanf(at, "counting: ring of %*u slots, %u endpoints, %u of each", &counted.endpoints,
         &counted.of_each);
}

static void join(uint32_t i)
{
  side_open(&clients[i], &all);
  connect_sides(&server, &clients[i]);
  peers[i] = server.peer;
}

static struct pst_node_params server_params(const struct pst_filter_params *counting)
{
  struct pst_node_params params = all;

  params.listen = "127.0.0.1:0";
  params.peers = CLIENTS;
  params.filters = counting;
  params.filter_count = 1;
  return params;
}

/* two_sided: of the filter, "true" or "false". */
static void open_all(const char *two_sided)
{
  const struct pst_setting options[] = {{"two_sided", two_sided}};
  const struct pst_filter_params counting = {"counting", options, 1, 0};
  const struct pst_node_params params = server_params(&counting);

  memset(&counted, 0, sizeof(counted));
  pst_log_set(count, NULL, PST_LOG_INFO);
  side_open(&server, &params);
  for (uint32_t i = 0; i < CLIENTS; i++)
    join(i);
}

static void close_all(void)
{
  for (uint32_t i = 0; i < CLIENTS; i++)
    side_close(&clients[i]);
  side_close(&server);
  assert_int_equal(counted.mrs + counted.rings, 0);
  pst_log_set(NULL, NULL, PST_LOG_WARN);
}

static void leave(uint32_t i)
{
  side_close(&clients[i]);
  peers[i] = NULL;
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
  open_all("false");
  for (uint32_t i = 0; i < CLIENTS - 1; i++)
    sent[i] = send_all(i);
  /* Messages lie in the client's ring, and in the server's, which clients share. In a shared ring a
   * peer has at least one slot, and at most as many as one peer may have. */
  assert_in_range(sent[0], receiver_picks ? MESSAGES + 1 : 2 * MESSAGES, 2 * MESSAGES);
  assert_in_range(sent[CLIENTS - 2], receiver_picks ? 2 : MESSAGES + 1, MESSAGES + 1);
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
  /* All of its own, and what its ring takes before it polls again. */
  assert_in_range(send_all(CLIENTS - 1), MESSAGES + 1, 2 * MESSAGES);
  close_all();
}

static void what_the_dead_held_is_there_again(void **state)
{
  (void)state;
  open_all("false");
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

/* ---- Rings ---------------------------------------------------------------------------- */

/* A peer that picks slots in a shared ring could overwrite the messages of others. */
static void a_ring_each_where_senders_pick_slots(void **state)
{
  (void)state;
  open_all("false");
  assert_int_equal(counted.rings, CLIENTS);
  assert_int_equal(counted.slots, CLIENTS * MESSAGES);
  assert_int_equal(counted.mrs, CLIENTS + 1); /* and what is sent from */
  assert_int_equal(counted.endpoints, 1);
  close_all();
}

static void client_sends(uint32_t at, uint32_t number)
{
  assert_int_equal(pst_peer_send(clients[at].peer, &number, sizeof(number)), 0);
}

/* The next message at the server: from whom, and its number. */
static uint32_t server_takes(uint32_t *number)
{
  uint64_t deadline = now_ns() + DEADLINE_NS;
  struct pst_node_event event;
  uint32_t from = 0;
  char text[256];

  while (!side_take(&server, PST_NODE_MESSAGE, &event, text)) {
    side_turn(&server);
    for (uint32_t i = 0; i < CLIENTS; i++)
      if (clients[i].node)
        side_turn(&clients[i]);
    assert_true(now_ns() < deadline);
  }
  memcpy(number, text, sizeof(*number));
  assert_int_equal(event.length, sizeof(*number));
  while (from < CLIENTS && peers[from] != event.peer)
    from++;
  assert_in_range(from, 0, CLIENTS - 1);
  return from;
}

static void server_hears(uint32_t from, uint32_t number)
{
  uint32_t heard;

  assert_int_equal(server_takes(&heard), from);
  assert_int_equal(heard, number);
}

static void one_ring_where_the_receiver_picks_slots(void **state)
{
  (void)state;
  open_all("true");
  assert_int_equal(counted.rings, 1);
  assert_int_equal(counted.slots, SLOTS);
  assert_int_equal(counted.mrs, 2);
  assert_int_equal(counted.endpoints, CLIENTS);
  assert_int_equal(counted.of_each, MESSAGES);
  for (uint32_t round = 0; round < 10; round++) {
    uint32_t next[CLIENTS] = {0}, number;
    for (uint32_t k = 0; k < MESSAGES; k++)
      for (uint32_t i = 0; i < CLIENTS; i++)
        client_sends(i, 1000 * i + k);
    for (uint32_t left = CLIENTS * MESSAGES; left > 0; left--) {
      const uint32_t from = server_takes(&number);
      assert_int_equal(number, 1000 * from + next[from]++);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) /* all are done */
      side_turn(&clients[i]);
  }
  assert_int_equal(counted.mrs, 2);
  close_all();
}

/* Its messages are with the application, or wait for it: their slots are the next one's. */
static void slots_of_a_peer_that_goes_come_back(void **state)
{
  (void)state;
  open_all("true");
  for (uint32_t round = 0; round < 20; round++) {
    const uint32_t at = round % CLIENTS, other = (at + 1) % CLIENTS;
    client_sends(at, round);
    client_sends(at, round + 1);
    server_hears(at, round);
    client_sends(at, round + 2);
    client_sends(other, round + 3);
    leave(at);
    server.logged = 0; /* what it had sent, or not */
    client_sends(other, round + 4);
    server_hears(other, round + 4);
    join(at);
    client_sends(at, round + 5);
    server_hears(at, round + 5);
    assert_int_equal(counted.rings, 1);
    assert_int_equal(counted.mrs, 2);
    side_turn(&server);
  }
  /* And of all, with messages that nobody has seen. */
  for (uint32_t i = 0; i < CLIENTS; i++)
    client_sends(i, i);
  side_turn(&server);
  close_all();
}

static void a_device_with_few_rings(void **state)
{
  const struct pst_setting options[] = {{"rings_max", "1"}, {"two_sided", "true"}};
  struct pst_filter_params counting = {"counting", options, 1, 0};
  struct pst_node_params params = server_params(&counting);
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node *node = NULL;

  (void)state;
  assert_int_equal(pst_node_open(&params, &node, &error), -ENOSPC);
  assert_non_null(strstr(error.text, "has at most 1 rings, one for each peer"));
  counting.option_count = 2;
  side_open(&server, &params);
  side_close(&server);
}

/* usage: [--receiver-picks] [TRANSPORT [OPTION=VALUE]...]; loopback within this process. A
 * transport whose receivers pick slots says so by itself. */
int main(int argc, char **argv)
{
  const struct CMUnitTest by_receiver[] = {
      cmocka_unit_test(one_ring_where_the_receiver_picks_slots),
      cmocka_unit_test(slots_of_a_peer_that_goes_come_back),
      cmocka_unit_test(who_does_not_read_stops_nobody_else),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_does_not_read_stops_nobody_else),
      cmocka_unit_test(what_the_dead_held_is_there_again),
      cmocka_unit_test(a_ring_each_where_senders_pick_slots),
  };
  const struct CMUnitTest shared[] = {
      cmocka_unit_test(one_ring_where_the_receiver_picks_slots),
      cmocka_unit_test(slots_of_a_peer_that_goes_come_back),
      cmocka_unit_test(a_device_with_few_rings),
  };

  receiver_picks = argc > 1 && strcmp(argv[1], "--receiver-picks") == 0;
  if (receiver_picks) {
    argv++;
    argc--;
  }
  if (argc > 1 && !params_by(argc, argv, &all))
    return 2;
  if (receiver_picks)
    return cmocka_run_group_tests(by_receiver, use_fakes, NULL);
  if (argc > 1)
    return cmocka_run_group_tests(tests, use_fakes, NULL);
  all = some_params();
  all.in_process = 1;
  return cmocka_run_group_tests(tests, use_fakes, NULL) |
         cmocka_run_group_tests(shared, NULL, NULL);
}
