/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as they are written and told apart. Nothing here asks the machine, so that a
 * description can be built with it. */
#ifndef DATAGRAM_ADDRESS_H
#define DATAGRAM_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "flow.h"

#define DG_ZONE_MAX 16u    /* bytes of a netdev's name, with its end */
#define DG_ADDRESS_TEXT 80 /* of dg_address_print(), with its end */

/* any.sa_family AF_UNSPEC: no address. */
union dg_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

/* "192.0.2.1", "192.0.2.1:5000", "2001:db8::1", "[2001:db8::1%eth0]:5000". Numbers only: no name
 * is looked up, and that of the zone stays a name; "" without one. */
bool dg_address_read(const char *text, union dg_address *address, char zone[DG_ZONE_MAX]);
/* Without its port and zone. */
void dg_address_host(const union dg_address *address, char text[INET6_ADDRSTRLEN]);
/* With its port, without its zone. */
void dg_address_print(const union dg_address *address, char *text, size_t size);
uint16_t dg_address_port(const union dg_address *address);
void dg_address_port_set(union dg_address *address, uint16_t port);
socklen_t dg_address_length(const union dg_address *address);
bool dg_address_is_multicast(const union dg_address *address);
bool dg_address_is_any(const union dg_address *address); /* 0.0.0.0 or :: */
bool dg_address_is_loopback(const union dg_address *address);
void dg_address_set_loopback(union dg_address *address, int family);
const char *dg_family_name(int family); /* "IPv4", "IPv6" */
bool dg_address_is_same_host(const union dg_address *a, const union dg_address *b);
/* The address as a source: IPv4 as ::ffff:a.b.c.d. */
void dg_address_source(const union dg_address *address, struct dg_source *source);
/* The reverse of dg_address_source(). */
void dg_address_of_source(const struct dg_source *source, int family, union dg_address *address);

#endif
