/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports by name: DPDK's devices, probed when the first device of that name opens, configured and
 * started with the last start(), closed with the last close().
 *
 * Device calls alone open, start and close; they are serialised by the host. Workers touch
 * afterwards only the queues, and the control plane (neighbours and memberships) under
 * `control_lock`, which poll only tries to take.
 */
#ifndef ETHERNET_PORT_H
#define ETHERNET_PORT_H

#include <rte_spinlock.h>

#include "clock.h"
#include "ethernet.h"
#include "multicast.h"
#include "neighbour.h"
#include "queue.h"
#include "xstats.h"

/* Checksums that a card computes of what it sends: all, or none is used. */
#define ETH_TX_SUMS (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define ETH_NETWORKS_MAX 2u /* addresses of a port: one of each family */

/* One address of the port and its network. */
struct eth_network {
  uint8_t address[16];
  uint32_t prefix;
};

/* When frames arrived. */
struct eth_times {
  enum {
    ETH_TIMES_NONE = 0,
    ETH_TIMES_US,    /* stamps are microseconds of CLOCK_REALTIME: libpcap's */
    ETH_TIMES_TICKS, /* of the card's clock */
  } unit;
  int offset; /* of the stamp in an mbuf, and the flag that says it is there */
  uint64_t flag;
  bool departs;         /* the card sends each frame at the time that its mbuf has */
  int departure_offset; /* of that, and the flag that says so */
  uint64_t departure_flag;
  struct eth_clock clocks[2]; /* one is read while the other is written, once a second */
  uint32_t current;
  uint64_t due_ns;
};

/* How far a port is. */
enum eth_port_stage {
  ETH_PORT_OPEN = 0,   /* workers, rings and endpoints may be opened on it */
  ETH_PORT_CONFIGURED, /* sealed; its device stands still, and may be started */
  ETH_PORT_RUNNING,    /* bursts are allowed */
  ETH_PORT_OVER,       /* stopped for good: the driver has a ring that is gone */
};

struct eth_port {
  struct eth_port *next;
  const struct pst_host *host;
  char identity[ETH_TEXT_MAX]; /* as the options name it, for messages, too */
  char name[RTE_ETH_NAME_MAX_LEN];
  char arguments[ETH_TEXT_MAX]; /* that DPDK got */
  char socket[108];
  uint16_t id;
  const struct eth_driver *driver;
  struct rte_eth_dev_info info;
  uint8_t mac[ETH_MAC_BYTES];
  uint16_t vlan; /* ETH_UNTAGGED: none */
  uint32_t mtu;
  uint32_t descriptors;
  bool wants_mtu, descriptors_fixed; /* by an option */
  uint32_t netdev; /* index of the kernel's interface whose addresses it has; 0: its own */
  bool has_remote; /* a tap, which takes frames off another interface of the kernel's */
  struct eth_network networks[ETH_NETWORKS_MAX];
  uint32_t network_count;
  uint8_t gateways[2][16]; /* of IPv4, of IPv6; all 0: none */

  struct pst_device **devices;
  uint32_t device_count;
  enum eth_port_stage stage;
  bool was_parked;       /* DPDK's device was another port's before */
  bool waits_for_server; /* it starts only when its peer is there: tried again until then */
  struct eth_rxq *rxqs;
  uint32_t rxq_count;
  struct eth_txq *txqs;
  uint32_t txq_count;
  bool is_shared;             /* more than one worker polls it */
  bool has_receivers;         /* when it was configured */
  bool wants_rules;           /* by an option */
  bool has_kernel;            /* what no rule takes is the kernel's, which has the interface, too */
  bool by_rules;              /* each ring has a queue, and rules say what comes by it */
  char no_rules[128];         /* why not, where they are wanted; "": they are */
  struct eth_table *table;    /* receivers by UDP port */
  uint16_t next_port;         /* to try, where a free one is to be chosen */
  uint8_t ip_sum, udp_sum[2]; /* enum eth_checksum: of IPv4 headers; of UDP over IPv4 and IPv6 */
  bool reads_by_reference;    /* it sends from other memory than its own */
  uint32_t segments_max;      /* of one packet that it sends */
  uint64_t no_inline;         /* mbufs with this flag are not read by the CPU; 0: not asked for */

  struct eth_times times;

  rte_spinlock_t control_lock;
  struct eth_neighbours *neighbours; /* NULL: the kernel's */
  struct eth_groups *groups;         /* NULL: the kernel's */
  bool is_up;
  uint64_t link_due_ns, down_since_ns;
  struct rte_eth_stats before; /* when it started */
  /* Extended statistics that are counters of ours; none: the driver has no such names. */
  uint64_t *xstat_ids;
  enum eth_xstat *xstat_kinds;
  uint32_t xstat_count;
  uint64_t xstats_before[ETH_XSTATS];
  bool told_xstats;
  /* The driver may hold mbufs until it is closed: pools end with the port. */
  struct eth_pool **pools;
  uint32_t pool_count;
  struct rte_ring *wire; /* of the driver ring: what it receives from */
  struct rte_mempool **mempools;
  uint32_t mempool_count;
};

/* The port that the options name: opened, or another device's. 0; -ENODEV, -EBUSY, …, logged. */
int eth_port_open(struct pst_device *device, const struct pst_options *options,
                  struct eth_port **port);
/* The device leaves; the last one closes the port. */
void eth_port_leave(struct eth_port *port, struct pst_device *device);
/* All its devices have started: configure it, and start. 0, or -errno, logged. */
int eth_port_start(struct eth_port *port);
/* Start the device. Not logged. */
int eth_port_run(struct eth_port *port);
/* Stop it. May take a millisecond. */
void eth_port_stop(struct eth_port *port);

/* Bytes of a frame beyond its MTU that a buffer has room for: header, tag, and what the driver puts
 * in front (virtio: 12). */
static inline uint32_t eth_frame_overhead(const struct rte_eth_dev_info *info)
{
  const uint32_t more =
      info->max_rx_pktlen > info->max_mtu ? info->max_rx_pktlen - info->max_mtu : 0;

  return more > 18 && more <= 64 ? more : 18;
}

static inline bool eth_port_is_running(const struct eth_port *port)
{
  return __atomic_load_n(&port->stage, __ATOMIC_ACQUIRE) == ETH_PORT_RUNNING;
}

/* As many of n as the queue takes; none while the port does not run. */
static inline uint32_t eth_txq_burst(struct eth_txq *queue, const struct eth_port *port,
                                     struct rte_mbuf **mbufs, uint32_t n)
{
  uint32_t sent = 0;

  if (queue->is_shared)
    rte_spinlock_lock(&queue->lock);
  if (eth_port_is_running(port))
    sent = rte_eth_tx_burst(port->id, queue->index, mbufs, (uint16_t)n);
  if (queue->is_shared)
    rte_spinlock_unlock(&queue->lock);
  return sent;
}

/* Makes the driver look for mbufs that are sent: either call does that in a driver that has it. If
 * another thread holds a shared queue's lock, that thread looks, too. */
static inline void eth_txq_look(struct eth_txq *queue, const struct eth_port *port)
{
  if (queue->is_shared && !rte_spinlock_trylock(&queue->lock))
    return;
  if (eth_port_is_running(port) && rte_eth_tx_done_cleanup(port->id, queue->index, 0) < 0)
    rte_eth_tx_descriptor_status(port->id, queue->index, 0);
  if (queue->is_shared)
    rte_spinlock_unlock(&queue->lock);
}

/* Has it started, so that nothing more is opened on it? Logged. */
bool eth_port_is_sealed(const struct eth_port *port);

/* addresses.c: of the options, of the netdev, or link-local ones. 0, or -errno, logged. */
int eth_port_find_networks(struct eth_port *port, const struct pst_options *options);
/* Returns the port's address of the family; NULL: none. */
const struct eth_network *eth_port_network(const struct eth_port *port, int family);
/* A UDP port: `wanted`, or a free one; where the kernel has the address, a socket holds it there.
 * 0; -EADDRINUSE, …, logged. */
int eth_port_take_udp(struct pst_endpoint *endpoint, uint16_t wanted);

/* counters.c: find extended statistics by name, once. They are only missing where it fails. */
void eth_port_find_xstats(struct eth_port *port);
/* Reads the present values of the extended statistics. False: there are none. */
bool eth_port_read_xstats(const struct eth_port *port, uint64_t sums[ETH_XSTATS]);

/* configure.c: queues, pools, offloads and rules of a port whose devices are all known. 0, or
 * -errno, logged. With rules it runs afterwards. */
int eth_port_configure(struct eth_port *port);

/* Counts of what the devices of a port have opened. */
struct eth_opened {
  uint32_t workers, rings, receivers, splits;
};

#define ETH_FOR_EACH_WORKER(port, worker)                                                          \
  for (uint32_t d_ = 0; d_ < (port)->device_count; d_++)                                           \
    for (uint32_t w_ = 0; w_ < (port)->devices[d_]->worker_count; w_++)                            \
      for (struct pst_worker *worker = (port)->devices[d_]->workers[w_]; worker; worker = NULL)

/* assign.c: which ring has a queue, and which memory each queue. Makes port->rxqs; `descriptors` of
 * each are at most. 0, or -errno, logged. */
int eth_port_assign(struct eth_port *port, const struct eth_opened *opened, uint32_t descriptors);
/* Undo it: the port is stopped. */
void eth_port_unassign(struct eth_port *port);
int eth_port_make_mempool(struct eth_port *port, uint32_t count, uint32_t room,
                          struct rte_mempool **mempool);
/* Makes a pool for mbufs that stay with their sender. Unchanged where the driver holds or passes on
 * mbufs. 0 or -ENOMEM, logged. */
int eth_port_make_keeper(struct eth_port *port, struct rte_mempool **keeper);

/* rules.c: may the port take what its rules match, and leave the rest to the kernel? Before it is
 * configured. 0; -errno, and why. */
int eth_port_isolate(struct eth_port *port, bool on, char why[ETH_SIZES_WHY]);
/* A rule for each receiver whose ring has a queue, and for all where the kernel has the rest; one
 * for those that match the same. 0; -errno, and why: there are none then. */
int eth_port_add_rules(struct eth_port *port, char why[ETH_SIZES_WHY]);
/* A receiver that shares its match knows its sender now: a rule for that one. */
void eth_port_add_own_rule(struct eth_port *port, struct pst_endpoint *endpoint);
/* The receiver leaves; others that match the same have a rule afterwards. */
void eth_port_drop_rule(struct eth_port *port, struct pst_endpoint *endpoint);

/* times.c: has the device stamps? */
void eth_times_open(struct eth_port *port, bool is_live_pcap);
/* The port runs: how fast is the card's clock? May take 10 ms. False: it stands still. */
bool eth_times_start(struct eth_port *port);
void eth_times_step(struct eth_port *port, uint64_t now_ns);
/* The card is to send it then, a time of CLOCK_MONOTONIC. */
void eth_time_departure(const struct eth_port *port, struct rte_mbuf *mbuf, uint64_t departure_ns);
uint64_t eth_time_now(void); /* CLOCK_REALTIME */
/* In CLOCK_REALTIME; now, where the device has stamped it with nothing. */
uint64_t eth_time_of(const struct eth_port *port, const struct rte_mbuf *mbuf);

/* leave.c: takes the locks of all queues, in one order. false: a thread is in a burst. */
bool eth_port_try_lock(struct eth_port *port);
void eth_port_unlock(struct eth_port *port);
/* The queue that receives into the ring takes no more frames. */
void eth_port_end_ring(struct eth_port *port, struct pst_ring *ring);
/* The endpoint receives no more. */
void eth_port_end_receiver(struct eth_port *port, struct pst_endpoint *endpoint);

/* control.c: what is due of neighbours, memberships and link. Called by poll now and then. */
void eth_port_step(struct pst_worker *worker, uint64_t now_ns);
/* A frame for the control plane. */
void eth_port_control(struct pst_worker *worker, const struct eth_bytes *frame,
                      const struct eth_packet *packet);

#define ETH_PORT_LOG(port, level, text, ...)                                                       \
  (port)->host->log((port)->host, level, "port %s: " text,                                         \
                    (port)->identity __VA_OPT__(, ) __VA_ARGS__)
#define ETH_PORT_REFUSE(port, code, ...) (ETH_PORT_LOG(port, PST_LOG_ERROR, __VA_ARGS__), (code))

#endif
