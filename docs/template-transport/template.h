/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest transport: one process, one copy, one lock.
 *
 * The lock is taken once a call, not once a message, and guards all that both ends
 * touch. transports/loopback shows how it goes without. */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport.h>

#define REQUESTS_MAX 65536u
#define SLOTS_MAX 65536u
#define PIECES_MAX 16u
#define MESSAGE_MAX (UINT64_C(1) << 30)

struct pst_device {
  const struct pst_host *host;
};

struct pst_mr {
  uint8_t *at;
  uint64_t length;
  uint32_t access;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_endpoint *endpoints; /* by `next` */
  struct pst_ring *rings;
  uint32_t rings_opened; /* ever */
};

struct arrival {
  uint32_t slot;
  uint32_t length;
  uint64_t sequence;
  uint64_t meta;
};

struct pst_ring {
  struct pst_ring *next;
  struct pst_ring_params params;
  uint32_t number; /* upper half of its tokens */
  bool is_taken;
  uint32_t *free; /* slots, the last one first */
  uint32_t free_count;
  bool *is_out;
  struct arrival *arrived; /* a queue of params.slots */
  uint32_t first, waiting;
};

/* A DONE that is owed. */
struct owed {
  uint8_t opcode;
  uint64_t cookie, count;
};

struct pst_endpoint {
  struct pst_endpoint *next, *next_known;
  struct pst_worker *worker;
  struct pst_endpoint_params params;
  uint64_t number, peer_number; /* peer_number 0: endpoint_connect was not called */
  struct pst_endpoint *peer;    /* both have named each other */
  struct owed *owed;            /* a queue of params.requests */
  uint32_t first, waiting, outstanding;
  bool owes_connected, owes_disconnected, is_gone, is_closing;
  int32_t status; /* of DISCONNECTED */
};

extern pthread_mutex_t template_lock;

int template_refuse(const struct pst_device *device, int code, const char *why);

/* ring.c */
int template_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                       struct pst_path_info *path, struct pst_ring **ring);
void template_ring_close(struct pst_worker *worker, struct pst_ring *ring);
int template_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);
void template_path(struct pst_path_info *path);

/* endpoint.c */
int template_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                           struct pst_endpoint **endpoint);
int template_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address);
int template_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address);
int template_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path);
int template_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
/* CLOSED has been given. The lock is held. */
void template_endpoint_free(struct pst_endpoint *endpoint);
uint32_t template_address_bytes(void);

/* move.c */
int template_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                  uint32_t *wait);
int template_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);

#endif
