/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that join as they should, and then lie: what they say passes through a stranger's hands,
 * who adds to it, or hangs up. They get BYE and are dropped; other peers are still served. */
#include <unistd.h>

#include "../simulated_clock.h"
#include "between.h"

#define AREA 65536u

static struct between between;
static struct wire_message said;

/* The word of a transport that lives on is waited for, a tenth of this. */
static struct pst_node_params quick_params(void)
{
  struct pst_node_params params = open_params();

  params.peer_timeout_ns = UINT64_C(2000000000);
  return params;
}

/* All that there is to do, once; nothing: until there is. */
static void turn(struct pair *pair, struct side *liar)
{
  struct side *const sides[] = {&pair->server, &pair->client, liar};
  const uint64_t turn_before = simulated_clock_turn();
  const uint32_t before = pair->server.logged + pair->client.logged + liar->logged;

  between_pass(&between, pst_node_port(pair->server.node));
  side_turn(&pair->server);
  side_turn(&pair->client);
  side_turn(liar);
  const int fds[] = {between.up.from, between.down.from,
                     between.up.from < 0 ? between.listener : -1};
  if (pair->server.logged + pair->client.logged + liar->logged == before)
    sides_sleep(sides, 3, fds, 3, turn_before);
}

static bool await_both(struct pair *pair, struct side *side, struct side *liar, uint8_t kind,
                       struct pst_node_event *event, char text[256])
{
  uint64_t deadline = now_ns() + DEADLINE_NS;

  while (!side_take(side, kind, event, text)) {
    turn(pair, liar);
    if (now_ns() > deadline)
      return false;
  }
  return true;
}

/* One more peer of the server's, through us. */
static void join(struct pair *pair, struct side *liar)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event event;
  char text[256];

  between_listen(&between);
  assert_int_equal(pst_node_connect(liar->node, between.address, &liar->peer, &error), 0);
  assert_true(await_both(pair, liar, liar, PST_NODE_JOINED, &event, text));
  assert_true(await_both(pair, &pair->server, liar, PST_NODE_JOINED, &event, text));
}

static void still_served(struct pair *pair)
{
  assert_int_equal(pst_peer_send(pair->client.peer, "still there", 11), 0);
  await(&pair->server, &pair->client, PST_NODE_MESSAGE);
}

/* A message that is sent after joining, and the reason for which the server closes the
 * connection. */
struct lie {
  const char *name;
  uint32_t type;
  uint32_t region;
  uint64_t length;
  const char *why;
};

static void make(const struct lie *lie)
{
  static const uint8_t remote[200] = "no key of anybody's";

  memset(&said, 0, sizeof(said));
  wire_totals_unknown(&said.totals);
  said.type = lie->type;
  said.major = WIRE_MAJOR;
  said.role = WIRE_NODE;
  snprintf(said.stream, sizeof(said.stream), "packets");
  said.region_id = lie->region;
  said.access = ALL_ACCESS;
  said.blob = remote;
  said.blob_length = lie->type == WIRE_MESSAGE ? 5 : sizeof(remote);
  said.region_length = lie->length;
  said.count = 1;
}

static void tell(const struct lie *lie)
{
  make(lie);
  between_add(&between, &said);
}

/* Said again and again: the last one counts, and it is none. */
static void another_address_that_is_none(void **state)
{
  static const struct lie lie = {"READDRESS to nowhere", WIRE_READDRESS, 0, 0, "cannot be used"};
  struct pst_node_params params = quick_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, &params, NULL);
  memset(&liar, 0, sizeof(liar));
  side_open(&liar, &params);
  join(&pair, &liar);
  for (int i = 0; i < 100; i++)
    tell(&lie);
  assert_true(await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text));
  assert_int_equal(event.status, -EPROTO);
  assert_non_null(strstr(text, lie.why));
  between_hang_up(&between);
  close(between.listener);
  side_close(&liar);
  still_served(&pair);
  pair_close(&pair);
}

/* Without a transport an address is a number of slots, and would be credit once more. */
static void another_address_without_a_transport(void **state)
{
  static const struct lie lie = {"READDRESS", WIRE_READDRESS, 0, 0, "or came a second time"};
  static const uint8_t slots[4] = {0, 0, 0, 4};
  struct pst_node_params params = quick_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  params.transport = "none";
  pair_open(&pair, &params, &params);
  memset(&liar, 0, sizeof(liar));
  side_open(&liar, &params);
  join(&pair, &liar);
  make(&lie);
  said.blob = slots;
  said.blob_length = sizeof(slots);
  between_add(&between, &said);
  assert_true(await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text));
  assert_int_equal(event.status, -EPROTO);
  assert_non_null(strstr(text, lie.why));
  between_hang_up(&between);
  close(between.listener);
  side_close(&liar);
  still_served(&pair);
  pair_close(&pair);
}

static void lies_after_joining(void **state)
{
  static const struct lie lies[] = {
      {"TAKEN of nothing", WIRE_TAKEN, 1, 0, "not on offer"},
      {"JOIN once more", WIRE_JOIN, 0, 0, "JOIN"},
      {"a WELCOME to the server", WIRE_WELCOME, 0, 0, "WELCOME"},
      {"HELLO once more", WIRE_HELLO, 0, 0, "HELLO"},
      {"the end of a stream", WIRE_FINISH, 0, 0, "FINISH"},
      {"a stream's heartbeat", WIRE_BEAT, 0, 0, "BEAT"},
      {"an ADDRESS of a stream", WIRE_ADDRESS, 0, 0, "ADDRESS"},
      {"a MESSAGE past the transport", WIRE_MESSAGE, 0, 0, "goes over this node's transport"},
      {"ROOM for messages of the transport", WIRE_ROOM, 0, 0, "goes over this node's transport"},
  };
  struct pst_node_params params = quick_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, &params, NULL);
  for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
    memset(&liar, 0, sizeof(liar));
    side_open(&liar, &params);
    join(&pair, &liar);
    tell(&lies[i]);
    if (!await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text))
      fail_msg("%s: the server does not mind", lies[i].name);
    if (event.status != -EPROTO || !strstr(text, lies[i].why))
      fail_msg("%s: left with %d: %s", lies[i].name, event.status, text);
    between_hang_up(&between);
    close(between.listener);
    side_close(&liar);
    still_served(&pair);
  }
  pair_close(&pair);
}

/* Nodes without a transport send messages over the control channel. */
static void messages_beyond_what_there_is_room_for(void **state)
{
  static const struct lie message = {"a MESSAGE", WIRE_MESSAGE, 0, 0, ""};
  static const struct lie room = {"ROOM of none", WIRE_ROOM, 0, 0,
                                  "more messages than it was sent"};
  struct pst_node_params params = quick_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  params.transport = "none";
  pair_open(&pair, &params, &params);
  for (int i = 0; i < 2; i++) {
    memset(&liar, 0, sizeof(liar));
    side_open(&liar, &params);
    join(&pair, &liar);
    if (i == 0)
      tell(&room);
    for (uint32_t k = 0; i == 1 && k <= params.messages; k++)
      tell(&message);
    /* Nobody takes them at the server meanwhile. */
    uint64_t deadline = now_ns() + DEADLINE_NS;
    while (!side_take(&liar, PST_NODE_LEFT, &event, text)) {
      between_pass(&between, pst_node_port(pair.server.node));
      side_turn(&liar);
      assert_true(now_ns() < deadline);
    }
    assert_int_equal(event.status, -EPROTO);
    assert_non_null(strstr(text, i == 0 ? room.why : "more messages than there is room for: 8"));
    assert_true(await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text));
    assert_int_equal(event.status, -EPROTO);
    pair.server.logged = 0;
    between_hang_up(&between);
    close(between.listener);
    side_close(&liar);
    still_served(&pair);
  }
  pair_close(&pair);
}

/* Keys that are none, and lengths that cannot be: refused, and never offered to the server. */
static void keys_that_are_none(void **state)
{
  static const struct lie lies[] = {
      {"a key of nobody's", WIRE_REGION, 1, 100, NULL},
      {"all there is", WIRE_REGION, UINT32_MAX, UINT64_MAX, NULL},
  };
  struct pst_node_params params = quick_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, &params, NULL);
  for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
    memset(&liar, 0, sizeof(liar));
    side_open(&liar, &params);
    join(&pair, &liar);
    tell(&lies[i]);
    /* The refusal is of what the honest half has never offered: it leaves. */
    assert_true(await_both(&pair, &liar, &liar, PST_NODE_LEFT, &event, text));
    assert_non_null(strstr(text, "not on offer"));
    assert_true(await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text));
    assert_false(side_take(&pair.server, PST_NODE_OFFERED, &event, text));
    between_hang_up(&between);
    close(between.listener);
    side_close(&liar);
    still_served(&pair);
  }
  pair_close(&pair);
}

/* After each frame of a session with an offer on each side. */
static void hanging_up_in_each_state(void **state)
{
  enum { FRAMES = 9 };
  struct pst_node_params params = quick_params();
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event event;
  static struct side liar;
  uint32_t joined = 0, id;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, &params, NULL);
  for (uint32_t most = 0; most < FRAMES; most++) {
    bool is_over = false, offers = false;
    uint64_t deadline = now_ns() + DEADLINE_NS;
    memset(&liar, 0, sizeof(liar));
    params.connect_timeout_ns = params.peer_timeout_ns = 500000000;
    side_open(&liar, &params);
    struct pst_area *area = area_of(&liar, AREA);
    between_listen(&between);
    between.most = most;
    assert_int_equal(pst_node_connect(liar.node, between.address, &liar.peer, &error), 0);
    while (!is_over) {
      turn(&pair, &liar);
      if (side_take(&liar, PST_NODE_JOINED, &event, text))
        offers = true;
      if (offers && pst_peer_offer(liar.peer, area, 0, AREA, ALL_ACCESS, &id) == 0)
        offers = false;
      is_over = side_take(&liar, PST_NODE_LEFT, &event, text);
      assert_true(now_ns() < deadline);
    }
    between_hang_up(&between);
    close(between.listener);
    while (side_take(&pair.server, PST_NODE_JOINED, &event, text)) {
      joined++;
      assert_true(await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text));
    }
    side_close(&liar);
    still_served(&pair);
  }
  assert_in_range(joined, 1, FRAMES - 1); /* some went so far, some did not */
  pair_close(&pair);
}

#define TIMED(test)                                                                                \
  cmocka_unit_test_setup_teardown(test, simulated_clock_begin, simulated_clock_end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TIMED(lies_after_joining),
      TIMED(another_address_that_is_none),
      TIMED(another_address_without_a_transport),
      cmocka_unit_test(messages_beyond_what_there_is_room_for),
      TIMED(keys_that_are_none),
      TIMED(hanging_up_in_each_state),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
