/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router's internals. One thread listens, each client has a thread that answers its requests,
 * and each worker of a client has a thread that polls the transport's worker.
 */
#ifndef PST_SHARE_ROUTER_H
#define PST_SHARE_ROUTER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <penstock/share-protocol.h>
#include <penstock/share.h>
#include <penstock/transport-util.h>

#include "classes.h"
#include "config/arena.h"
#include "loader/loader.h"

#define SHARE_WORKERS_MAX 256u
#define SHARE_REGIONS_MAX 65536u
#define SHARE_SLOTS_MAX (1u << 20)            /* of all rings of a client together */
#define SHARE_MESSAGE_MAX (UINT64_C(1) << 32) /* the largest that a client may plan */

#define SHARE_WHY_BYTES 384 /* for the reason of a refusal */

struct share_client;
struct share_device;
struct share_life;
struct share_worker;

/* Objects of clients that take descriptors and mappings of the router. */
enum share_object {
  SHARE_CLIENT,
  SHARE_REGION,
  SHARE_WORKER,
  SHARE_RING,
  SHARE_ENDPOINT,
  SHARE_REMOTE,
};

enum share_resource { SHARE_FDS, SHARE_MAPS, SHARE_RESOURCES };

/* A user that has clients. */
struct share_user {
  struct share_user *next;
  struct pst_share *share;
  uid_t uid;
  uint32_t clients;
  uint64_t held[SHARE_RESOURCES]; /* by its clients; under the share's lock */
};

/* A region that a client has registered. The entry lives as long as the client, so that a worker
 * may look at any entry. */
struct share_mr {
  _Atomic uint32_t number; /* 0: must not be used */
  _Atomic uint32_t uses;   /* by rings, and by requests that are not done */
  uint32_t generation;
  uint32_t access;
  uint64_t length;
  struct pst_mr *mr; /* NULL: the entry is free */
  struct pst_region region;
  struct pst_export from; /* what the client has handed over; the descriptor is the router's own */
  void *map; /* host memory: this process's mapping; of a dma-buf, addresses that nobody may touch;
                NULL: the router's memory has imported the region */
  size_t map_length;
};

/* A request of the client that its worker's thread carries out. */
struct share_command {
  const struct pst_share_request *request;
  const void *bytes;
  const int *fds;
  uint32_t fd_count;
  struct pst_share_reply *reply;
  void *reply_bytes;            /* PST_SHARE_BYTES */
  int reply_fds[PST_SHARE_FDS]; /* closed after the reply is sent */
  uint32_t reply_fd_count;
};

struct share_client {
  struct pst_share *share;
  struct share_client *next;
  int fd;
  pid_t pid;
  uid_t uid;
  struct share_user *user;
  uint64_t number;
  pthread_t thread;
  atomic_bool is_over;       /* the thread is to be joined */
  atomic_bool is_broken;     /* it broke a rule */
  struct share_class *class; /* of OPEN; NULL: none yet */
  pthread_mutex_t rate_lock; /* of what follows; taken where its class has a rate */
  double budget;             /* bytes that may go; below 0: they went before their time */
  uint64_t budget_at_ns;
  struct pst_device *device;
  struct pst_plan plan;
  struct pst_limits limits;
  bool is_open;                 /* OPEN has succeeded */
  bool has_wakeup;              /* the router's transport has it; clients have it in any case */
  struct pst_memory_ops memory; /* of the regions of `mrs` */
  struct share_mr *mrs;
  uint64_t bytes;
  uint32_t regions;
  _Atomic uint32_t endpoints, rings, slots, remotes;
  _Atomic uint64_t
      queued; /* places in the queues of its endpoints: see share_endpoint_make_room() */
  struct share_worker *workers[SHARE_WORKERS_MAX];
  uint32_t worker_count;
};

struct pst_share {
  struct pst_share_params params;
  char socket[108];
  struct arena arena; /* has the classes */
  struct share_class *classes;
  uint32_t class_count;
  const struct loader_plugin *transport;
  const struct loader_plugin *memory; /* imports device memory; NULL: none */
  pthread_mutex_t devices_lock;
  struct share_device *devices; /* of `memory`, that clients have named */
  struct pst_options *options;
  int listen_fd, lock_fd, stop_fd;
  bool is_short;              /* the listener has no descriptors: it has been logged */
  _Atomic uint64_t warned_ns; /* when a refusal was logged last */
  pthread_t thread;
  pthread_mutex_t lives_lock;
  struct share_life *lives;
  pthread_mutex_t lock; /* of the clients */
  struct share_client *clients;
  uint32_t client_count;
  struct share_user *users;
  uint64_t room[SHARE_RESOURCES], held[SHARE_RESOURCES]; /* for clients of all users; by them */
  _Atomic uint32_t connected;
  _Atomic uint64_t accepted; /* connections */
  _Atomic uint64_t served, refused, expelled;
  _Atomic uint64_t regions, bytes, endpoints, requests, messages;
};

/* share.c. Counts a refused client, and logs why, at most once a second: any user may cause it. Any
 * thread. */
void share_count_refusal(struct pst_share *share, const char *why);

/* users.c. Find out how many descriptors and mappings all clients may have together. */
void share_users_begin(struct pst_share *share);
/* Counts a new client of this user. 0, or -errno with the reason in `why`. */
int share_user_join(struct pst_share *share, uid_t uid, struct share_user **user, char *why,
                    size_t size);
/* The client is gone; the user may be freed. */
void share_user_leave(struct share_user *user);
/* Take what an object of a client needs: before it is opened. 0; -ENOSPC, logged: neither this user
 * nor all together may have more. Any thread. */
int share_user_take(struct share_user *user, enum share_object object);
/* Takes it, and allocates the object with zeros; NULL: not, and *rc is -errno. Any thread. */
void *share_user_alloc(struct share_user *user, enum share_object object, size_t size, int *rc);
/* Give it back: the object is closed. */
void share_user_give(struct share_user *user, enum share_object object);

/* client.c. Takes the connection over, and closes it on failure. The user has counted the client.
 */
int share_client_start(struct pst_share *share, int fd, pid_t pid, struct share_user *user);
/* Wait for the client's thread, which has ended or ends since its connection is shut down. */
void share_client_join(struct share_client *client);

/* expel.c. Disconnect a client that broke a rule, and log which. Any thread; the first rule counts.
 */
void share_client_expel(struct share_client *client, const char *rule);

/* command.c. Add a duplicate of the descriptor to the reply, since its owner may close it before
 * the reply is sent. On the thread that owns it. */
int share_command_add_fd(struct share_command *command, int fd);
/* Add a blob of the transport to the reply. On the thread of the blob's owner. */
int share_command_add_blob(struct share_command *command, const struct pst_blob *blob);
/* The reply gets the counters of the client's device; of this worker or endpoint of it, where there
 * is one. Returns how many, or -errno. On the thread of what has them. */
int share_command_add_counters(struct share_command *command, const struct share_client *client,
                               struct pst_worker *worker, struct pst_endpoint *endpoint);
/* Closes the reply's descriptors. */
void share_command_close(struct share_command *command);

/* device.c. Opens the first device of the router's memory plugin, and with it the driver, before
 * seccomp refuses system calls that a driver's start needs; the others once clients name them. */
int share_device_open_first(struct pst_share *share);
/* Imports device memory of a client. -EOPNOTSUPP: *path says why the router does not.
 * share_device_release() undoes it. */
int share_device_import(struct pst_share *share, const struct pst_export *from,
                        struct pst_region *region, struct pst_path_info *path);
void share_device_release(struct pst_share *share, struct pst_region *region);
/* Closes the memories, once nothing is imported. */
void share_device_close_all(struct pst_share *share);

/* memory.c: on the client's thread. */
int share_memory_open(struct share_client *client);
void share_memory_close(struct share_client *client);
int share_mr_register(struct share_client *client, const struct share_command *command);
int share_mr_deregister(struct share_client *client, uint32_t number);
void share_mr_deregister_all(struct share_client *client);
/* Take a use of a registered region; NULL: there is none of that number. Any thread. */
struct share_mr *share_mr_use(struct share_client *client, uint32_t number);
static inline void share_mr_unuse(struct share_mr *mr)
{
  if (mr)
    atomic_fetch_sub(&mr->uses, 1);
}

/* worker.c: on the client's thread. */
int share_worker_open(struct share_client *client, struct share_command *command);
/* Make the worker's thread end; share_worker_close() waits for it. */
void share_worker_stop(struct share_worker *worker);
/* Close the worker and everything that it has open. */
void share_worker_close(struct share_worker *worker);
/* Let the worker's thread carry out a command. */
void share_worker_ask(struct share_worker *worker, struct share_command *command);

#endif
