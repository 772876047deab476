/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that misbehave, die, or are none at all, beside a pair that must not
 * notice. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../simulated_clock.h"
#include "control/nodes.h"
#include "harness.h"
#include "util/clock.h"

/* The limits that these tests wait for. */
#define SHORT_NS MS(1000)

struct scene {
  struct end *receiver;
  struct end *sender;
  void *in;
  void *out;
  void *spare; /* a receiver's stream that nobody has taken */
  uint16_t port;
};

static struct wire_message say, got;

static struct scene scene_new(void)
{
  struct scene scene = {.receiver = end_new(), .sender = end_new()};

  log_clear();
  /* Strangers get as far as their words bring them. */
  scene.receiver->params.insecure = true;
  scene.in = end_stream(scene.receiver, "good", false, NULL);
  scene.spare = end_stream(scene.receiver, "spare", false, NULL);
  scene.out = end_stream(scene.sender, "good", true, NULL);
  return scene;
}

static void scene_open(struct scene *scene)
{
  assert_int_equal(end_listen(scene->receiver), 0);
  scene->port = control_port(scene->receiver->control);
  assert_int_equal(end_connect(scene->sender, scene->port), 0);
  end_wait(scene->receiver, SEEN_PEER, scene->in, 0);
  end_wait(scene->sender, SEEN_PEER, scene->out, 0);
}

/* The good pair still talks, and nobody's stream has failed. */
static void scene_close(struct scene *scene)
{
  const struct control_totals totals = totals_of(3);
  uint32_t before = end_seen(scene->receiver, SEEN_BEAT, scene->in);

  assert_int_equal(control_beat(scene->sender->control, scene->out, &totals), 0);
  end_wait(scene->receiver, SEEN_BEAT, scene->in, before);
  assert_int_equal(end_seen(scene->receiver, SEEN_FAIL, scene->in), 0);
  assert_int_equal(end_seen(scene->sender, SEEN_FAIL, NULL), 0);
  end_close(scene->sender);
  end_close(scene->receiver);
}

static void send_raw(int fd, const void *bytes, size_t length)
{
  assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
}

static void offer(int fd, const char *stream)
{
  memset(&say, 0, sizeof(say));
  say.type = WIRE_OFFER;
  snprintf(say.stream, sizeof(say.stream), "%s", stream);
  plain_send(fd, &say);
}

static void say_of(int fd, uint32_t type, const char *stream)
{
  memset(&say, 0, sizeof(say));
  say.type = type;
  snprintf(say.stream, sizeof(say.stream), "%s", stream);
  plain_send(fd, &say);
}

/* A plain sender whose stream `spare` was accepted. */
static int accepted_sender(struct scene *scene)
{
  int fd = plain_sender(scene->port, &got);

  offer(fd, "spare");
  do
    assert_true(plain_receive(fd, &got));
  while (got.type == WIRE_KEEP);
  assert_int_equal(got.type, WIRE_ACCEPT);
  end_wait(scene->receiver, SEEN_PEER, scene->spare, 0);
  return fd;
}

/* ---- Not ours -------------------------------------------------------------------- */

struct garbage {
  const char *bytes;
  size_t length;
  const char *line;
};
#define BYTES(text) text, sizeof(text) - 1

static void test_garbage(void **state)
{
  static const struct garbage table[] = {
      {BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "1195725856 bytes"},
      {BYTES("\x16\x03\x01\x02\x00\x01\x00\x01"), "does it speak Penstock's"},
      {BYTES("\xff\xff\xff\xff"), "4294967295 bytes"},
      {BYTES("\x00\x01\x00\x01xxxx"), "65537 bytes"},
      {BYTES("\x00\x00\x00\x00"), "not Penstock's"},
      {BYTES("\x00\x00\x00\x01\xa0"), "it is empty"},
      {BYTES("\x00\x00\x00\x04\x9f\x9f\x9f\x9f"), "not Penstock's"},
      {BYTES("\x00\x00\x00\x03\xa1\x00\x0a"), "KEEP before its HELLO"},
  };
  struct scene scene = scene_new();

  (void)state;
  scene_open(&scene);
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    int fd = plain_connect(scene.port);
    send_raw(fd, table[i].bytes, table[i].length);
    assert_true(plain_closed(fd));
    close(fd);
    log_wait(table[i].line);
  }
  scene_close(&scene);
}

static void test_random_bytes(void **state)
{
  struct scene scene = scene_new();
  uint8_t bytes[512];

  (void)state;
  srandom(1);
  scene_open(&scene);
  for (int i = 0; i < 100; i++) {
    int fd = plain_connect(scene.port);
    for (size_t k = 0; k < sizeof(bytes); k++)
      bytes[k] = (uint8_t)random();
    /* Half of them with a header that promises just these. */
    if (i % 2)
      memcpy(bytes, "\x00\x00\x01\xfc", 4);
    send_raw(fd, bytes, sizeof(bytes));
    assert_true(plain_closed(fd));
    close(fd);
  }
  /* One line each would bury the log. */
  assert_in_range(log_count("dropped:"), 1, 30);
  scene_close(&scene);
}

static void test_silent_and_slow(void **state)
{
  struct scene scene = scene_new();
  int fds[3];

  (void)state;
  scene.receiver->limits.answer_ns = SHORT_NS;
  scene_open(&scene);
  for (int i = 0; i < 3; i++)
    fds[i] = plain_connect(scene.port);
  send_raw(fds[1], "\x00\x00", 2);
  send_raw(fds[2], "\x00\x00\x01\x00\xa1", 5);
  for (int i = 0; i < 3; i++) {
    assert_true(plain_closed(fds[i]));
    close(fds[i]);
  }
  log_wait("sent no HELLO within 1 s");
  scene_close(&scene);
}

/* A byte now and then does not buy time. */
static void test_slow_frame_after_hello(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene.receiver->limits.answer_ns = SHORT_NS;
  scene_open(&scene);
  int fd = accepted_sender(&scene);
  send_raw(fd, "\x00\x00\x01\x00", 4);
  for (int i = 0; i < 200 && end_seen(scene.receiver, SEEN_FAIL, scene.spare) == 0; i++) {
    uint64_t turn;
    if (send(fd, "\xa1", 1, MSG_NOSIGNAL) < 0)
      break;
    do
      turn = simulated_clock_turn();
    while (end_seen(scene.receiver, SEEN_FAIL, scene.spare) == 0 &&
           !simulated_clock_move(turn, MS(10)));
  }
  struct seen seen = end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
  assert_int_equal(seen.code, -ETIMEDOUT);
  assert_non_null(strstr(seen.text, "began a frame"));
  close(fd);
  scene_close(&scene);
}

static void test_offers_nothing(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene.receiver->limits.idle_ns = SHORT_NS;
  scene_open(&scene);
  int fd = plain_sender(scene.port, &got);
  assert_true(plain_closed(fd));
  close(fd);
  log_wait("offered no stream");
  scene_close(&scene);
}

static void test_other_major(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene_open(&scene);
  int fd = plain_connect(scene.port);
  assert_true(plain_receive(fd, &got));
  hello_of(&say, WIRE_SENDER);
  say.major = 2;
  say.minor = 0;
  plain_send(fd, &say);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_BYE);
  assert_int_equal(got.code, -EPROTO);
  assert_non_null(strstr(got.text, "speaks version 2.0 of the control protocol, this end 1.3"));
  assert_true(plain_closed(fd));
  close(fd);
  log_wait("speaks version 2.0");
  scene_close(&scene);
}

static void test_receiver_calls_receiver(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene_open(&scene);
  int fd = plain_connect(scene.port);
  assert_true(plain_receive(fd, &got));
  hello_of(&say, WIRE_RECEIVER);
  plain_send(fd, &say);
  assert_true(plain_closed(fd));
  close(fd);
  log_wait("is a receiver, as this end is");
  scene_close(&scene);
}

static void test_hello_twice(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene_open(&scene);
  int fd = plain_sender(scene.port, &got);
  hello_of(&say, WIRE_SENDER);
  plain_send(fd, &say);
  assert_true(plain_closed(fd));
  close(fd);
  log_wait("said HELLO twice");
  scene_close(&scene);
}

/* ---- Against the order of things --------------------------------------------------- */

static void test_breaches_of_order(void **state)
{
  static const struct {
    uint32_t type;
    const char *line;
  } table[] = {
      {WIRE_ACCEPT, "accepted the stream"},
      {WIRE_COUNTS, "sent COUNTS of 'spare' before it was their turn"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct scene scene = scene_new();
    scene_open(&scene);
    int fd = accepted_sender(&scene);
    say_of(fd, table[i].type, "spare");
    struct seen seen = end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
    assert_int_equal(seen.code, -EPROTO);
    assert_non_null(strstr(seen.text, table[i].line));
    assert_true(plain_closed(fd));
    close(fd);
    scene_close(&scene);
  }
}

/* Messages about another's stream do nothing to it. */
static void test_other_peoples_streams(void **state)
{
  static const uint32_t types[] = {WIRE_FINISH, WIRE_COUNTS, WIRE_FAIL, WIRE_BEAT, WIRE_ADDRESS};
  struct scene scene = scene_new();

  (void)state;
  scene_open(&scene);
  int fd = accepted_sender(&scene);
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
    say_of(fd, types[i], "good");
  say_of(fd, WIRE_FINISH, "spare");
  end_wait(scene.receiver, SEEN_FINISH, scene.spare, 0);
  assert_int_equal(end_seen(scene.receiver, SEEN_FINISH, scene.in), 0);
  assert_int_equal(end_seen(scene.receiver, SEEN_ADDRESS, scene.in), 0);
  close(fd);
  scene_close(&scene);
}

static void test_too_many_refused_offers(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene.receiver->limits.refusals_max = 20;
  scene_open(&scene);
  int fd = plain_sender(scene.port, &got);
  for (int i = 0; i < 30; i++) {
    memset(&say, 0, sizeof(say));
    say.type = WIRE_OFFER;
    snprintf(say.stream, sizeof(say.stream), "none-%d", i);
    uint8_t frame[512];
    size_t length;
    assert_int_equal(wire_encode(&say, frame, sizeof(frame), &length), 0);
    if (send(fd, frame, length, MSG_NOSIGNAL) < 0)
      break;
  }
  assert_true(plain_closed(fd));
  close(fd);
  scene_close(&scene);
}

/* ---- Many ----------------------------------------------------------------------------- */

static void test_too_many_connections(void **state)
{
  enum { CROWD = 40 };
  struct scene scene = scene_new();
  int fds[CROWD];

  (void)state;
  scene.receiver->limits.peers_max = 16;
  scene_open(&scene);
  for (int i = 0; i < CROWD; i++)
    fds[i] = plain_connect(scene.port);
  log_wait("to make room");
  /* An honest sender gets through the crowd. */
  int fd = accepted_sender(&scene);
  close(fd);
  end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
  for (int i = 0; i < CROWD; i++)
    close(fds[i]);
  scene_close(&scene);
}

/* A peer that asks much and reads nothing is dropped at last. Runs by the real clock, because of
 * TCP. */
static void test_reads_nothing(void **state)
{
  struct scene scene = scene_new();
  static uint8_t frame[1024];
  int small = 4096;
  size_t length;
  uint32_t sent = 0;

  (void)state;
  scene.receiver->limits.refusals_max = UINT32_MAX;
  scene.receiver->params.peer_timeout_ns = SHORT_NS;
  scene_open(&scene);
  int fd = plain_connect(scene.port);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  hello_of(&say, WIRE_SENDER);
  plain_send(fd, &say);
  memset(&say, 0, sizeof(say));
  say.type = WIRE_OFFER;
  memset(say.stream, 'x', WIRE_STREAM_MAX);
  assert_int_equal(wire_encode(&say, frame, sizeof(frame), &length), 0);
  while (send(fd, frame, length, MSG_NOSIGNAL) == (ssize_t)length)
    sent++;
  assert_true(sent > 100);
  assert_int_equal(send(fd, frame, length, MSG_NOSIGNAL), -1);
  close(fd);
  scene_close(&scene);
}

/* ---- Death ---------------------------------------------------------------------------- */

static void test_sender_dies(void **state)
{
  (void)state;
  for (int reset = 0; reset < 2; reset++) {
    struct scene scene = scene_new();
    struct linger linger = {.l_onoff = 1};
    scene_open(&scene);
    int fd = accepted_sender(&scene);
    if (reset)
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
    struct seen seen = end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
    assert_int_equal(seen.code, -ECONNRESET);
    assert_non_null(strstr(seen.text, "lost the sender (elsewhere, pid 4711, 127.0.0.1:"));
    assert_non_null(strstr(seen.text, "): the connection closed unexpectedly; it was killed or "
                                      "crashed. Check its log"));
    assert_int_equal(log_count("lost the sender (elsewhere, pid 4711"), 1);
    scene_close(&scene);
  }
}

static void test_sender_falls_silent(void **state)
{
  struct scene scene = scene_new();

  (void)state;
  scene.receiver->params.peer_timeout_ns = SHORT_NS;
  /* TCP has the real clock: no more KEEPs than go without an acknowledgement. */
  scene.receiver->params.heartbeat_ns = SHORT_NS / 3;
  scene_open(&scene);
  int fd = accepted_sender(&scene);
  struct seen seen = end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
  assert_int_equal(seen.code, -ETIMEDOUT);
  assert_non_null(strstr(seen.text, "lost the sender (elsewhere, pid 4711, "));
  assert_non_null(strstr(seen.text, "it said nothing for 1 s; it was stopped or killed"));
  do /* it hears why, once it goes on */
    assert_true(plain_receive(fd, &got));
  while (got.type != WIRE_BYE);
  assert_int_equal(got.code, -ETIMEDOUT);
  assert_string_equal(got.text, "your end said nothing for 1 s; was its process stopped?");
  close(fd);
  scene_close(&scene);
}

/* A stream whose counts are settled does not die with its sender. */
static void test_sender_dies_after_the_end(void **state)
{
  struct scene scene = scene_new();
  const struct control_totals totals = totals_of(0);

  (void)state;
  scene_open(&scene);
  int fd = accepted_sender(&scene);
  say_of(fd, WIRE_FINISH, "spare");
  end_wait(scene.receiver, SEEN_FINISH, scene.spare, 0);
  assert_int_equal(control_counts(scene.receiver->control, scene.spare, &totals), 0);
  do
    assert_true(plain_receive(fd, &got));
  while (got.type == WIRE_KEEP);
  assert_int_equal(got.type, WIRE_COUNTS);
  say_of(fd, WIRE_COUNTS, "spare");
  end_wait(scene.receiver, SEEN_COUNTS, scene.spare, 0);
  close(fd);
  log_wait("none of its streams was still open here");
  assert_int_equal(end_seen(scene.receiver, SEEN_FAIL, NULL), 0);
  scene_close(&scene);
}

/* ---- A receiver that is none, or dies ----------------------------------------------------- */

static int accept_one(int listener)
{
  assert_true(plain_readable(listener));
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  return fd;
}

/* The sender's first connection, up to its OFFER. */
static int plain_receiver(int listener, struct end *sender, uint16_t port)
{
  sender->params.insecure = true;
  assert_int_equal(end_connect(sender, port), 0);
  int fd = accept_one(listener);
  hello_of(&say, WIRE_RECEIVER);
  plain_send(fd, &say);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_HELLO);
  assert_int_equal(got.role, WIRE_SENDER);
  plain_send(fd, &say);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_OFFER);
  return fd;
}

static void test_receiver_dies(void **state)
{
  uint16_t port;
  int listener = plain_listen(&port);
  struct end *sender = end_new();

  (void)state;
  void *out = end_stream(sender, "a", true, NULL);
  int fd = plain_receiver(listener, sender, port);
  say_of(fd, WIRE_ACCEPT, "a");
  end_wait(sender, SEEN_PEER, out, 0);
  close(fd);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -ECONNRESET);
  assert_non_null(strstr(seen.text, "lost the receiver (elsewhere, pid 4711, "));
  end_close(sender);
  close(listener);
}

static void test_receiver_never_answers_the_offer(void **state)
{
  uint16_t port;
  int listener = plain_listen(&port);
  struct end *sender = end_new();

  (void)state;
  void *out = end_stream(sender, "a", true, NULL);
  sender->limits.answer_ns = SHORT_NS;
  int fd = plain_receiver(listener, sender, port);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -ETIMEDOUT);
  assert_non_null(strstr(seen.text, "did not answer the offer of 'a'"));
  close(fd);
  end_close(sender);
  close(listener);
}

/* One that is just closing is not the end: the next may be on its way. */
static void test_sender_tries_again(void **state)
{
  uint16_t port;
  int listener = plain_listen(&port);
  struct end *sender = end_new();

  (void)state;
  void *out = end_stream(sender, "a", true, NULL);
  int fd = plain_receiver(listener, sender, port);
  close(fd);
  fd = accept_one(listener);
  hello_of(&say, WIRE_RECEIVER);
  plain_send(fd, &say);
  plain_send(fd, &say);
  do
    assert_true(plain_receive(fd, &got));
  while (got.type != WIRE_OFFER);
  say_of(fd, WIRE_ACCEPT, "a");
  end_wait(sender, SEEN_PEER, out, 0);
  assert_int_equal(end_seen(sender, SEEN_FAIL, NULL), 0);
  end_close(sender);
  close(fd);
  close(listener);
}

static void test_not_a_receiver(void **state)
{
  uint16_t port;
  int listener = plain_listen(&port);
  struct end *sender = end_new();

  (void)state;
  void *out = end_stream(sender, "a", true, NULL);
  assert_int_equal(end_connect(sender, port), 0);
  int fd = accept_one(listener);
  send_raw(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -EPROTO);
  assert_non_null(strstr(seen.text, "what answers at 127.0.0.1:"));
  close(fd);
  end_close(sender);
  close(listener);
}

/* ---- The Unix socket ------------------------------------------------------------------------ */

static int unix_connection(const char *path)
{
  uint32_t uid;
  int fd = unix_connect(path, false, &uid);

  assert_true(fd >= 0);
  return fd;
}

/* As a sender of this host does. */
static int side_sender(struct scene *scene, int *side)
{
  struct unix_claim claim, answer;
  int fd = plain_connect(scene->port);

  assert_true(plain_receive(fd, &got));
  assert_true(got.has_token);
  *side = unix_connection(got.unix_path);
  assert_int_equal(unix_claim_make(fd, true, got.token, &claim), 0);
  assert_int_equal(unix_send_claim(*side, &claim), 0);
  assert_true(plain_readable(*side));
  assert_int_equal(unix_receive_claim(*side, &answer), 0);
  assert_memory_equal(&answer, &claim, sizeof(claim));
  hello_of(&say, WIRE_SENDER);
  plain_send(fd, &say);
  assert_true(plain_receive(fd, &got));
  return fd;
}

static void offer_fds(int fd, uint64_t id)
{
  memset(&say, 0, sizeof(say));
  say.type = WIRE_OFFER;
  strcpy(say.stream, "spare");
  say.fd_count = 1;
  say.fd_id = id;
  plain_send(fd, &say);
}

/* Its descriptors never come: the stream goes on without. */
static void test_unix_descriptors_never_come(void **state)
{
  struct scene scene = scene_new();
  int side;

  (void)state;
  scene.receiver->limits.answer_ns = SHORT_NS;
  scene_open(&scene);
  int fd = side_sender(&scene, &side);
  offer_fds(fd, 1);
  assert_int_equal(end_wait(scene.receiver, SEEN_PEER, scene.spare, 0).fd_count, 0);
  log_wait("going on without");
  assert_true(plain_closed(side));
  close(side);
  close(fd);
  end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
  scene_close(&scene);
}

static void test_unix_descriptors_come_late(void **state)
{
  struct scene scene = scene_new();
  struct unix_fds batch = {.id = 1, .count = 1, .fds = {2}};
  int side;

  (void)state;
  scene_open(&scene);
  int fd = side_sender(&scene, &side);
  offer_fds(fd, 1);
  assert_int_equal(unix_send_fds(side, &batch), 0);
  assert_int_equal(end_wait(scene.receiver, SEEN_PEER, scene.spare, 0).fd_count, 1);
  close(side);
  close(fd);
  end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
  scene_close(&scene);
}

static void send_many_fds(int side, int count)
{
  char space[CMSG_SPACE(64 * sizeof(int))] = {0};
  uint8_t id[8] = {0, 0, 0, 0, 0, 0, 0, 1};
  struct iovec piece = {id, sizeof(id)};
  struct msghdr message = {.msg_iov = &piece,
                           .msg_iovlen = 1,
                           .msg_control = space,
                           .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);

  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
  for (int i = 0; i < count; i++)
    ((int *)(void *)CMSG_DATA(header))[i] = 2;
  assert_int_equal(sendmsg(side, &message, MSG_NOSIGNAL), sizeof(id));
}

static void test_unix_misuse(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    uint32_t before = open_descriptors();
    struct scene scene = scene_new();
    int side;
    scene_open(&scene);
    int fd = side_sender(&scene, &side);
    struct unix_fds batch = {.id = 9, .count = 1, .fds = {2}};
    offer_fds(fd, 1);
    if (i == 0)
      send_many_fds(side, 5);
    else if (i == 1)
      assert_int_equal(send(side, "short", 5, MSG_NOSIGNAL), 5);
    else
      assert_int_equal(unix_send_fds(side, &batch), 0);
    assert_true(plain_closed(fd));
    log_wait("descriptors");
    assert_int_equal(end_seen(scene.receiver, SEEN_PEER, scene.spare), 0);
    close(side);
    close(fd);
    scene_close(&scene);
    descriptors_wait(before);
  }
}

/* Descriptors that no frame asks for are bounded, and closed with the peer. */
static void test_unix_flood(void **state)
{
  uint32_t before = open_descriptors();
  struct scene scene = scene_new();
  struct unix_fds batch = {.count = 4, .fds = {2, 2, 2, 2}};
  int side;

  (void)state;
  scene_open(&scene);
  uint32_t opened = open_descriptors();
  int fd = side_sender(&scene, &side);
  offer(fd, "spare");
  end_wait(scene.receiver, SEEN_PEER, scene.spare, 0);
  do
    batch.id++;
  while (unix_send_fds(side, &batch) == 0 && batch.id < 1000);
  say_of(fd, WIRE_FINISH, "spare");
  end_wait(scene.receiver, SEEN_FINISH, scene.spare, 0);
  descriptors_wait(opened + 4 * FD_CHANNEL_QUEUE + 8);
  close(side);
  close(fd);
  end_wait(scene.receiver, SEEN_FAIL, scene.spare, 0);
  scene_close(&scene);
  descriptors_wait(before);
}

static void test_unix_connections_make_room(void **state)
{
  enum { CONNECTIONS = 100 };
  struct scene scene = scene_new();
  int others[CONNECTIONS];

  (void)state;
  scene.receiver->limits.answer_ns = SHORT_NS;
  scene_open(&scene);
  int fd = plain_connect(scene.port);
  assert_true(plain_receive(fd, &got));
  int count = 0;
  while (count < CONNECTIONS)
    others[count++] = unix_connection(got.unix_path);
  for (int i = 0; i < count; i++) {
    assert_true(plain_closed(others[i]));
    close(others[i]);
  }
  close(fd);
  scene_close(&scene);
}

/* ---- Nodes ------------------------------------------------------------------------ */

static void node_heard(void *context, const struct control_node_message *message)
{
  (void)context;
  (void)message;
}

/* A host under load, or a network that loses the first packets, answers after more than 5 s. */
static void test_node_waits_for_a_late_hello(void **state)
{
  const struct control_node_params params = {.insecure = true,
                                             .peers_max = 1,
                                             .join_timeout_ns = MS(9000),
                                             .peer_timeout_ns = MS(60000),
                                             .heard = node_heard};
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_blob address = {.struct_size = sizeof(address)};
  struct control *control;
  char place[32];
  uint64_t turn;
  uint16_t port;

  (void)state;
  int listening = plain_listen(&port);
  assert_int_equal(control_node_open(&params, &control, &error), 0);
  simulated_clock_meet();
  snprintf(place, sizeof(place), "127.0.0.1:%u", port);
  assert_int_equal(control_node_connect(control, 2, place, true, &address, &error), 0);
  int fd = accept(listening, NULL, NULL);
  for (const uint64_t began_ns = clock_now_ns(); clock_now_ns() < began_ns + MS(6000);) {
    turn = simulated_clock_turn();
    simulated_clock_move(turn, MS(100));
  }
  hello_of(&say, WIRE_NODE);
  plain_send(fd, &say);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_HELLO);
  close(fd);
  close(listening);
  control_close(control);
}

static int setup(void **state)
{
  (void)state;
  log_watch();
  return 0;
}

#define TIMED(test)                                                                                \
  cmocka_unit_test_setup_teardown(test, simulated_clock_begin, simulated_clock_end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_garbage),
      cmocka_unit_test(test_random_bytes),
      TIMED(test_silent_and_slow),
      TIMED(test_slow_frame_after_hello),
      TIMED(test_offers_nothing),
      cmocka_unit_test(test_other_major),
      cmocka_unit_test(test_receiver_calls_receiver),
      cmocka_unit_test(test_hello_twice),
      cmocka_unit_test(test_breaches_of_order),
      cmocka_unit_test(test_other_peoples_streams),
      cmocka_unit_test(test_too_many_refused_offers),
      cmocka_unit_test(test_too_many_connections),
      cmocka_unit_test(test_reads_nothing),
      cmocka_unit_test(test_sender_dies),
      TIMED(test_sender_falls_silent),
      cmocka_unit_test(test_sender_dies_after_the_end),
      cmocka_unit_test(test_receiver_dies),
      TIMED(test_receiver_never_answers_the_offer),
      TIMED(test_sender_tries_again),
      cmocka_unit_test(test_not_a_receiver),
      TIMED(test_unix_descriptors_never_come),
      cmocka_unit_test(test_unix_descriptors_come_late),
      cmocka_unit_test(test_unix_misuse),
      cmocka_unit_test(test_unix_flood),
      TIMED(test_unix_connections_make_room),
      TIMED(test_node_waits_for_a_late_hello),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
