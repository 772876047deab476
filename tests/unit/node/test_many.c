/* SPDX-License-Identifier: Apache-2.0 */
/* Many peers, one after the other and at once, leave nothing behind and harm nobody. */
#include <dirent.h>
#include <malloc.h>
#include <sched.h>

#include "support.h"

#define AREA 65536u

static uint32_t descriptors(void)
{
  DIR *folder = opendir("/proc/self/fd");
  uint32_t count = 0;

  assert_non_null(folder);
  while (readdir(folder))
    count++;
  closedir(folder);
  return count;
}

static uint64_t mappings(void)
{
  FILE *file = fopen("/proc/self/maps", "re");
  uint64_t count = 0;
  int c;

  assert_non_null(file);
  while ((c = fgetc(file)) != EOF)
    count += c == '\n';
  fclose(file);
  return count;
}

/* PENSTOCK_CONNECTS: how many. */
static uint32_t rounds(void)
{
  const char *text = getenv("PENSTOCK_CONNECTS");

  return text ? (uint32_t)strtoul(text, NULL, 10) : 300;
}

static void coming_and_going_leaves_nothing_behind(void **state)
{
  enum { WARM = 50 };
  uint32_t fds = 0, total = WARM + rounds();
  uint64_t heap = 0, maps = 0;
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *mine = area_of(&pair.server, AREA), *theirs = area_of(&pair.client, AREA);
  for (uint32_t i = 0; i < total; i++) {
    uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
    struct pst_operation o = {
        .op = PST_OP_WRITE, .id = id, .cookie = i, .area = mine, .length = 4096};
    assert_int_equal(pst_area_fill(mine, 0, 4096, i), 0);
    assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), 1);
    assert_int_equal(await(&pair.server, NULL, PST_NODE_DONE).status, 0);
    assert_int_equal(pst_peer_send(pair.server.peer, "done", 5), 0);
    await(&pair.client, &pair.server, PST_NODE_MESSAGE);
    assert_int_equal(pst_area_verify(theirs, 0, 4096, i, NULL), 0);
    pst_peer_close(i % 2 ? pair.server.peer : pair.client.peer, i % 3 ? 0 : -ECONNABORTED, "round");
    await(&pair.client, &pair.server, PST_NODE_LEFT);
    await(&pair.server, &pair.client, PST_NODE_LEFT);
    assert_int_equal(pair.client.logged + pair.server.logged, 0);
    connect_sides(&pair.server, &pair.client);
    if (i == WARM - 1) {
      fds = descriptors();
      maps = mappings();
      heap = (uint64_t)mallinfo2().uordblks;
    }
  }
  /* Connections that say goodbye are still there for a moment, and another thread closes
   * descriptors and what they map. */
  for (uint64_t deadline = now_ns() + DEADLINE_NS;
       descriptors() > fds + 8 || mappings() > maps + 8;) {
    assert_true(now_ns() < deadline);
    sched_yield();
  }
  assert_in_range(mallinfo2().uordblks, 0, heap + 65536);
  pair_close(&pair);
}

/* More than there may be: told so, by which limit, and there is room again after. */
static void one_too_many_gets_the_limit(void **state)
{
  struct pst_node_params params = some_params();
  struct side server, clients[3];
  struct pst_error error = PST_ERROR_INIT;
  const char *text;
  char address[64];

  (void)state;
  params.listen = "127.0.0.1:0";
  params.peers = 2;
  side_open(&server, &params);
  params = some_params();
  for (int i = 0; i < 3; i++)
    side_open(&clients[i], &params);
  connect_sides(&server, &clients[0]);
  connect_sides(&server, &clients[1]);
  snprintf(address, sizeof(address), "127.0.0.1:%u", pst_node_port(server.node));
  assert_int_equal(pst_node_connect(clients[2].node, address, &clients[2].peer, &error), 0);
  struct pst_node_event left = await_text(&clients[2], &server, PST_NODE_LEFT, &text);
  assert_int_equal(left.status, -EUSERS);
  assert_non_null(strstr(text, "the limit of 2 peers (`peers`) is reached"));
  pst_peer_close(clients[0].peer, 0, NULL);
  await(&clients[0], &server, PST_NODE_LEFT);
  await(&server, &clients[0], PST_NODE_LEFT);
  connect_sides(&server, &clients[2]);
  /* And of our own accord. */
  struct pst_peer *none = NULL;
  assert_int_equal(pst_node_connect(server.node, address, &none, &error), -EUSERS);
  assert_null(none);
  for (int i = 0; i < 3; i++)
    side_close(&clients[i]);
  side_close(&server);
}

/* Each has its own region; all are written and read at once, and verified. */
static void many_at_once(void **state)
{
  enum { CLIENTS = 16, ROUNDS = 50 };
  static struct side server, clients[CLIENTS];
  struct pst_node_params params = some_params();
  struct pst_area *theirs[CLIENTS], *mine[CLIENTS];
  uint32_t ids[CLIENTS], done[CLIENTS] = {0};
  struct pst_peer *peers[CLIENTS];
  uint64_t deadline = now_ns() + DEADLINE_NS;

  (void)state;
  params.listen = "127.0.0.1:0";
  params.peers = CLIENTS;
  side_open(&server, &params);
  params = some_params();
  for (uint32_t i = 0; i < CLIENTS; i++) {
    side_open(&clients[i], &params);
    connect_sides(&server, &clients[i]);
    peers[i] = server.peer;
    theirs[i] = area_of(&clients[i], AREA);
    mine[i] = area_of(&server, AREA);
    ids[i] = offer(&clients[i], &server, theirs[i], ALL_ACCESS);
    assert_int_equal(pst_area_fill(i % 2 ? theirs[i] : mine[i], 0, AREA, i), 0);
  }
  for (uint32_t left = CLIENTS; left > 0;) {
    struct pst_node_event event;
    char text[256];
    left = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
      struct pst_operation o = {.op = i % 2 ? PST_OP_READ : PST_OP_WRITE,
                                .id = ids[i],
                                .cookie = i,
                                .area = mine[i],
                                .length = AREA};
      left += done[i] < ROUNDS;
      if (done[i] < ROUNDS)
        assert_in_range(pst_peer_post(peers[i], &o, 1), 0, 1);
    }
    side_turn(&server);
    while (side_take(&server, PST_NODE_DONE, &event, text)) {
      assert_int_equal(event.status, 0);
      done[event.cookie]++;
    }
    while (side_take(&server, PST_NODE_ROOM, &event, text))
      ;
    assert_true(now_ns() < deadline);
  }
  for (uint32_t i = 0; i < CLIENTS; i++) {
    assert_int_equal(pst_area_verify(theirs[i], 0, AREA, i, NULL), 0);
    assert_int_equal(pst_area_verify(mine[i], 0, AREA, i, NULL), 0);
    side_close(&clients[i]);
  }
  for (uint32_t i = 0; i < CLIENTS; i++)
    await(&server, NULL, PST_NODE_LEFT);
  side_close(&server);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(coming_and_going_leaves_nothing_behind),
      cmocka_unit_test(one_too_many_gets_the_limit),
      cmocka_unit_test(many_at_once),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
