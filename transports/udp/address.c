/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that this host has. */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>

#include "address.h"
#include "device.h"

static void udp_address_take_sockaddr(const struct sockaddr *from, union dg_address *address)
{
  memset(address, 0, sizeof(*address));
  memcpy(address, from,
         from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

/* IPv6 addresses that hold on one link only are the last resort. */
static bool udp_address_is_link_local(const union dg_address *address)
{
  return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr);
}

/* Is that an address of the family, on an interface that is up? */
static bool udp_address_is_own(const struct ifaddrs *one, int family, union dg_address *address)
{
  const int found = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;

  if (!(one->ifa_flags & IFF_UP) || (found != AF_INET && found != AF_INET6) ||
      (family != AF_UNSPEC && found != family))
    return false;
  udp_address_take_sockaddr(one->ifa_addr, address);
  return true;
}

static void udp_address_of_netdev(const struct ifaddrs *all, const char *name, int family,
                                  union dg_address *address)
{
  union dg_address own;

  for (const struct ifaddrs *one = all; one; one = one->ifa_next)
    if (udp_address_is_own(one, family, &own) && strcmp(one->ifa_name, name) == 0 &&
        (address->any.sa_family == AF_UNSPEC ||
         (udp_address_is_link_local(address) && !udp_address_is_link_local(&own))))
      *address = own;
}

/* "eth0 (192.0.2.1), lo (127.0.0.1, ::1)" */
static void udp_address_list_devices(const struct ifaddrs *all, char *text, size_t size)
{
  union dg_address own;
  char host[INET6_ADDRSTRLEN];
  size_t used = 0;

  text[0] = '\0';
  for (const struct ifaddrs *one = all; one && used < size; one = one->ifa_next) {
    if (!udp_address_is_own(one, AF_UNSPEC, &own))
      continue;
    dg_address_host(&own, host);
    used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", one->ifa_name,
                             host);
  }
}

void udp_devices_tell(struct pst_probe *probe)
{
  struct ifaddrs *all = NULL;
  union dg_address own;
  char host[INET6_ADDRSTRLEN], detail[128];

  if (getifaddrs(&all) != 0)
    return;
  for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
    if (!udp_address_is_own(one, AF_UNSPEC, &own))
      continue;
    dg_address_host(&own, host);
    snprintf(detail, sizeof(detail), "%s%s%s", host,
             one->ifa_flags & IFF_MULTICAST ? ", multicast" : "",
             one->ifa_flags & IFF_RUNNING ? "" : ", no link");
    probe->device(probe->context, one->ifa_name, detail);
  }
  freeifaddrs(all);
}

/* The netdev that has the address, or 0. */
static uint32_t udp_address_owner_of(const struct ifaddrs *all, const union dg_address *address)
{
  union dg_address own;

  for (const struct ifaddrs *one = all; one; one = one->ifa_next)
    if (udp_address_is_own(one, address->any.sa_family, &own) &&
        dg_address_is_same_host(&own, address))
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
    return PST_REFUSE(device->dg.host, rc, "this host's addresses cannot be listed: %s",
                      strerror(-rc));
  }
  if (made.is_set && dg_address_parse(name, &made.address)) {
    made.index = udp_address_owner_of(all, &made.address);
    /* 127.0.0.2 is lo's, too. */
    if (!made.index && dg_address_is_loopback(&made.address))
      made.index = if_nametoindex("lo");
  } else if (made.is_set) {
    made.index = if_nametoindex(name);
    udp_address_of_netdev(all, name, family, &made.address);
  }
  if (made.is_set && (!made.index || made.address.any.sa_family == AF_UNSPEC)) {
    udp_address_list_devices(all, known, sizeof(known));
    rc = PST_REFUSE(device->dg.host, -ENODEV, "device: %s is %s here; there are: %s", name,
                    made.index ? "an interface without an address of that family"
                               : "neither an address nor an interface that is up",
                    known);
  }
  freeifaddrs(all);
  if (rc == 0)
    *found = made;
  return rc;
}

uint32_t udp_addresses_own(int family, bool sends, union dg_address *addresses, uint32_t max)
{
  struct ifaddrs *all = NULL;
  uint32_t count = 0;

  if (getifaddrs(&all) != 0)
    return 0;
  for (const struct ifaddrs *one = all; one && count < max; one = one->ifa_next)
    if (udp_address_is_own(one, family, &addresses[count]))
      count +=
          sends ? !dg_address_is_loopback(&addresses[count])
                : !(one->ifa_flags & IFF_LOOPBACK) && !udp_address_is_link_local(&addresses[count]);
  freeifaddrs(all);
  return count;
}

static bool udp_address_in_network(const union dg_address *address, const union dg_address *own,
                                   const struct sockaddr *netmask)
{
  union dg_address mask;
  struct dg_source a, b, m;

  udp_address_take_sockaddr(netmask, &mask);
  dg_address_source(address, &a);
  dg_address_source(own, &b);
  dg_address_source(&mask, &m);
  for (size_t i = 0; i < sizeof(a.address); i++)
    if ((a.address[i] ^ b.address[i]) & m.address[i])
      return false;
  return true;
}

bool udp_address_is_near(const union dg_address *address)
{
  struct ifaddrs *all = NULL;
  union dg_address own;
  bool is_near = false;

  if (getifaddrs(&all) != 0)
    return false;
  for (const struct ifaddrs *one = all; one && !is_near; one = one->ifa_next)
    is_near = udp_address_is_own(one, address->any.sa_family, &own) && one->ifa_netmask &&
              udp_address_in_network(address, &own, one->ifa_netmask);
  freeifaddrs(all);
  return is_near;
}
