/* SPDX-License-Identifier: Apache-2.0 */
/* Two control objects over 127.0.0.1, as two processes have them. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../simulated_clock.h"
#include "harness.h"

struct pair {
  struct end *receiver;
  struct end *sender;
  void *in;  /* the receiver's stream */
  void *out; /* the sender's */
};

static struct pair pair_new(void)
{
  struct pair pair = {.receiver = end_new(), .sender = end_new()};

  log_clear();
  pair.in = end_stream(pair.receiver, "packets", false, "message=8192 B");
  pair.out = end_stream(pair.sender, "packets", true, "message=8192 B");
  return pair;
}

static void pair_open(struct pair *pair)
{
  assert_int_equal(end_listen(pair->receiver), 0);
  assert_int_equal(end_connect(pair->sender, control_port(pair->receiver->control)), 0);
}

static void pair_meet(struct pair *pair)
{
  pair_open(pair);
  end_wait(pair->receiver, SEEN_PEER, pair->in, 0);
  end_wait(pair->sender, SEEN_PEER, pair->out, 0);
}

static void pair_close(struct pair *pair)
{
  end_close(pair->sender);
  end_close(pair->receiver);
}

static void test_receiver_first(void **state)
{
  struct pair pair = pair_new();
  struct control_pair param = {.key = "link_type", .value = "EN10MB"};

  (void)state;
  pair.sender->streams[0].params = &param;
  pair.sender->streams[0].param_count = 1;
  pair_open(&pair);
  struct seen seen = end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  assert_int_equal(seen.param_count, 1);
  assert_string_equal(seen.param[0], "link_type");
  assert_string_equal(seen.param[1], "EN10MB");
  assert_int_equal(seen.address_length, 7);
  assert_memory_equal(seen.address, "packets", 7);
  char process[32];
  snprintf(process, sizeof(process), "pid %d, 127.0.0.1:", (int)getpid());
  assert_non_null(strstr(seen.text, process));
  seen = end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_non_null(strstr(seen.text, process));
  assert_int_equal(seen.param_count, 0);
  assert_true(log_has("for the sender of: packets"));
  pair_close(&pair);
}

static void test_sender_first(void **state)
{
  struct pair pair = pair_new();
  uint16_t port = unused_port();
  char address[32];

  (void)state;
  assert_int_equal(end_connect(pair.sender, port), 0);
  log_wait("waiting for a receiver at 127.0.0.1");
  snprintf(address, sizeof(address), "127.0.0.1:%u", port);
  pair.receiver->params.listen = address;
  assert_int_equal(end_listen(pair.receiver), 0);
  end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_int_equal(log_count("waiting for a receiver"), 1);
  assert_true(log_has("Connection refused"));
  pair_close(&pair);
}

static void test_finish_and_counts(void **state)
{
  struct pair pair = pair_new();
  const struct control_totals sent = totals_of(1000);
  struct control_totals delivered = totals_of(990);

  (void)state;
  delivered.drop_count = 1;
  strcpy(delivered.drops[0].cause, "no credit");
  delivered.drops[0].messages = 10;
  pair_meet(&pair);
  assert_int_equal(control_finish(pair.sender->control, pair.out, &sent), 0);
  struct seen seen = end_wait(pair.receiver, SEEN_FINISH, pair.in, 0);
  assert_memory_equal(&seen.totals, &sent, sizeof(sent));
  assert_int_equal(control_counts(pair.receiver->control, pair.in, &delivered), 0);
  seen = end_wait(pair.sender, SEEN_COUNTS, pair.out, 0);
  assert_memory_equal(&seen.totals, &delivered, sizeof(delivered));
  assert_int_equal(control_counts(pair.sender->control, pair.out, &sent), 0);
  seen = end_wait(pair.receiver, SEEN_COUNTS, pair.in, 0);
  assert_memory_equal(&seen.totals, &sent, sizeof(sent));

  /* Over is not dead: the sender leaves, and nobody complains. */
  end_close(pair.sender);
  end_close(pair.receiver);
  assert_false(log_has("lost"));
  assert_false(log_has("dropped"));
}

/* The last COUNTS goes out even when the sender closes right behind it. */
static void test_counts_then_close(void **state)
{
  (void)state;
  for (int i = 0; i < 20; i++) {
    struct pair pair = pair_new();
    const struct control_totals totals = totals_of(5);
    pair_meet(&pair);
    assert_int_equal(control_finish(pair.sender->control, pair.out, &totals), 0);
    end_wait(pair.receiver, SEEN_FINISH, pair.in, 0);
    assert_int_equal(control_counts(pair.receiver->control, pair.in, &totals), 0);
    end_wait(pair.sender, SEEN_COUNTS, pair.out, 0);
    assert_int_equal(control_counts(pair.sender->control, pair.out, &totals), 0);
    end_close(pair.sender);
    end_wait(pair.receiver, SEEN_COUNTS, pair.in, 0);
    assert_int_equal(end_seen(pair.receiver, SEEN_FAIL, NULL), 0);
    end_close(pair.receiver);
  }
}

static void test_beats_both_ways(void **state)
{
  struct pair pair = pair_new();

  (void)state;
  pair_meet(&pair);
  for (uint32_t i = 0; i < 5; i++) {
    const struct control_totals totals = totals_of(i);
    assert_int_equal(control_beat(pair.sender->control, pair.out, &totals), 0);
    assert_int_equal(control_beat(pair.receiver->control, pair.in, &totals), 0);
    assert_int_equal(end_wait(pair.receiver, SEEN_BEAT, pair.in, i).totals.messages, i);
    assert_int_equal(end_wait(pair.sender, SEEN_BEAT, pair.out, i).totals.messages, i);
  }
  pair_close(&pair);
}

/* Without a word from either session the thread alone keeps both alive. */
static void test_keep_alive(void **state)
{
  struct pair pair = pair_new();

  (void)state;
  for (int i = 0; i < 2; i++) {
    struct end *end = i ? pair.sender : pair.receiver;
    end->params.heartbeat_ns = MS(20);
    end->params.peer_timeout_ns = MS(1000);
  }
  /* A second stream whose sender never comes measures the time. */
  pair.receiver->params.connect_timeout_ns = MS(3000);
  void *other = end_stream(pair.receiver, "other", false, NULL);
  pair_meet(&pair);
  assert_int_equal(end_wait(pair.receiver, SEEN_FAIL, other, 0).code, -ETIMEDOUT);
  assert_int_equal(end_seen(pair.receiver, SEEN_FAIL, pair.in), 0);
  assert_int_equal(end_seen(pair.sender, SEEN_FAIL, pair.out), 0);
  assert_int_equal(end_seen(pair.sender, SEEN_BEAT, NULL), 0);
  pair_close(&pair);
}

static void test_readdress(void **state)
{
  struct pair pair = pair_new();
  struct pst_blob blob = {.struct_size = sizeof(blob), .length = 3, .bytes = (void *)"new"};

  (void)state;
  pair_meet(&pair);
  assert_int_equal(control_readdress(pair.sender->control, pair.out, &blob), 0);
  struct seen seen = end_wait(pair.receiver, SEEN_ADDRESS, pair.in, 0);
  assert_int_equal(seen.address_length, 3);
  assert_memory_equal(seen.address, "new", 3);
  assert_int_equal(control_readdress(pair.receiver->control, pair.in, &blob), 0);
  end_wait(pair.sender, SEEN_ADDRESS, pair.out, 0);
  pair_close(&pair);
}

static void test_readdress_before_the_peer(void **state)
{
  struct pair pair = pair_new();
  struct pst_blob blob = {.struct_size = sizeof(blob), .length = 3, .bytes = (void *)"new"};

  (void)state;
  assert_int_equal(end_listen(pair.receiver), 0);
  assert_int_equal(control_readdress(pair.receiver->control, pair.in, &blob), 0);
  assert_int_equal(end_connect(pair.sender, control_port(pair.receiver->control)), 0);
  assert_memory_equal(end_wait(pair.sender, SEEN_PEER, pair.out, 0).address, "new", 3);
  pair_close(&pair);
}

static void test_terms_mismatch(void **state)
{
  struct pair pair = pair_new();
  struct control_pair extra[2] = {{.key = "message", .value = "4096 B"},
                                  {.key = "seed", .value = "7"}};

  (void)state;
  pair.receiver->streams[0].terms = extra;
  pair.receiver->streams[0].term_count = 2;
  pair_open(&pair);
  struct seen at_sender = end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  struct seen at_receiver = end_wait(pair.receiver, SEEN_FAIL, pair.in, 0);
  assert_int_equal(at_sender.code, -EPROTO);
  assert_int_equal(at_receiver.code, -EPROTO);
  for (int i = 0; i < 2; i++) {
    const char *text = i ? at_sender.text : at_receiver.text;
    assert_non_null(strstr(text, "message: sender 8192 B, receiver 4096 B"));
    assert_non_null(strstr(text, "seed: sender has none, receiver 7"));
  }
  assert_true(log_count("message: sender 8192 B, receiver 4096 B") == 2);
  assert_int_equal(end_seen(pair.sender, SEEN_PEER, NULL), 0);
  pair_close(&pair);
}

/* Another transport of the same wire form, whose table has one option more. */
static void test_terms_of_one_wire_form(void **state)
{
  struct pair pair = pair_new();
  struct control_pair terms[2][4] = {
      {{"wire", "datagram"}, {"transport", "udp"}, {"transport.framing", "rtp"}},
      {{"wire", "datagram"},
       {"transport", "ethernet"},
       {"transport.vlan", "3"},
       {"transport.framing", "rtp"}}};

  (void)state;
  pair.sender->streams[0].terms = terms[0];
  pair.sender->streams[0].term_count = 3;
  pair.receiver->streams[0].terms = terms[1];
  pair.receiver->streams[0].term_count = 4;
  pair_meet(&pair);
  pair_close(&pair);
}

static void expect_terms_refused(struct control_pair *sender, struct control_pair *receiver,
                                 const char *words)
{
  struct pair pair = pair_new();

  pair.sender->streams[0].terms = sender;
  pair.sender->streams[0].term_count = 3;
  pair.receiver->streams[0].terms = receiver;
  pair.receiver->streams[0].term_count = 3;
  pair_open(&pair);
  struct seen seen = end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  assert_int_equal(seen.code, -EPROTO);
  assert_non_null(strstr(seen.text, words));
  seen = end_wait(pair.receiver, SEEN_FAIL, pair.in, 0);
  assert_int_equal(seen.code, -EPROTO);
  assert_non_null(strstr(seen.text, words));
  /* Options of another wire form say nothing. */
  assert_true(strstr(words, "framing") || !strstr(seen.text, "framing"));
  pair_close(&pair);
}

static void test_terms_of_other_wire_forms(void **state)
{
  struct control_pair udp[] = {
      {"wire", "datagram"}, {"transport", "udp"}, {"transport.framing", "rtp"}};
  struct control_pair plain[] = {
      {"wire", "datagram"}, {"transport", "ethernet"}, {"transport.framing", "none"}};
  struct control_pair other[] = {
      {"wire", "other"}, {"transport", "other"}, {"transport.framing", "none"}};
  struct control_pair mute[] = {
      {"mute", "yes"}, {"transport", "udp"}, {"transport.framing", "rtp"}};

  (void)state;
  expect_terms_refused(udp, other, "transport: sender udp (wire form datagram), receiver other");
  expect_terms_refused(udp, plain, "transport.framing: sender rtp, receiver none");
  expect_terms_refused(mute, udp, "transport: sender has none, receiver udp (wire form datagram)");
}

static void test_unknown_stream(void **state)
{
  struct pair pair = pair_new();

  (void)state;
  pair.sender->streams[0].name = "packet";
  pair_open(&pair);
  struct seen seen = end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  assert_int_equal(seen.code, -ENOENT);
  assert_non_null(strstr(seen.text, "did you mean 'packets'"));
  assert_int_equal(end_seen(pair.receiver, SEEN_FAIL, NULL), 0);
  pair_close(&pair);
}

static void test_taken_stream(void **state)
{
  struct pair pair = pair_new();
  struct end *second = end_new();
  const struct control_totals totals = totals_of(1);
  void *out = end_stream(second, "packets", true, "message=8192 B");

  (void)state;
  pair_meet(&pair);
  assert_int_equal(end_connect(second, control_port(pair.receiver->control)), 0);
  struct seen seen = end_wait(second, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -EBUSY);
  char holder[64];
  snprintf(holder, sizeof(holder), "pid %d,", (int)getpid());
  assert_non_null(strstr(seen.text, "taken already"));
  assert_non_null(strstr(seen.text, holder));
  assert_int_equal(control_beat(pair.sender->control, pair.out, &totals), 0);
  end_wait(pair.receiver, SEEN_BEAT, pair.in, 0);
  end_close(second);
  pair_close(&pair);
}

static void test_descriptors(void **state)
{
  struct pair pair = pair_new();
  int there[2];
  int back[2];
  char byte = 0;

  (void)state;
  assert_int_equal(pipe2(there, O_CLOEXEC), 0);
  assert_int_equal(pipe2(back, O_CLOEXEC), 0);
  pair.sender->streams[0].address.fd_count = 2;
  pair.sender->streams[0].address.fds[0] = there[0];
  pair.sender->streams[0].address.fds[1] = there[1];
  pair.receiver->streams[0].address.fd_count = 1;
  pair.receiver->streams[0].address.fds[0] = back[1];
  pair_open(&pair);
  struct seen at_receiver = end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  struct seen at_sender = end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_int_equal(at_receiver.fd_count, 2);
  assert_int_equal(at_sender.fd_count, 1);
  assert_int_equal(write(at_receiver.fds[1], "t", 1), 1);
  assert_int_equal(read(there[0], &byte, 1), 1);
  assert_int_equal(byte, 't');
  assert_int_equal(write(at_sender.fds[0], "b", 1), 1);
  assert_int_equal(read(back[0], &byte, 1), 1);
  assert_int_equal(byte, 'b');

  struct pst_blob blob = {
      .struct_size = sizeof(blob), .length = 1, .bytes = (void *)"n", .fd_count = 4};
  for (int i = 0; i < 4; i++)
    blob.fds[i] = back[1];
  for (uint32_t i = 0; i < 20; i++) {
    assert_int_equal(control_readdress(pair.receiver->control, pair.in, &blob), 0);
    assert_int_equal(end_wait(pair.sender, SEEN_ADDRESS, pair.out, i).fd_count, 4);
  }
  pair_close(&pair);
  for (int i = 0; i < 2; i++) {
    close(there[i]);
    close(back[i]);
  }
}

/* Nothing is left in the file system; the name is in the abstract namespace. */
static void test_descriptors_of_many_streams(void **state)
{
  static char names[STREAMS_MAX][8];
  struct pair pair = {.receiver = end_new(), .sender = end_new()};
  uint32_t before = open_descriptors();

  (void)state;
  for (uint32_t i = 0; i < STREAMS_MAX; i++) {
    snprintf(names[i], sizeof(names[i]), "s%u", i);
    end_stream(pair.receiver, names[i], false, NULL);
    end_stream(pair.sender, names[i], true, NULL);
    for (int k = 0; k < 2; k++) {
      struct pst_blob *address = &(k ? pair.sender : pair.receiver)->streams[i].address;
      address->fd_count = 2;
      address->fds[0] = address->fds[1] = 2;
    }
  }
  pair_open(&pair);
  for (uint32_t i = 0; i < STREAMS_MAX; i++) {
    assert_int_equal(end_wait(pair.receiver, SEEN_PEER, &pair.receiver->streams[i], 0).fd_count, 2);
    assert_int_equal(end_wait(pair.sender, SEEN_PEER, &pair.sender->streams[i], 0).fd_count, 2);
  }
  pair_close(&pair);
  descriptors_wait(before);
}

static void test_fail_reaches_the_other(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct pair pair = pair_new();
    struct end *from = i ? pair.sender : pair.receiver;
    struct end *to = i ? pair.receiver : pair.sender;
    pair_meet(&pair);
    struct control_totals totals = {
        .messages = 7, .drop_count = 1, .drops = {{.cause = "aborted", .messages = 3}}};
    assert_int_equal(control_fail(from->control, i ? pair.out : pair.in, -ENOSPC,
                                  "its disk is full", i ? &totals : NULL),
                     0);
    struct seen seen = end_wait(to, SEEN_FAIL, NULL, 0);
    assert_int_equal(seen.code, -ENOSPC);
    assert_non_null(strstr(seen.text, "its disk is full"));
    assert_non_null(strstr(seen.text, "pid "));
    assert_int_equal(seen.has_totals, i);
    assert_int_equal(seen.totals.messages, i ? 7 : 0);
    assert_int_equal(seen.totals.drop_count, i);
    assert_int_equal(end_seen(from, SEEN_FAIL, NULL), 0);
    pair_close(&pair);
  }
}

static void test_close_midway_reaches_the_other(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct pair pair = pair_new();
    pair_meet(&pair);
    end_close(i ? pair.sender : pair.receiver);
    struct end *left = i ? pair.receiver : pair.sender;
    struct seen seen = end_wait(left, SEEN_FAIL, NULL, 0);
    assert_int_equal(seen.code, -ECONNRESET);
    assert_non_null(strstr(seen.text, "before its end"));
    end_close(left);
  }
}

static void test_no_receiver(void **state)
{
  struct end *sender = end_new();

  (void)state;
  log_clear();
  void *out = end_stream(sender, "packets", true, NULL);
  sender->params.connect_timeout_ns = MS(200);
  assert_int_equal(end_connect(sender, unused_port()), 0);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -ETIMEDOUT);
  assert_non_null(strstr(seen.text, "no receiver took packets at 127.0.0.1:"));
  assert_non_null(strstr(seen.text, "within 0.2 s"));
  assert_non_null(strstr(seen.text, "Connection refused"));
  assert_int_equal(log_count("no receiver took packets"), 1);
  end_close(sender);
}

static void test_no_sender(void **state)
{
  struct pair pair = pair_new();

  (void)state;
  void *missing = end_stream(pair.receiver, "missing", false, NULL);
  pair.receiver->params.connect_timeout_ns = MS(3000); /* in which the others meet */
  pair_meet(&pair);
  struct seen seen = end_wait(pair.receiver, SEEN_FAIL, missing, 0);
  assert_int_equal(seen.code, -ETIMEDOUT);
  assert_non_null(strstr(seen.text, "missing"));
  assert_null(strstr(seen.text, "packets"));
  assert_int_equal(end_seen(pair.receiver, SEEN_FAIL, pair.in), 0);
  pair_close(&pair);
}

static void test_many_senders(void **state)
{
  enum { SENDERS = 50 };
  static char names[SENDERS][8];
  struct end *receiver = end_new();
  struct end *senders[SENDERS];
  const struct control_totals totals = totals_of(7);

  (void)state;
  for (uint32_t i = 0; i < SENDERS; i++) {
    snprintf(names[i], sizeof(names[i]), "s%u", i);
    end_stream(receiver, names[i], false, NULL);
  }
  assert_int_equal(end_listen(receiver), 0);
  for (uint32_t i = 0; i < SENDERS; i++) {
    senders[i] = end_new();
    end_stream(senders[i], names[i], true, NULL);
    assert_int_equal(end_connect(senders[i], control_port(receiver->control)), 0);
  }
  for (uint32_t i = 0; i < SENDERS; i++) {
    end_wait(senders[i], SEEN_PEER, NULL, 0);
    assert_int_equal(control_finish(senders[i]->control, &senders[i]->streams[0], &totals), 0);
  }
  for (uint32_t i = 0; i < SENDERS; i++) {
    end_wait(receiver, SEEN_FINISH, &receiver->streams[i], 0);
    assert_int_equal(control_counts(receiver->control, &receiver->streams[i], &totals), 0);
    end_wait(senders[i], SEEN_COUNTS, NULL, 0);
    assert_int_equal(control_counts(senders[i]->control, &senders[i]->streams[0], &totals), 0);
    end_wait(receiver, SEEN_COUNTS, &receiver->streams[i], 0);
  }
  assert_int_equal(end_seen(receiver, SEEN_FAIL, NULL), 0);
  for (uint32_t i = 0; i < SENDERS; i++)
    end_close(senders[i]);
  end_close(receiver);
}

/* Two processes with a subset each, one listener. */
static void test_subsets(void **state)
{
  struct end *receiver = end_new();
  struct end *first = end_new();
  struct end *second = end_new();

  (void)state;
  void *a = end_stream(receiver, "a", false, NULL);
  void *b = end_stream(receiver, "b", false, NULL);
  void *c = end_stream(receiver, "c", false, NULL);
  end_stream(first, "a", true, NULL);
  end_stream(first, "c", true, NULL);
  end_stream(second, "b", true, NULL);
  assert_int_equal(end_listen(receiver), 0);
  assert_int_equal(end_connect(first, control_port(receiver->control)), 0);
  assert_int_equal(end_connect(second, control_port(receiver->control)), 0);
  end_wait(receiver, SEEN_PEER, a, 0);
  end_wait(receiver, SEEN_PEER, b, 0);
  end_wait(receiver, SEEN_PEER, c, 0);
  end_close(second);
  end_wait(receiver, SEEN_FAIL, b, 0);
  assert_int_equal(end_seen(receiver, SEEN_FAIL, NULL), 1);
  end_close(first);
  end_close(receiver);
}

/* As large as they get: never, and not a time that has wrapped. */
static void test_endless_timeouts(void **state)
{
  struct pair pair = pair_new();
  const struct control_totals totals = totals_of(1);

  (void)state;
  for (int i = 0; i < 2; i++) {
    struct end *end = i ? pair.sender : pair.receiver;
    end->params.connect_timeout_ns = UINT64_MAX;
    end->params.peer_timeout_ns = UINT64_MAX - 1;
  }
  pair_meet(&pair);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(control_beat(pair.sender->control, pair.out, &totals), 0);
    end_wait(pair.receiver, SEEN_BEAT, pair.in, i);
  }
  assert_int_equal(end_seen(pair.receiver, SEEN_FAIL, NULL), 0);
  pair_close(&pair);
}

static void *call_often(void *argument)
{
  struct pair *pair = argument;
  const struct pst_blob blob = {.struct_size = sizeof(blob), .length = 1, .bytes = (void *)"x"};

  for (uint64_t i = 0; i < 200; i++) {
    const struct control_totals totals = totals_of(i);
    control_beat(pair->sender->control, pair->out, &totals);
    control_beat(pair->receiver->control, pair->in, &totals);
    control_readdress(pair->sender->control, pair->out, &blob);
  }
  return NULL;
}

static void test_calls_from_many_threads(void **state)
{
  struct pair pair = pair_new();
  const struct control_totals last = totals_of(77);
  pthread_t threads[4];

  (void)state;
  pair_meet(&pair);
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &pair), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(control_finish(pair.sender->control, pair.out, &last), 0);
  end_wait(pair.receiver, SEEN_FINISH, pair.in, 0);
  /* None of the addresses is lost, whatever came between. */
  assert_int_equal(end_seen(pair.receiver, SEEN_ADDRESS, pair.in), 4 * 200);
  pair_close(&pair);
}

static void test_killed_process(void **state)
{
  uint16_t port = unused_port();
  char address[32];
  char name[64];
  int status;

  (void)state;
  pid_t child = fork();
  if (child == 0) {
    struct end *sender = end_new();
    void *out = end_stream(sender, "a", true, NULL);
    end_connect(sender, port);
    end_wait(sender, SEEN_FAIL, out, 0);
    _exit(1);
  }
  struct end *receiver = end_new();
  void *in = end_stream(receiver, "a", false, NULL);
  snprintf(address, sizeof(address), "127.0.0.1:%u", port);
  receiver->params.listen = address;
  assert_int_equal(end_open(receiver), 0);
  end_wait(receiver, SEEN_PEER, in, 0);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  struct seen seen = end_wait(receiver, SEEN_FAIL, in, 0);
  snprintf(name, sizeof(name), "pid %d,", (int)child);
  assert_int_equal(seen.code, -ECONNRESET);
  assert_non_null(strstr(seen.text, name));
  end_close(receiver);
}

static void test_nothing_stays_open(void **state)
{
  uint32_t before = open_descriptors();

  (void)state;
  for (int i = 0; i < 5; i++) {
    struct pair pair = pair_new();
    pair_meet(&pair);
    pair_close(&pair);
  }
  descriptors_wait(before);
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
      cmocka_unit_test(test_receiver_first),
      TIMED(test_sender_first),
      cmocka_unit_test(test_finish_and_counts),
      cmocka_unit_test(test_counts_then_close),
      cmocka_unit_test(test_beats_both_ways),
      TIMED(test_keep_alive),
      cmocka_unit_test(test_readdress),
      cmocka_unit_test(test_readdress_before_the_peer),
      cmocka_unit_test(test_terms_mismatch),
      cmocka_unit_test(test_terms_of_one_wire_form),
      cmocka_unit_test(test_terms_of_other_wire_forms),
      cmocka_unit_test(test_unknown_stream),
      cmocka_unit_test(test_taken_stream),
      cmocka_unit_test(test_descriptors),
      cmocka_unit_test(test_descriptors_of_many_streams),
      cmocka_unit_test(test_fail_reaches_the_other),
      cmocka_unit_test(test_close_midway_reaches_the_other),
      TIMED(test_no_receiver),
      TIMED(test_no_sender),
      cmocka_unit_test(test_many_senders),
      cmocka_unit_test(test_subsets),
      cmocka_unit_test(test_endless_timeouts),
      cmocka_unit_test(test_calls_from_many_threads),
      cmocka_unit_test(test_killed_process),
      cmocka_unit_test(test_nothing_stays_open),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
