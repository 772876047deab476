/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of this plugin without a machine: its limits, and addresses as they are written.
 * The description is built of it alone. */
#ifndef UDP_DESCRIBED_H
#define UDP_DESCRIBED_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <penstock/transport-cpu.h>

#define UDP_DATAGRAM_MAX 65507u /* bytes of payload in one IPv4 packet */
#define UDP_DEVICE_ANY "any"    /* what the option `device` calls all addresses */
#define UDP_ZONE_MAX 16u        /* bytes of a netdev's name, with its end */
#define UDP_CAPABILITIES                                                                           \
  (PST_CAP_SEND | PST_CAP_SEQUENCE | PST_CAP_TIME | PST_CAP_WAKEUP | PST_CAP_DYNAMIC |             \
   PST_CAP_IN_PROCESS | PST_CAP_FOREIGN)

enum udp_timestamps { UDP_TIME_OFF = 0, UDP_TIME_SOFTWARE = 1, UDP_TIME_HARDWARE = 2 };

union udp_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

/* "192.0.2.1", "192.0.2.1:5000", "2001:db8::1", "[2001:db8::1%eth0]:5000". Numbers only: no name
 * is looked up, and that of the zone stays a name; "" without one. */
bool udp_address_read(const char *text, union udp_address *address, char zone[UDP_ZONE_MAX]);
/* Without its port and zone. */
void udp_address_host(const union udp_address *address, char text[INET6_ADDRSTRLEN]);
uint16_t udp_address_port(const union udp_address *address);
void udp_address_port_set(union udp_address *address, uint16_t port);
bool udp_address_is_multicast(const union udp_address *address);
bool udp_address_is_any(const union udp_address *address); /* 0.0.0.0 or :: */

#endif
