/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, workers, rings and endpoints of DPDK's ports; and the operations.
 *
 * A pst_device is a set of options; a port (port.h) may be several devices, since streams of one
 * port may differ in framing. The first device of a name opens the port, each start() but the last
 * waits, and the last one configures and starts it. From then on it is sealed: another device of
 * that name is refused until all are closed.
 *
 * The way of a message:
 *
 *   post       header and payload become an mbuf: one segment where the header goes into the
 *              headroom of a slot that is the request's alone; a segment of headers and one for
 *              each piece else, whose bytes may lie in a GPU; a copy where the driver cannot read
 *              other memory (send.c)
 *   burst      of up to ETH_BURST mbufs, under the queue's lock where several workers share it;
 *              what the queue does not take stays the sender's, and is dropped after `patience`
 *   DONE       at once where the driver holds nothing after a burst, else when it frees the mbuf
 *   arrival    a frame lies in a slot of the ring, which is the queue's pool (pool.h), or in the
 *              queue's own memory (queue.h), where a ring has no queue to itself (assign.c)
 *   dispatch   headers are parsed, and the receiver is found by address and UDP port; ARP, ND, IGMP
 *              and MLD go to the port; the rest is counted and dropped (queue.c)
 *   row        those that follow and are like the one before, of one receiver: what is the same is
 *              looked at once for all (header_cache.h, datagram/flow_run.h, eth_rx_take_row())
 *   MESSAGE    datagram/flow.h says which message it is; the payload is where it landed, or is
 *              copied into a slot (receive.c)
 *   release    a slot's mbuf is in the pool again, behind those released before
 *
 * Failures, and their effects:
 *
 *   no free slot          frames wait in the device, then in its queue; what finds no room there is
 *                         the driver's loss, counted by it or by nobody
 *   several on a queue    one whose ring is full loses its own frames (no_buffer) and holds up none
 *   rules are refused     one queue for all, and frames are sorted in software (rules.c)
 *                         where the kernel has the card and its address, too, the start is refused
 *   the link is down      nothing is taken: the sender drops after `patience` (device_full)
 *   no neighbour answers  the sender does not connect, and says so; later, the last MAC is kept
 *   the device vanishes   EVENT_DEVICE is not known to DPDK 22.11's drivers; the link is down
 *
 * Threads: a worker's thread has its endpoints, rings and pools. Workers of one port share queues,
 * each guarded by a lock once a burst, and the port's control plane, by try-lock.
 */
#ifndef ETHERNET_H
#define ETHERNET_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-cpu.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "../datagram/endpoint.h"
#include "described.h"
#include "frame.h"
#include "match.h"
#include "payload.h"
#include "sizes.h"
#include "split.h"

#define ETH_SLOT_HEADROOM 192u /* limits.headroom */
/* A payload with the longest header of its kind lies so far behind the headroom: both are whole
 * cache lines. With a shorter one (no nonce) it lies before, but never within the headroom. */
#define ETH_SLOT_SHIFT 64u
#define ETH_SLOT_MORE (ETH_SLOT_SHIFT + 4u) /* limits.tailroom: the shift, and a tag */
#define ETH_SEND_HEADROOM 96u               /* and for a tag DG_TAG_BYTES */
/* A payload of at most this many bytes is copied behind its header where the driver copies it
 * anyway: that costs less than a reference. */
#define ETH_COPY_MAX 256u
/* Bytes of each mbuf that are the plugin's: struct eth_packet of a frame in an inbox. */
#define ETH_MBUF_PRIVATE RTE_ALIGN(sizeof(struct eth_packet), RTE_MBUF_PRIV_ALIGN)
_Static_assert(ETH_SEND_HEADROOM >= ETH_HEADER_MAX + DG_HEADER_MAX, "headers fit");

struct eth_port;
struct eth_pool;
struct eth_rxq;
struct eth_txq;
struct eth_flight;

struct pst_device {
  struct dg_device dg;
  struct eth_port *port;
  struct pst_worker **workers;
  uint32_t worker_count;
  enum { ETH_RECEIVE_AUTO, ETH_RECEIVE_SLOTS, ETH_RECEIVE_COPY } receive;
  enum { ETH_SUM_AUTO, ETH_SUM_SOFTWARE, ETH_SUM_NONE } udp_sum;
  uint64_t patience_ns;
  bool sums;       /* senders sum payloads for their headers */
  bool stamps;     /* messages have the time at which they are taken */
  bool holds_back; /* a SEND is taken when its time of departure has come */
  bool is_started;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  struct pst_places rings;
  uint32_t turn;                     /* endpoint that the next poll begins with */
  struct eth_txq *txq;               /* NULL before the port has started */
  struct rte_mempool *out;           /* mbufs that it sends */
  struct rte_mbuf *ready[ETH_BURST]; /* taken of these for what it sends next */
  uint32_t ready_count;
  /* Mbufs of one burst to a driver that holds none afterwards; they stay here. `whole` refer to
   * other memory, `copies` have a copy. Their pool is `keeper`; NULL: none stays here. */
  struct rte_mbuf *whole[ETH_BURST], *copies[ETH_BURST];
  struct rte_mempool *keeper;
  struct eth_rxq **rxqs; /* those it polls */
  uint32_t rxq_count;
  struct rte_mbuf_ext_shared_info shared[ETH_BURST]; /* of what is sent by reference in one burst */
  uint32_t polls; /* the control plane is looked at every some of them */
};

/* A registration: a card may reach memory that the CPU does not. */
struct pst_mr {
  struct pst_cpu_mr cpu; /* base: as its device knows it, where it is a device's */
  bool is_device;
  uint64_t page_size; /* of its backing */
};

struct pst_ring {
  struct pst_cpu_ring cpu;
  struct pst_worker *worker;
  struct pst_mr *mr;
  struct eth_rxq *queue; /* whose pool it is; NULL: frames are copied into it */
  struct eth_pool *pool; /* its slots, while there is a queue */
  char copy_reason[160]; /* why there is none */
  bool is_split;         /* in memory that the CPU does not reach: headers lie elsewhere */
  uint32_t split_point;  /* bytes of a frame that lie there */
};

struct eth_counts {
  uint64_t frames; /* of this endpoint */
  uint64_t copied; /* of these, payloads that were copied into a slot */
  uint64_t
      no_buffer; /* lost: no room, or no sender was known yet, on a queue that is others', too */
};

struct eth_tx {
  struct eth_template template;
  struct dg_sender sender;
  uint64_t messages, bytes;
  uint64_t device_full; /* dropped: the queue took nothing */
  uint64_t full_since_ns;
  uint64_t asked_ns; /* when the neighbour was first asked for */
  uint8_t mac[6];
  bool has_mac; /* by an option */
  bool is_asked, told_silent, told_full;
  bool was_full;      /* the queue took not all of the last burst */
  uint32_t neighbour; /* index; while is_asked */
  struct eth_kernel *kernel;
  uint8_t hop_limit, traffic_class;
  uint16_t identifier;
  struct eth_flight *flights; /* requests that the driver holds; NULL: it holds none */
  uint32_t flight_mask, flight_head, flight_tail;
};

struct eth_rx {
  struct dg_receiver receiver;
  struct rte_ring *inbox;    /* frames that are to be copied; NULL: all lie in slots */
  struct rte_flow *rule;     /* by which they come to the ring's queue; NULL: none */
  struct rte_flow *own_rule; /* of its sender alone, beside one that it shares */
  bool is_listed;            /* in the port's table */
  bool is_started;           /* the port has */
  int joined_fd;             /* the kernel's membership; -1: none */
  bool is_joined;            /* by reports of the port's own */
  struct eth_counts counts;
  uint64_t lost_told; /* of counts.no_buffer, to the flow */
};

struct pst_endpoint {
  struct dg_endpoint dg;
  struct pst_worker *worker;
  struct eth_match match; /* where it receives: own, or the group; and from whom */
  struct eth_rx *rx;
  struct eth_tx *tx;
  uint8_t own[16]; /* its address */
  uint16_t udp_port;
  bool is_foreign; /* its peer is */
  int udp_fd;      /* holds that UDP port in the kernel, and takes nothing; -1: none */
};

static inline struct pst_ring *eth_ring_of(const struct pst_endpoint *endpoint)
{
  return (struct pst_ring *)endpoint->dg.cpu.ring;
}

/* pool.c: a name for a pool or ring of DPDK's that nobody else in the process has. */
void eth_name_make(char *name, size_t size);

/* send.c */

int eth_tx_open(struct pst_endpoint *endpoint, const struct pst_options *options);
void eth_tx_close(struct pst_endpoint *endpoint);
/* Once the port is configured. 0 or -ENOMEM. */
int eth_tx_start(struct pst_endpoint *endpoint);
/* The worker closes: mbufs that it has for what it sends next. */
void eth_tx_drop_mbufs(struct pst_worker *worker);
/* Turns the buffers that the driver has given back into DONEs. */
void eth_tx_reap(struct pst_endpoint *endpoint);
/* Frames of the port's own: ARP, reports. */
void eth_send_control(struct pst_worker *worker, const uint8_t *frame, uint32_t length);

/* peer.c */

/* The next hop of a sender: asked for; 0 or 1 as dg_reach.connect says, -errno, logged. */
int eth_peer_find(struct dg_endpoint *endpoint, const union dg_address *address);
/* Looks whether the peer's link address is known now. */
void eth_peer_look(struct pst_endpoint *endpoint, uint64_t now_ns);
void eth_peer_forget(struct pst_endpoint *endpoint);

static inline struct pst_endpoint *eth_endpoint_of(struct eth_match *match)
{
  return (struct pst_endpoint *)((char *)match - offsetof(struct pst_endpoint, match));
}

/* receive.c */

int eth_rx_open(struct pst_endpoint *endpoint);
/* Once the port is configured. `has_inbox`: frames may come by a queue that is not its ring's. 0 or
 * -ENOMEM. */
int eth_rx_start(struct pst_endpoint *endpoint, bool has_inbox);
void eth_rx_close(struct pst_endpoint *endpoint);
/* Frames that wait to be copied, into `out`; returns how many completions. */
uint32_t eth_rx_copy(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max);
/* The first of `n` frames that are as `seen` and the next of the endpoint's stream, each whole in a
 * slot of its ring: the slots are the ring's now. Returns how many, one completion each; what
 * follows is for eth_rx_take(). `known`: of all frames' checksums. */
uint32_t eth_rx_take_row(struct pst_endpoint *endpoint, struct rte_mbuf *const *mbufs, uint32_t n,
                         const struct eth_header_cache *seen, uint32_t known, uint64_t now_ns,
                         struct pst_completion *out);
/* One frame of this endpoint's, in a slot of its ring. Returns how many completions;
 * *is_kept: the mbuf is the ring's now. */
uint32_t eth_rx_take(struct pst_endpoint *endpoint, struct rte_mbuf *mbuf,
                     const struct eth_packet *packet, uint64_t now_ns, struct pst_completion *out,
                     uint32_t max, bool *is_kept);

/* endpoint.c */

void eth_endpoint_free(struct pst_endpoint *endpoint);
/* `ring` NULL: of what is sent. */
void eth_path_fill(const struct pst_ring *ring, const struct eth_port *port,
                   struct pst_path_info *path);

/* The operations. */

int eth_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device);
void eth_close(struct pst_device *device);
int eth_limits(struct pst_device *device, struct pst_limits *limits);
int eth_start(struct pst_device *device);
int eth_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr);
void eth_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int eth_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void eth_worker_close(struct pst_worker *worker);
int eth_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring);
void eth_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int eth_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint);
int eth_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int eth_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int eth_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int eth_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait);
int eth_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int eth_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int eth_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);
int eth_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
