/* SPDX-License-Identifier: Apache-2.0 */
/* By rtnetlink: the netdev of a route, and its queueing disciplines. */
#include "qdisc.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct question {
  struct nlmsghdr header;
  union {
    struct rtmsg route;
    struct tcmsg qdisc;
  } body;
  uint8_t attributes[64];
};

/* Search for a queueing discipline, over the kernel's answers. */
struct search {
  uint32_t netdev;
  const char *kind;
  struct udp_qdisc *found;
};

static void udp_qdisc_begin(struct question *question, uint16_t type, uint16_t flags,
                            uint32_t body_bytes)
{
  memset(question, 0, sizeof(*question));
  question->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(body_bytes);
  question->header.nlmsg_type = type;
  question->header.nlmsg_flags = NLM_F_REQUEST | flags;
}

static void udp_qdisc_take_route(struct search *search, const struct nlmsghdr *header)
{
  const struct rtattr *at = RTM_RTA(NLMSG_DATA(header));
  int left = (int)RTM_PAYLOAD(header);

  for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
    if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof(search->netdev))
      memcpy(&search->netdev, RTA_DATA(at), sizeof(search->netdev));
}

static void udp_qdisc_take_etf(struct udp_qdisc *found, const struct rtattr *options)
{
  const struct rtattr *at = RTA_DATA(options);
  int left = (int)RTA_PAYLOAD(options);
  struct tc_etf_qopt etf;

  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    if (at->rta_type != TCA_ETF_PARMS || RTA_PAYLOAD(at) < sizeof(etf))
      continue;
    memcpy(&etf, RTA_DATA(at), sizeof(etf));
    found->clock = etf.clockid;
    found->delta_ns = etf.delta > 0 ? (uint64_t)etf.delta : 0;
  }
}

static void udp_qdisc_take(struct search *search, const struct nlmsghdr *header)
{
  const struct tcmsg *message = NLMSG_DATA(header);
  const struct rtattr *at = TCA_RTA(message), *options = NULL;
  int left = (int)TCA_PAYLOAD(header);
  char kind[UDP_QDISC_NAME_MAX] = "";

  if ((uint32_t)message->tcm_ifindex != search->netdev)
    return;
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    if (at->rta_type == TCA_KIND && RTA_PAYLOAD(at) <= sizeof(kind))
      memcpy(kind, RTA_DATA(at), RTA_PAYLOAD(at));
    else if (at->rta_type == TCA_OPTIONS)
      options = at;
  }
  kind[sizeof(kind) - 1] = '\0';
  if (message->tcm_parent == TC_H_ROOT)
    memcpy(search->found->root, kind, sizeof(kind));
  if (strcmp(kind, search->kind) != 0)
    return;
  search->found->is_there = true;
  if (options && strcmp(kind, "etf") == 0)
    udp_qdisc_take_etf(search->found, options);
}

/* One message. 1: there are more, 0: that was the last, or -errno. */
static int udp_qdisc_take_message(struct search *search, const struct nlmsghdr *header)
{
  struct nlmsgerr error;

  switch (header->nlmsg_type) {
  case RTM_NEWROUTE:
    udp_qdisc_take_route(search, header);
    return 0;
  case RTM_NEWQDISC:
    udp_qdisc_take(search, header);
    return 1;
  case NLMSG_ERROR:
    memcpy(&error, NLMSG_DATA(header), sizeof(error));
    return error.error;
  default:
    return 0;
  }
}

/* The kernel answers within send(), and a dump goes on within recv(): neither waits. */
static int udp_qdisc_ask(int fd, const struct question *question, struct search *search)
{
  union {
    struct nlmsghdr header;
    uint8_t bytes[16384];
  } answer;
  int rc = 1;

  if (send(fd, question, question->header.nlmsg_len, 0) < 0)
    return -errno;
  while (rc == 1) {
    ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (n < 0)
      return -errno;
    uint32_t left = (uint32_t)n;
    for (struct nlmsghdr *at = &answer.header; rc == 1 && NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left))
      rc = udp_qdisc_take_message(search, at);
  }
  return rc;
}

static int udp_qdisc_ask_route(int fd, const union dg_address *peer, struct search *search)
{
  const bool is_v4 = peer->any.sa_family == AF_INET;
  const uint32_t bytes = is_v4 ? 4 : 16;
  struct question question;
  struct rtattr *to;

  if (!is_v4 && peer->v6.sin6_scope_id) {
    search->netdev = peer->v6.sin6_scope_id;
    return 0;
  }
  udp_qdisc_begin(&question, RTM_GETROUTE, 0, sizeof(question.body.route));
  question.body.route.rtm_family = (uint8_t)peer->any.sa_family;
  question.body.route.rtm_dst_len = (uint8_t)(bytes * 8);
  to = (struct rtattr *)(void *)((uint8_t *)&question + NLMSG_ALIGN(question.header.nlmsg_len));
  to->rta_type = RTA_DST;
  to->rta_len = (uint16_t)RTA_LENGTH(bytes);
  memcpy(RTA_DATA(to), is_v4 ? (const void *)&peer->v4.sin_addr : (const void *)&peer->v6.sin6_addr,
         bytes);
  question.header.nlmsg_len =
      (uint32_t)(NLMSG_ALIGN(question.header.nlmsg_len) + RTA_ALIGN(to->rta_len));
  return udp_qdisc_ask(fd, &question, search);
}

static int udp_qdisc_ask_qdiscs(int fd, struct search *search)
{
  struct question question;

  udp_qdisc_begin(&question, RTM_GETQDISC, NLM_F_DUMP, sizeof(question.body.qdisc));
  question.body.qdisc.tcm_family = AF_UNSPEC;
  question.body.qdisc.tcm_ifindex = (int)search->netdev;
  return udp_qdisc_ask(fd, &question, search);
}

int udp_qdisc_find(uint32_t netdev, const union dg_address *peer, const char *kind,
                   struct udp_qdisc *found)
{
  struct udp_qdisc made = {.root = "noqueue"};
  struct search search = {.netdev = netdev, .kind = kind, .found = &made};
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  int rc = 0;

  if (fd < 0)
    return -errno;
  if (!netdev)
    rc = udp_qdisc_ask_route(fd, peer, &search);
  if (rc == 0 && !if_indextoname(search.netdev, made.netdev))
    rc = -ENODEV;
  if (rc == 0)
    rc = udp_qdisc_ask_qdiscs(fd, &search);
  close(fd);
  if (rc == 0)
    *found = made;
  return rc;
}
