/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on what strangers can make an end hold, and its errors when its own descriptors run
 * out. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define FDS 400
#define MIB (1024u * 1024)

static struct wire_message got;

static uint32_t at_first; /* descriptors */

static struct end *receiver_open(uint16_t *port)
{
  struct end *receiver = end_new();

  log_clear();
  receiver->params.insecure = true;
  end_stream(receiver, "a", false, NULL);
  assert_int_equal(end_listen(receiver), 0);
  *port = control_port(receiver->control);
  return receiver;
}

/* Another thread closes some of its descriptors. */
static void receiver_close(struct end *receiver)
{
  end_close(receiver);
  descriptors_wait(at_first);
}

/* ---- Memory ---------------------------------------------------------------------- */

/* A HELLO is small: nothing larger is waited for, or has memory kept for it. */
static void test_large_frame_before_hello(void **state)
{
  static const uint8_t header[] = {0, 0, 0x10, 1};
  uint16_t port;
  struct end *receiver = receiver_open(&port);
  int fd = plain_connect(port);

  (void)state;
  assert_true(plain_receive(fd, &got));
  assert_int_equal(send(fd, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_BYE);
  assert_int_equal(got.code, -EPROTO);
  assert_non_null(strstr(got.text, "4097 bytes before its HELLO, more than the limit of 4096"));
  close(fd);
  receiver_close(receiver);
}

static uint64_t anonymous_bytes(void)
{
  FILE *status = fopen("/proc/self/status", "re");
  char line[256];
  unsigned long kib = 0;

  assert_non_null(status);
  while (fgets(line, sizeof(line), status))
    sscanf(line, "RssAnon: %lu kB", &kib);
  fclose(status);
  return (uint64_t)kib * 1024;
}

static void await_memory(uint64_t least, uint64_t most)
{
  time_t until = time(NULL) + 60;
  uint64_t has;

  while ((has = anonymous_bytes()) < least || has > most) {
    if (time(NULL) > until)
      fail_msg("%llu bytes, not %llu to %llu", (unsigned long long)has, (unsigned long long)least,
               (unsigned long long)most);
    sched_yield();
  }
}

/* The memory of half frames goes back to the system once their senders have gone. */
static void test_memory_comes_back(void **state)
{
  enum { COUNT = 200, SENT = 60000 };
  static uint8_t half[WIRE_HEADER_BYTES + SENT] = {0, 1, 0, 0};

  (void)state;
#ifdef __SANITIZE_THREAD__
  skip(); /* what it keeps of each byte stays */
#endif
  uint16_t port;
  struct end *receiver = receiver_open(&port);
  int fds[COUNT];

  close(plain_sender(port, &got));
  uint64_t before = anonymous_bytes();
  for (int i = 0; i < COUNT; i++) {
    fds[i] = plain_sender(port, &got);
    assert_int_equal(send(fds[i], half, sizeof(half), MSG_NOSIGNAL), sizeof(half));
  }
  await_memory(before + 8 * MIB, UINT64_MAX);
  for (int i = 0; i < COUNT; i++)
    close(fds[i]);
  await_memory(0, before + 4 * MIB);
  receiver_close(receiver);
}

/* ---- Descriptors ------------------------------------------------------------------ */

static struct rlimit limit;
static int taken[FDS];
static int taken_count;

static void take_all(void)
{
  struct rlimit low = {.rlim_cur = FDS, .rlim_max = limit.rlim_max};
  int fd;

  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
    taken[taken_count++] = fd;
  assert_int_equal(errno, EMFILE);
}

static void give_back(void)
{
  while (taken_count > 0)
    close(taken[--taken_count]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* By a socket that was there before descriptors ended. */
static void connect_late(int fd, uint16_t port)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

  assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

/* All are with those who are served: who comes hears so, and does not wait for nothing. */
static void test_no_descriptor_for_a_connection(void **state)
{
  uint16_t port;
  struct end *receiver = receiver_open(&port);
  uint32_t before = open_descriptors();

  (void)state;
  for (int i = 0; i < 2; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    take_all();
    connect_late(fd, port);
    do
      assert_true(plain_receive(fd, &got));
    while (got.type == WIRE_HELLO);
    assert_int_equal(got.type, WIRE_BYE);
    assert_int_equal(got.code, -EMFILE);
    assert_non_null(strstr(got.text, "its process has no room for another connection"));
    assert_non_null(strstr(got.text, "raise its `ulimit -n`"));
    give_back();
    assert_true(plain_closed(fd));
    close(fd);
    /* A sender is accepted again, so the spare descriptor has been reopened. */
    close(plain_sender(port, &got));
    descriptors_wait(before);
  }
  receiver_close(receiver);
}

/* A sender does not try for ever what its own limit forbids. */
static void test_no_descriptor_to_connect(void **state)
{
  struct end *sender = end_new();
  void *out = end_stream(sender, "a", true, NULL);

  (void)state;
  assert_int_equal(end_connect(sender, unused_port()), 0);
  /* Again and again: the socket of an attempt under way comes back. */
  do
    take_all();
  while (end_seen(sender, SEEN_FAIL, out) == 0);
  give_back();
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -EMFILE);
  assert_non_null(strstr(seen.text, "this process has no room for one"));
  assert_non_null(strstr(seen.text, "raise `ulimit -n`"));
  receiver_close(sender);
}

/* Others hold them, and have shown nothing: the oldest goes. */
static void test_strangers_make_room(void **state)
{
  enum { STRANGERS = 3 };
  uint16_t port;
  struct end *receiver = receiver_open(&port);
  int strangers[STRANGERS];

  (void)state;
  for (int i = 0; i < STRANGERS; i++) {
    strangers[i] = plain_connect(port);
    assert_true(plain_receive(strangers[i], &got));
  }
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  take_all();
  connect_late(fd, port);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_HELLO);
  give_back();
  assert_true(plain_closed(strangers[0]));
  for (int i = 0; i < STRANGERS; i++)
    close(strangers[i]);
  close(fd);
  receiver_close(receiver);
}

/* More than there is room for have come and left again while the end had something else to do: one
 * that has stayed, stays. */
static void test_a_client_that_has_left_makes_room(void **state)
{
  enum { LEFT = 40, ROOM = 8 };
  const struct control_totals totals = totals_of(3);
  struct end *receiver = end_new(), *sender = end_new();
  void *in = end_stream(receiver, "a", false, NULL), *out = end_stream(sender, "a", true, NULL);

  (void)state;
  log_clear();
  receiver->params.insecure = true;
  receiver->limits.peers_max = ROOM;
  assert_int_equal(end_listen(receiver), 0);
  uint16_t port = control_port(receiver->control);
  assert_int_equal(end_connect(sender, port), 0);
  end_wait(receiver, SEEN_PEER, in, 0);
  int honest = plain_connect(port);
  assert_true(plain_receive(honest, &got));

  pthread_mutex_lock(&receiver->mutex); /* the beat's callback waits for it */
  assert_int_equal(control_beat(sender->control, out, &totals), 0);
  nanosleep(&(struct timespec){.tv_nsec = MS(100)}, NULL);
  for (int i = 0; i < LEFT; i++)
    close(plain_connect(port));
  int last = plain_connect(port);
  pthread_mutex_unlock(&receiver->mutex);
  assert_true(plain_receive(last, &got));
  hello_of(&got, WIRE_RECEIVER);
  plain_send(honest, &got);
  assert_true(plain_receive(honest, &got));
  assert_int_equal(got.type, WIRE_BYE);
  assert_int_equal(log_count("to make room"), 0);
  close(honest);
  close(last);
  end_close(sender);
  receiver_close(receiver);
}

static int setup(void **state)
{
  (void)state;
  log_watch();
  at_first = open_descriptors();
  return getrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_large_frame_before_hello),
      cmocka_unit_test(test_memory_comes_back),
      cmocka_unit_test(test_no_descriptor_for_a_connection),
      cmocka_unit_test(test_no_descriptor_to_connect),
      cmocka_unit_test(test_strangers_make_room),
      cmocka_unit_test(test_a_client_that_has_left_makes_room),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
