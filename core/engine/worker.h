/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport's worker with its endpoints, from opening to EVENT CLOSED. Sessions and nodes have
 * them as members of their own objects, and say by a table what events mean there.
 */
#ifndef PST_ENGINE_WORKER_H
#define PST_ENGINE_WORKER_H

#include <stdbool.h>

#include "control/control.h"

#include "device.h"

struct engine_endpoint;
struct engine_worker;

/* A region that the transport lends; messages lie in it. */
struct engine_lent {
  const struct pst_region *region; /* NULL: nothing lent by this number */
  void *host;                      /* of the region, which is gone when UNLENT has come */
  uint64_t length;
  uint64_t pinned; /* the owner's: by which of its memories */
};

/* Handlers of a worker's events, from the worker's owner. */
struct engine_events {
  void (*connected)(struct engine_endpoint *endpoint);
  void (*disconnected)(struct engine_endpoint *endpoint, int status);
  void (*readdressed)(struct engine_endpoint *endpoint); /* its address is another one now */
  void (*closed)(struct engine_endpoint *endpoint);      /* NULL: its state says enough */
  void (*device_failed)(struct engine_worker *worker, int status);
  /* NULL: nothing to do. */
  void (*lent)(struct engine_worker *worker, struct engine_lent *lent);
  void (*unlent)(struct engine_worker *worker, const struct engine_lent *lent);
};

struct engine_worker {
  struct engine_device *device;
  const struct pst_transport_ops *ops;
  struct pst_worker *handle; /* NULL: not open */
  const struct engine_events *events;
  int event_fd;       /* -1: cannot wake */
  uint32_t endpoints; /* that CLOSED has not come of */
  struct engine_lent lent[ENGINE_LENT_MAX];
};

enum engine_endpoint_state {
  ENGINE_ENDPOINT_NONE,
  ENGINE_ENDPOINT_OPEN,
  ENGINE_ENDPOINT_CLOSING, /* endpoint_close was called */
  ENGINE_ENDPOINT_CLOSED,  /* EVENT CLOSED has come, or never will */
};

/* The first member of its owner: completions name the owner by the endpoint's place. */
struct engine_endpoint {
  struct engine_worker *worker;
  struct pst_endpoint *handle;
  enum engine_endpoint_state state;
};

/* An endpoint's address, as it is sent to the peer. */
struct engine_address {
  struct pst_blob blob;
  unsigned char bytes[CONTROL_ADDRESS_MAX];
};

/* Why an endpoint does not connect. */
struct engine_why {
  bool is_logged; /* the transport's own line */
  char text[512];
};

/* The next worker of the device. The plugin's message about a failure is the error. */
int engine_worker_open(struct engine *engine, struct engine_device *device,
                       const struct engine_events *events, struct engine_worker *worker,
                       struct pst_error *error);
/* The engine's to close from now on, with that handle. 0 or -ENOMEM with the handle closed. */
int engine_worker_add(struct engine *engine, struct engine_device *device,
                      const struct engine_events *events, struct pst_worker *handle,
                      struct engine_worker *worker);
/* An EVENT of the worker or of one of its endpoints. */
void engine_worker_take_event(struct engine_worker *worker,
                              const struct pst_completion *completion);
/* Wait until all endpoints of all workers are closed, which were asked to be. Messages that still
 * come go back, and nobody hears of events. False, after a warning: some were open at give_up_ns,
 * and the transport had not worked on closing for a second. It may still use all that they name:
 * free nothing. */
bool engine_await_closed(struct engine *engine, uint64_t give_up_ns);
/* Behind all deferred works. Endpoints and rings are closed. */
void engine_close_workers(struct engine *engine);

/* Returns the lent region of this number if its bytes can be read as those of `own`; else NULL. It
 * is of the same kind and device; or, where its bytes are copied, the CPU or the same device
 * reaches it; or, where they are not, it is host memory that a device sees, at the CPU's address,
 * and `own` is host memory. */
const struct pst_region *engine_lent_find(const struct engine_worker *worker, uint32_t buffer,
                                          const struct pst_region *own, bool is_copied);

/* The owner's `params`; its cookie is set here. 0 or -errno of the transport. */
int engine_endpoint_open(struct engine_endpoint *endpoint, struct engine_worker *worker,
                         struct pst_endpoint_params *params);
int engine_endpoint_address(const struct engine_endpoint *endpoint, struct engine_address *address);
/* `who` is at the address, and the remedy is what helps in general: for `why`, if this fails. */
int engine_endpoint_connect(const struct engine_endpoint *endpoint, const struct pst_blob *address,
                            const char *who, const char *remedy, struct engine_why *why);
/* Closes an endpoint that is open; mode: enum pst_close_mode. */
void engine_endpoint_close(struct engine_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);

/* Slots of messages are free again. */
static inline void engine_release(const struct engine_worker *worker, const uint64_t *tokens,
                                  uint32_t n)
{
  worker->ops->release(worker->handle, tokens, n);
}

static inline int engine_post(const struct engine_endpoint *endpoint,
                              const struct pst_request *requests, uint32_t n, uint32_t *wait)
{
  return endpoint->worker->ops->post(endpoint->handle, requests, n, wait);
}

#endif
