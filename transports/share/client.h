/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of `penstock share`: each object here stands for one of the router. */
#ifndef SHARE_CLIENT_H
#define SHARE_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include <penstock/share-protocol.h>
#include <penstock/transport-util.h>

#define SHARE_OPCODES (PST_OP_FLUSH + 1u)
#define SHARE_KEPT_FDS 16u

struct pst_device {
  const struct pst_host *host;
  struct pst_limits limits;
  int fd;
  uint64_t timeout_ns;
  uint64_t wait_ns;
  uint64_t
      router_uid; /* the router may run as this user, as root or as our user; UINT64_MAX: not set */
  atomic_bool is_gone;  /* the router is */
  atomic_bool is_wrong; /* the router breaks the protocol: its memory is not read any more */
  pthread_mutex_t lock; /* of the connection, of `names` and of what follows */
  struct share_name *names;
  struct {
    struct pst_share_request request;
    unsigned char bytes[PST_SHARE_BYTES];
  } out;
  struct {
    struct pst_share_reply reply;
    unsigned char bytes[PST_SHARE_BYTES];
  } in;
  char socket[108];
};

/* A counter's name or cause. It lives as long as the device. */
struct share_name {
  struct share_name *next;
  char text[];
};

struct pst_mr {
  uint32_t number;
  uint32_t access;
  uint64_t length;
  int fds[PST_SHARE_FDS]; /* from mr_pack(); the host uses them */
  uint32_t fd_count;
};

struct pst_remote {
  struct pst_remote *next; /* of the endpoint */
  struct pst_endpoint *endpoint;
  uint32_t number;
};

struct pst_ring {
  uint32_t number; /* in its tokens */
  uint32_t slots;
  uint64_t base, length; /* of the slots in the mr */
  uint64_t payload_max;
  uint8_t *out; /* by slot; 1: the host has the token */
};

/* Requests of one opcode that are outstanding: their cookies, in post order. */
struct share_cookies {
  uint64_t *at; /* NULL: the endpoint posts no such request */
  uint32_t head, tail;
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_remote *remotes;
  struct pst_ring *ring; /* NULL: it receives nothing */
  uint64_t cookie;
  uint32_t number;
  uint32_t roles;
  uint32_t requests, pieces, mask;
  uint32_t outstanding;
  uint64_t message_max;
  bool is_connecting, is_connected, is_disconnected, is_closing;
  struct share_cookies cookies[SHARE_OPCODES];
  int fds[SHARE_KEPT_FDS]; /* of its addresses; the host uses them */
  uint32_t fd_count;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_share_page *page;
  struct pst_share_entry *submit;
  const struct pst_completion *complete;
  uint32_t submit_tail, submit_head; /* submit_head: as last read */
  uint32_t complete_head;
  uint32_t number;
  int router_event, client_event, epoll_fd;
  bool is_armed, wants_room, has_told;
  uint64_t looked_ns; /* when the connection was last checked */
  struct pst_endpoint *endpoints[PST_SHARE_ENDPOINTS];
  uint32_t endpoint_room;  /* entries of `endpoints`; unused ones are NULL */
  struct pst_ring **rings; /* by place */
  uint32_t ring_room;
  uint64_t *released; /* tokens not yet passed to the router */
  uint32_t released_count, released_room;
};

/* connection.c */

struct share_call {
  struct pst_device *device;
  const struct pst_share_request *request;
  const void *bytes; /* request->length of them */
  const int *fds;
  uint32_t fd_count;
  /* Answers: descriptors are the caller's. */
  struct pst_share_reply reply;
  void *reply_bytes; /* NULL, or reply_room bytes */
  uint32_t reply_room;
  bool is_cut; /* cut an answer that is longer than its room, instead of -ENOSPC */
  int reply_fds[PST_SHARE_FDS];
  uint32_t reply_fd_count;
};

/* Connects to the router. 0 and the device's connection, or -errno, logged. */
int share_connect(struct pst_device *device);
/* Send a request to the router, and wait for the reply. Returns the reply's status, and logs what
 * the router's plugin has logged. -ENOTCONN: the router is gone. */
int share_call(struct share_call *call);
/* share_call() without bytes or descriptors. */
int share_ask(struct pst_device *device, const struct pst_share_request *request,
              struct pst_share_reply *reply);
/* Disconnect a router that breaks the protocol; it counts as gone. */
int share_distrust(struct pst_device *device);
/* Is the connection still up? */
bool share_connection_is_up(struct pst_device *device);
void share_close_fds(const int *fds, uint32_t count);
/* Convert the router's path into the one that a client reports; NULL is legal. */
void share_path_write(struct pst_path_info *path, const struct pst_path_info *found);

/* device.c */
int share_open(const struct pst_host *host, const struct pst_open_params *params,
               struct pst_device **device);
void share_close(struct pst_device *device);
int share_limits(struct pst_device *device, struct pst_limits *limits);
int share_start(struct pst_device *device);
int share_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                      struct pst_mr **mr);
void share_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int share_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);
int share_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);

/* worker.c */
int share_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void share_worker_close(struct pst_worker *worker);
int share_arm(struct pst_worker *worker);
int share_event_fd(struct pst_worker *worker);
int share_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                    struct pst_path_info *path, struct pst_ring **ring);
void share_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int share_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
/* Pass released tokens to the router, as far as the ring has room. */
void share_release_flush(struct pst_worker *worker);

/* endpoint.c */
int share_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                        struct pst_endpoint **endpoint);
int share_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int share_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int share_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int share_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int share_describe(struct pst_endpoint *endpoint, char *text, size_t size);
int share_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                      struct pst_remote **remote);
void share_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote);
/* Free an endpoint for which CLOSED has come. */
void share_endpoint_free(struct pst_endpoint *endpoint);

/* rings.c */
int share_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait);
/* Returns how many entries the submission ring has room for. */
uint32_t share_submit_room(struct pst_worker *worker);
/* Publish to the router what was written to the submission ring. */
void share_submit_publish(struct pst_worker *worker);

int share_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);

#endif
