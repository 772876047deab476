/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that join as they should, and then lie: what they say passes through a stranger's hands,
 * who adds to it, or hangs up. They are told and left; others go on being served. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/wire.h"
#include "support.h"

#define AREA 65536u

/* One direction, by whole frames. */
struct way {
  int from, to;
  uint8_t bytes[2 * WIRE_FRAME_MAX];
  size_t length;
  uint32_t frames; /* that went through */
};

struct between {
  int listener;
  char address[64];
  struct way up, down; /* to the server, to the client */
  uint32_t most;       /* frames in all, then it hangs up */
};

static struct between between;
static struct wire_message said;

static void listen_between(void)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);

  memset(&between, 0, sizeof(between));
  between.most = UINT32_MAX;
  between.up.from = between.up.to = between.down.from = between.down.to = -1;
  between.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_int_equal(bind(between.listener, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(listen(between.listener, 4), 0);
  assert_int_equal(getsockname(between.listener, (struct sockaddr *)&address, &length), 0);
  snprintf(between.address, sizeof(between.address), "127.0.0.1:%u", ntohs(address.sin_port));
}

static void hang_up(void)
{
  if (between.up.from >= 0)
    close(between.up.from);
  if (between.up.to >= 0)
    close(between.up.to);
  between.up.from = between.up.to = between.down.from = between.down.to = -1;
}

static void take_caller(uint16_t port)
{
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int client = accept4(between.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

  if (client < 0)
    return;
  int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(server, (struct sockaddr *)&address, sizeof(address)), 0);
  fcntl(server, F_SETFL, O_NONBLOCK);
  between.up.from = between.down.to = client;
  between.up.to = between.down.from = server;
}

static void pass(struct way *way)
{
  if (way->from < 0)
    return;
  ssize_t got = recv(way->from, way->bytes + way->length, sizeof(way->bytes) - way->length, 0);
  if (got == 0) {
    hang_up();
    return;
  }
  way->length += got > 0 ? (size_t)got : 0;
  while (way->length >= WIRE_HEADER_BYTES) {
    const uint8_t *b = way->bytes;
    size_t whole = WIRE_HEADER_BYTES + ((size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3]);
    if (way->length < whole)
      return;
    if (between.up.frames + between.down.frames == between.most) {
      hang_up();
      return;
    }
    if (send(way->to, b, whole, MSG_NOSIGNAL) != (ssize_t)whole) {
      hang_up();
      return;
    }
    way->frames++;
    way->length -= whole;
    memmove(way->bytes, way->bytes + whole, way->length);
  }
}

/* All that there is to do, once. */
static void turn(struct pair *pair, struct side *liar)
{
  if (between.up.from < 0)
    take_caller(pst_node_port(pair->server.node));
  pass(&between.up);
  pass(&between.down);
  side_turn(&pair->server);
  side_turn(&pair->client);
  side_turn(liar);
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

  listen_between();
  assert_int_equal(pst_node_connect(liar->node, between.address, &liar->peer, &error), 0);
  assert_true(await_both(pair, liar, liar, PST_NODE_JOINED, &event, text));
  assert_true(await_both(pair, &pair->server, liar, PST_NODE_JOINED, &event, text));
}

static void add(void)
{
  static uint8_t frame[WIRE_FRAME_MAX];
  size_t length;

  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), 0);
  assert_int_equal(send(between.up.to, frame, length, MSG_NOSIGNAL), length);
}

static void still_served(struct pair *pair)
{
  assert_int_equal(pst_peer_send(pair->client.peer, "still there", 11), 0);
  await(&pair->server, &pair->client, PST_NODE_MESSAGE);
}

/* What is said once it has joined, and what the server leaves it for. */
struct lie {
  const char *name;
  uint32_t type;
  uint32_t region;
  uint64_t length;
  const char *why;
};

static void tell(const struct lie *lie)
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
  said.remote = remote;
  said.remote_bytes = sizeof(remote);
  said.remote_length = lie->length;
  said.address = remote;
  said.address_length = sizeof(remote);
  add();
}

/* Said again and again: the last one counts, and it is none. */
static void another_address_that_is_none(void **state)
{
  static const struct lie lie = {"READDRESS to nowhere", WIRE_READDRESS, 0, 0, "cannot reach it"};
  struct pst_node_params params = some_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, NULL, NULL);
  memset(&liar, 0, sizeof(liar));
  side_open(&liar, &params);
  join(&pair, &liar);
  for (int i = 0; i < 100; i++)
    tell(&lie);
  assert_true(await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text));
  assert_int_equal(event.status, -EPROTO);
  assert_non_null(strstr(text, lie.why));
  hang_up();
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
  };
  struct pst_node_params params = some_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, NULL, NULL);
  for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
    memset(&liar, 0, sizeof(liar));
    side_open(&liar, &params);
    join(&pair, &liar);
    tell(&lies[i]);
    if (!await_both(&pair, &pair.server, &liar, PST_NODE_LEFT, &event, text))
      fail_msg("%s: the server does not mind", lies[i].name);
    if (event.status != -EPROTO || !strstr(text, lies[i].why))
      fail_msg("%s: left with %d: %s", lies[i].name, event.status, text);
    hang_up();
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
  struct pst_node_params params = some_params();
  struct pst_node_event event;
  static struct side liar;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, NULL, NULL);
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
    hang_up();
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
  struct pst_node_params params = some_params();
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event event;
  static struct side liar;
  uint32_t joined = 0, id;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, NULL, NULL);
  for (uint32_t most = 0; most < FRAMES; most++) {
    bool is_over = false, offers = false;
    uint64_t deadline = now_ns() + DEADLINE_NS;
    memset(&liar, 0, sizeof(liar));
    params.connect_timeout_ns = params.peer_timeout_ns = 500000000;
    side_open(&liar, &params);
    struct pst_area *area = area_of(&liar, AREA);
    listen_between();
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
    hang_up();
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lies_after_joining),
      cmocka_unit_test(another_address_that_is_none),
      cmocka_unit_test(keys_that_are_none),
      cmocka_unit_test(hanging_up_in_each_state),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
