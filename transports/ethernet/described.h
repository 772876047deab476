/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of this plugin that need no DPDK and no machine: its drivers, its options and the
 * arguments of DPDK that they become. The description is built of them alone. */
#ifndef ETHERNET_DESCRIBED_H
#define ETHERNET_DESCRIBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/transport.h>

#define ETH_CAPABILITIES                                                                           \
  (PST_CAP_SEND | PST_CAP_SEQUENCE | PST_CAP_TIME | PST_CAP_SHARED_RING | PST_CAP_FOREIGN)
#define ETH_MTU_MIN 576u
#define ETH_MTU_MAX 65535u
#define ETH_SLOTS_MAX (1u << 20) /* of a ring: an mbuf has 256 bytes */
#define ETH_TEXT_MAX 512u        /* bytes of a name or of arguments for DPDK, with the end */

/* In the order of the option's choices. */
enum eth_driver_kind {
  ETH_DRIVER_PCI = 0,
  ETH_DRIVER_MEMIF,
  ETH_DRIVER_RING,
  ETH_DRIVER_AF_PACKET,
  ETH_DRIVER_AF_XDP,
  ETH_DRIVER_TAP,
  ETH_DRIVER_PCAP,
  ETH_DRIVER_VIRTIO_USER,
  ETH_DRIVER_NULL,
  ETH_DRIVER_OTHER,
  ETH_DRIVERS,
};

enum eth_driver_trait {
  ETH_TAKES_NO_POOL = 1u << 0, /* frames arrive in memory of its own */
  ETH_SENDS_COPIES = 1u << 1,  /* what it sends must lie in mbufs of its own */
  ETH_DONE_AT_ONCE = 1u << 2,  /* when rte_eth_tx_burst() returns it holds nothing */
  ETH_KEEPS_NO_MBUF = 1u << 3, /* nor does it hold mbufs to receive into, between bursts */
  ETH_HAS_NETDEV = 1u << 4,    /* the option `netdev` names a kernel's interface under it */
  ETH_MAKES_NETDEV = 1u << 5,  /* it makes that interface itself */
  ETH_COUNTS_LOSS = 1u << 6,   /* its statistics say what it lost */
  ETH_IS_DMA = 1u << 7,        /* a device reads and writes memory, which has to be mapped for it */
  ETH_VIRTUAL = 1u << 8,       /* a peer on this host may leave checksums to a card */
  ETH_ONE_SEGMENT = 1u << 9,   /* it sends the first segment of a packet alone */
  ETH_HAS_RULES = 1u << 10,    /* it has several queues, and rte_flow tells them frames */
  ETH_EQUAL_QUEUES = 1u << 11, /* as many to send as to receive */
  ETH_FILLS_ONE = 1u << 12,    /* of the mbufs that it holds to receive into, it uses one */
};

struct eth_driver {
  const char *name; /* the choice */
  const char *dpdk; /* begins the name of DPDK's device; NULL: a PCI address, or as it is written */
  uint32_t traits;  /* enum eth_driver_trait */
  uint32_t bulk;    /* mbufs that it takes at once to receive: with fewer it receives nothing */
};

extern const struct eth_driver eth_drivers[ETH_DRIVERS];
extern const char *const eth_driver_choices[];

enum eth_role { ETH_ROLE_AUTO = 0, ETH_ROLE_SERVER = 1, ETH_ROLE_CLIENT = 2 };

/* Options that define a port. Strings are the options'. */
struct eth_port_options {
  enum eth_driver_kind driver;
  enum eth_role role; /* memif, ring: not AUTO */
  const char *device, *socket, *netdev, *remote, *rx_pcap, *tx_pcap, *devargs, *mac;
  uint32_t mtu;         /* known */
  uint32_t descriptors; /* of a queue */
};

/* DPDK's name of the device without a number, and its arguments. 0; -E2BIG: they are too long. */
int eth_devargs(const struct eth_port_options *options, char name[ETH_TEXT_MAX],
                char arguments[ETH_TEXT_MAX]);
/* Writes a text that tells the port apart from others of this process. */
void eth_port_identity(const struct eth_port_options *options, char text[ETH_TEXT_MAX]);

/* "192.0.2.1/24", "2001:db8::1/64"; without a length 24 or 64. IPv4 as ::ffff:a.b.c.d. False: it is
 * no address of a host, or no length. */
bool eth_network_read(const char *text, uint8_t address[16], uint32_t *prefix);
/* "02:00:00:00:00:01", of one host. */
bool eth_mac_read(const char *text, uint8_t mac[6]);

#endif
