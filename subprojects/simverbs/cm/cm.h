/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated librdmacm. Its agent stands for the kernel's connection manager: a thread of the
 * process that exchanges CM messages with the agents of others. A listener is an abstract socket
 * whose name says fabric, host, address and port; a connection is a socket between two agents, so
 * that a process that is killed is noticed as the kernel would report it. A message is sent only
 * while the fabric has a path for it; otherwise it is repeated, as the kernel does.
 *
 * cm.lock guards ids, channels and all fields below that the agent touches. Fields of
 * struct rdma_cm_id belong to the program's threads.
 */
#ifndef SIM_CM_H
#define SIM_CM_H

#include <errno.h>

#include "list.h"

#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#pragma GCC visibility pop

/* Bytes of private data, of which an IP address takes 36 in a request (IBTA 1.7, volume 1, 12.6 and
 * annex A11). The receiver sees them all, padded with zeros. */
enum { CM_DATA_REQ = 56, CM_DATA_REP = 196, CM_DATA_REJ = 148, CM_DATA = 196 };

/* Reasons of REJ (IBTA 1.7, volume 1, 12.6.7.2). */
enum { CM_REJ_TIMEOUT = 4, CM_REJ_SERVICE = 8, CM_REJ_CONSUMER = 28, CM_REJ_VENDOR = 35 };

enum cm_kind { CM_REQ = 1, CM_REP, CM_REJ, CM_RTU, CM_DREQ, CM_DREP };

struct cm_message {
  uint32_t kind; /* enum cm_kind */
  uint32_t reason;
  uint32_t qp_num, psn;
  union ibv_gid from, to;
  __be16 from_port, to_port;
  uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
  uint8_t mtu, ack_timeout;
  uint8_t data[CM_DATA];
};

enum cm_state {
  CM_IDLE,
  CM_BOUND,
  CM_LISTENING,
  CM_ADDR_QUERY,
  CM_ADDR_RESOLVED,
  CM_ROUTE_RESOLVED,
  CM_ACCEPTED, /* a socket whose request has not come yet: no id of the program's */
  CM_REQ_SENT,
  CM_REQ_RCVD,
  CM_REP_SENT,
  CM_REP_RCVD,
  CM_ESTABLISHED,
  CM_DREQ_SENT,
  CM_DREQ_RCVD,
  CM_OVER,
};

enum cm_timer { CM_NO_TIMER, CM_RESOLVES, CM_REPEATS, CM_HEARS_THE_END, CM_TIME_WAIT };

/* An address with a port: what rdma_bind_addr takes. */
struct cm_address {
  union ibv_gid gid;
  bool is_any;
  sa_family_t family;
  __be16 port;
};

struct cm_device {
  struct cm_device *next;
  const struct sim_device *device;
  struct ibv_context *verbs;
  struct ibv_pd *pd;
  unsigned users; /* of the PD */
  uint8_t initiator_depth, responder_resources;
};

struct cm_channel {
  struct rdma_event_channel channel; /* an eventfd that counts the events */
  struct sim_list events;
};

struct cm_id {
  struct rdma_cm_id id;
  struct sim_list link;
  uint64_t serial;
  enum cm_state state;

  int name;   /* a socket that holds the address, and listens there; -1 */
  int socket; /* to the peer; -1 */
  struct cm_address own, peer_address;
  struct sim_cm_path path;
  struct cm_id *listener; /* of a request that the program has not taken */
  unsigned backlog, waiting;

  uint32_t psn;
  struct cm_message peer; /* its request or response */
  bool has_peer;
  struct cm_message out; /* what goes, or waits for the path */
  unsigned tries;
  enum cm_timer timer;
  uint64_t due_ns, give_up_ns;

  uint8_t tos, ack_timeout;

  /* Used by the program's threads. */
  struct cm_device *device;
  bool is_sync, has_connect_error;
  struct ibv_qp_init_attr *qp_init_attr;
  uint8_t initiator_depth, responder_resources, retry_count;
  void *connect;
  size_t connect_len;

  pthread_cond_t acked_cond;
  unsigned given, acked; /* events */
};

struct cm_event {
  struct rdma_cm_event event;
  struct sim_list link;
  struct cm_id *of; /* whose events_given it counts: the listener, of a request */
  uint8_t data[CM_DATA];
};

struct cm_agent {
  pthread_mutex_t lock;
  struct sim_list ids;
  uint64_t last_serial;
  int epoll, wake;
  bool runs, ends;
  pthread_t thread;
};
extern struct cm_agent cm;

#define cm_id_of(p) sim_container_of(p, struct cm_id, id)
#define cm_channel_of(p) sim_container_of(p, struct cm_channel, channel)

/* Sets errno; -1. */
int cm_fail(int error);

/* ---- agent.c: with the lock held ---- */
/* Starts the thread, once. errno */
int cm_start(void);
void cm_wake(void);
void cm_watch(int fd, const struct cm_id *id);
/* Sends id->out, now or when there is a path. */
void cm_send(struct cm_id *id);
/* Returns a message of that kind, with this end's fields filled in. */
struct cm_message *cm_out(struct cm_id *id, enum cm_kind kind);
void cm_due(struct cm_id *id, enum cm_timer timer, uint64_t in_ns);
void cm_resolved(struct cm_id *id);

/* ---- ids.c ---- */
/* In the agent's list. NULL: no memory. */
struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context,
                         enum rdma_port_space space, enum ibv_qp_type type);
/* Ends the identifier's sockets and events, and takes it off the list; the lock is held. */
void cm_id_end(struct cm_id *id);
void cm_id_free(struct cm_id *id);
int cm_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
              enum rdma_port_space space, enum ibv_qp_type type);
/* A synchronous id waits for its event. */
int cm_complete(struct rdma_cm_id *id);

/* ---- events.c ---- */
/* `message` may be NULL; the lock is held. */
void cm_tell(struct cm_id *id, enum rdma_cm_event_type type, int status,
             const struct cm_message *message);
void cm_events_drop(struct cm_id *id);
/* Moves the events that the program has not taken. */
void cm_events_move(struct cm_id *id, struct rdma_event_channel *to);

/* ---- devices.c ---- */
/* The id gets its context, PD, port and addresses. 0 or -1. */
int cm_device_take(struct cm_id *id);
void cm_device_put(struct cm_device *device);
void cm_devices_close(void);

/* ---- address.c ---- */
bool cm_address_read(const struct sockaddr *from, struct cm_address *to);
void cm_address_write(const struct cm_address *from, struct sockaddr *to);
socklen_t cm_address_length(const struct sockaddr *address);
/* A name for the id's own address; a port that is free, where it says none. The lock is held.
 * errno */
int cm_name_take(struct cm_id *id);
/* Connects id->socket to who listens there: ECONNREFUSED, nobody; EAGAIN, not now. */
int cm_name_call(struct cm_id *id);
/* Is the other end a process of this user's? */
bool cm_is_own(int fd);

/* ---- qp.c ---- */
int cm_qp_ready_to_receive(struct rdma_cm_id *id, uint8_t responder_resources);
int cm_qp_ready_to_send(struct rdma_cm_id *id, uint8_t initiator_depth);
int cm_qp_error(struct rdma_cm_id *id);

#endif
