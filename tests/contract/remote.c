/* SPDX-License-Identifier: Apache-2.0 */
/* The two-process part of the transport contract, with the other process wherever it
 * is: addresses and barriers go over one socket. */
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"
#include "program.h"

static struct {
  int socket;
  bool receives_first;
  uint64_t messages; /* of a stream */
} remote;

static struct contract_params params = {
    .endpoints = 1, .slots = 32, .message = 8192, .requests = 64, .pieces = 1};

static int listen_and_accept(int family, const struct sockaddr *address, socklen_t length)
{
  int on = 1, taken = -1;
  int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0)
    return -1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener, address, length) == 0 && listen(listener, 1) == 0)
    taken = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  close(listener);
  return taken;
}

/* Either side may start first. */
static int connect_until(int family, const struct sockaddr *address, socklen_t length)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  do {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, address, length) == 0)
      return fd;
    close(fd);
    usleep(20000);
  } while (contract_now_ns() < deadline);
  return -1;
}

static int meet_at(int family, const struct sockaddr *address, socklen_t length, bool listens)
{
  return listens ? listen_and_accept(family, address, length)
                 : connect_until(family, address, length);
}

static int open_socket(const char *address, bool listens)
{
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  char host[256];
  const char *colon = strrchr(address, ':');
  if (address[0] == '/') {
    if (strlen(address) >= sizeof(local.sun_path))
      return -1;
    strcpy(local.sun_path, address);
    int fd = meet_at(AF_UNIX, (struct sockaddr *)&local, sizeof(local), listens);
    if (listens)
      unlink(address);
    return fd;
  }
  if (!colon || (size_t)(colon - address) >= sizeof(host))
    return -1;
  snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
    return -1;
  int fd = meet_at(found->ai_family, found->ai_addr, found->ai_addrlen, listens);
  freeaddrinfo(found);
  return fd;
}

/* Both sides are so far, and neither has failed. */
static bool barrier(void)
{
  uint8_t mine = 'y', other = 0;
  return send(remote.socket, &mine, 1, MSG_NOSIGNAL) == 1 &&
         recv(remote.socket, &other, 1, MSG_WAITALL) == 1 && other == mine;
}

static void same_plugin_and_count_on_both_sides(void **state)
{
  contract_rule("Open the device that the options name. Device thread; may block.");
  struct contract_image image;
  char mine[64] = "", other[64];
  contract_image_open(*state, false, &image);
  snprintf(mine, sizeof(mine), "penstock-contract 2 %s, %" PRIu64 " messages",
           image.plugin->described->description->name, remote.messages);
  assert_int_equal(send(remote.socket, mine, sizeof(mine), MSG_NOSIGNAL), sizeof(mine));
  assert_int_equal(recv(remote.socket, other, sizeof(other), MSG_WAITALL), sizeof(other));
  other[sizeof(other) - 1] = '\0';
  assert_string_equal(other, mine);
  struct contract_side side = {0};
  contract_side_open(*state, &params, false, false, &side);
  if (params.message > side.limits.message_max)
    params.message = side.limits.message_max;
  contract_side_close(&side);
}

static void open_and_meet(void **state, bool receives, struct contract_side *side)
{
  struct pst_blob blob;
  contract_side_open(*state, &params, false, receives, side);
  contract_address(side, 0, &blob);
  if (blob.fd_count) {
    int family = 0;
    socklen_t length = sizeof(family);
    getsockopt(remote.socket, SOL_SOCKET, SO_DOMAIN, &family, &length);
    if (family != AF_UNIX)
      fail_msg("it passes descriptors, which only go to a process of this host: "
               "--listen /PATH and --connect /PATH");
  }
  assert_true(barrier());
  assert_true(contract_meet(side, remote.socket));
}

static void stream(void **state, bool receives)
{
  contract_rule("an accepted SEND arrives once, or the endpoint fails");
  const uint64_t count = remote.messages;
  struct contract_side side = {0};
  struct contract_account account = {.message = params.message};
  open_and_meet(state, receives, &side);
  if (receives)
    contract_receive_until(&side, count, &account);
  else
    contract_send_until(&side, count, &account);
  assert_int_equal(receives ? account.delivered : account.done, count);
  assert_int_equal(account.wrong, 0);
  assert_true(barrier());
  contract_side_close(&side);
}

static void stream_to_the_listener(void **state)
{
  stream(state, remote.receives_first);
}

static void stream_from_the_listener(void **state)
{
  stream(state, !remote.receives_first);
}

/* All messages come before the departure, which is an orderly one. */
static void departure_is_reported(void **state)
{
  contract_rule(
      "DISCONNECTED follows every MESSAGE that arrived whole. Its status is 0 where the peer drained and closed");
  const uint64_t count = 500;
  struct contract_side side = {0};
  struct contract_account account = {.message = params.message};
  open_and_meet(state, remote.receives_first, &side);
  if (remote.receives_first) {
    contract_receive_until(&side, UINT64_MAX, &account);
    assert_true(account.gone);
    assert_int_equal(account.status, 0);
    assert_int_equal(account.delivered, count);
    assert_int_equal(account.wrong, 0);
  } else {
    contract_send_until(&side, count, &account);
    assert_int_equal(side.image.ops->endpoint_close(side.endpoints[0], PST_CLOSE_DRAIN,
                                                    contract_now_ns() + contract_deadline_ns),
                     0);
    contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  }
  assert_true(barrier());
  contract_side_close(&side);
}

/* ---- One-sided: who listens is reached by who connects ------------------------------------------
 */

/* As barrier(), and this side's transport is polled meanwhile. */
static bool barrier_polling(struct contract_side *side)
{
  const uint64_t deadline = contract_now_ns() + 3 * contract_deadline_ns;
  uint8_t mine = 'y', other = 0;
  ssize_t n = -1;
  if (send(remote.socket, &mine, 1, MSG_NOSIGNAL) != 1)
    return false;
  while (n < 0 && contract_now_ns() < deadline) {
    contract_poll(side);
    n = recv(remote.socket, &other, 1, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN)
      return false;
  }
  return n == 1 && other == mine;
}

struct reach {
  struct contract_side side;
  struct pst_remote *remote; /* NULL: it is reached */
  uint64_t part;             /* a fourth of what both have */
};

static uint8_t *part_of(const struct reach *reach, uint32_t number)
{
  return (uint8_t *)reach->side.memory.region.host + number * reach->part;
}

/* With the peer's memory in reach; `prepare` is done to who is reached before. */
static void reach_open(void **state, struct reach *reach, void (*prepare)(struct reach *))
{
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  struct contract_side *side = &reach->side;
  contract_need(state, PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC);
  *reach = (struct reach){.part = params.slots * params.message / 4};
  params.roles_more = PST_ROLE_RMA;
  open_and_meet(state, remote.receives_first, side);
  params.roles_more = 0;
  memset(side->memory.region.host, 0, 4 * reach->part);
  if (remote.receives_first) {
    prepare(reach);
    assert_int_equal(side->image.ops->mr_pack(side->device, side->mr, &blob), 0);
    assert_true(contract_swap_out(remote.socket, &blob));
    return;
  }
  assert_true(contract_swap_in(remote.socket, &blob, bytes, sizeof(bytes)));
  assert_int_equal(side->image.ops->remote_open(side->endpoints[0], &blob, &reach->remote), 0);
  for (uint32_t i = 0; i < blob.fd_count; i++)
    close(blob.fds[i]);
}

static void reach_close(struct reach *reach)
{
  assert_true(barrier_polling(&reach->side));
  if (reach->remote)
    reach->side.image.ops->remote_close(reach->side.endpoints[0], reach->remote);
  contract_side_close(&reach->side);
}

static struct pst_request move(const struct reach *reach, uint8_t opcode, uint32_t near,
                               uint32_t far)
{
  return (struct pst_request){.opcode = opcode,
                              .local.mr = reach->side.mr,
                              .offset = near * reach->part,
                              .arg.length = reach->part,
                              .u.rma = {.remote = reach->remote, .offset = far * reach->part}};
}

/* By one call, and done. */
static void run_all(struct reach *reach, const struct pst_request *requests, uint32_t n)
{
  struct contract_side *side = &reach->side;
  uint32_t wait;
  assert_int_equal(contract_post(side, 0, requests, n, &wait), n);
  for (uint32_t i = 0; i < n; i++)
    contract_await_done(side, NULL, requests[i].opcode, 1, 0);
}

static struct pst_request flush_of(const struct reach *reach)
{
  return (struct pst_request){.opcode = PST_OP_FLUSH, .u.rma.remote = reach->remote};
}

static void fill_part_2(struct reach *reach)
{
  contract_fill(part_of(reach, 2), reach->part, 2);
}

static void bytes_are_written_and_read(void **state)
{
  contract_rule("FLUSH everything posted before it is placed at the peer");
  struct reach reach;
  reach_open(state, &reach, fill_part_2);
  if (reach.remote) {
    contract_fill(part_of(&reach, 1), reach.part, 1);
    const struct pst_request requests[] = {move(&reach, PST_OP_WRITE, 1, 1),
                                           move(&reach, PST_OP_READ, 3, 2), flush_of(&reach)};
    run_all(&reach, requests, 3);
    contract_bytes_are(part_of(&reach, 3), reach.part, 2);
  }
  assert_true(barrier_polling(&reach.side));
  if (!reach.remote)
    contract_bytes_are(part_of(&reach, 1), reach.part, 1);
  assert_int_equal(part_of(&reach, 0)[reach.part - 1], 0);
  reach_close(&reach);
}

/* A WRITE sends the bytes that the READ before it brings. The FLUSH is a READ with some transports,
 * for which soft-RoCE would have a fenced WRITE wait that it sends again. */
static void fence_waits_for_what_is_read(void **state)
{
  contract_rule("Start only when all earlier READs and atomics of this endpoint are done");
  struct reach reach;
  reach_open(state, &reach, fill_part_2);
  for (uint32_t round = 0; round < 8 && reach.remote; round++) {
    memset(part_of(&reach, 1), 0, reach.part);
    struct pst_request requests[] = {move(&reach, PST_OP_READ, 1, round % 2 ? 3 : 2),
                                     move(&reach, PST_OP_WRITE, 1, round % 2 ? 2 : 3)};
    const struct pst_request flush = flush_of(&reach);
    requests[1].flags = PST_REQUEST_FENCE;
    run_all(&reach, requests, 2);
    run_all(&reach, &flush, 1);
    contract_bytes_are(part_of(&reach, 1), reach.part, 2);
  }
  assert_true(barrier_polling(&reach.side));
  for (uint32_t part = 2; part < 4 && !reach.remote; part++)
    contract_bytes_are(part_of(&reach, part), reach.part, 2);
  reach_close(&reach);
}

static void set_word(struct reach *reach)
{
  *(uint64_t *)(void *)part_of(reach, 3) = 40;
}

static void atomics_change_a_word(void **state)
{
  contract_rule("Atomics put the peer's old 8 bytes there");
  static const struct {
    uint8_t opcode;
    uint64_t compare, operand, found;
  } steps[] = {{PST_OP_FETCH_ADD, 0, 2, 40},
               {PST_OP_COMPARE_SWAP, 41, 9, 42},
               {PST_OP_COMPARE_SWAP, 42, 7, 42},
               {PST_OP_FETCH_ADD, 0, UINT64_MAX, 7}};
  struct reach reach;
  reach_open(state, &reach, set_word);
  for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && reach.remote; i++) {
    struct pst_request request = move(&reach, steps[i].opcode, 1, 3);
    request.arg.compare = steps[i].compare;
    request.u.atomic.operand = steps[i].operand;
    run_all(&reach, &request, 1);
    assert_int_equal(*(uint64_t *)(void *)part_of(&reach, 1), steps[i].found);
  }
  assert_true(barrier_polling(&reach.side));
  if (!reach.remote)
    assert_int_equal(*(uint64_t *)(void *)part_of(&reach, 3), 6);
  reach_close(&reach);
}

int contract_remote_run(const struct contract_variant *variant, const char *address, bool listens,
                        uint64_t messages)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(same_plugin_and_count_on_both_sides),
      CONTRACT_CASE(stream_to_the_listener),
      CONTRACT_CASE(stream_from_the_listener),
      CONTRACT_CASE(departure_is_reported),
      CONTRACT_CASE(bytes_are_written_and_read),
      CONTRACT_CASE(fence_waits_for_what_is_read),
      CONTRACT_CASE(atomics_change_a_word),
  };
  /* The other's machine may stand still, and what this side has done it may still have to do. */
  struct timeval patience = {.tv_sec = 3 * contract_deadline_ns / 1000000000u};
  int failed = 0;
  remote.receives_first = listens;
  remote.messages = messages;
  remote.socket = open_socket(address, listens);
  if (remote.socket < 0) {
    fprintf(stderr, "penstock-contract: nobody met at %s: %s\n", address, strerror(errno));
    return 1;
  }
  setsockopt(remote.socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  /* One by one: after a failure the other side is to see the connection end. */
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && failed == 0; i++)
    failed += contract_run("two processes", &cases[i], 1, variant);
  close(remote.socket);
  return failed;
}
