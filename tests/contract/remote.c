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
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
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

static void same_plugin_on_both_sides(void **state)
{
  struct contract_image image;
  char mine[64] = "", other[64];
  contract_image_open(*state, false, &image);
  snprintf(mine, sizeof(mine), "penstock-contract 1 %s", image.plugin->description->name);
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
  const uint64_t count = 5000;
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

static void stream_to_who_listens(void **state)
{
  stream(state, remote.receives_first);
}

static void stream_from_who_listens(void **state)
{
  stream(state, !remote.receives_first);
}

/* All messages come before the departure, which is an orderly one. */
static void departure_is_told(void **state)
{
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
                                                    contract_now_ns() + CONTRACT_DEADLINE_NS),
                     0);
    contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  }
  assert_true(barrier());
  contract_side_close(&side);
}

int contract_remote_run(const struct contract_variant *variant, const char *address, bool listens)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(same_plugin_on_both_sides),
      CONTRACT_CASE(stream_to_who_listens),
      CONTRACT_CASE(stream_from_who_listens),
      CONTRACT_CASE(departure_is_told),
  };
  /* The other's machine may stand still, and what this side has done it may still have to do. */
  struct timeval patience = {.tv_sec = 3 * CONTRACT_DEADLINE_NS / 1000000000u};
  int failed = 0;
  remote.receives_first = listens;
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
