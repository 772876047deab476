/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of the endpoints of datagrams: their identity, by options and parameters, and how
 * two ends meet, another Penstock by its address (blob.h), a foreign peer by the options.
 */
#ifndef DATAGRAM_ENDPOINT_H
#define DATAGRAM_ENDPOINT_H

#include "blob.h"
#include "receiver.h"
#include "sender.h"

/* A plugin's pst_endpoint begins with it. All 0 before dg_endpoint_open(). */
struct dg_endpoint {
  struct pst_cpu_endpoint cpu; /* MEETING: as long as dg_reach.connect takes */
  const struct dg_device *device;
  struct dg_receiver *receiver; /* the transport sets one of the two, before the ends meet */
  struct dg_sender *sender;
  char label[64];
  int family;             /* AF_INET or AF_INET6 */
  union dg_address local; /* with its port, once the transport knows it */
  union dg_address peer;  /* a sender's */
  bool local_is_fixed;    /* by an option */
  union dg_address to;    /* option; AF_UNSPEC: not given */
  union dg_address group;
  union dg_address source;
  uint32_t netdev;            /* index: the zone of IPv6's link-local addresses; 0: the route's */
  struct dg_flow_params flow; /* a receiver's, as the options say */
  uint64_t message_max;
  uint32_t header_bytes; /* of each message; final once it is connected */
};

static inline bool dg_is_connected(const struct dg_endpoint *endpoint)
{
  return endpoint->cpu.state == PST_CPU_UP;
}

#define DG_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)
/* A line of the log that begins with the endpoint's label. */
#define DG_TELL(endpoint, level, text, ...)                                                        \
  DG_LOG((endpoint)->device, level, "%s: " text, (endpoint)->label __VA_OPT__(, ) __VA_ARGS__)
#define DG_REFUSE(endpoint, code, ...) (DG_TELL(endpoint, PST_LOG_ERROR, __VA_ARGS__), (code))

/* endpoint.c */

/* Parameters, and the options of options.h. `params` as pst_struct_read() gave it; `rings` and
 * `limits` are the worker's and the device's. 0, or -errno, logged. pst_cpu_endpoint_end() is legal
 * after any, behind dg_receiver_end(). */
int dg_endpoint_open(struct dg_endpoint *endpoint, const struct dg_device *device,
                     const struct pst_places *rings, const struct pst_limits *limits,
                     const struct pst_endpoint_params *params);
/* The family that the options say; AF_UNSPEC: none does. */
int dg_endpoint_family(const struct dg_endpoint *endpoint);
/* Where it is: `own`, which an option names, or anywhere (NULL). The transport may put another
 * address of the same family into endpoint->local before dg_endpoint_check(). */
void dg_endpoint_place(struct dg_endpoint *endpoint, const union dg_address *own, uint32_t netdev);
/* Are all its addresses of one family? 0; -EINVAL, logged. */
int dg_endpoint_check(const struct dg_endpoint *endpoint);

/* connect.c */

/* How a transport reaches peers. */
struct dg_reach {
  bool has_loopback; /* it reaches ends of its own host by 127.0.0.1 and ::1 */
  /* Does the address lie in a network of this end's? */
  bool (*is_near)(const struct dg_endpoint *endpoint, const union dg_address *address);
  /* A sender's peer. 0; 1: the transport goes on finding the way, and calls pst_cpu_endpoint_up()
   * or pst_cpu_endpoint_down() in the end; -errno, logged. It sets endpoint->peer. */
  int (*connect)(struct dg_endpoint *endpoint, const union dg_address *address);
};

/* endpoint_address. `own`: addresses of a receiver that is bound anywhere, up to DG_ADDRESSES_MAX.
 */
int dg_endpoint_address(const struct dg_endpoint *endpoint, const union dg_address *own,
                        uint32_t count, struct pst_blob *address);
/* endpoint_connect: begins the receiver's flow, or chooses the sender's peer. */
int dg_endpoint_connect(struct dg_endpoint *endpoint, const struct pst_blob *address,
                        const struct dg_reach *reach);
/* 24 bytes that identify this host and its network namespace. */
void dg_host_identity(uint8_t identity[24]);

#endif
