/* SPDX-License-Identifier: Apache-2.0 */
/* Two network namespaces of this process, joined by a veth pair: va0 in A, vb0 in B. */
#ifndef ETHERNET_LINK_H
#define ETHERNET_LINK_H

#include "support.h"

enum { LINK_A = 0, LINK_B = 1 };
#define LINK_V4_A "10.78.0.1"
#define LINK_V4_B "10.78.0.2"
#define LINK_V6_A "fd78::1"
#define LINK_V6_B "fd78::2"

/* NULL, or why it cannot be made here. The MACs are mac_a and mac_b; MTU 9000. */
const char *link_open(void);
/* Calls of this thread are of that namespace from now on. */
void link_enter(int side);
/* Run a command of the shell there; it must succeed. */
void link_run(int side, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t link_netdev(int side);
/* A socket that sends and gets whole frames. */
int link_raw(int side);
/* A UDP socket, bound to that port of all addresses. */
int link_udp(int side, int family, uint16_t port);
/* The next frame within `timeout_ms` that is not of that raw socket's own side: its length; 0. */
uint32_t link_frame(int fd, uint8_t *bytes, uint32_t room, int timeout_ms);
uint64_t link_now(void);

#endif
