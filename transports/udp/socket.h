/* SPDX-License-Identifier: Apache-2.0 */
/* A socket: its options, its errors. */
#ifndef UDP_SOCKET_H
#define UDP_SOCKET_H

#include <stdint.h>

#define UDP_SEGMENTS_MAX 64u /* of one buffer, either way (UDP_MAX_SEGMENTS of Linux 5) */

struct pst_endpoint;
struct pst_options;

/* Options of one endpoint, on a socket made for it. 0, or -errno, logged. */
int udp_socket_open(struct pst_endpoint *endpoint, const struct pst_options *options);
uint64_t udp_socket_buffer(const struct pst_endpoint *endpoint, int name);
/* The number in a file below /proc/sys; -1: it cannot be read. */
long udp_sysctl(const char *path);
/* Asynchronous errors (ICMP) are taken off and counted. */
void udp_socket_errors(struct pst_endpoint *endpoint);
/* Counts an error of the path, and warns once. */
void udp_socket_told(struct pst_endpoint *endpoint, int error);
uint32_t udp_socket_mtu(const struct pst_endpoint *endpoint);

#endif
