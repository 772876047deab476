/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this plugin share.
 *
 * An endpoint has a socket of its own. A sender's is connected; a receiver's is bound
 * and takes datagrams from whoever sends, since what is not ours is to be counted.
 * A receiver keeps *entries* ready for recvmmsg(): each scatters a buffer of the kernel,
 * one datagram or several that it has coalesced (UDP_GRO), over header side buffers and
 * free slots, as long as its segments have the size that was learned; what does not
 * lie so is put right by a copy.
 */
#ifndef UDP_H
#define UDP_H

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <penstock/transport.h>

#include "../datagram/flow.h"
#include "described.h"
#include "snmp.h"

#define UDP_REQUESTS_MAX (1u << 20)
#define UDP_PIECES_MAX 64u
#define UDP_WORKERS_MAX 1024u
#define UDP_ENDPOINTS_MAX 4096u
#define UDP_PLACE_BITS 14u
#define UDP_PLACES (UINT32_C(1) << UDP_PLACE_BITS) /* of rings of one worker */
#define UDP_SEGMENTS_MAX 64u     /* of one buffer, either way (UDP_MAX_SEGMENTS of Linux 5) */
#define UDP_ENTRIES 64u          /* buffers that one recvmmsg() may fill */
#define UDP_ENTRY_SLOTS_MAX 512u /* slots that lie ready in entries */
#define UDP_SPILL_BYTES 65536u
#define UDP_CONTROL_BYTES 256u
#define UDP_SEND_BUFFERS 64u /* of one sendmmsg() */
#define UDP_SEND_IOVECS 1024u
#define UDP_ADDRESSES_MAX 8u

/* ---- Addresses, address.c ------------------------------------------------------ */

/* What the option `device` names. */
struct udp_device_name {
  bool is_set; /* and not `any` */
  bool is_netdev;
  uint32_t index; /* of the netdev; 0: none */
  char name[64];
  union udp_address address; /* family AF_UNSPEC: none */
};

/* udp_address_read(), and the zone is an interface of this host. */
bool udp_address_parse(const char *text, union udp_address *address);
void udp_address_print(const union udp_address *address, char *text, size_t size);
socklen_t udp_address_length(const union udp_address *address);
bool udp_address_is_loopback(const union udp_address *address);
void udp_address_set_loopback(union udp_address *address, int family);
void udp_address_source(const union udp_address *address, struct dg_source *source);
/* 0; -ENODEV: logged, with those there are. */
int udp_device_find(struct pst_device *device, const char *name, int family,
                    struct udp_device_name *found);
/* This host's own addresses of a family, up to max. */
uint32_t udp_addresses_own(int family, union udp_address *addresses, uint32_t max);
/* Does one of this host's interfaces lie in the network of that address? */
bool udp_address_is_near(const union udp_address *address);
/* Of this host and network namespace: 24 bytes. */
void udp_host_identity(uint8_t identity[24]);

/* ---- What peers exchange, blob.c ------------------------------------------------- */

struct udp_blob {
  uint8_t framing;
  uint8_t family; /* 4 or 6 */
  bool is_receiver;
  bool is_bound; /* to its one address; else these are the host's */
  uint8_t count; /* addresses */
  uint16_t port; /* where it receives, or sends from */
  uint32_t initial;
  uint32_t ssrc;
  uint64_t nonce; /* a sender's: in the header of each of its datagrams */
  uint8_t payload_type;
  uint8_t identity[24];
  uint8_t addresses[UDP_ADDRESSES_MAX][16]; /* IPv4 as ::ffff:a.b.c.d; none: any of its own */
};
#define UDP_BLOB_BYTES (8 + 16 + 8 + 24 + UDP_ADDRESSES_MAX * 16)

void udp_blob_write(const struct udp_blob *blob, uint8_t bytes[UDP_BLOB_BYTES]);
bool udp_blob_read(const uint8_t *bytes, uint32_t length, struct udp_blob *blob);

/* ---- Objects ------------------------------------------------------------------------ */

struct pst_device {
  const struct pst_host *host;
  struct pst_plan plan;
  enum dg_framing framing;
  enum udp_timestamps timestamps;
  enum udp_family family;
  char name[64];             /* option `device` */
  union udp_address listens; /* where receivers are bound without it; AF_UNSPEC: anywhere */
  uint32_t clock_rate;
};

struct udp_mr {
  uint8_t *base;
  uint64_t length;
  uint32_t access;
};
static inline struct udp_mr *udp_mr_of(struct pst_mr *mr)
{
  return (struct udp_mr *)mr;
}

struct pst_worker {
  struct pst_device *device;
  int epoll_fd;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  uint32_t endpoint_room;
  struct pst_ring **rings; /* by place; NULL: closed */
  uint32_t ring_count;     /* places there are */
  uint32_t rings_opened;   /* ever */
  uint32_t turn;           /* endpoint that the next poll begins with */
  bool armed;
};

enum udp_slot { UDP_SLOT_OURS = 0, UDP_SLOT_OUT = 1 };

struct pst_ring {
  struct pst_worker *worker;
  struct pst_ring_params params;
  struct udp_mr *mr;
  uint32_t index;    /* upper half of its tokens: its place, and above it how many came before */
  uint32_t capacity; /* bytes of a slot behind its headroom */
  uint8_t *states;   /* enum udp_slot, of each slot */
  uint32_t *free;    /* stack */
  uint32_t free_count;
  bool taken; /* by its endpoint */
};

static inline uint64_t udp_slot_offset(const struct pst_ring *ring, uint32_t slot)
{
  return ring->params.base + slot * ring->params.stride + ring->params.headroom;
}

/* One buffer of the kernel's, on its way into slots. */
struct udp_entry {
  struct iovec *parts;
  uint32_t *slots;
  uint8_t *headers;
  uint8_t *spill; /* what has no slot yet; NULL: nothing is coalesced */
  uint8_t *control;
  union udp_address *name;
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
  struct pst_ring *ring;
  struct dg_flow flow;
  struct udp_entry *entries; /* a ring of UDP_ENTRIES */
  struct mmsghdr *vector;    /* likewise */
  uint8_t *memory;           /* of the entries' arrays */
  uint8_t *spill;
  uint32_t first;    /* entry to look at next */
  uint32_t received; /* entries from there that have come */
  uint32_t laid;     /* and those behind them that are ready */
  uint32_t laid_slots;
  uint32_t segment; /* learned; 0: nothing is coalesced */
  uint32_t depth;   /* datagrams that an entry is laid for */
  uint32_t peak;    /* most that one had, of late */
  uint32_t peak_age;
  uint32_t held_slot;
  struct pst_completion parked; /* found no room in the last poll */
  bool is_parked;
  uint32_t drops;                   /* the kernel's count as last looked at */
  struct udp_host_drops host_drops; /* when the socket was opened */
  uint64_t bad_sums;                /* of `drops` */
  uint64_t bad_tail;                /* of these, not yet matched with a gap */
  uint64_t kernel_seen;             /* messages that the kernel dropped, as last counted */
  uint64_t kernel_bad_sums;         /* of these */
  uint64_t rcvbuf;                  /* bytes that the option asks for */
  bool gro;
  bool told_drops;
  bool told_sums;
  bool told_useless;
  bool told_strays;
  bool told_nonce;
  uint64_t messages;        /* as the counters last had them */
  uint64_t heard;           /* when the last message of these was counted */
  uint64_t copied;          /* datagrams that were put right by a copy */
  uint64_t software_stamps; /* of hardware's, those that the kernel had to give */
};

struct udp_done {
  uint64_t cookie;
  uint64_t count;
  uint32_t opcode;
};

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

struct pst_endpoint {
  struct pst_worker *worker;
  uint64_t cookie;
  uint32_t roles;
  char label[64];
  int fd;
  int family; /* AF_INET or AF_INET6 */
  union udp_address local;
  union udp_address peer; /* a sender's */
  bool local_is_fixed;    /* by `device` */
  union udp_address to;   /* option; AF_UNSPEC: not given */
  union udp_address group;
  union udp_address source;
  uint32_t netdev; /* index for multicast; 0: the route's */
  bool connected;  /* endpoint_connect has been called */
  bool tell_connected;
  uint32_t close_mode; /* 0: not closing */
  uint32_t interest;   /* of epoll */
  bool has_error;      /* epoll says so: look at it in poll */
  uint32_t request_max;
  uint32_t outstanding;
  struct udp_done *done; /* a ring of done_mask + 1 */
  uint64_t done_mask, done_head, done_tail;
  struct udp_rx *rx;
  struct udp_tx *tx;
  struct dg_flow_params flow; /* what the options say */
  uint64_t message_max;
  uint32_t header_bytes; /* of each message; final once it is connected */
};

/* Fields that the writer's version of a struct did not have read as zero. */
#define UDP_TAKE(local, from)                                                                      \
  do {                                                                                             \
    memset(&(local), 0, sizeof(local));                                                            \
    memcpy(&(local), (from),                                                                       \
           (from)->struct_size < sizeof(local) ? (from)->struct_size : sizeof(local));             \
  } while (0)
/* Write no more than the owner of an out-struct has, its size included. */
#define UDP_GIVE(to, local)                                                                        \
  do {                                                                                             \
    uint32_t size_ = (to)->struct_size;                                                            \
    memcpy((to), &(local), size_ < sizeof(local) ? size_ : sizeof(local));                         \
    (to)->struct_size = size_;                                                                     \
  } while (0)

#define UDP_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

/* ---- socket.c ----------------------------------------------------------------------- */

/* Options of one endpoint, on a socket made for it. 0, or -errno, logged. */
int udp_socket_open(struct pst_endpoint *endpoint, const struct pst_options *options);
uint64_t udp_socket_buffer(const struct pst_endpoint *endpoint, int name);
/* Of a file below /proc/sys; -1: not to be seen here. */
long udp_sysctl(const char *path);
/* Asynchronous errors (ICMP) are taken off and counted. */
void udp_socket_errors(struct pst_endpoint *endpoint);
/* One error of the path: counted, told once. */
void udp_socket_told(struct pst_endpoint *endpoint, int error);
uint32_t udp_socket_mtu(const struct pst_endpoint *endpoint);

/* ---- drops.c ------------------------------------------------------------------------ */

/* The kernel's count of what it dropped for this socket. */
uint32_t udp_socket_drops(const struct pst_endpoint *endpoint);
/* Before the socket is bound. */
void udp_drops_begin(struct pst_endpoint *endpoint);
/* How many of the socket's drops had a wrong UDP checksum. Where there are new drops, says once
 * for each cause what helps. */
uint64_t udp_drops_look(struct pst_endpoint *endpoint, uint32_t drops);
/* ---- The halves of an endpoint --------------------------------------------------------- */

int udp_rx_open(struct pst_endpoint *endpoint, struct pst_ring *ring);
/* Once the socket is open. */
int udp_rx_spill(struct pst_endpoint *endpoint);
void udp_rx_close(struct pst_endpoint *endpoint);
/* MESSAGEs into `out`; returns how many. */
uint32_t udp_rx_poll(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max);
/* Has poll() something to give that the socket would not tell of? */
bool udp_rx_pending(const struct pst_endpoint *endpoint);
bool udp_rx_has_room(const struct pst_endpoint *endpoint);

int udp_tx_open(struct pst_endpoint *endpoint, const struct pst_options *options);
void udp_tx_close(struct pst_endpoint *endpoint);

static inline void udp_done_push(struct pst_endpoint *endpoint, uint32_t opcode, uint64_t cookie,
                                 uint64_t count)
{
  struct udp_done *last = &endpoint->done[(endpoint->done_head - 1) & endpoint->done_mask];

  if (endpoint->done_head != endpoint->done_tail && last->opcode == opcode &&
      opcode == PST_OP_SEND) {
    last->cookie = cookie;
    last->count += count;
    return;
  }
  endpoint->done[endpoint->done_head++ & endpoint->done_mask] =
      (struct udp_done){cookie, count, opcode};
}

void udp_endpoint_free(struct pst_endpoint *endpoint);
void udp_path_fill(struct pst_path_info *path);

/* ---- The operations --------------------------------------------------------------------- */

int udp_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device);
void udp_close(struct pst_device *device);
int udp_limits(struct pst_device *device, struct pst_limits *limits);
int udp_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr);
void udp_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int udp_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void udp_worker_close(struct pst_worker *worker);
int udp_arm(struct pst_worker *worker);
int udp_event_fd(struct pst_worker *worker);
int udp_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring);
void udp_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int udp_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint);
int udp_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int udp_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int udp_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int udp_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int udp_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait);
int udp_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int udp_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int udp_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);
int udp_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
