/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours by the kernel: its route and its entry by rtnetlink, and a datagram of our own that
 * makes it ask for the MAC, as any program's datagram does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "neighbour.h"

#define ASK_NS UINT64_C(1000000000) /* while there is no MAC */
#define FRESH_NS                                                                                   \
  UINT64_C(30000000000) /* the kernel is to look after an entry that it does not use */
#define DISCARD_PORT 9  /* RFC 863 */
#define ANSWER_BYTES 8192u
#define USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)

struct eth_kernel {
  int fd;     /* netlink, with news of neighbours */
  int udp_fd; /* what makes the kernel ask */
  uint32_t netdev;
  uint32_t sequence;
  uint8_t address[16];
  uint8_t next_hop[16];
  bool has_mac, has_failed, is_settled; /* settled: reachable, or for ever */
  uint8_t mac[ETH_MAC_BYTES];
  uint64_t due_ns;
  char netdev_name[IF_NAMESIZE];
};

/* A request, with room for the attributes that are used here. */
struct question {
  struct nlmsghdr header;
  union {
    struct rtmsg route;
    struct ndmsg neighbour;
  } body;
  uint8_t attributes[64];
};

/* An answer of the kernel about a route. */
struct route_found {
  int error; /* 0 or -errno */
  int type;  /* RTN_UNICAST... */
  struct eth_route route;
};

__attribute__((format(printf, 2, 3))) static void eth_kernel_say(char why[ETH_WHY_MAX],
                                                                 const char *text, ...)
{
  va_list arguments;

  va_start(arguments, text);
  vsnprintf(why, ETH_WHY_MAX, text, arguments);
  va_end(arguments);
}

static int eth_kernel_family_of(const uint8_t address[16])
{
  return eth_is_v4(address) ? AF_INET : AF_INET6;
}

static const void *eth_kernel_bytes_of(const uint8_t address[16])
{
  return address + (eth_is_v4(address) ? 12 : 0);
}

static const char *eth_kernel_print(const uint8_t address[16], char text[INET6_ADDRSTRLEN])
{
  return inet_ntop(eth_kernel_family_of(address), eth_kernel_bytes_of(address), text,
                   INET6_ADDRSTRLEN);
}

/* ---- Questions and answers ---------------------------------------------------------------- */

static void eth_kernel_begin(struct eth_kernel *kernel, struct question *question, uint16_t type,
                             uint32_t body_bytes)
{
  memset(question, 0, sizeof(*question));
  question->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(body_bytes);
  question->header.nlmsg_type = type;
  question->header.nlmsg_flags = NLM_F_REQUEST;
  question->header.nlmsg_seq = ++kernel->sequence;
}

static void eth_kernel_add(struct question *question, uint16_t type, const void *value,
                           uint32_t length)
{
  struct rtattr *at =
      (struct rtattr *)(void *)((uint8_t *)question + NLMSG_ALIGN(question->header.nlmsg_len));

  at->rta_type = type;
  at->rta_len = (uint16_t)RTA_LENGTH(length);
  memcpy(RTA_DATA(at), value, length);
  question->header.nlmsg_len =
      (uint32_t)(NLMSG_ALIGN(question->header.nlmsg_len) + RTA_ALIGN(at->rta_len));
}

static int eth_kernel_ask(const struct eth_kernel *kernel, const struct question *question)
{
  return send(kernel->fd, question, question->header.nlmsg_len, 0) < 0 ? -errno : 0;
}

static void eth_kernel_take_address(const struct rtattr *at, uint8_t address[16])
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  const uint32_t length = (uint32_t)RTA_PAYLOAD(at);

  if (length == 4) {
    memcpy(address, mapped, 12);
    memcpy(address + 12, RTA_DATA(at), 4);
  } else if (length == 16) {
    memcpy(address, RTA_DATA(at), 16);
  }
}

/* A gateway of another family than the destination's: its family, then its address. */
static void eth_kernel_take_via(const struct rtattr *at, uint8_t address[16])
{
  struct rtvia via;

  if (RTA_PAYLOAD(at) != sizeof(via) + 16)
    return;
  memcpy(&via, RTA_DATA(at), sizeof(via));
  if (via.rtvia_family == AF_INET6)
    memcpy(address, (const uint8_t *)RTA_DATA(at) + sizeof(via), 16);
}

static uint32_t eth_kernel_take_mtu(const struct rtattr *metrics)
{
  const struct rtattr *at = RTA_DATA(metrics);
  int left = (int)RTA_PAYLOAD(metrics);
  uint32_t mtu = 0;

  for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
    if (at->rta_type == RTAX_MTU && RTA_PAYLOAD(at) == sizeof(mtu))
      memcpy(&mtu, RTA_DATA(at), sizeof(mtu));
  return mtu;
}

static void eth_kernel_take_route(const struct nlmsghdr *header, struct route_found *found)
{
  const struct rtmsg *message = NLMSG_DATA(header);
  const struct rtattr *at = RTM_RTA(message);
  int left = (int)RTM_PAYLOAD(header);

  found->error = 0;
  found->type = message->rtm_type;
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    if (at->rta_type == RTA_GATEWAY)
      eth_kernel_take_address(at, found->route.next_hop);
    else if (at->rta_type == RTA_VIA)
      eth_kernel_take_via(at, found->route.next_hop);
    else if (at->rta_type == RTA_PREFSRC)
      eth_kernel_take_address(at, found->route.source);
    else if (at->rta_type == RTA_METRICS && eth_kernel_take_mtu(at))
      found->route.mtu = eth_kernel_take_mtu(at);
  }
}

static void eth_kernel_take_neighbour(struct eth_kernel *kernel, const struct nlmsghdr *header)
{
  const struct ndmsg *message = NLMSG_DATA(header);
  const struct rtattr *mac = NULL;
  int left = (int)(header->nlmsg_len - NLMSG_LENGTH(sizeof(*message)));
  uint8_t address[16] = {0};

  for (const struct rtattr *at =
           (const struct rtattr *)(const void *)((const uint8_t *)message +
                                                 NLMSG_ALIGN(sizeof(*message)));
       RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    if (at->rta_type == NDA_DST)
      eth_kernel_take_address(at, address);
    else if (at->rta_type == NDA_LLADDR)
      mac = at;
  }
  if ((uint32_t)message->ndm_ifindex != kernel->netdev ||
      memcmp(address, kernel->next_hop, 16) != 0 || header->nlmsg_type == RTM_DELNEIGH)
    return; /* what is forgotten is asked for again when it is due */
  kernel->has_failed = message->ndm_state & NUD_FAILED;
  kernel->is_settled = message->ndm_state & (NUD_REACHABLE | NUD_PERMANENT);
  if (message->ndm_state & USABLE && mac && RTA_PAYLOAD(mac) == ETH_MAC_BYTES) {
    memcpy(kernel->mac, RTA_DATA(mac), ETH_MAC_BYTES);
    kernel->has_mac = true;
  }
}

static void eth_kernel_take_error(const struct nlmsghdr *header, struct route_found *found)
{
  struct nlmsgerr error;

  if (header->nlmsg_len < NLMSG_LENGTH(sizeof(error)))
    return;
  memcpy(&error, NLMSG_DATA(header), sizeof(error));
  found->error = error.error;
}

/* All that the kernel has said. `found` NULL: routes and errors are of no interest. */
static void eth_kernel_listen_to(struct eth_kernel *kernel, struct route_found *found)
{
  union {
    struct nlmsghdr header;
    uint8_t bytes[ANSWER_BYTES];
  } answer;
  ssize_t n;

  while ((n = recv(kernel->fd, &answer, sizeof(answer), MSG_DONTWAIT)) > 0 ||
         (n < 0 && errno == ENOBUFS)) {
    uint32_t left = n > 0 ? (uint32_t)n : 0;
    for (struct nlmsghdr *at = &answer.header; NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
      if (at->nlmsg_type == RTM_NEWNEIGH || at->nlmsg_type == RTM_DELNEIGH)
        eth_kernel_take_neighbour(kernel, at);
      else if (!found || at->nlmsg_seq != kernel->sequence)
        continue;
      else if (at->nlmsg_type == RTM_NEWROUTE)
        eth_kernel_take_route(at, found);
      else if (at->nlmsg_type == NLMSG_ERROR)
        eth_kernel_take_error(at, found);
    }
  }
}

/* ---- Routes ------------------------------------------------------------------------------- */

/* With FIB_MATCH the kernel says what stands in its tables: else it takes an IPv4 address that no
 * route leads to for one on the link. */
static void eth_kernel_find_route(struct eth_kernel *kernel, uint32_t flags,
                                  struct route_found *found)
{
  struct question question;
  int rc;

  *found = (struct route_found){.error = -ENETUNREACH};
  memcpy(found->route.next_hop, kernel->address, 16);
  eth_kernel_begin(kernel, &question, RTM_GETROUTE, sizeof(question.body.route));
  question.body.route.rtm_family = (uint8_t)eth_kernel_family_of(kernel->address);
  question.body.route.rtm_dst_len = eth_is_v4(kernel->address) ? 32 : 128;
  question.body.route.rtm_flags = flags;
  eth_kernel_add(&question, RTA_DST, eth_kernel_bytes_of(kernel->address),
                 eth_is_v4(kernel->address) ? 4 : 16);
  eth_kernel_add(&question, RTA_OIF, &kernel->netdev, sizeof(kernel->netdev));
  rc = eth_kernel_ask(kernel, &question);
  if (rc < 0)
    found->error = rc;
  else
    eth_kernel_listen_to(kernel, found);
}

static int eth_kernel_judge_route(const struct eth_kernel *kernel, const struct route_found *found,
                                  char why[ETH_WHY_MAX])
{
  char text[INET6_ADDRSTRLEN];

  eth_kernel_print(kernel->address, text);
  if (found->error) {
    eth_kernel_say(why, "no route to %s by %s: %s; see `ip route get %s oif %s`, and add one", text,
                   kernel->netdev_name, strerror(-found->error), text, kernel->netdev_name);
    return found->error == -EHOSTUNREACH ? -ENETUNREACH : found->error;
  }
  if (found->type == RTN_UNICAST)
    return 0;
  if (found->type == RTN_LOCAL)
    eth_kernel_say(
        why,
        "%s is an address of this host, and no frame for it comes back by %s; put the peer into "
        "another network namespace, or on another host",
        text, kernel->netdev_name);
  else
    eth_kernel_say(why,
                   "the route to %s by %s is not a unicast route; see `ip route get %s oif %s`",
                   text, kernel->netdev_name, text, kernel->netdev_name);
  return -EHOSTUNREACH;
}

static int eth_kernel_look_up(struct eth_kernel *kernel, struct eth_route *route,
                              char why[ETH_WHY_MAX])
{
  struct route_found found;
  int rc;

  eth_kernel_find_route(kernel, RTM_F_FIB_MATCH, &found);
  if (found.error == 0 || found.error == -EINVAL) /* a kernel before 4.13 */
    eth_kernel_find_route(kernel, 0, &found);
  rc = eth_kernel_judge_route(kernel, &found, why);
  if (rc < 0)
    return rc;
  memcpy(kernel->next_hop, found.route.next_hop, 16);
  if (route)
    *route = found.route;
  return 0;
}

/* ---- Life --------------------------------------------------------------------------------- */

int eth_netdev_look(uint32_t netdev, uint8_t mac[ETH_MAC_BYTES], uint32_t *mtu, bool *is_up)
{
  struct ifreq flags = {0}, address = {0}, size = {0};
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int rc = 0;

  if (fd < 0)
    return -errno;
  if (!if_indextoname(netdev, flags.ifr_name))
    rc = -ENODEV;
  memcpy(address.ifr_name, flags.ifr_name, IFNAMSIZ);
  memcpy(size.ifr_name, flags.ifr_name, IFNAMSIZ);
  if (rc == 0 && (ioctl(fd, SIOCGIFFLAGS, &flags) != 0 || ioctl(fd, SIOCGIFHWADDR, &address) != 0 ||
                  ioctl(fd, SIOCGIFMTU, &size) != 0))
    rc = -errno;
  close(fd);
  if (rc == 0 && address.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    rc = -ENODEV;
  if (rc < 0)
    return rc;
  memcpy(mac, address.ifr_hwaddr.sa_data, ETH_MAC_BYTES);
  *mtu = (uint32_t)size.ifr_mtu;
  *is_up = flags.ifr_flags & IFF_UP;
  return 0;
}

static int eth_kernel_open_netlink(void)
{
  const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_NEIGH};
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

  if (fd < 0)
    return -errno;
  if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
    const int rc = -errno;
    close(fd);
    return rc;
  }
  return fd;
}

/* Opens a socket whose datagrams leave by the netdev, and die at the first router. */
static int eth_kernel_open_udp(const struct eth_kernel *kernel)
{
  const bool is_v4 = eth_is_v4(kernel->address);
  const uint32_t netdev = htonl(kernel->netdev);
  const int one = 1, level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
  const int fd =
      socket(eth_kernel_family_of(kernel->address), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  if (fd < 0)
    return -errno;
  if (setsockopt(fd, level, is_v4 ? IP_UNICAST_IF : IPV6_UNICAST_IF, &netdev, sizeof(netdev)) !=
          0 ||
      setsockopt(fd, level, is_v4 ? IP_TTL : IPV6_UNICAST_HOPS, &one, sizeof(one)) != 0) {
    const int rc = -errno;
    close(fd);
    return rc;
  }
  return fd;
}

static int eth_kernel_open_sockets(struct eth_kernel *kernel, char why[ETH_WHY_MAX])
{
  kernel->fd = eth_kernel_open_netlink();
  if (kernel->fd >= 0)
    kernel->udp_fd = eth_kernel_open_udp(kernel);
  if (kernel->fd >= 0 && kernel->udp_fd >= 0)
    return 0;
  const int rc = kernel->fd < 0 ? kernel->fd : kernel->udp_fd;
  eth_kernel_say(why, "no socket to ask the kernel for neighbours: %s; give the peer's MAC instead",
                 strerror(-rc));
  return rc;
}

int eth_kernel_open(uint32_t netdev, const uint8_t address[16], struct eth_route *route,
                    struct eth_kernel **made, char why[ETH_WHY_MAX])
{
  struct eth_kernel *kernel = calloc(1, sizeof(*kernel));
  uint8_t mac[ETH_MAC_BYTES];
  uint32_t mtu = 0;
  bool is_up = false;

  if (!kernel)
    return -ENOMEM;
  kernel->netdev = netdev;
  kernel->fd = kernel->udp_fd = -1;
  memcpy(kernel->address, address, 16);
  int rc = eth_netdev_look(netdev, mac, &mtu, &is_up);
  if (rc < 0)
    eth_kernel_say(why, "there is no Ethernet interface of index %u: %s; see `ip link`", netdev,
                   strerror(-rc));
  else if (!if_indextoname(netdev, kernel->netdev_name) || !is_up)
    eth_kernel_say(why, "%s is down; `ip link set %s up`", kernel->netdev_name,
                   kernel->netdev_name);
  if (rc == 0 && !is_up)
    rc = -ENETDOWN;
  if (rc == 0)
    rc = eth_kernel_open_sockets(kernel, why);
  if (rc == 0)
    rc = eth_kernel_look_up(kernel, route, why);
  if (rc < 0) {
    eth_kernel_close(kernel);
    return rc;
  }
  if (route && !route->mtu)
    route->mtu = mtu;
  *made = kernel;
  return 0;
}

void eth_kernel_close(struct eth_kernel *kernel)
{
  if (!kernel)
    return;
  if (kernel->fd >= 0)
    close(kernel->fd);
  if (kernel->udp_fd >= 0)
    close(kernel->udp_fd);
  free(kernel);
}

/* ---- Asking ------------------------------------------------------------------------------- */

/* The kernel asks for the MAC because it has something to send; what becomes of that does not
 * matter. */
static void eth_kernel_provoke(const struct eth_kernel *kernel)
{
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } to = {.any.sa_family = (sa_family_t)eth_kernel_family_of(kernel->address)};
  char nothing = 0;

  if (eth_is_v4(kernel->address)) {
    memcpy(&to.v4.sin_addr, kernel->address + 12, 4);
    to.v4.sin_port = htons(DISCARD_PORT);
  } else {
    memcpy(&to.v6.sin6_addr, kernel->address, 16);
    to.v6.sin6_port = htons(DISCARD_PORT);
    if (IN6_IS_ADDR_LINKLOCAL(&to.v6.sin6_addr))
      to.v6.sin6_scope_id = kernel->netdev;
  }
  (void)!sendto(kernel->udp_fd, &nothing, 0, 0, &to.any,
                eth_is_v4(kernel->address) ? sizeof(to.v4) : sizeof(to.v6));
}

static void eth_kernel_ask_neighbour(struct eth_kernel *kernel)
{
  struct question question;

  eth_kernel_begin(kernel, &question, RTM_GETNEIGH, sizeof(question.body.neighbour));
  question.body.neighbour.ndm_family = (uint8_t)eth_kernel_family_of(kernel->next_hop);
  question.body.neighbour.ndm_ifindex = (int)kernel->netdev;
  eth_kernel_add(&question, NDA_DST, eth_kernel_bytes_of(kernel->next_hop),
                 eth_is_v4(kernel->next_hop) ? 4 : 16);
  if (eth_kernel_ask(kernel, &question) == 0)
    eth_kernel_listen_to(kernel, NULL);
}

int eth_kernel_step(struct eth_kernel *kernel, uint64_t now_ns, uint8_t mac[ETH_MAC_BYTES],
                    char why[ETH_WHY_MAX])
{
  char text[INET6_ADDRSTRLEN], hop[INET6_ADDRSTRLEN];

  eth_kernel_listen_to(kernel, NULL);
  if (now_ns >= kernel->due_ns) {
    kernel->is_settled = false;
    eth_kernel_ask_neighbour(kernel);
    if (!kernel->is_settled)
      eth_kernel_provoke(kernel);
    eth_kernel_listen_to(kernel, NULL);
    kernel->due_ns = now_ns + (kernel->has_mac ? FRESH_NS : ASK_NS);
  }
  if (kernel->has_mac) {
    memcpy(mac, kernel->mac, ETH_MAC_BYTES);
    return 1;
  }
  if (!kernel->has_failed)
    return 0;
  eth_kernel_print(kernel->address, text);
  eth_kernel_print(kernel->next_hop, hop);
  eth_kernel_say(
      why,
      "%s, the next hop to %s, does not answer on %s; see `ip neigh show dev %s` and `ping -I %s "
      "%s`",
      hop, text, kernel->netdev_name, kernel->netdev_name, kernel->netdev_name, hop);
  return -EHOSTUNREACH;
}

uint64_t eth_kernel_due(const struct eth_kernel *kernel)
{
  return kernel->due_ns;
}

int eth_kernel_fd(const struct eth_kernel *kernel)
{
  return kernel->fd;
}
