/* SPDX-License-Identifier: Apache-2.0 */
/* udp receives from plain sockets: a stream of another program, its errors, senders that start
 * anew, strangers, and multicast on the loopback interface. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "datagram.h"

#define GROUP "239.255.71.9"

static char options[256];
static struct contract_variant variant = {.name = "udp-foreign", .options = options};
static const struct contract_params params = {
    .endpoints = 1, .slots = 64, .message = 512, .requests = 64, .pieces = 1};

/* A port that nobody has, as far as one can know. */
static uint16_t free_port(void)
{
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(any);
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &length), 0);
  close(fd);
  return ntohs(any.sin_port);
}

/* A plain socket that sends to that port of 127.0.0.1, or of the group. */
static int plain_socket(const char *to, uint16_t port)
{
  struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct ip_mreqn lo = {.imr_ifindex = (int)if_nametoindex("lo")};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0 && inet_pton(AF_INET, to, &there.sin_addr) == 1);
  assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof(lo)), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&there, sizeof(there)), 0);
  return fd;
}

static void send_bytes(int fd, const void *bytes, size_t length)
{
  assert_int_equal(send(fd, bytes, length, 0), length);
}

/* A message of framing `sequence`, from its description in the plugin's README. */
static void send_message(int fd, uint32_t sequence, uint32_t length)
{
  uint8_t bytes[8 + 1024];
  uint32_t sum = 0, word = htonl(sequence);
  contract_fill(bytes + 8, length, sequence);
  for (uint32_t i = 0; i < length; i++)
    sum += bytes[8 + i];
  memcpy(bytes, &word, 4);
  word = htonl(sum);
  memcpy(bytes + 4, &word, 4);
  send_bytes(fd, bytes, 8 + length);
}

static uint16_t open_receiver(struct contract_side *side, const char *more)
{
  uint16_t port = free_port();
  memset(side, 0, sizeof(*side));
  snprintf(options, sizeof(options), "port=%u%s", port, more);
  contract_side_open(&variant, &params, false, true, side);
  return port;
}

static uint16_t open_foreign(struct contract_side *side, const char *more)
{
  uint16_t port = open_receiver(side, more);
  assert_int_equal(contract_connect(side, 0, NULL), 0);
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  return port;
}

/* Takes the next message, which has the pattern `seed`. A sender without Penstock has given the low
 * bits of its number. */
static uint64_t expect_message(struct contract_side *side, uint64_t seed, uint32_t length)
{
  struct pst_completion message = contract_await(side, NULL, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.status, 0);
  assert_int_equal(message.u.message.length, length);
  assert_true(contract_verify(contract_payload(side, &message), length, seed));
  contract_release(side, &message);
  return message.u.message.sequence;
}

/* All of `count` datagrams have been read, and no message is left. */
static void expect_read(struct contract_side *side, uint64_t count)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion message;
  while (datagram_counter(side, "datagrams") < count) {
    contract_poll(side);
    contract_in_time(deadline, "datagram %" PRIu64 " to be counted", count);
  }
  contract_poll(side);
  assert_false(contract_take(side, PST_COMPLETION_MESSAGE, 0, &message));
  assert_int_equal(datagram_counter(side, "datagrams"), count);
  datagram_check_counters(side);
}

static void a_plain_socket_is_received(void **state)
{
  (void)state;
  struct contract_side side;
  int fd = plain_socket("127.0.0.1", open_foreign(&side, ",device=127.0.0.1"));
  for (uint32_t i = 0; i < 200; i++) {
    send_message(fd, 5000 + i, i);
    assert_int_equal((uint32_t)expect_message(&side, 5000 + i, i), 5000 + i);
  }
  expect_read(&side, 200);
  close(fd);
  contract_side_close(&side);
}

/* Between good ones, each wrong one is counted by its cause and nothing else happens. */
static void wrong_packets_are_counted_by_cause(void **state)
{
  (void)state;
  struct contract_side side;
  uint8_t bytes[600];
  int fd = plain_socket("127.0.0.1", open_foreign(&side, ",device=127.0.0.1,reorder=16"));
  send_message(fd, 100, 64);
  expect_message(&side, 100, 64);
  for (size_t length = 0; length < 8; length++)
    send_bytes(fd, "\0\0\0\0\0\0\0", length);
  expect_read(&side, 9);
  assert_int_equal(datagram_counter(&side, "bad_header"), 8);
  memset(bytes, 0x11, sizeof(bytes));
  memcpy(bytes, (uint8_t[]){0, 0, 0, 101, 0, 0, 0, 1}, 8);
  send_bytes(fd, bytes, 64);
  expect_read(&side, 10);
  assert_int_equal(datagram_counter(&side, "bad_checksum"), 1);
  send_message(fd, 101, 64);
  expect_message(&side, 101, 64);
  send_message(fd, 102, 513);
  expect_read(&side, 12);
  assert_int_equal(datagram_counter(&side, "too_long"), 1);
  /* One of long ago is a stray. After a silence it waits for a second, and is dropped when none
   * comes. */
  send_message(fd, 3, 64);
  expect_read(&side, 13);
  assert_int_equal(datagram_counter(&side, "held") + datagram_counter(&side, "too_late"), 1);
  send_message(fd, 103, 64);
  assert_int_equal((uint32_t)expect_message(&side, 103, 64), 103);
  expect_read(&side, 14);
  assert_int_equal(datagram_counter(&side, "held"), 0);
  assert_int_equal(datagram_counter(&side, "too_late"), 1);
  assert_non_null(strstr(contract_complaint(), "1 further back than `reorder` (16)"));
  assert_int_equal(datagram_counter(&side, "restarts"), 0);
  assert_int_equal(datagram_counter(&side, "messages_received"), 3);
  close(fd);
  contract_side_close(&side);
}

static void random_packets_harm_nobody(void **state)
{
  (void)state;
  static const char *const framings[] = {",framing=sequence", ",framing=rtp", ",framing=none"};
  for (size_t i = 0; i < 3; i++) {
    struct contract_side side;
    uint64_t bytes[100];
    int fd = plain_socket("127.0.0.1", open_foreign(&side, framings[i]));
    struct pst_completion message;
    for (uint64_t count = 1; count <= 3000; count++) {
      for (size_t k = 0; k < 100; k++)
        bytes[k] = contract_random();
      if (count % 2)
        ((uint8_t *)bytes)[0] = 0x80 | (bytes[1] & 0x3f); /* RTP's version */
      send_bytes(fd, bytes, contract_random() % sizeof(bytes));
      uint64_t deadline = contract_now_ns() + contract_deadline_ns;
      while (datagram_counter(&side, "datagrams") < count) {
        contract_poll(&side);
        contract_in_time(deadline, "datagram %" PRIu64 " to be counted", count);
      }
      while (contract_take(&side, PST_COMPLETION_MESSAGE, 0, &message)) {
        assert_true(message.u.message.length <= params.message);
        contract_payload(&side, &message);
        contract_release(&side, &message);
      }
      datagram_check_counters(&side);
    }
    close(fd);
    contract_complaints();
    contract_side_close(&side);
  }
}

/* Another sender's messages, until it is followed: the one before is silent then. Returns how many
 * were sent; the last two are to be expected. */
static uint32_t send_until_followed(struct contract_side *side, int fd, uint64_t restarts)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t count = 0;
  for (; datagram_counter(side, "restarts") < restarts; count++) {
    uint64_t datagrams = datagram_counter(side, "datagrams");
    send_message(fd, count, 64);
    while (datagram_counter(side, "datagrams") == datagrams) {
      contract_poll(side);
      contract_in_time(deadline, "sender %" PRIu64 " to be followed", restarts);
    }
  }
  return count;
}

/* Same address, another port, numbers from 0 again. Messages that it sends before its predecessor
 * is known to be silent are lost, and counted as lost. */
static void a_sender_that_restarts_goes_on_behind(void **state)
{
  (void)state;
  struct contract_side side;
  uint16_t port = open_foreign(&side, ",device=127.0.0.1");
  uint64_t highest = 0, sent = 0;
  for (uint32_t life = 0; life < 3; life++) {
    int fd = plain_socket("127.0.0.1", port);
    uint32_t first = life ? send_until_followed(&side, fd, life) : 0;
    for (uint32_t i = first; i < first + 10; i++) {
      send_message(fd, i, 64);
      for (uint32_t k = life && i == first ? i - 2 : i; k <= i; k++) {
        uint64_t sequence = expect_message(&side, k, 64);
        assert_true((life == 0 && k == 0) || sequence == highest + 1);
        highest = sequence;
      }
    }
    sent += first + 10;
    close(fd);
    assert_int_equal(datagram_counter(&side, "restarts"), life);
  }
  expect_read(&side, sent);
  assert_int_equal(datagram_counter(&side, "messages_received"), 34);
  assert_int_equal(datagram_counter(&side, "displaced"), sent - 34);
  contract_side_close(&side);
}

/* Between two Penstocks only the named sender counts, whatever others send. */
static void strangers_do_not_get_into_a_pair(void **state)
{
  (void)state;
  struct contract_pair *pair = calloc(1, sizeof(*pair));
  assert_non_null(pair);
  pair->variant = &variant;
  pair->params = params;
  uint16_t port = open_receiver(&pair->receiver, ",device=127.0.0.1");
  snprintf(options, sizeof(options), "device=127.0.0.1");
  contract_side_open(&variant, &params, false, false, &pair->sender);
  contract_pair_connect(pair);
  int fd = plain_socket("127.0.0.1", port);
  for (uint32_t i = 0; i < 300; i++) {
    struct pst_request request = contract_send(&pair->sender, 0, 64, i);
    send_message(fd, i, 64 + i % 9); /* with the very number that comes next */
    contract_fill(pair->sender.memory.region.host, 64, 7000 + i);
    contract_post_one(pair, &request);
    assert_int_equal(expect_message(&pair->receiver, 7000 + i, 64), i);
    contract_await_done(&pair->sender, NULL, PST_OP_SEND, 1, 0);
  }
  expect_read(&pair->receiver, 600);
  assert_int_equal(datagram_counter(&pair->receiver, "not_ours"), 300);
  close(fd);
  contract_pair_close(pair);
}

/* This process's socket that is bound to that port, or connected to it. */
static int socket_with(uint16_t port, int (*name)(int, struct sockaddr *, socklen_t *))
{
  for (int fd = 3; fd < 1024; fd++) {
    struct sockaddr_in address = {0};
    socklen_t length = sizeof(address);
    if (name(fd, (struct sockaddr *)&address, &length) == 0 && address.sin_family == AF_INET &&
        ntohs(address.sin_port) == port)
      return fd;
  }
  fail_msg("no socket has port %u", port);
  return -1;
}

/* Two in a row, of the sender's address and port and with numbers far ahead, those of tags, too;
 * more than there is room for; less than a header; and a payload that is not as its sum says. */
static void forge(struct contract_pair *pair, int fd)
{
  static const size_t lengths[] = {100, 100, 40, 3, 1000, 16, 24};
  bool rtp = pair->receiver.limits.sequence_bits == 16;
  uint8_t bytes[1000] = {[8] = 1, [16] = 1};
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    uint32_t number = htonl(20000 + (uint32_t)i);
    if (rtp) {
      bytes[0] = i % 2 ? 0x90 : 0x80;
      bytes[1] = 96;
      memcpy(bytes + 2, (uint8_t *)&number + 2, 2);
      memcpy(bytes + 12, "PS\0\2", 4);
    } else {
      memcpy(bytes, &number, 4);
    }
    send_bytes(fd, bytes, lengths[i]);
  }
  expect_read(&pair->receiver, datagram_counter(&pair->receiver, "datagrams") + 7);
}

/* Datagrams from the sender's address without the nonce of the handshake are ignored: they are no
 * messages, no drops and no sign of life. */
static void who_lacks_the_nonce_is_ignored(void **state)
{
  (void)state;
  static const char *const framings[] = {"sequence", "rtp", "sequence,authenticate=true",
                                         "rtp,authenticate=true"};
  for (size_t k = 0; k < 4; k++) {
    struct contract_pair *pair = calloc(1, sizeof(*pair));
    char text[64];
    assert_non_null(pair);
    pair->variant = &variant;
    pair->params = params;
    snprintf(text, sizeof(text), ",device=127.0.0.1,framing=%s", framings[k]);
    uint16_t port = open_receiver(&pair->receiver, text);
    snprintf(options, sizeof(options), "device=127.0.0.1,framing=%s", framings[k]);
    contract_side_open(&variant, &params, false, false, &pair->sender);
    contract_pair_connect(pair);
    int fd = socket_with(port, getpeername);
    contract_complaints(); /* of the cases before */
    for (uint32_t i = 0; i < 30; i++) {
      struct pst_request request = contract_send(&pair->sender, 0, 64, i);
      contract_fill(pair->sender.memory.region.host, 64, i);
      contract_post_one(pair, &request);
      assert_int_equal(expect_message(&pair->receiver, i, 64), i);
      contract_await_done(&pair->sender, NULL, PST_OP_SEND, 1, 0);
      forge(pair, fd);
    }
    assert_int_equal(datagram_counter(&pair->receiver, "messages_received"), 30);
    assert_int_equal(datagram_counter(&pair->receiver, k < 2 ? "wrong_nonce" : "unauthentic"), 210);
    assert_int_equal(datagram_counter(&pair->receiver, "heard"), 0);
    assert_int_equal(contract_complaints(), 1);
    contract_pair_close(pair);
  }
}

static void a_group_is_received_on_lo(void **state)
{
  (void)state;
  struct contract_side side;
  uint16_t port = open_foreign(&side, ",device=lo,group=" GROUP);
  int fd = plain_socket(GROUP, port), other = plain_socket("239.255.71.10", port);
  for (uint32_t i = 0; i < 50; i++) {
    send_message(other, 40000 + i, 32); /* nobody here has joined that one */
    send_message(fd, i, 64);
    assert_int_equal((uint32_t)expect_message(&side, i, 64), i);
  }
  expect_read(&side, 50);
  close(fd);
  close(other);
  contract_side_close(&side);
}

/* From a Penstock that was not told who receives. */
static void a_group_is_sent_to_on_lo(void **state)
{
  (void)state;
  struct contract_pair *pair = calloc(1, sizeof(*pair));
  assert_non_null(pair);
  pair->variant = &variant;
  pair->params = params;
  uint16_t port = open_foreign(&pair->receiver, ",device=lo,group=" GROUP);
  snprintf(options, sizeof(options), "device=lo,to=" GROUP ":%u", port);
  contract_side_open(&variant, &params, false, false, &pair->sender);
  assert_int_equal(contract_connect(&pair->sender, 0, NULL), 0);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  for (uint32_t i = 0; i < 50; i++) {
    struct pst_request request = contract_send(&pair->sender, 0, 300, i);
    contract_fill(pair->sender.memory.region.host, 300, i);
    contract_post_one(pair, &request);
    contract_await_done(&pair->sender, NULL, PST_OP_SEND, 1, 0);
    expect_message(&pair->receiver, i, 300);
  }
  expect_read(&pair->receiver, 50);
  contract_pair_close(pair);
}

static bool has_ipv6(void)
{
  struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
  int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool has = fd >= 0 && bind(fd, (struct sockaddr *)&here, sizeof(here)) == 0;
  if (fd >= 0)
    close(fd);
  return has;
}

/* Without a device, a receiver hears what comes to where `control` listens, and no more. */
static void a_receiver_listens_where_control_does(void **state)
{
  (void)state;
  static const struct {
    const char *local, *options, *bound;
  } cases[] = {
      {"127.0.0.5", "", "127.0.0.1"},          {NULL, "", "0.0.0.0"},
      {"127.0.0.5", "", "127.0.0.5"},          {"127.0.0.5", ",device=127.0.0.6", "127.0.0.6"},
      {"127.0.0.5", ",device=any", "0.0.0.0"}, {"::1", "", "127.0.0.1"},
      {"2001:db8::1", "", "0.0.0.0"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct contract_side side;
    struct sockaddr_in here;
    char text[INET_ADDRSTRLEN];
    socklen_t length = sizeof(here);
    variant.local_address = cases[i].local;
    variant.apart = i > 0; /* in one process nobody else is to reach it */
    int fd = socket_with(open_receiver(&side, cases[i].options), getsockname);
    variant.local_address = NULL;
    variant.apart = false;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &length), 0);
    inet_ntop(AF_INET, &here.sin_addr, text, sizeof(text));
    assert_string_equal(text, cases[i].bound);
    contract_side_close(&side);
  }
}

/* A sender is refused when the receiver's address is a loopback address of another host. */
static void a_loopback_listener_of_another_host_is_refused(void **state)
{
  (void)state;
  struct contract_side receiver, sender = {0};
  struct pst_blob blob;
  open_receiver(&receiver, ",device=127.0.0.1");
  options[0] = '\0';
  contract_side_open(&variant, &params, false, false, &sender);
  contract_address(&receiver, 0, &blob);
  assert_int_equal(blob.length, 184);
  ((uint8_t *)blob.bytes)[32] ^= 1; /* of the host's identity */
  contract_complaints();
  assert_int_equal(contract_connect(&sender, 0, &blob), -EHOSTUNREACH);
  assert_int_equal(contract_complaints(), 1);
  assert_non_null(strstr(contract_complaint(), "`device`"));
  ((uint8_t *)blob.bytes)[32] ^= 1;
  assert_int_equal(contract_connect(&sender, 0, &blob), 0);
  contract_await(&sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_side_close(&sender);
  contract_side_close(&receiver);
}

/* So is a `to` that the receiver is not bound to. */
static void a_sender_to_another_address_is_refused(void **state)
{
  (void)state;
  static const struct {
    const char *device, *to;
    int rc;
  } cases[] = {{",device=127.0.0.1", "127.0.0.2", -EHOSTUNREACH},
               {",device=127.0.0.1", GROUP, -EHOSTUNREACH},
               {",device=127.0.0.1", "127.0.0.1", 0},
               {",device=any", "127.0.0.2", 0}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct contract_side receiver, sender = {0};
    struct pst_blob blob;
    open_receiver(&receiver, cases[i].device);
    snprintf(options, sizeof(options), "to=%s", cases[i].to);
    contract_side_open(&variant, &params, false, false, &sender);
    contract_address(&receiver, 0, &blob);
    contract_complaints();
    assert_int_equal(contract_connect(&sender, 0, &blob), cases[i].rc);
    assert_int_equal(contract_complaints(), cases[i].rc ? 1 : 0);
    if (cases[i].rc)
      assert_non_null(strstr(contract_complaint(), "leave `to` out"));
    contract_side_close(&sender);
    contract_side_close(&receiver);
  }
}

/* IPV6_MULTICAST_ALL alone lets in what others of this host have joined elsewhere. */
static void a_group_of_ipv6_keeps_to_its_device(void **state)
{
  (void)state;
  struct contract_side side;
  int value = 0;
  socklen_t length = sizeof(value);
  if (!has_ipv6())
    skip();
  uint16_t port = open_foreign(&side, ",device=lo,family=ipv6,group=ff15::7109");
  struct sockaddr_in6 here = {0};
  int fd = 3;
  for (socklen_t size = sizeof(here); fd < 1024; fd++, size = sizeof(here))
    if (getsockname(fd, (struct sockaddr *)&here, &size) == 0 && here.sin6_family == AF_INET6 &&
        ntohs(here.sin6_port) == port)
      break;
  assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &value, &length), 0);
  assert_int_equal(value, if_nametoindex("lo"));
  contract_side_close(&side);
}

/* The kernel has taken it, or the log says what it takes. */
static void busy_poll_is_set_or_its_refusal_reported(void **state)
{
  (void)state;
  struct contract_side side;
  int value = 0, prefers = 0;
  socklen_t length = sizeof(value);
  contract_complaints(); /* of useless datagrams, in the cases before */
  uint16_t port = open_foreign(&side, ",device=127.0.0.1,busy_poll=50us");
  int own = socket_with(port, getsockname);
  assert_int_equal(getsockopt(own, SOL_SOCKET, SO_BUSY_POLL, &value, &length), 0);
  assert_int_equal(getsockopt(own, SOL_SOCKET, SO_PREFER_BUSY_POLL, &prefers, &length), 0);
  if (value == 50 && prefers)
    assert_int_equal(contract_complaints(), 0);
  else
    assert_int_equal(contract_complaints(), 1);
  int fd = plain_socket("127.0.0.1", port);
  for (uint32_t i = 0; i < 20; i++) {
    send_message(fd, i, 64);
    assert_int_equal((uint32_t)expect_message(&side, i, 64), i);
  }
  close(fd);
  contract_side_close(&side);
}

static int64_t clock_ns(clockid_t id)
{
  struct timespec now;

  clock_gettime(id, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* By how much the wall clock has been set since the offset was taken, and a little more. */
static int64_t set_by(int64_t offset)
{
  int64_t moved = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) - offset;

  return moved < 0 ? -moved : moved;
}

/* Arrivals have the kernel's time: not before they were sent, not after they were taken. */
static void stamps_lie_between_sending_and_taking(void **state)
{
  (void)state;
  struct contract_side side;
  int fd = plain_socket("127.0.0.1", open_foreign(&side, ",device=127.0.0.1,gro=false"));
  int64_t offset = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC), last = 0;
  for (uint32_t i = 0; i < 50; i++) {
    int64_t before = clock_ns(CLOCK_REALTIME);
    send_message(fd, i, 64);
    struct pst_completion message = contract_await(&side, NULL, PST_COMPLETION_MESSAGE, 0);
    int64_t after = clock_ns(CLOCK_REALTIME), at = (int64_t)message.u.message.time_ns;
    int64_t slack = set_by(offset);
    assert_true(message.flags & PST_HAS_TIME);
    assert_true(at >= before - slack);
    assert_true(at <= after + slack);
    assert_true(at > last - slack);
    last = at;
    contract_release(&side, &message);
  }
  close(fd);
  contract_side_close(&side);
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(a_plain_socket_is_received),
      CONTRACT_CASE(wrong_packets_are_counted_by_cause),
      CONTRACT_CASE(random_packets_harm_nobody),
      CONTRACT_CASE(a_sender_that_restarts_goes_on_behind),
      CONTRACT_CASE(strangers_do_not_get_into_a_pair),
      CONTRACT_CASE(who_lacks_the_nonce_is_ignored),
      CONTRACT_CASE(a_group_is_received_on_lo),
      CONTRACT_CASE(a_group_is_sent_to_on_lo),
      CONTRACT_CASE(a_receiver_listens_where_control_does),
      CONTRACT_CASE(a_loopback_listener_of_another_host_is_refused),
      CONTRACT_CASE(a_sender_to_another_address_is_refused),
      CONTRACT_CASE(a_group_of_ipv6_keeps_to_its_device),
      CONTRACT_CASE(busy_poll_is_set_or_its_refusal_reported),
      CONTRACT_CASE(stamps_lie_between_sending_and_taking),
  };
  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  return CONTRACT_RUN("udp with plain sockets", cases, &variant) ? 1 : 0;
}
