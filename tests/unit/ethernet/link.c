/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of ethernet: link. */
#include "link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int spaces[2];

uint64_t link_now(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void link_enter(int side)
{
  assert_int_equal(setns(spaces[side], CLONE_NEWNET), 0);
}

void link_run(int side, const char *format, ...)
{
  char command[300];
  va_list arguments;

  va_start(arguments, format);
  vsnprintf(command, sizeof(command), format, arguments);
  va_end(arguments);
  link_enter(side);
  if (system(command) != 0)
    fail_msg("%s: failed", command);
}

static bool write_file(const char *path, const char *text)
{
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

  if (fd >= 0)
    close(fd);
  return done;
}

/* An ordinary user becomes root of a user namespace of its own. */
static bool become_able(void)
{
  char map[32];
  const unsigned user = (unsigned)geteuid();

  if (unshare(CLONE_NEWNET) == 0)
    return true;
  snprintf(map, sizeof(map), "0 %u 1", user);
  return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_file("/proc/self/uid_map", map);
}

static void join(void)
{
  link_run(LINK_A, "ip link add va0 mtu 9000 address 02:00:00:00:00:0a type veth peer name vb0 "
                   "mtu 9000 address 02:00:00:00:00:0b");
  link_run(LINK_A, "ip link set vb0 netns /proc/%d/fd/%d", (int)getpid(), spaces[LINK_B]);
  for (int side = 0; side < 2; side++) {
    const char *name = side ? "vb0" : "va0";
    link_run(side, "ip link set lo up");
    link_run(side, "ip addr add %s/24 dev %s", side ? LINK_V4_B : LINK_V4_A, name);
    link_run(side, "ip addr add %s/64 dev %s nodad", side ? LINK_V6_B : LINK_V6_A, name);
    link_run(side, "ip link set %s up", name);
    /* Neighbours that do not answer fail in 150 ms, and may move at once. */
    link_run(side, "ip ntable change name arp_cache dev %s retrans 50 locktime 0", name);
    link_run(side, "ip ntable change name ndisc_cache dev %s retrans 50", name);
  }
}

const char *link_open(void)
{
  if (system("ip -V >/dev/null 2>&1") != 0)
    return "`ip` is not installed (iproute2)";
  if (!become_able())
    return "no network namespaces for this user";
  spaces[LINK_B] = open("/proc/self/ns/net", O_RDONLY);
  if (unshare(CLONE_NEWNET) != 0)
    return "no second network namespace";
  spaces[LINK_A] = open("/proc/self/ns/net", O_RDONLY);
  if (system("ip link add vx0 type veth peer name vx1 2>/dev/null && ip link del vx0") != 0)
    return "this kernel makes no veth";
  join();
  return NULL;
}

uint32_t link_netdev(int side)
{
  link_enter(side);
  return if_nametoindex(side ? "vb0" : "va0");
}

int link_raw(int side)
{
  struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                .sll_protocol = htons(ETH_P_ALL),
                                .sll_ifindex = (int)link_netdev(side)};
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));

  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  return fd;
}

int link_udp(int side, int family, uint16_t port)
{
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  const int one = 1;
  int fd;

  link_enter(side);
  fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  if (family == AF_INET6)
    assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), 0);
  assert_int_equal(bind(fd, family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
                        family == AF_INET ? sizeof(v4) : sizeof(v6)),
                   0);
  return fd;
}

uint32_t link_frame(int fd, uint8_t *bytes, uint32_t room, int timeout_ms)
{
  const uint64_t end = link_now() + (uint64_t)timeout_ms * MS;
  struct pollfd waits = {.fd = fd, .events = POLLIN};

  for (uint64_t now = link_now(); now < end; now = link_now()) {
    struct sockaddr_ll from;
    socklen_t length = sizeof(from);
    if (poll(&waits, 1, (int)((end - now) / MS) + 1) != 1)
      break;
    const ssize_t n = recvfrom(fd, bytes, room, 0, (struct sockaddr *)&from, &length);
    if (n > 0 && from.sll_pkttype != PACKET_OUTGOING)
      return (uint32_t)n;
  }
  return 0;
}
