/* SPDX-License-Identifier: Apache-2.0 */
/* Transports whose endpoints get another address while peers talk: both ends go on. */
#include <stdatomic.h>

#include "support.h"

#define AREA 65536u
#define MESSAGES 300u

static _Atomic uint32_t moves;

static void count_moves(void *context, int level, const char *line)
{
  (void)context, (void)level;
  if (strstr(line, "moving: endpoint"))
    moves++;
}

static void open_moving(struct pair *pair, const struct pst_setting *options, uint32_t count)
{
  const struct pst_filter_params filter = {"moving", options, count, 0};
  struct pst_node_params params = some_params();

  params.filters = &filter;
  params.filter_count = 1;
  moves = 0;
  pst_log_set(count_moves, NULL, PST_LOG_INFO);
  pair_open(pair, &params, &params);
}

static void close_moving(struct pair *pair)
{
  pair_close(pair);
  pst_log_set(NULL, NULL, PST_LOG_WARN);
}

/* Each message is its number; both ways at once, in order, and nobody leaves. */
struct talk {
  struct side *side;
  uint32_t sent, heard;
};

static void talk(struct talk *t)
{
  struct pst_node_event event;
  char text[256];
  uint32_t number;

  while (t->sent < MESSAGES && pst_peer_send(t->side->peer, &t->sent, sizeof(t->sent)) == 0)
    t->sent++;
  side_turn(t->side);
  while (side_take(t->side, PST_NODE_MESSAGE, &event, text)) {
    memcpy(&number, text, sizeof(number));
    assert_int_equal(number, t->heard++);
  }
  assert_false(side_take(t->side, PST_NODE_LEFT, &event, text));
  while (side_take(t->side, PST_NODE_ROOM, &event, text))
    ;
}

static void talk_all(struct pair *pair)
{
  struct talk server = {.side = &pair->server}, client = {.side = &pair->client};
  uint64_t deadline = now_ns() + DEADLINE_NS;

  while (server.heard < MESSAGES || client.heard < MESSAGES) {
    talk(&server);
    talk(&client);
    assert_true(now_ns() < deadline);
  }
}

static void messages_go_on(void **state)
{
  static const struct pst_setting options[] = {{"every", "7"}};
  struct pair pair;

  (void)state;
  open_moving(&pair, options, 1);
  talk_all(&pair);
  assert_true(moves >= 2 * (MESSAGES / 7));
  close_moving(&pair);
}

/* A move comes while the last one is still being connected to: it is not forgotten. */
static void moves_while_connecting_again(void **state)
{
  static const struct pst_setting options[] = {{"every", "1"}, {"late", "40"}};
  struct pair pair;

  (void)state;
  open_moving(&pair, options, 2);
  talk_all(&pair);
  assert_true(moves >= 2 * MESSAGES);
  close_moving(&pair);
}

/* Before the other end has answered, or heard of this one at all. */
static void moves_before_joining(void **state)
{
  static const struct pst_setting options[] = {{"early", "true"}};
  struct pair pair;

  (void)state;
  for (int i = 0; i < 5; i++) {
    open_moving(&pair, options, 1);
    talk_all(&pair);
    assert_int_equal(moves, 2);
    close_moving(&pair);
  }
}

/* Regions offered before a move stay what they are; offers and operations go on meanwhile. */
static void regions_outlive_moves(void **state)
{
  static const struct pst_setting options[] = {{"every", "1"}, {"late", "5"}};
  struct pst_operation o = {.op = PST_OP_WRITE, .length = AREA};
  uint32_t done = 0, posted = 0, offered = 0;
  uint64_t deadline = now_ns() + DEADLINE_NS;
  struct pst_node_event event;
  struct pair pair;
  char text[256];

  (void)state;
  open_moving(&pair, options, 2);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  o.id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  o.area = mine;
  assert_int_equal(pst_area_fill(mine, 0, AREA, 5), 0);
  for (uint32_t round = 0; round < 100; round++) {
    uint32_t id;
    assert_int_equal(pst_peer_send(pair.client.peer, "move", 4), 0);
    if (round == 50)
      assert_int_equal(pst_peer_offer(pair.client.peer, theirs, 0, 100, ALL_ACCESS, &id), 0);
    for (bool heard = false; !heard || posted <= round;) {
      int rc = posted <= round ? pst_peer_post(pair.server.peer, &o, 1) : 0;
      assert_in_range(rc, 0, 1);
      posted += (uint32_t)rc;
      side_turn(&pair.server);
      side_turn(&pair.client);
      heard |= side_take(&pair.server, PST_NODE_MESSAGE, &event, text);
      assert_true(now_ns() < deadline);
    }
  }
  while (done < posted || !offered) {
    side_turn(&pair.server);
    side_turn(&pair.client);
    while (side_take(&pair.server, PST_NODE_DONE, &event, text)) {
      assert_int_equal(event.status, 0);
      done++;
    }
    offered += side_take(&pair.server, PST_NODE_OFFERED, &event, text);
    assert_true(now_ns() < deadline);
  }
  assert_false(side_take(&pair.server, PST_NODE_LEFT, &event, text));
  assert_int_equal(pst_area_verify(theirs, 0, AREA, 5, NULL), 0);
  assert_true(moves >= 100);
  close_moving(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_go_on),
      cmocka_unit_test(moves_while_connecting_again),
      cmocka_unit_test(moves_before_joining),
      cmocka_unit_test(regions_outlive_moves),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
