/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: printed, and those that this host has. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "udp.h"

bool udp_address_parse(const char *text, union udp_address *address)
{
  char zone[UDP_ZONE_MAX];
  union udp_address made;

  if (!udp_address_read(text, &made, zone))
    return false;
  if (zone[0] && !(made.v6.sin6_scope_id = if_nametoindex(zone)))
    return false;
  *address = made;
  return true;
}

void udp_address_print(const union udp_address *address, char *text, size_t size)
{
  const bool v4 = address->any.sa_family == AF_INET;
  char host[INET6_ADDRSTRLEN];

  udp_address_host(address, host);
  snprintf(text, size, "%s%s%s:%u", v4 ? "" : "[", host, v4 ? "" : "]", udp_address_port(address));
}

socklen_t udp_address_length(const union udp_address *address)
{
  return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

bool udp_address_is_loopback(const union udp_address *address)
{
  return address->any.sa_family == AF_INET ? ntohl(address->v4.sin_addr.s_addr) >> 24 == 127
                                           : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

void udp_address_set_loopback(union udp_address *address, int family)
{
  *address = (union udp_address){.any.sa_family = (sa_family_t)family};
  if (family == AF_INET)
    address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else
    address->v6.sin6_addr = in6addr_loopback;
}

void udp_address_source(const union udp_address *address, struct dg_source *source)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

  source->port = udp_address_port(address);
  if (address->any.sa_family == AF_INET6) {
    memcpy(source->address, &address->v6.sin6_addr, 16);
    return;
  }
  memcpy(source->address, mapped, 12);
  memcpy(source->address + 12, &address->v4.sin_addr, 4);
}

bool udp_address_is_same_host(const union udp_address *a, const union udp_address *b)
{
  struct dg_source x, y;

  udp_address_source(a, &x);
  udp_address_source(b, &y);
  return memcmp(x.address, y.address, sizeof(x.address)) == 0;
}

static void take_sockaddr(const struct sockaddr *from, union udp_address *address)
{
  memset(address, 0, sizeof(*address));
  memcpy(address, from,
         from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

/* IPv6 addresses that hold on one link only are the last resort. */
static bool is_link_local(const union udp_address *address)
{
  return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr);
}

/* Is that an address of the family, on an interface that is up? */
static bool is_own(const struct ifaddrs *one, int family, union udp_address *address)
{
  const int found = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;

  if (!(one->ifa_flags & IFF_UP) || (found != AF_INET && found != AF_INET6) ||
      (family != AF_UNSPEC && found != family))
    return false;
  take_sockaddr(one->ifa_addr, address);
  return true;
}

static void address_of_netdev(const struct ifaddrs *all, const char *name, int family,
                              union udp_address *address)
{
  union udp_address own;

  for (const struct ifaddrs *one = all; one; one = one->ifa_next)
    if (is_own(one, family, &own) && strcmp(one->ifa_name, name) == 0 &&
        (address->any.sa_family == AF_UNSPEC || (is_link_local(address) && !is_link_local(&own))))
      *address = own;
}

/* "eth0 (192.0.2.1), lo (127.0.0.1, ::1)" */
static void list_devices(const struct ifaddrs *all, char *text, size_t size)
{
  union udp_address own;
  char host[INET6_ADDRSTRLEN];
  size_t used = 0;

  text[0] = '\0';
  for (const struct ifaddrs *one = all; one && used < size; one = one->ifa_next) {
    if (!is_own(one, AF_UNSPEC, &own))
      continue;
    udp_address_host(&own, host);
    used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", one->ifa_name,
                             host);
  }
}

void udp_devices_tell(struct pst_probe *probe)
{
  struct ifaddrs *all = NULL;
  union udp_address own;
  char host[INET6_ADDRSTRLEN], detail[128];

  if (getifaddrs(&all) != 0)
    return;
  for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
    if (!is_own(one, AF_UNSPEC, &own))
      continue;
    udp_address_host(&own, host);
    snprintf(detail, sizeof(detail), "%s%s%s", host,
             one->ifa_flags & IFF_MULTICAST ? ", multicast" : "",
             one->ifa_flags & IFF_RUNNING ? "" : ", no link");
    probe->device(probe->context, one->ifa_name, detail);
  }
  freeifaddrs(all);
}

/* The netdev that has the address, or 0. */
static uint32_t owner_of(const struct ifaddrs *all, const union udp_address *address)
{
  union udp_address own;

  for (const struct ifaddrs *one = all; one; one = one->ifa_next)
    if (is_own(one, address->any.sa_family, &own) && udp_address_is_same_host(&own, address))
      return if_nametoindex(one->ifa_name);
  return 0;
}

int udp_device_find(struct pst_device *device, const char *name, int family,
                    struct udp_device_name *found)
{
  struct udp_device_name made = {.is_set = name[0] != '\0' && strcmp(name, UDP_DEVICE_ANY) != 0};
  struct ifaddrs *all = NULL;
  char known[512];
  int rc = 0;

  made.address.any.sa_family = AF_UNSPEC;
  if (made.is_set && getifaddrs(&all) != 0) {
    rc = -errno;
    return PST_REFUSE(device->host, rc, "this host's addresses cannot be listed: %s",
                      strerror(-rc));
  }
  if (made.is_set && udp_address_parse(name, &made.address)) {
    made.index = owner_of(all, &made.address);
    /* 127.0.0.2 is lo's, too. */
    if (!made.index && udp_address_is_loopback(&made.address))
      made.index = if_nametoindex("lo");
  } else if (made.is_set) {
    made.index = if_nametoindex(name);
    address_of_netdev(all, name, family, &made.address);
  }
  if (made.is_set && (!made.index || made.address.any.sa_family == AF_UNSPEC)) {
    list_devices(all, known, sizeof(known));
    rc = PST_REFUSE(device->host, -ENODEV, "device: %s is %s here; there are: %s", name,
                    made.index ? "an interface without an address of that family"
                               : "neither an address nor an interface that is up",
                    known);
  }
  freeifaddrs(all);
  if (rc == 0)
    *found = made;
  return rc;
}

uint32_t udp_addresses_own(int family, union udp_address *addresses, uint32_t max)
{
  struct ifaddrs *all = NULL;
  uint32_t count = 0;

  if (getifaddrs(&all) != 0)
    return 0;
  for (const struct ifaddrs *one = all; one && count < max; one = one->ifa_next)
    if (!(one->ifa_flags & IFF_LOOPBACK) && is_own(one, family, &addresses[count]))
      count += !is_link_local(&addresses[count]);
  freeifaddrs(all);
  return count;
}

static bool in_network(const union udp_address *address, const union udp_address *own,
                       const struct sockaddr *netmask)
{
  union udp_address mask;
  struct dg_source a, b, m;

  take_sockaddr(netmask, &mask);
  udp_address_source(address, &a);
  udp_address_source(own, &b);
  udp_address_source(&mask, &m);
  for (size_t i = 0; i < sizeof(a.address); i++)
    if ((a.address[i] ^ b.address[i]) & m.address[i])
      return false;
  return true;
}

bool udp_address_is_near(const union udp_address *address)
{
  struct ifaddrs *all = NULL;
  union udp_address own;
  bool is_near = false;

  if (getifaddrs(&all) != 0)
    return false;
  for (const struct ifaddrs *one = all; one && !is_near; one = one->ifa_next)
    is_near = is_own(one, address->any.sa_family, &own) && one->ifa_netmask &&
              in_network(address, &own, one->ifa_netmask);
  freeifaddrs(all);
  return is_near;
}

void udp_host_identity(uint8_t identity[24])
{
  struct stat info = {0};
  char text[40] = "";
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  uint8_t *at = identity;

  memset(identity, 0, 24);
  if (fd >= 0) {
    ssize_t n = read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = '\0';
    close(fd);
  }
  for (const char *c = text; at < identity + 16 && sscanf(c, "%2hhx", at) == 1; at++)
    c += 2 + (c[2] == '-');
  if (stat("/proc/self/ns/net", &info) == 0)
    for (int i = 0; i < 8; i++)
      identity[16 + i] = (uint8_t)(info.st_ino >> (8 * i));
}
