/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that a worker's endpoints share (`srq`). A shared receive queue has entries of one kind;
 * which it was, a completion's wr_id says, and whose, the number of its queue pair.
 *
 * An endpoint reserves as many as can come to it, so that there is always one for whatever peers
 * may send; what was taken is posted again before poll() returns, and before any credit is said.
 * What a queue pair that fails has taken comes by the completion queue, too: entries go back
 * whoever took them. A queue pair has none any more once its device says so (its last WQE is
 * reached) and the completion queue was empty since; before that it is neither reset nor destroyed
 * (IBA 10.3.1). Where the device does not say so, what is sent in ERR is flushed behind it.
 */
#ifndef RC_SHARED_H
#define RC_SHARED_H

#include "queue.h"

/* Of a receive's wr_id: it is a shared one's, and the rest is which. */
#define RC_SHARED_BIT (UINT64_C(1) << 31)
#define RC_SHARED_ENTRY (RC_SHARED_BIT - 1)

enum rc_shared_kind {
  RC_SHARED_BARE,    /* without buffers: nobody says more than immediate data */
  RC_SHARED_BUFFERS, /* for credit, and all else that comes to who is sent credit */
  RC_SHARED_SLOTS,   /* free slots of a ring, for SENDs */
};

struct rc_shared {
  struct pst_worker *worker;
  struct pst_ring *ring; /* of slots */
  struct ibv_srq *srq;
  enum rc_shared_kind kind;
  uint64_t wr_id; /* of entry 0 */
  uint32_t place;
  bool has_place;
  uint32_t size;
  uint32_t reserved; /* by endpoints; of slots: all */
  uint32_t posted;   /* with the device, or in the completion queue */
  uint32_t *back;    /* the others, which are to be posted if they are reserved */
  uint32_t back_count;
  uint8_t *buffers;
  struct ibv_mr *mr;
  struct rc_receives receives;
  _Atomic int event; /* enum ibv_event_type + 1, 0: none */
  bool is_due;
  struct rc_shared *next_due;
};

/* Of an endpoint: room for its receives, before its queue pair is made; and given back, after.
 * 0 or -errno, which is told. */
int rc_shared_join(struct pst_endpoint *endpoint);
/* How many endpoints of so many receives each a worker may have, or more than `enough`. */
uint64_t rc_shared_most(const struct pst_device *device, uint32_t wanted, uint64_t enough);
void rc_shared_leave(struct pst_endpoint *endpoint);
/* Its queue pair's completions are told from others' from now on. */
void rc_shared_name(struct pst_endpoint *endpoint);
struct pst_endpoint *rc_shared_find(struct pst_worker *worker, uint32_t qp_num);

/* Slots of a ring, all of them. 0 or -errno, which is told. */
int rc_shared_open_slots(struct pst_ring *ring);
void rc_shared_close(struct rc_shared *shared);
/* When a worker closes. */
void rc_shared_close_all(struct pst_worker *worker);

static inline struct rc_shared *rc_shared_of(const struct pst_worker *worker, uint64_t wr_id)
{
  return pst_places_find(&worker->shared, (uint32_t)(wr_id >> 32) & PST_PLACE_NUMBERS);
}
static inline uint32_t rc_shared_entry(uint64_t wr_id)
{
  return (uint32_t)(wr_id & RC_SHARED_ENTRY);
}
static inline uint8_t *rc_shared_buffer(const struct rc_shared *shared, uint64_t wr_id)
{
  return shared->buffers + (size_t)rc_shared_entry(wr_id) * RC_SHARED_CREDIT_BYTES;
}
/* Something is to be posted, by the next rc_shared_post_due(). */
static inline void rc_shared_due(struct rc_shared *shared)
{
  if (shared->is_due)
    return;
  shared->is_due = true;
  shared->next_due = shared->worker->shared_due;
  shared->worker->shared_due = shared;
}
/* An entry that the device has given back. */
static inline void rc_shared_back(struct rc_shared *shared, uint32_t entry)
{
  shared->posted--;
  shared->back[shared->back_count++] = entry;
  rc_shared_due(shared);
}
/* Post what was taken. 0 or -errno; at the end of a poll, its endpoints fail. */
int rc_shared_post(struct rc_shared *shared);
void rc_shared_post_due(struct pst_worker *worker);

/* It may take entries from now on. */
void rc_shared_begin(struct pst_endpoint *endpoint);
/* By poll: has it given all back? Then rq_posted is 0. */
void rc_shared_step(struct pst_endpoint *endpoint);
/* False: it is another's completion than that of what was posted in ERR. */
bool rc_shared_flushed(struct pst_endpoint *endpoint, const struct ibv_wc *wc);
/* By rc_look. */
void rc_shared_look(struct pst_endpoint *endpoint, uint64_t now_ns);
/* Events of queue pairs and of shared queues, left by rc_events. */
void rc_shared_notice(struct pst_endpoint *endpoint);
void rc_shared_notices(struct pst_worker *worker);

#endif
