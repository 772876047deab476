/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of an endpoint. */
#ifndef UDP_SEND_H
#define UDP_SEND_H

#include "udp.h"

#define UDP_SEND_BUFFERS 64u /* of one sendmmsg() */
#define UDP_SEND_IOVECS 1024u

/* Messages of a frame may be sent later than those of the next ones: a filter may
 * hold them back. */
#define UDP_FRAMES_KEPT 64

struct udp_frame {
  uint64_t number; /* from 1; 0: none */
  uint32_t timestamp;
};

struct udp_tx {
  bool gso;
  bool blocked;      /* the socket's buffer was full */
  bool is_throttled; /* the device's queue was: nothing wakes us */
  bool checksums;
  uint32_t mtu; /* of the path; datagrams of more are not coalesced */
  uint32_t initial;
  uint32_t ssrc;
  uint64_t nonce;
  bool has_nonce; /* the receiver is a Penstock and knows it */
  uint8_t payload_type;
  uint32_t frame; /* messages of a frame; 0: no marker */
  uint32_t timestamp_base;
  uint64_t ticks; /* since started_ns, of the latest frame */
  uint64_t started_ns;
  struct udp_frame frames[UDP_FRAMES_KEPT];
  uint64_t message_max;
  struct mmsghdr *vector;
  struct iovec *parts;
  uint8_t *headers;
  uint8_t *control;
  uint32_t *counts; /* requests of each buffer */
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
