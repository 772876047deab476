/* SPDX-License-Identifier: Apache-2.0 */
/* Receive slots of a ring, and the part of them that an endpoint has. */
#ifndef LOOPBACK_RX_H
#define LOOPBACK_RX_H

#include <penstock/transport-util.h>

struct lb_link;
struct lb_mr;

/* A region of a sender's, lent to a receiver. */
struct lb_buffer {
  struct lb_mr *mr; /* NULL: free entry */
  uint32_t number;
  uint32_t out; /* tokens */
};

#define LB_NO_BUFFER UINT16_MAX
enum { LB_SLOT_PEER = 0, LB_SLOT_HELD = 1 };

/* A receiver's part of a ring. It lives as long as the ring, since tokens outlive
 * their endpoint. */
struct lb_rx {
  struct pst_endpoint *endpoint; /* NULL: closed */
  struct pst_ring *ring;
  struct lb_link *own;
  struct lb_link *peer; /* to wake; NULL: not connected */
  bool fenced;
  uint32_t index; /* its number among the worker's: upper half of its tokens */
  uint32_t part;  /* of the ring's */
  int process_fd; /* -1, or that of a peer that may still write */
  uint64_t tail;
  uint64_t claimed; /* by reference: taken over up to here */
  uint64_t free_head;
  uint64_t payload_offset; /* of slot 0's payload in the mr */
  uint8_t *states;
  uint16_t *buffer_of; /* by reference: index into buffers, of each slot */
  struct lb_buffer *buffers;
  uint32_t buffer_count;
  uint32_t last_buffer;
  uint32_t in_slots; /* tokens out of messages that lie in the ring's own slots */
  bool over;         /* its regions are to be given up as their tokens come back */
  uint64_t messages;
  uint64_t bytes;
};

/* Returns how many slots the peer can send into: those given back and not used since. */
static inline uint64_t lb_rx_credits(const struct lb_rx *rx)
{
  return rx->free_head - rx->tail;
}

struct pst_ring {
  struct pst_worker *worker;
  struct pst_ring_params params;
  struct lb_mr *mr;
  struct lb_rx **parts; /* params.endpoints; NULL: never used */
};

/* A part of the ring that is free, and a place in the worker's table. -ENOSPC: none is. */
int lb_rx_open(struct pst_ring *ring, struct lb_rx **rx);
void lb_rx_free(struct lb_rx *rx);
/* By reference: give back what was taken over and never handed to the host. */
void lb_rx_return(struct lb_rx *rx);
/* All that the peer has sent was handed over. */
bool lb_rx_drained(const struct lb_rx *rx);

int lb_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring);
void lb_ring_close(struct pst_worker *worker, struct pst_ring *ring);

#endif
