/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of this host, and of peers. */
#ifndef UDP_ADDRESS_H
#define UDP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "../datagram/flow.h"
#include "described.h"

struct pst_device;
struct pst_probe;

/* What the option `device` names. */
struct udp_device_name {
  bool is_set;               /* and not `any` */
  uint32_t index;            /* of the netdev; 0: none */
  union udp_address address; /* family AF_UNSPEC: none */
};

/* udp_address_read(), and the zone is an interface of this host. */
bool udp_address_parse(const char *text, union udp_address *address);
void udp_address_print(const union udp_address *address, char *text, size_t size);
socklen_t udp_address_length(const union udp_address *address);
bool udp_address_is_loopback(const union udp_address *address);
void udp_address_set_loopback(union udp_address *address, int family);
void udp_address_source(const union udp_address *address, struct dg_source *source);
bool udp_address_is_same_host(const union udp_address *a, const union udp_address *b);
/* Tell a probe of each address that is up. */
void udp_devices_tell(struct pst_probe *probe);
/* 0; -ENODEV: logged, with those there are. */
int udp_device_find(struct pst_device *device, const char *name, int family,
                    struct udp_device_name *found);
/* This host's own addresses of a family, up to max. */
uint32_t udp_addresses_own(int family, union udp_address *addresses, uint32_t max);
/* Does one of this host's interfaces lie in the network of that address? */
bool udp_address_is_near(const union udp_address *address);
/* 24 bytes that identify this host and its network namespace. */
void udp_host_identity(uint8_t identity[24]);

#endif
