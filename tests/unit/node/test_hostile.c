/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that ask for too much, lie, or speak something else; others go on being served. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/unix_fd.h"
#include "support.h"

#define AREA 65536u

/* ---- By hand ----------------------------------------------------------------------- */

static uint8_t frame[WIRE_FRAME_MAX];
static struct wire_message said, heard;

static int dial(uint16_t port)
{
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct timeval patience = {.tv_sec = 15};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_true(fd >= 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  return fd;
}

static void say(int fd)
{
  size_t length;

  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), 0);
  assert_int_equal(send(fd, frame, length, MSG_NOSIGNAL), length);
}

/* False: the connection has ended. */
static bool hear(int fd)
{
  char why[WIRE_WHY_MAX];

  if (recv(fd, frame, WIRE_HEADER_BYTES, MSG_WAITALL) != WIRE_HEADER_BYTES)
    return false;
  size_t length = (size_t)frame[1] << 16 | (size_t)frame[2] << 8 | frame[3];
  if (recv(fd, frame, length, MSG_WAITALL) != (ssize_t)length)
    return false;
  if (wire_decode(frame, length, &heard, why) < 0)
    fail_msg("%s", why);
  return true;
}

static void say_hello(int fd, uint32_t role)
{
  memset(&said, 0, sizeof(said));
  said.type = WIRE_HELLO;
  said.major = WIRE_MAJOR;
  said.minor = WIRE_MINOR;
  said.role = role;
  snprintf(said.host, sizeof(said.host), "elsewhere");
  said.has_identity = true;
  snprintf(said.library, sizeof(said.library), "0.0.1");
  say(fd);
}

static void make_join(const char *mode)
{
  static const uint8_t address[] = "no address of loopback's";

  memset(&said, 0, sizeof(said));
  said.type = WIRE_JOIN;
  said.term_count = 3;
  snprintf(said.terms[0].key, sizeof(said.terms[0].key), "wire");
  snprintf(said.terms[0].value, sizeof(said.terms[0].value), "loopback-shm");
  snprintf(said.terms[2].key, sizeof(said.terms[2].key), "transport");
  snprintf(said.terms[2].value, sizeof(said.terms[2].value), "a_cousin");
  snprintf(said.terms[1].key, sizeof(said.terms[1].key), "transport.mode");
  snprintf(said.terms[1].value, sizeof(said.terms[1].value), "%s", mode);
  said.param_count = 1;
  snprintf(said.params[0].key, sizeof(said.params[0].key), "message.max");
  snprintf(said.params[0].value, sizeof(said.params[0].value), "100");
  said.blob = address;
  said.blob_length = sizeof(address);
}

/* As a process of this host does: its user is known, and it may pass descriptors. */
static int dial_shown(uint16_t port, int *side)
{
  struct unix_claim claim, answer;
  struct pollfd answered = {.events = POLLIN};
  uint32_t uid;
  int fd = dial(port);

  assert_true(hear(fd));
  assert_int_equal(heard.type, WIRE_HELLO);
  *side = answered.fd = unix_connect(heard.unix_path, false, &uid);
  assert_true(*side >= 0);
  assert_int_equal(unix_claim_make(fd, true, heard.token, &claim), 0);
  assert_int_equal(unix_send_claim(*side, &claim), 0);
  assert_int_equal(poll(&answered, 1, 60000), 1);
  assert_int_equal(unix_receive_claim(*side, &answer), 0);
  say_hello(fd, WIRE_NODE);
  return fd;
}

/* A JOIN with a descriptor, and an address that is none. */
static void say_garbage(int fd, int side)
{
  const struct unix_fds fds = {.id = 1, .count = 1, .fds = {2}};

  make_join("copy");
  said.fd_count = 1;
  said.fd_id = fds.id;
  assert_int_equal(unix_send_fds(side, &fds), 0);
  say(fd);
}

/* Reads until BYE says why the peer is dropped. The node goes on meanwhile. */
static void expect_bye(int fd, struct pair *pair, int code, const char *text)
{
  fd_set readable;
  bool more = true;

  heard.type = 0;
  while (more && heard.type != WIRE_BYE) {
    struct timeval none = {0};
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    side_turn(&pair->server);
    if (select(fd + 1, &readable, NULL, NULL, &none) > 0)
      more = hear(fd);
  }
  if (heard.type != WIRE_BYE || heard.code != code || !strstr(heard.text, text))
    fail_msg("not told \"%s\" by code %d, but \"%s\" by %d", text, code, heard.text, heard.code);
  close(fd);
}

/* The good client is still served. */
static void still_served(struct pair *pair)
{
  static uint64_t round;
  char bytes[64] = "";

  snprintf(bytes, sizeof(bytes), "round %llu", (unsigned long long)round++);
  assert_int_equal(pst_peer_send(pair->client.peer, bytes, sizeof(bytes)), 0);
  const char *text;
  await_text(&pair->server, &pair->client, PST_NODE_MESSAGE, &text);
  assert_string_equal(text, bytes);
}

static void strangers_are_reported_and_dropped(void **state)
{
  struct pair pair;

  (void)state;
  pair_open_to_all(&pair);
  uint16_t port = pst_node_port(pair.server.node);

  int fd = dial(port);
  assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  expect_bye(fd, &pair, -EPROTO, "does it speak Penstock's control protocol");
  still_served(&pair);

  fd = dial(port);
  say_hello(fd, WIRE_SENDER);
  expect_bye(fd, &pair, -EPROTO, "this end serves on demand");
  still_served(&pair);

  fd = dial(port);
  say_hello(fd, WIRE_NODE);
  memset(&said, 0, sizeof(said));
  said.type = WIRE_WITHDRAW;
  said.region_id = 1;
  say(fd);
  expect_bye(fd, &pair, -EPROTO, "before it had joined");
  still_served(&pair);

  fd = dial(port);
  say_hello(fd, WIRE_NODE);
  make_join("reference");
  say(fd);
  expect_bye(fd, &pair, -EPROTO, "transport.mode: the other end reference, this one copy");
  still_served(&pair);

  int side;
  fd = dial_shown(port, &side);
  say_garbage(fd, side);
  make_join("copy");
  say(fd);
  expect_bye(fd, &pair, -EPROTO, "");
  close(side);
  still_served(&pair);
  pair_close(&pair);
}

/* A peer of another host or user: no descriptor is opened for it, so that none can be left. */
static void without_descriptors(void **state)
{
  struct pst_node_event event;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open_to_all(&pair);
  for (int i = 0; i < 20; i++) {
    int fd = dial(pst_node_port(pair.server.node));
    say_hello(fd, WIRE_NODE);
    make_join("copy");
    say(fd);
    expect_bye(fd, &pair, -EXDEV, "passes no descriptors");
    still_served(&pair);
  }
  assert_false(side_take(&pair.server, PST_NODE_LEFT, &event, text));
  pair_close(&pair);
}

/* An address that is none: the transport refuses, and says so. */
static void garbage_for_an_address(void **state)
{
  struct pair pair;
  int side;

  (void)state;
  pair_open_to_all(&pair);
  for (int i = 0; i < 20; i++) {
    int fd = dial_shown(pst_node_port(pair.server.node), &side);
    say_garbage(fd, side);
    expect_bye(fd, &pair, -EPROTO, "cannot be used");
    close(side);
    still_served(&pair);
    struct pst_node_event left = await(&pair.server, NULL, PST_NODE_LEFT);
    assert_int_equal(left.status, -EPROTO);
  }
  pair_close(&pair);
}

/* As many as the control channel bears, all silent. */
static void half_open_connections(void **state)
{
  enum { COUNT = 200 };
  struct pair pair;
  int fds[COUNT];

  (void)state;
  pair_open_to_all(&pair);
  for (int i = 0; i < COUNT; i++) {
    fds[i] = dial(pst_node_port(pair.server.node));
    if (i % 2)
      say_hello(fds[i], WIRE_NODE);
    still_served(&pair);
  }
  struct side late;
  struct pst_node_params params = open_params();
  side_open(&late, &params);
  connect_sides(&pair.server, &late);
  side_close(&late);
  for (int i = 0; i < COUNT; i++)
    close(fds[i]);
  still_served(&pair);
  pair_close(&pair);
}

/* A listener of TCP's, and its address. */
static int listen_plain(char text[64])
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(listen(fd, 4), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
  snprintf(text, 64, "127.0.0.1:%u", ntohs(address.sin_port));
  return fd;
}

/* A stream's receiver listens at that address. */
static void node_that_calls_a_receiver_is_reported(void **state)
{
  struct pst_node_params params = open_params();
  struct pst_error error = PST_ERROR_INIT;
  const char *why;
  struct side side;
  char text[64];
  int listener = listen_plain(text);

  (void)state;
  side_open(&side, &params);
  assert_int_equal(pst_node_connect(side.node, text, &side.peer, &error), 0);
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  say_hello(fd, WIRE_RECEIVER);
  struct pst_node_event left = await_text(&side, NULL, PST_NODE_LEFT, &why);
  assert_int_equal(left.status, -EPROTO);
  assert_non_null(strstr(why, "has streams"));
  close(fd); /* or closing waits a second for it */
  side_close(&side);
  close(listener);
}

/* Nobody ever answers: the connection is taken, and that is all. */
static void silence_times_out(void **state)
{
  struct pst_node_params params = open_params();
  struct pst_error error = PST_ERROR_INIT;
  struct side side;
  char text[64];
  int listener = listen_plain(text);

  (void)state;
  params.connect_timeout_ns = 200000000;
  side_open(&side, &params);
  assert_int_equal(pst_node_connect(side.node, text, &side.peer, &error), 0);
  assert_int_equal(pst_peer_send(side.peer, "x", 1), -ENOTCONN);
  assert_int_equal(await(&side, NULL, PST_NODE_LEFT).status, -ETIMEDOUT);
  /* And given up before it answers. */
  assert_int_equal(pst_node_connect(side.node, text, &side.peer, &error), 0);
  pst_peer_close(side.peer, -ECANCELED, "no longer wanted");
  assert_int_equal(await(&side, NULL, PST_NODE_LEFT).status, -ECANCELED);
  side_close(&side);
  close(listener);
}

/* Accepts and hangs up, until `most` have come or the side has no peer any more. */
static uint32_t hang_up(struct side *side, int listener, uint32_t most, struct pst_node_event *left,
                        char why[256])
{
  uint32_t count = 0;

  while (count < most && !side_take(side, PST_NODE_LEFT, left, why)) {
    struct pollfd event = {.fd = listener, .events = POLLIN};

    side_turn(side);
    if (poll(&event, 1, 1) <= 0)
      continue;
    close(accept(listener, NULL, NULL));
    count++;
  }
  return count;
}

/* As a server does that strangers crowd: it is tried again for a second. */
static void hung_up_on_before_hello(void **state)
{
  struct pst_node_params params = open_params();
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event left;
  struct side side;
  char text[64], why[256];
  const char *end;
  int listener = listen_plain(text);

  (void)state;
  side_open(&side, &params);
  assert_int_equal(pst_node_connect(side.node, text, &side.peer, &error), 0);
  assert_int_equal(hang_up(&side, listener, 2, &left, why), 2);
  /* Given up between two tries. */
  pst_peer_close(side.peer, -ECANCELED, "no longer wanted");
  assert_true(await(&side, NULL, PST_NODE_LEFT).status < 0);
  assert_int_equal(pst_node_connect(side.node, text, &side.peer, &error), 0);
  assert_int_equal(hang_up(&side, listener, 1, &left, why), 1);
  close(listener);
  left = await_text(&side, NULL, PST_NODE_LEFT, &end);
  assert_non_null(strstr(end, text)); /* refused, or its second is over */
  side_close(&side);
}

/* ---- By the API -------------------------------------------------------------------- */

/* Places of offers that were withdrawn come back as the other side gets to it. */
static uint32_t offer_when_there_is_room(struct pair *pair, struct pst_area *area)
{
  const uint64_t deadline = now_ns() + DEADLINE_NS;
  uint32_t id;

  do {
    assert_true(now_ns() < deadline);
    assert_int_equal(pst_peer_offer(pair->client.peer, area, 0, AREA, ALL_ACCESS, &id), 0);
  } while (await(&pair->client, &pair->server, PST_NODE_TAKEN).status == -ENOSPC);
  while (await(&pair->server, &pair->client, PST_NODE_OFFERED).id != id)
    ;
  return id;
}

static void offers_over_the_limit(void **state)
{
  enum { COUNT = 100 };
  struct pair pair;
  uint32_t ids[COUNT], taken = 0, refused = 0, offered = 0;

  (void)state;
  pair_open_to_all(&pair);
  struct pst_area *area = area_of(&pair.client, AREA);
  for (uint32_t i = 0; i < COUNT; i++)
    assert_int_equal(pst_peer_offer(pair.client.peer, area, 0, AREA, ALL_ACCESS, &ids[i]), 0);
  while (taken + refused < COUNT) {
    const char *text;
    struct pst_node_event event = await_text(&pair.client, &pair.server, PST_NODE_TAKEN, &text);
    taken += event.status == 0;
    refused += event.status == -ENOSPC && strstr(text, "`offers`: 4");
  }
  assert_int_equal(taken, 4);
  char text[256];
  struct pst_node_event event;
  while (side_take(&pair.server, PST_NODE_OFFERED, &event, text))
    offered++;
  assert_int_equal(offered, 4);
  /* Offers that were refused are withdrawn; the others make room. */
  for (uint32_t i = 0; i < COUNT; i++)
    refused -= pst_peer_withdraw(pair.client.peer, ids[i]) == -ENOENT;
  assert_int_equal(refused, 0);
  for (uint32_t i = 0; i < 4; i++)
    await(&pair.server, &pair.client, PST_NODE_WITHDRAWN);
  assert_int_equal(pst_area_free(area), 0);
  area = area_of(&pair.client, AREA);
  for (uint32_t i = 0; i < 50; i++) {
    uint32_t id = offer_when_there_is_room(&pair, area);
    assert_int_equal(pst_peer_withdraw(pair.client.peer, id), 0);
    await(&pair.server, &pair.client, PST_NODE_WITHDRAWN);
  }
  still_served(&pair);
  pair_close(&pair);
}

/* Offered and withdrawn at once, again and again, without looking at the other side. */
static void withdrawn_before_it_is_taken(void **state)
{
  struct pair pair;
  uint32_t id;

  (void)state;
  pair_open_to_all(&pair);
  struct pst_area *area = area_of(&pair.client, AREA);
  for (uint32_t i = 0; i < 200; i++) {
    assert_int_equal(pst_peer_offer(pair.client.peer, area, 0, AREA, ALL_ACCESS, &id), 0);
    assert_int_equal(pst_peer_withdraw(pair.client.peer, id), 0);
  }
  for (uint32_t i = 0; i < 200; i++)
    await(&pair.client, &pair.server, PST_NODE_TAKEN);
  assert_int_equal(pst_area_free(area), 0);
  area = area_of(&pair.client, AREA);
  pair.server.logged = 0;
  offer_when_there_is_room(&pair, area);
  still_served(&pair);
  pair_close(&pair);
}

static void bytes_over_the_limit(void **state)
{
  struct pst_node_params params = open_params();
  struct pair pair;
  const char *text;
  uint32_t id;

  (void)state;
  params.offer_bytes = AREA + 100;
  pair_open(&pair, &params, NULL);
  struct pst_area *area = area_of(&pair.client, 2 * AREA);
  assert_int_equal(pst_peer_offer(pair.client.peer, area, 0, AREA, ALL_ACCESS, &id), 0);
  assert_int_equal(await(&pair.client, &pair.server, PST_NODE_TAKEN).status, 0);
  assert_int_equal(pst_peer_offer(pair.client.peer, area, 0, 101, ALL_ACCESS, &id), 0);
  assert_int_equal(await_text(&pair.client, &pair.server, PST_NODE_TAKEN, &text).status, -ENOSPC);
  assert_non_null(strstr(text, "`offer_bytes` is 65636"));
  assert_int_equal(pst_peer_offer(pair.client.peer, area, 0, 100, ALL_ACCESS, &id), 0);
  assert_int_equal(await(&pair.client, &pair.server, PST_NODE_TAKEN).status, 0);
  still_served(&pair);
  pair_close(&pair);
}

/* One floods and one does not; neither is polled for long. */
static void floods_are_bounded(void **state)
{
  struct pair pair;
  struct side other;
  struct pst_node_params params = open_params();
  uint32_t sent = 0, got = 0;

  (void)state;
  pair_open_to_all(&pair);
  side_open(&other, &params);
  struct pst_peer *good = pair.server.peer;
  connect_sides(&pair.server, &other);
  pair.server.peer = good;
  for (uint32_t i = 0; i < 10000; i++)
    sent += pst_peer_send(other.peer, "flood", 6) == 0;
  assert_in_range(sent, 8, 16); /* slots here, and slots there */
  struct pst_node_event event;
  char bytes[256];
  while (got < sent) {
    side_poll(&pair.server);
    side_turn(&other);
    while (side_take(&pair.server, PST_NODE_MESSAGE, &event, bytes))
      got++;
  }
  still_served(&pair);
  side_close(&other);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strangers_are_reported_and_dropped),
      cmocka_unit_test(without_descriptors),
      cmocka_unit_test(garbage_for_an_address),
      cmocka_unit_test(half_open_connections),
      cmocka_unit_test(node_that_calls_a_receiver_is_reported),
      cmocka_unit_test(silence_times_out),
      cmocka_unit_test(hung_up_on_before_hello),
      cmocka_unit_test(offers_over_the_limit),
      cmocka_unit_test(withdrawn_before_it_is_taken),
      cmocka_unit_test(bytes_over_the_limit),
      cmocka_unit_test(floods_are_bounded),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
