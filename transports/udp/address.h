/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of this host. */
#ifndef UDP_ADDRESS_H
#define UDP_ADDRESS_H

#include "../datagram/address.h"

struct pst_device;
struct pst_probe;

/* The parsed option `device`. */
struct udp_device_name {
  bool is_set;              /* and not `any` */
  uint32_t index;           /* of the netdev; 0: none */
  union dg_address address; /* family AF_UNSPEC: none */
};

/* Tell a probe of each address that is up. */
void udp_devices_tell(struct pst_probe *probe);
/* 0; -ENODEV: logged, with those there are. */
int udp_device_find(struct pst_device *device, const char *name, int family,
                    struct udp_device_name *found);
/* This host's own addresses of a family, up to max: those that other hosts may reach, or those that
 * a socket may send from to them, an address of lo and one of a link among them. */
uint32_t udp_addresses_own(int family, bool sends, union dg_address *addresses, uint32_t max);
/* Does one of this host's interfaces lie in the network of that address? */
bool udp_address_is_near(const union dg_address *address);

#endif
