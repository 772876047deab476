/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint, which has a socket of its own. A sender's socket is connected. A receiver's is bound
 * and takes datagrams from all senders, since those that are not ours are counted. */
#ifndef UDP_ENDPOINT_H
#define UDP_ENDPOINT_H

#include "../datagram/endpoint.h"
#include "device.h"
#include "worker.h"

struct udp_rx;
struct udp_tx;

struct pst_endpoint {
  struct dg_endpoint dg;
  struct pst_worker *worker;
  int fd;
  uint32_t interest; /* of epoll */
  bool has_error;    /* epoll reports one: poll looks at it */
  struct udp_rx *rx;
  struct udp_tx *tx;
};

#define UDP_TELL(endpoint, ...) DG_TELL(&(endpoint)->dg, __VA_ARGS__)
#define UDP_REFUSE(endpoint, code, ...) DG_REFUSE(&(endpoint)->dg, code, __VA_ARGS__)

void udp_endpoint_free(struct pst_endpoint *endpoint);

#endif
