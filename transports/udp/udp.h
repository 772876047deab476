/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, workers, rings and endpoints; and the operations.
 *
 * An endpoint has a socket of its own. A sender's is connected; a receiver's is bound
 * and takes datagrams from whoever sends, since what is not ours is to be counted.
 */
#ifndef UDP_H
#define UDP_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-cpu.h>

#include "../datagram/endpoint.h"
#include "described.h"

#define UDP_SEGMENTS_MAX 64u /* of one buffer, either way (UDP_MAX_SEGMENTS of Linux 5) */
#define UDP_CONTROL_BYTES 256u

struct pst_device {
  struct dg_device dg;
  enum udp_timestamps timestamps;
  enum udp_departure departure;
  char name[64];            /* option `device` */
  union dg_address listens; /* where receivers are bound without it; AF_UNSPEC: anywhere */
};

struct pst_worker {
  struct pst_device *device;
  int epoll_fd;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  struct pst_places rings;
  uint32_t turn; /* endpoint that the next poll begins with */
  bool armed;
};

struct udp_rx;
struct udp_tx;

struct pst_ring {
  struct pst_cpu_ring cpu;
};

/* Bytes of a slot behind its headroom. */
static inline uint32_t udp_slot_room(const struct pst_ring *ring)
{
  return (uint32_t)(ring->cpu.params.payload_max + ring->cpu.params.tailroom);
}

struct pst_endpoint {
  struct dg_endpoint dg;
  struct pst_worker *worker;
  int fd;
  uint32_t interest; /* of epoll */
  bool has_error;    /* epoll says so: look at it in poll */
  struct udp_rx *rx;
  struct udp_tx *tx;
};

#define UDP_TELL(endpoint, ...) DG_TELL(&(endpoint)->dg, __VA_ARGS__)
#define UDP_REFUSE(endpoint, code, ...) DG_REFUSE(&(endpoint)->dg, code, __VA_ARGS__)

/* socket.c */

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

/* endpoint.c */

void udp_endpoint_free(struct pst_endpoint *endpoint);
void udp_path_fill(struct pst_path_info *path);

/* The operations. */

int udp_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device);
void udp_close(struct pst_device *device);
int udp_limits(struct pst_device *device, struct pst_limits *limits);
int udp_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr);
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
int udp_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait);
int udp_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int udp_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
int udp_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);
int udp_describe(struct pst_endpoint *endpoint, char *text, size_t size);

#endif
