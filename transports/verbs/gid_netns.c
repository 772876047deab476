/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GIDs are addresses of this network namespace. A device shows the GIDs of all namespaces
 * (rdma-system(8), netns shared), each with the index that its netdev has in its own: in a pod the
 * host's addresses are in the table, too, and their netdevs' indices are others' here.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "gid.h"

static bool vb_gid_netns_is_same(const struct vb_gid *gid, const struct sockaddr *address)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

  if (!address)
    return false;
  if (address->sa_family == AF_INET)
    return memcmp(gid->raw, mapped, sizeof(mapped)) == 0 &&
           memcmp(gid->raw + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
                  4) == 0;
  return address->sa_family == AF_INET6 &&
         memcmp(gid->raw, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16) ==
             0;
}

/* If several netdevs have one link-local address (a VLAN's and the one below it), the one with the
 * GID's index counts. */
static void vb_gid_netns_find(struct vb_gid *gid, const struct ifaddrs *all)
{
  uint32_t found = 0;

  for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
    if (!vb_gid_netns_is_same(gid, at->ifa_addr))
      continue;
    const uint32_t index = if_nametoindex(at->ifa_name);
    if (index && (!found || index == gid->netdev))
      found = index;
  }
  gid->is_here = found != 0;
  if (found)
    gid->netdev = found;
}

void vb_gid_find_homes(struct vb_gid *table, uint32_t count, const struct ifaddrs *all)
{
  for (uint32_t i = 0; i < count; i++)
    if (table[i].type != VB_GID_IB)
      vb_gid_netns_find(&table[i], all);
}
