/* SPDX-License-Identifier: Apache-2.0 */
/* What all UDP sockets of this network namespace have dropped, by cause. */
#ifndef UDP_SNMP_H
#define UDP_SNMP_H

#include <stdint.h>
#include <stdio.h>

struct udp_host_drops {
  uint64_t bad_sums;
  uint64_t full; /* buffers */
};

/* /proc/net/snmp, and snmp6. */
void udp_drops_read4(FILE *from, struct udp_host_drops *drops);
void udp_drops_read6(FILE *from, struct udp_host_drops *drops);
/* Of one socket's drops, those that had a wrong checksum: the least that it can have been, by what
 * all sockets dropped meanwhile. */
uint64_t udp_drops_bad_sums(uint64_t drops, const struct udp_host_drops *before,
                            const struct udp_host_drops *now);

#endif
