/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of an endpoint. */
#ifndef UDP_SEND_H
#define UDP_SEND_H

#include <stdalign.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../datagram/sender.h"
#include "departure.h"

#define UDP_SEND_BUFFERS 64u /* of one sendmmsg() */
#define UDP_SEND_IOVECS 1024u
/* UDP_SEGMENT and SCM_TXTIME. */
#define UDP_SEND_CONTROL (CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(uint64_t)))

struct udp_tx {
  struct dg_sender dg;
  int guard; /* as udp_socket_guard_port(); -1: none */
  bool gso;
  bool blocked;      /* the socket's buffer was full */
  bool is_throttled; /* the device's queue was: nothing wakes us */
  struct udp_departures departures;
  uint32_t mtu; /* of the path; datagrams of more are not coalesced */
  struct mmsghdr vector[UDP_SEND_BUFFERS];
  struct iovec parts[UDP_SEND_IOVECS];
  uint8_t headers[UDP_SEND_IOVECS][DG_HEADER_MAX + DG_TAG_BYTES];
  alignas(struct cmsghdr) uint8_t control[UDP_SEND_BUFFERS][UDP_SEND_CONTROL];
  uint32_t counts[UDP_SEND_BUFFERS]; /* requests of each buffer */
  uint64_t messages;
  uint64_t bytes;
  uint64_t refused;     /* ICMP: nobody receives there */
  uint64_t unreachable; /* messages that had no route */
  uint64_t throttled;
  bool told_refused;
  bool told_unreachable;
};

int udp_tx_open(struct pst_endpoint *endpoint, const struct pst_options *options);
void udp_tx_close(struct pst_endpoint *endpoint);

#endif
