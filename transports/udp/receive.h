/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving half of an endpoint. It keeps *entries* ready for recvmmsg(): each scatters a
 * buffer of the kernel, one datagram or several that it has coalesced (UDP_GRO), over header side
 * buffers and free slots, as long as its segments have the size that was learned; what does not
 * lie so is put right by a copy.
 */
#ifndef UDP_RECEIVE_H
#define UDP_RECEIVE_H

#include <stdalign.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../datagram/address.h"
#include "../datagram/receiver.h"
#include "ring.h"
#include "socket.h"

#define UDP_CONTROL_BYTES 256u
#define UDP_ENTRIES 64u          /* buffers that one recvmmsg() may fill */
#define UDP_ENTRY_SLOTS_MAX 512u /* slots that lie ready in entries */
#define UDP_SPILL_BYTES 65536u

/* Why the kernel dropped messages: dg_flow_lost()'s causes. Wrong checksums are known only when the
 * counters are read. */
enum udp_cause { UDP_LOST_KERNEL = 0, UDP_LOST_NO_BUFFER = 1, UDP_LOST_CHECKSUM = 2 };

/* Drops of all UDP sockets of this network namespace, by cause. */
struct udp_host_drops {
  uint64_t bad_sums;
  uint64_t full; /* buffers */
};

/* One buffer of the kernel's, on its way into slots. */
struct udp_entry {
  struct iovec parts[2 * UDP_SEGMENTS_MAX + 1];
  alignas(struct cmsghdr) uint8_t control[UDP_CONTROL_BYTES];
  union dg_address name;
  uint32_t slots[UDP_SEGMENTS_MAX];
  uint8_t headers[UDP_SEGMENTS_MAX * (DG_HEADER_MAX + DG_TAG_BYTES)];
  uint8_t *spill;  /* what has no slot yet; NULL: nothing is coalesced */
  uint32_t laid;   /* slots in `parts` */
  uint32_t stride; /* bytes of header and slot that each segment has there */
  /* Once received: */
  uint32_t total;
  uint32_t segment; /* bytes of each datagram; the last may be shorter */
  uint32_t count;
  uint32_t next;    /* datagram to look at */
  uint32_t given;   /* of its slots, from the first */
  bool is_straight; /* each datagram lies in its slot */
  bool is_cut;
  bool by_card; /* time_ns is the network card's */
  uint32_t drops;
  uint64_t time_ns;
};

struct udp_rx {
  struct dg_receiver dg;
  struct pst_ring *ring;
  struct udp_entry entries[UDP_ENTRIES]; /* a ring */
  struct mmsghdr vector[UDP_ENTRIES];    /* of each entry */
  uint8_t *spill;
  uint32_t first;    /* entry to look at next */
  uint32_t received; /* entries from there that have come */
  uint32_t laid;     /* and those behind them that are ready */
  uint32_t laid_slots;
  uint32_t segment; /* learned; 0: nothing is coalesced */
  uint32_t depth;   /* datagrams that an entry is laid for */
  uint32_t peak;    /* most that one had, of late */
  uint32_t peak_age;
  bool starved;                     /* the ring was without a slot since the last drop */
  uint32_t drops_seen;              /* the kernel's count that came with the last entry */
  uint32_t drops;                   /* and as last looked at */
  struct udp_host_drops host_drops; /* when the socket was opened */
  uint64_t bad_sums;                /* of `drops` */
  uint64_t sums_before;             /* of these, before the stream began */
  uint64_t bad_tail;                /* of these, since the last message came */
  uint64_t kernel_seen;             /* messages that the kernel dropped, as last counted */
  uint64_t kernel_bad_sums;         /* of these */
  uint64_t no_buffer_seen;          /* messages for which the ring had no slot, as last counted */
  uint64_t full_due;                /* drops of full buffers that have left no gap yet */
  uint64_t rcvbuf;                  /* bytes that the option asks for */
  bool gro;
  bool told_drops;
  bool told_sums;
  uint64_t copied;          /* datagrams that were put right by a copy */
  uint64_t software_stamps; /* of hardware's, those that the kernel had to give */
};

int udp_rx_open(struct pst_endpoint *endpoint, struct pst_ring *ring);
/* Once the socket is open. */
int udp_rx_spill(struct pst_endpoint *endpoint);
void udp_rx_close(struct pst_endpoint *endpoint);
/* MESSAGEs into `out`; returns how many. */
uint32_t udp_rx_poll(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max);
/* Whether poll() has something to give that the socket does not show. */
bool udp_rx_pending(const struct pst_endpoint *endpoint);
bool udp_rx_has_room(const struct pst_endpoint *endpoint);

/* drops.c */

/* Reads the host's drops from /proc/net/snmp. */
void udp_drops_read4(FILE *from, struct udp_host_drops *drops);
/* Reads the host's drops from /proc/net/snmp6. */
void udp_drops_read6(FILE *from, struct udp_host_drops *drops);
/* Returns how many of one socket's drops had a wrong checksum: the least that it can have been, by
 * what all sockets dropped meanwhile. */
uint64_t udp_drops_bad_sums(uint64_t drops, const struct udp_host_drops *before,
                            const struct udp_host_drops *now);
/* The kernel's count of what it dropped for this socket. */
uint32_t udp_socket_drops(const struct pst_endpoint *endpoint);
/* Before the socket is bound. */
void udp_drops_begin(struct pst_endpoint *endpoint);
/* By cause, what the socket has dropped since the last look; `known` were dropped by then. */
struct udp_drops_news {
  uint32_t known;
  uint64_t bad_sums; /* datagrams with a wrong UDP checksum */
  uint64_t full;     /* buffers that found no room */
};

/* rx->drops and rx->bad_sums are as of now. Where there are new drops, says once for each cause
 * what helps. */
struct udp_drops_news udp_drops_look(struct pst_endpoint *endpoint, uint32_t drops);

#endif
