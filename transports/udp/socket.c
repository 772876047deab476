/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's socket: made, bound, joined to groups; its buffers, errors and drops. */
#include <time.h> /* before errqueue.h, which lacks it */

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <unistd.h>

#include "address.h"
#include "endpoint.h"
#include "receive.h"
#include "send.h"
#include "socket.h"

static int udp_socket_fail(const struct pst_endpoint *endpoint, const char *what,
                           const char *remedy)
{
  int rc = -errno;

  return UDP_REFUSE(endpoint, rc, "%s: %s%s", what, strerror(-rc), remedy);
}

static int udp_socket_set(const struct pst_endpoint *endpoint, int level, int name, int value)
{
  return setsockopt(endpoint->fd, level, name, &value, sizeof(value));
}

long udp_sysctl(const char *path)
{
  long value = -1;
  FILE *file = fopen(path, "re");

  if (!file)
    return -1;
  if (fscanf(file, "%ld", &value) != 1)
    value = -1;
  fclose(file);
  return value;
}

/* The kernel doubles what it is asked for and tells the double. */
uint64_t udp_socket_buffer(const struct pst_endpoint *endpoint, int name)
{
  int value = 0;
  socklen_t length = sizeof(value);

  getsockopt(endpoint->fd, SOL_SOCKET, name, &value, &length);
  return (uint64_t)value / 2;
}

/* A size from the file that the kernel does not grant is a warning; the default's is not, since
 * drops, which it leads to, are reported when there are any. */
static void udp_socket_buffer_set(struct pst_endpoint *endpoint, bool receives, uint64_t bytes,
                                  bool is_requested)
{
  const char *key = receives ? "net.core.rmem_max" : "net.core.wmem_max";
  int name = receives ? SO_RCVBUF : SO_SNDBUF, value = (int)bytes;

  if (bytes == 0 || setsockopt(endpoint->fd, SOL_SOCKET, receives ? SO_RCVBUFFORCE : SO_SNDBUFFORCE,
                               &value, sizeof(value)) == 0)
    return;
  udp_socket_set(endpoint, SOL_SOCKET, name, value);
  uint64_t got = udp_socket_buffer(endpoint, name);
  if (got >= bytes)
    return;
  long most = udp_sysctl(receives ? "/proc/sys/net/core/rmem_max" : "/proc/sys/net/core/wmem_max");
  char remedy[96];

  snprintf(remedy, sizeof(remedy),
           most < 0 ? "set outside this network namespace" : "%ld: sysctl -w %s=%lu", most, key,
           bytes);
  UDP_TELL(endpoint, is_requested ? PST_LOG_WARN : PST_LOG_INFO,
           "the kernel gives %s %lu bytes of the %lu asked for, since %s is %s",
           receives ? "rcvbuf" : "sndbuf", got, bytes, key, remedy);
}

/* Binds the socket to its device. Else it also gets groups that other programs of this host have
 * joined on other interfaces: IPV6_MULTICAST_ALL does not look at the interface, as
 * IP_MULTICAST_ALL does. */
static void udp_socket_keep_to_device(struct pst_endpoint *endpoint)
{
  char name[IF_NAMESIZE] = "";

  if (endpoint->dg.family != AF_INET6 || !endpoint->dg.netdev ||
      udp_socket_set(endpoint, SOL_SOCKET, SO_BINDTOIFINDEX, (int)endpoint->dg.netdev) == 0)
    return;
  int error = errno;
  if_indextoname(endpoint->dg.netdev, name);
  UDP_TELL(
      endpoint, PST_LOG_WARN,
      "the socket cannot be bound to %s: %s; it also gets datagrams of the group that other "
      "programs of this host receive on other interfaces. Binding needs Linux 5.7, or CAP_NET_RAW",
      name, strerror(error));
}

static int udp_socket_join_group(struct pst_endpoint *endpoint)
{
  bool v4 = endpoint->dg.family == AF_INET, is_any = endpoint->dg.source.any.sa_family == AF_UNSPEC;
  int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  /* A struct group_req is its beginning. */
  struct group_source_req join = {.gsr_interface = endpoint->dg.netdev};

  memcpy(&join.gsr_group, &endpoint->dg.group, sizeof(endpoint->dg.group));
  memcpy(&join.gsr_source, &endpoint->dg.source, sizeof(endpoint->dg.source));
  /* Groups that others on this host have joined are not this socket's. */
  if (setsockopt(endpoint->fd, level, is_any ? MCAST_JOIN_GROUP : MCAST_JOIN_SOURCE_GROUP, &join,
                 is_any ? sizeof(struct group_req) : sizeof(join)) == 0 &&
      udp_socket_set(endpoint, level, v4 ? IP_MULTICAST_ALL : IPV6_MULTICAST_ALL, 0) == 0)
    return 0;
  return udp_socket_fail(endpoint, "the multicast group cannot be joined",
                         errno == ENOBUFS
                             ? "; raise net.ipv4.igmp_max_memberships"
                             : "; name the interface with `device`, and check that it is up "
                               "and does multicast");
}
_Static_assert(offsetof(struct group_source_req, gsr_group) == offsetof(struct group_req, gr_group),
               "laid out alike");

static int udp_socket_stamp(struct pst_endpoint *endpoint)
{
  enum udp_timestamps wanted = endpoint->worker->device->timestamps;
  int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;

  if (wanted == UDP_TIME_OFF)
    return 0;
  if (wanted == UDP_TIME_HARDWARE)
    flags |= SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
  if (udp_socket_set(endpoint, SOL_SOCKET, SO_TIMESTAMPING, flags) == 0)
    return 0;
  return udp_socket_fail(endpoint, "the kernel stamps no arrivals", "; set timestamps: off");
}

static void udp_socket_busy_poll(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  const struct pst_host *host = endpoint->worker->device->dg.host;
  uint64_t us = host->option_uint(options, "busy_poll") / 1000;

  if (us == 0)
    return;
  if (udp_socket_set(endpoint, SOL_SOCKET, SO_BUSY_POLL, (int)us) == 0 &&
      udp_socket_set(endpoint, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1) == 0)
    return;
  UDP_TELL(endpoint, PST_LOG_WARN,
           "busy_poll: %s; it needs CAP_NET_ADMIN, or sysctl -w net.core.busy_read=%lu",
           strerror(errno), us);
}

static int udp_socket_set_receiver(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  const struct pst_host *host = endpoint->worker->device->dg.host;

  endpoint->rx->rcvbuf = host->option_uint(options, "rcvbuf");
  udp_socket_buffer_set(endpoint, true, endpoint->rx->rcvbuf,
                        host->option_is_set(options, "rcvbuf"));
  udp_drops_begin(endpoint);
  if (udp_socket_set(endpoint, SOL_SOCKET, SO_RXQ_OVFL, 1) != 0)
    return udp_socket_fail(endpoint, "the kernel does not count what it drops",
                           "; it needs Linux 2.6.33");
  udp_socket_busy_poll(endpoint, options);
  endpoint->rx->gro =
      host->option_uint(options, "gro") && udp_socket_set(endpoint, IPPROTO_UDP, UDP_GRO, 1) == 0;
  return udp_socket_stamp(endpoint);
}

static int udp_socket_set_path(struct pst_endpoint *endpoint, uint64_t ttl, uint64_t dscp,
                               bool whole)
{
  bool v4 = endpoint->dg.family == AF_INET;
  int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;

  if (ttl &&
      (udp_socket_set(endpoint, level, v4 ? IP_TTL : IPV6_UNICAST_HOPS, (int)ttl) != 0 ||
       udp_socket_set(endpoint, level, v4 ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS, (int)ttl) != 0))
    return udp_socket_fail(endpoint, "ttl cannot be set", "");
  if (dscp && udp_socket_set(endpoint, level, v4 ? IP_TOS : IPV6_TCLASS, (int)dscp << 2) != 0)
    return udp_socket_fail(endpoint, "dscp cannot be set", "");
  if (whole && udp_socket_set(endpoint, level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
                              v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO) != 0)
    return udp_socket_fail(endpoint, "dont_fragment cannot be set", "");
  return 0;
}

/* Without RECVERR the kernel would say that it sent what a full device queue dropped. */
static int udp_socket_set_sender(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  const struct pst_host *host = endpoint->worker->device->dg.host;
  bool v4 = endpoint->dg.family == AF_INET;
  int rc = udp_departures_open(endpoint);

  if (rc < 0)
    return rc;

  udp_socket_buffer_set(endpoint, false, host->option_uint(options, "sndbuf"),
                        host->option_is_set(options, "sndbuf"));
  if (udp_socket_set(endpoint, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, 1) !=
      0)
    return udp_socket_fail(endpoint, "errors of the path cannot be read", "");
  if (endpoint->dg.to.any.sa_family == AF_INET &&
      udp_socket_set(endpoint, SOL_SOCKET, SO_BROADCAST, 1) != 0)
    return udp_socket_fail(endpoint, "SO_BROADCAST",
                           ""); /* whoever writes such an address means it */
  if (endpoint->dg.netdev) {
    struct ip_mreqn v4_out = {.imr_ifindex = (int)endpoint->dg.netdev};
    rc = v4 ? setsockopt(endpoint->fd, IPPROTO_IP, IP_MULTICAST_IF, &v4_out, sizeof(v4_out))
            : udp_socket_set(endpoint, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)endpoint->dg.netdev);
    if (rc != 0)
      return udp_socket_fail(endpoint, "the interface for multicast cannot be set", "");
  }
  return udp_socket_set_path(endpoint, host->option_uint(options, "ttl"),
                             host->option_uint(options, "dscp"),
                             host->option_uint(options, "dont_fragment"));
}

static const char *udp_socket_bind_remedy(const struct pst_endpoint *endpoint)
{
  switch (errno) {
  case EADDRINUSE:
    return endpoint->rx
               ? "; another endpoint or program has that port, choose another `port`"
               : "; another endpoint or program has that port, choose another `source_port`";
  case EADDRNOTAVAIL:
    return endpoint->dg.local_is_fixed
               ? "; it is not an address of this host, see `device`"
               : "; `control` listens there, and it is not an address of this "
                 "host: choose one of those `ip address` shows";
  case EACCES:
    return "; ports below 1024 need CAP_NET_BIND_SERVICE";
  default:
    return "";
  }
}

static int udp_socket_bind(struct pst_endpoint *endpoint, uint16_t port)
{
  union dg_address local = endpoint->dg.local;
  socklen_t length = sizeof(endpoint->dg.local);
  bool grouped = endpoint->dg.group.any.sa_family != AF_UNSPEC;
  char text[DG_ADDRESS_TEXT], what[160];

  if (grouped) {
    local = endpoint->dg.group;
    if (udp_socket_set(endpoint, SOL_SOCKET, SO_REUSEADDR, 1) != 0)
      return udp_socket_fail(endpoint, "SO_REUSEADDR", "");
  }
  if (local.any.sa_family == AF_INET6 && endpoint->dg.netdev && !local.v6.sin6_scope_id)
    local.v6.sin6_scope_id = endpoint->dg.netdev;
  dg_address_port_set(&local, port);
  if (endpoint->dg.family == AF_INET6 &&
      udp_socket_set(endpoint, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0)
    return udp_socket_fail(endpoint, "IPV6_V6ONLY", "");
  dg_address_print(&local, text, sizeof(text));
  snprintf(what, sizeof(what), "cannot bind to %s", text);
  if (bind(endpoint->fd, &local.any, dg_address_length(&local)) != 0)
    return udp_socket_fail(endpoint, what, udp_socket_bind_remedy(endpoint));
  if (getsockname(endpoint->fd, &endpoint->dg.local.any, &length) != 0)
    return udp_socket_fail(endpoint, "the socket's own address", "");
  return 0;
}

/* connect() binds the socket to one address: another program could then bind its port on another
 * address of the host, and send as if it were this one. Where messages carry no nonce, a second
 * socket keeps the port on all addresses. SO_REUSEPORT, by which the two share it, is limited to
 * one user, and is off again afterwards. */
static int udp_socket_guard_port(struct pst_endpoint *endpoint)
{
  const union dg_address *local = &endpoint->dg.local;
  int one = 1, zero = 0, fd = -1;

  if (endpoint->worker->device->dg.framing != DG_FRAMING_NONE || !dg_address_is_any(local))
    return 0;
  fd = endpoint->tx->guard = socket(endpoint->dg.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return udp_socket_fail(endpoint, "no socket", "; raise `ulimit -n`");
  if ((endpoint->dg.family == AF_INET6 &&
       setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) != 0) ||
      udp_socket_set(endpoint, SOL_SOCKET, SO_REUSEPORT, 1) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &zero, sizeof(zero)) != 0 ||
      bind(fd, &local->any, dg_address_length(local)) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &zero, sizeof(zero)) != 0 ||
      udp_socket_set(endpoint, SOL_SOCKET, SO_REUSEPORT, 0) != 0)
    return udp_socket_fail(endpoint, "the sender's port cannot be kept to itself",
                           "; give the sender a `device`, or use framing: sequence");
  return 0;
}

int udp_socket_open(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  const struct pst_host *host = endpoint->worker->device->dg.host;
  bool receives = endpoint->dg.cpu.params.roles & PST_ROLE_RECEIVER;
  bool joins = receives && endpoint->dg.group.any.sa_family != AF_UNSPEC;
  int rc = 0;

  endpoint->fd = socket(endpoint->dg.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (endpoint->fd < 0)
    return udp_socket_fail(endpoint, "no socket", "; raise `ulimit -n`");
  /* Before the port is bound: from then on datagrams arrive. */
  rc = receives ? udp_socket_set_receiver(endpoint, options)
                : udp_socket_set_sender(endpoint, options);
  if (rc == 0 && joins)
    udp_socket_keep_to_device(endpoint);
  if (rc == 0)
    rc = udp_socket_bind(endpoint,
                         (uint16_t)host->option_uint(options, receives ? "port" : "source_port"));
  if (rc == 0 && joins)
    rc = udp_socket_join_group(endpoint);
  if (rc == 0 && !receives)
    rc = udp_socket_guard_port(endpoint);
  return rc;
}

uint32_t udp_socket_mtu(const struct pst_endpoint *endpoint)
{
  int mtu = 0;
  socklen_t length = sizeof(mtu);
  bool v4 = endpoint->dg.family == AF_INET;

  if (getsockopt(endpoint->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu,
                 &length) != 0 ||
      mtu < (v4 ? 28 : 48))
    return 0;
  return (uint32_t)mtu - (v4 ? 28 : 48); /* what UDP can have in one packet */
}

void udp_socket_told(struct pst_endpoint *endpoint, int error)
{
  struct udp_tx *tx = endpoint->tx;
  char text[DG_ADDRESS_TEXT];

  dg_address_print(&endpoint->dg.peer, text, sizeof(text));
  if (error == ECONNREFUSED) {
    tx->refused++;
    if (!tx->told_refused)
      UDP_TELL(endpoint, PST_LOG_WARN,
               "nobody receives at %s (ICMP port unreachable); sending continues, in case a "
               "receiver starts",
               text);
    tx->told_refused = true;
  } else if (error == EMSGSIZE) { /* the path has become narrower */
    tx->mtu = udp_socket_mtu(endpoint);
  } else if (!tx->told_unreachable) {
    tx->told_unreachable = true;
    UDP_TELL(endpoint, PST_LOG_WARN,
             "messages do not reach %s: %s; see `ip route get`, the link and firewalls. Sending "
             "continues",
             text, strerror(error));
  }
}

void udp_socket_errors(struct pst_endpoint *endpoint)
{
  int error = 0;
  socklen_t length = sizeof(error);

  endpoint->has_error = false;
  for (int i = 0; i < 64; i++) { /* what comes meanwhile is for the next time */
    uint8_t control[512];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
    if (recvmsg(endpoint->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
      break;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
      struct sock_extended_err told;
      if ((c->cmsg_level != SOL_IP || c->cmsg_type != IP_RECVERR) &&
          (c->cmsg_level != SOL_IPV6 || c->cmsg_type != IPV6_RECVERR))
        continue;
      memcpy(&told, CMSG_DATA(c), sizeof(told));
      if (endpoint->tx && told.ee_errno && !udp_departures_told(endpoint, &told))
        udp_socket_told(endpoint, (int)told.ee_errno);
    }
  }
  /* Taken off the socket, so that the next call does not fail for it. */
  (void)getsockopt(endpoint->fd, SOL_SOCKET, SO_ERROR, &error, &length);
}
