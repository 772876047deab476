/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of `penstock share`: its connection, and what belongs to no worker. */
#ifndef SHARE_DEVICE_H
#define SHARE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include <penstock/share-protocol.h>
#include <penstock/transport-util.h>

enum share_state {
  SHARE_UP,
  SHARE_AWAY,   /* the router has ended; a poll looks for a new one now and then */
  SHARE_TRYING, /* one thread does so, or registers the memory again */
  SHARE_ENDED,  /* for good */
};

/* Counters as last reported: those of a router that was started again begin at 0. */
struct share_kept {
  struct share_kept_counter {
    struct pst_counter shown;
    uint64_t base; /* what the routers before had counted */
  } * at;
  uint32_t count;
  uint32_t opened; /* which of the router's objects has counted */
};

struct pst_device {
  const struct pst_host *host;
  struct pst_limits limits;
  struct pst_limits router_limits; /* as the router had them; without a text */
  int fd;
  uint64_t timeout_ns;
  uint64_t wait_ns;
  uint64_t reconnect_ns; /* 0: a router that ends is not waited for */
  uint64_t
      router_uid; /* the router may run as this user, as root or as our user; UINT64_MAX: not set */
  atomic_int state;         /* enum share_state */
  atomic_uint link;         /* the number of the connection, from 1 on; 0: not UP */
  atomic_uint last_link;    /* the newest that there was */
  _Atomic uint64_t away_ns; /* since when there is no router */
  _Atomic uint64_t try_ns;  /* when to look for one next */
  atomic_bool is_wrong;     /* the router breaks the protocol: its memory is not read any more */
  bool is_started;          /* by share_start() */
  pthread_mutex_t objects_lock; /* of these two lists, while a new router gets them, too */
  struct pst_mr *mrs;
  struct pst_worker *workers;
  struct pst_share_request open; /* the first request of each connection */
  pthread_mutex_t lock;          /* of the connection, of `names` and of what follows */
  struct share_name *names;
  struct share_kept kept;
  struct {
    struct pst_share_request request;
    unsigned char bytes[PST_SHARE_BYTES];
  } out;
  struct {
    struct pst_share_reply reply;
    unsigned char bytes[PST_SHARE_BYTES];
  } in;
  char socket[108];
  char refusal[512]; /* of the restore that failed last; of the thread that restores */
};

/*
 * Before the transport's address. A connection of two ends has a number, its epoch. An end whose
 * router has ended, or whose connection broke, opens another endpoint for the next epoch, and says
 * its address (READDRESS). The peer does the same when it hears of an epoch above its own; it
 * ignores those below. So both meet in the highest.
 */
struct share_hello {
  uint64_t epoch;
  uint64_t sent; /* messages, in all epochs before */
  uint64_t next; /* the sequence number behind the last of these */
};

/* A counter's name or cause. It lives as long as the device. */
struct share_name {
  struct share_name *next;
  char text[];
};

struct pst_mr {
  struct pst_mr *next;
  struct pst_mr_params params; /* its path is NULL */
  atomic_uint number;
  uint32_t access;
  uint64_t length;
  int fds[PST_SHARE_FDS]; /* from mr_pack(); the host uses them */
  uint32_t fd_count;
};

/* connection.c */

struct share_call {
  struct pst_device *device;
  uint32_t link; /* of what the call is about; at another router it fails. 0: it is about none */
  bool restores; /* the device is TRYING */
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
/* Connects to a router that may serve again, in the place of the old connection. 0; -EACCES of its
 * user, logged; or -errno of connect(). */
int share_connect_again(struct pst_device *device);
/* Send a request to the router, and wait for the reply. Returns the reply's status, and logs what
 * the router's plugin has logged. -ENOTCONN: the router is gone. */
int share_call(struct share_call *call);
/* share_call() whose reply brings no descriptors. */
int share_ask(struct share_call *call);
/* Disconnect a router that breaks the protocol; it counts as gone for good. */
int share_distrust(struct pst_device *device);
/* The same for a router that has refused what it must do. */
int share_end(struct pst_device *device);
/* Is the connection still up? */
bool share_connection_is_up(struct pst_device *device);
void share_close_fds(const int *fds, uint32_t count);
/* Convert the router's path into the one that a client reports; NULL is legal. */
void share_path_write(struct pst_path_info *path, const struct pst_path_info *found);

/* counters.c */
void share_kept_free(struct share_kept *kept);

/* device.c */

/* The first call of a connection. 0 and the router's limits, or -errno. */
int share_ask_open(struct pst_device *device, bool restores, struct pst_limits *limits);
int share_ask_start(struct pst_device *device, bool restores);
/* Registers the memory with the router that serves now. */
int share_mr_restore(struct pst_device *device, struct pst_mr *mr);
int share_open(const struct pst_host *host, const struct pst_open_params *params,
               struct pst_device **device);
void share_close(struct pst_device *device);
int share_limits(struct pst_device *device, struct pst_limits *limits);
int share_start(struct pst_device *device);
int share_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                      struct pst_mr **mr);
void share_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int share_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);

#endif
