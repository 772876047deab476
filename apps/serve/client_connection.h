/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to `penstock serve`, and reads and writes of the client's files. Requests
 * and file operations end by a callback out of serve_connection_step(). One thread.
 */
#ifndef APP_SERVE_REMOTE_H
#define APP_SERVE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "io.h"
#include "wire.h"

#define REMOTE_PENDING 256u /* at a time, also those that wait for the server's window */

struct remote_params {
  const char *address;
  struct pst_node_params node;
  struct pst_area_params area; /* that is offered, but for its length */
};

struct serve_pending;
typedef void serve_pending_answered(struct serve_pending *pending,
                                    const struct serve_message *answer);

/* A pending request. It belongs to the connection from serve_connection_ask() until `answered`
 * runs, which gets a message of the type `wanted`, or REFUSE. */
struct serve_pending {
  serve_pending_answered *answered;
  uint32_t wanted; /* enum serve_type of the answer */
  struct serve_pending *next;
  uint32_t length;
  bool sent;
  uint8_t bytes[SERVE_NAME_MAX + 256];
};

/* A read, write or sync of a file. */
struct work {
  struct io_request io;
  void (*ended)(struct work *work);
};

struct connection {
  struct pst_node *node;
  struct pst_peer *peer;
  struct io *io;
  const char *address; /* the server's, as it was asked for */
  int event_fd;        /* of signals; -1 */
  bool joined, taken, closing, left;
  bool awake;                      /* its owner waits for what wakes nobody: do not sleep */
  int status;                      /* once it has left, or an offer was refused */
  char text[SERVE_TEXT_MAX + 256]; /* why, with the server's address */
  struct serve_message limits;     /* the WELCOME; type 0: not yet */
  struct serve_pending *pending[REMOTE_PENDING]; /* by tag - 1 */
  uint32_t under_way;
  struct serve_pending *first, **last; /* those that wait */
  struct serve_pending ping;
  bool pinging;
  bool waiting;   /* for a message that answers no request: WELCOME, TAKEN */
  bool has_heard; /* in this step, from the thread that serves */
  bool stopping;
  uint64_t timeout_ns; /* of silence while something is awaited; 0: none */
  uint64_t said_ns, busy_ns, heard_ns, stepped_ns;
};

/* Connects and greets; blocks. Close in any case. 0, or -errno with *error. */
int serve_connection_open(const struct remote_params *params, int event_fd,
                          struct connection *remote, struct pst_error *error);
void serve_connection_close(struct connection *remote);

/* Memory as the params say, and its offer to the server; blocks. */
int serve_connection_offer(struct connection *remote, const struct remote_params *params,
                           uint64_t bytes, uint32_t access, struct pst_area **area,
                           uint32_t *region, struct pst_error *error);

/* Send a request; it waits while the server's window is full. At most REMOTE_PENDING at a time. */
void serve_connection_ask(struct connection *remote, struct serve_pending *pending, uint32_t wanted,
                          const struct serve_message *message, serve_pending_answered *answered);
/* A sum: with work->io's `sum` and `to_grow` set. */
void serve_connection_work(struct connection *remote, struct work *work, enum io_op op, int fd,
                           uint8_t *bytes, uint64_t length, uint64_t offset,
                           void (*ended)(struct work *work));
/* Call back what has ended; sleep when there was nothing. 0; -errno: the server has left, as
 * status and text say, and nothing that was asked is answered any more. */
int serve_connection_step(struct connection *remote);

#endif
