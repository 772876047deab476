/* SPDX-License-Identifier: Apache-2.0 */
/* Memberships that the kernel reports, for as long as a socket is open. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message.h"
#include "multicast.h"

static void eth_join_fill(const uint8_t address[16], struct sockaddr_storage *to)
{
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

  memset(to, 0, sizeof(*to));
  memcpy(&v4.sin_addr, address + 12, 4);
  memcpy(&v6.sin6_addr, address, 16);
  if (eth_is_v4(address))
    memcpy(to, &v4, sizeof(v4));
  else
    memcpy(to, &v6, sizeof(v6));
}

static int eth_join_socket(int fd, uint32_t netdev, const uint8_t group[16], const uint8_t *source)
{
  const int level = eth_is_v4(group) ? IPPROTO_IP : IPPROTO_IPV6;
  struct group_source_req of_source = {.gsr_interface = netdev};
  struct group_req of_any = {.gr_interface = netdev};

  eth_join_fill(group, &of_any.gr_group);
  eth_join_fill(group, &of_source.gsr_group);
  if (!source)
    return setsockopt(fd, level, MCAST_JOIN_GROUP, &of_any, sizeof(of_any)) == 0 ? 0 : -errno;
  eth_join_fill(source, &of_source.gsr_source);
  return setsockopt(fd, level, MCAST_JOIN_SOURCE_GROUP, &of_source, sizeof(of_source)) == 0
             ? 0
             : -errno;
}

static const char *eth_join_remedy(int error, bool is_v4)
{
  if (error == -ENODEV)
    return "see `ip -d link`; the interface must be up and take multicast";
  if (error == -ENOBUFS)
    return is_v4 ? "raise the sysctl net.ipv4.igmp_max_memberships or net.ipv4.igmp_max_msf"
                 : "raise the sysctl net.ipv6.mld_max_msf";
  return "the option `group` must be a multicast address, and `source` the address of a host";
}

int eth_join_kernel(uint32_t netdev, const uint8_t group[16], const uint8_t *source,
                    char why[ETH_WHY_MAX])
{
  const bool is_v4 = eth_is_v4(group);
  char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE] = "?";
  int fd, rc = -EINVAL;

  fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    rc = -errno;
  else if (eth_is_multicast(group) && (!source || eth_is_v4(source) == is_v4))
    rc = eth_join_socket(fd, netdev, group, source);
  if (rc == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  inet_ntop(is_v4 ? AF_INET : AF_INET6, group + (is_v4 ? 12 : 0), text, sizeof(text));
  if_indextoname(netdev, name);
  snprintf(why, ETH_WHY_MAX, "group %s cannot be joined on %s: %s; %s", text, name, strerror(-rc),
           eth_join_remedy(rc, is_v4));
  return rc;
}
