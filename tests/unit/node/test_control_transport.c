/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes without a transport: messages over the control connection, and nothing else. */
#include <arpa/inet.h>

#include "support.h"

static struct pst_node_params bare_params(void)
{
  struct pst_node_params params = some_params();

  params.transport = "none";
  return params;
}

static void bare_pair_open(struct pair *pair)
{
  const struct pst_node_params params = bare_params();

  pair_open(pair, &params, &params);
}

static void messages_go_both_ways_in_order(void **state)
{
  struct pair pair;
  struct side *sides[2] = {&pair.server, &pair.client};
  uint32_t sent[2] = {0, 0}, got[2] = {0, 0};

  (void)state;
  bare_pair_open(&pair);
  assert_int_equal(pst_peer_message_max(pair.client.peer), 256);
  uint64_t deadline = now_ns() + DEADLINE_NS;
  while (got[0] < 1000 || got[1] < 1000) {
    for (int i = 0; i < 2; i++) {
      uint32_t bytes[64];
      struct pst_node_event event;
      char text[256];
      for (uint32_t k = 0; k < 64; k++)
        bytes[k] = sent[i] + k;
      /* More than there is room for: some have to wait. */
      while (sent[i] < 1000 && pst_peer_send(sides[i]->peer, bytes, 4u + 4u * (sent[i] % 64)) == 0)
        bytes[0] = ++sent[i];
      side_turn(sides[i]);
      while (side_take(sides[i], PST_NODE_MESSAGE, &event, text)) {
        assert_int_equal(event.length, 4u + 4u * (got[i] % 64));
        memcpy(bytes, text, sizeof(bytes[0]));
        assert_int_equal(bytes[0], got[i]);
        got[i]++;
      }
      while (side_take(sides[i], PST_NODE_ROOM, &event, text))
        ;
    }
    assert_true(now_ns() < deadline);
  }
  assert_int_equal(pst_peer_send(pair.client.peer, bare_params, 257), -EMSGSIZE);
  pair_close(&pair);
}

/* As long as the control connection takes. */
static void long_messages_arrive(void **state)
{
  static uint8_t bytes[49152];
  struct pst_node_params params = bare_params();
  struct pst_node_event event;
  struct pair pair;

  (void)state;
  params.message_max = 1 << 20;
  pair_open(&pair, &params, &params);
  assert_int_equal(pst_peer_message_max(pair.client.peer), sizeof(bytes));
  for (uint32_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (uint8_t)(i * 7);
  assert_int_equal(pst_peer_send(pair.client.peer, bytes, sizeof(bytes) + 1), -EMSGSIZE);
  for (int round = 0; round < 20; round++) {
    uint64_t deadline = now_ns() + DEADLINE_NS;
    assert_int_equal(pst_peer_send(pair.client.peer, bytes, sizeof(bytes)), 0);
    while (pst_node_poll(pair.server.node, &event, 1) == 0) {
      side_turn(&pair.client);
      assert_true(now_ns() < deadline);
    }
    assert_int_equal(event.kind, PST_NODE_MESSAGE);
    assert_int_equal(event.length, sizeof(bytes));
    assert_memory_equal(event.bytes, bytes, sizeof(bytes));
  }
  pair_close(&pair);
}

static void what_was_sent_comes_before_the_end(void **state)
{
  struct pair pair;

  (void)state;
  bare_pair_open(&pair);
  for (int i = 0; i < 8; i++)
    assert_int_equal(pst_peer_send(pair.client.peer, "x", 1), 0);
  pst_peer_close(pair.client.peer, 0, NULL);
  for (int i = 0; i < 8; i++)
    await(&pair.server, &pair.client, PST_NODE_MESSAGE);
  assert_int_equal(await(&pair.server, &pair.client, PST_NODE_LEFT).status, 0);
  assert_int_equal(await(&pair.client, &pair.server, PST_NODE_LEFT).status, 0);
  connect_sides(&pair.server, &pair.client);
  pst_peer_close(pair.server.peer, -EDQUOT, "has had enough");
  const char *text;
  assert_int_equal(await_text(&pair.client, &pair.server, PST_NODE_LEFT, &text).status, -EDQUOT);
  assert_non_null(strstr(text, "has had enough"));
  pair_close(&pair);
}

/* pst_peer_info() gives the numeric addresses of both ends. */
static void both_ends_know_where_they_are(void **state)
{
  struct pst_peer_info server = {.struct_size = sizeof(server)}, client = server;
  struct pair pair;
  char here[64];

  (void)state;
  bare_pair_open(&pair);
  assert_int_equal(pst_peer_info(pair.server.peer, &server), 0);
  assert_int_equal(pst_peer_info(pair.client.peer, &client), 0);
  snprintf(here, sizeof(here), "127.0.0.1:%u", pst_node_port(pair.server.node));
  assert_string_equal(server.local, here);
  assert_string_equal(client.remote, here);
  assert_string_equal(server.remote, client.local);
  pair_close(&pair);
}

static void there_is_nothing_but_messages(void **state)
{
  const struct pst_setting option = {"mode", "copy"};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_node_params params = bare_params();
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node *node = NULL;
  struct pst_device_info device = {.struct_size = sizeof(device)};
  struct pair pair;
  uint32_t id = 77;

  (void)state;
  bare_pair_open(&pair);
  assert_int_equal(
      pst_node_capabilities(pair.server.node) & (PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC), 0);
  assert_int_equal(pst_node_transfer_max(pair.server.node), 0);
  assert_int_equal(pst_node_device(pair.server.node, &device), -ENOENT);
  assert_int_equal(pst_node_worker_counters(pair.server.node, NULL, 0), -ENOENT);
  assert_int_equal(pst_peer_path(pair.server.peer, &path), 0);
  assert_string_equal(path.carrier, "tcp");
  struct pst_area *area = area_of(&pair.server, 64);
  assert_int_equal(pst_peer_offer(pair.server.peer, area, 0, 64, PST_ACCESS_REMOTE_READ, &id),
                   -EOPNOTSUPP);
  struct pst_operation o = make_operation(PST_OP_WRITE, 1, area, 0, 0, 8);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -EOPNOTSUPP);
  pair_close(&pair);

  params.transport_options = &option;
  params.transport_option_count = 1;
  assert_int_equal(pst_node_open(&params, &node, &error), -EINVAL);
  assert_non_null(strstr(error.text, "neither options nor filters"));
  assert_null(node);
}

/* One that has a transport and one that has none do not agree. */
static void the_other_end_has_none_either(void **state)
{
  struct pst_node_params bare = bare_params();
  const struct pst_node_params loopback = some_params();
  struct pst_error error = PST_ERROR_INIT;
  static struct side server, client;
  char address[64];
  const char *text;

  (void)state;
  bare.listen = "127.0.0.1:0";
  side_open(&server, &bare);
  side_open(&client, &loopback);
  snprintf(address, sizeof(address), "127.0.0.1:%u", pst_node_port(server.node));
  assert_int_equal(pst_node_connect(client.node, address, &client.peer, &error), 0);
  assert_int_equal(await_text(&client, &server, PST_NODE_LEFT, &text).status, -EPROTO);
  assert_non_null(strstr(text, "does not agree: transport"));
  side_close(&client);
  side_close(&server);
}

/* A node sleeps until a message comes, and need not be polled meanwhile. */
static void waiting_ends_when_a_message_comes(void **state)
{
  struct pair pair;

  (void)state;
  bare_pair_open(&pair);
  while (pst_node_arm(pair.server.node) == -EAGAIN)
    side_turn(&pair.server);
  uint64_t soon = now_ns() + 20000000;
  assert_int_equal(pst_node_wait(pair.server.node, &soon), 1);
  assert_int_equal(pst_peer_send(pair.client.peer, "x", 1), 0);
  uint64_t until = now_ns() + DEADLINE_NS;
  struct pst_node_event event;
  char text[256];
  while (!side_take(&pair.server, PST_NODE_MESSAGE, &event, text)) {
    pst_node_wait(pair.server.node, &until);
    side_turn(&pair.server);
    assert_true(now_ns() < until);
  }
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_go_both_ways_in_order),
      cmocka_unit_test(long_messages_arrive),
      cmocka_unit_test(what_was_sent_comes_before_the_end),
      cmocka_unit_test(both_ends_know_where_they_are),
      cmocka_unit_test(there_is_nothing_but_messages),
      cmocka_unit_test(the_other_end_has_none_either),
      cmocka_unit_test(waiting_ends_when_a_message_comes),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
