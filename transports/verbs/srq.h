/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that a worker's endpoints share (`srq`). A shared receive queue has entries of one kind.
 * A completion's wr_id says which entry was used, and its queue pair number by which endpoint.
 *
 * An endpoint reserves as many receives as messages can come to it, so that there is always one for
 * what peers may send. Used receives are posted again before poll() returns, and before any credit
 * is sent. Receives that a failing queue pair has taken come by the completion queue, too, and go
 * back like all others.
 */
#ifndef VERBS_SRQ_H
#define VERBS_SRQ_H

#include "endpoint.h"

/* In a receive's wr_id: it is a shared one's, and the rest is which. */
#define VB_SRQ_BIT (UINT64_C(1) << 31)
#define VB_SRQ_ENTRY (VB_SRQ_BIT - 1)

enum vb_srq_kind {
  VB_SRQ_BARE,    /* without buffers: nobody says more than immediate data */
  VB_SRQ_BUFFERS, /* for credit, and all else that comes to who is sent credit */
  VB_SRQ_SLOTS,   /* free slots of a ring, for SENDs */
};

/* The context of a queue pair that a worker has and no endpoint: what its events leave. */
struct vb_queue {
  struct pst_worker *worker;
  _Atomic int event; /* enum ibv_event_type + 1, 0: none */
};

struct vb_srq {
  struct pst_worker *worker;
  struct pst_ring *ring; /* of slots */
  struct ibv_srq *srq;
  struct ibv_qp *target; /* the transport's, which takes from it alone and ends with it; or NULL */
  struct vb_queue queue; /* the target's context */
  enum vb_srq_kind kind;
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
  struct vb_receives receives;
  _Atomic int event; /* enum ibv_event_type + 1, 0: none */
  bool is_due;
  struct vb_srq *next_due;
};

/* Room for an endpoint's receives, before its queue pair is made; and given back, after.
 * 0, or -errno after logging. */
int vb_srq_join(struct pst_endpoint *endpoint);
/* Room for so many more receives of that kind, without slots, posted. 0 or -errno, logged. */
int vb_srq_reserve(struct pst_worker *worker, enum vb_srq_kind kind, uint32_t wanted,
                   const char *label, struct vb_srq **shared);
/* How many endpoints of so many receives each a worker may have, or more than `enough`. */
uint64_t vb_srq_most(const struct pst_device *device, uint32_t wanted, uint64_t enough);
void vb_srq_leave(struct pst_endpoint *endpoint);
/* Enters the queue pair in the table by which completions find their endpoint. */
void vb_srq_name(struct pst_endpoint *endpoint);
/* The endpoint of that queue pair, or NULL. */
struct pst_endpoint *vb_srq_find(struct pst_worker *worker, uint32_t qp_num);

/* Slots of a ring, all of them. 0, or -errno after logging. */
int vb_srq_open_slots(struct pst_ring *ring);
void vb_srq_close(struct vb_srq *shared);
/* When a worker closes. */
void vb_srq_close_all(struct pst_worker *worker);

static inline struct vb_srq *vb_srq_of(const struct pst_worker *worker, uint64_t wr_id)
{
  return pst_places_find(&worker->shared, (uint32_t)(wr_id >> 32) & PST_PLACE_NUMBERS);
}
static inline uint32_t vb_srq_entry(uint64_t wr_id)
{
  return (uint32_t)(wr_id & VB_SRQ_ENTRY);
}
static inline uint8_t *vb_srq_buffer(const struct vb_srq *shared, uint64_t wr_id)
{
  return shared->buffers + (size_t)vb_srq_entry(wr_id) * VB_SRQ_CREDIT_BYTES;
}
/* Something is to be posted, by the next vb_srq_post_due(). */
static inline void vb_srq_due(struct vb_srq *shared)
{
  if (shared->is_due)
    return;
  shared->is_due = true;
  shared->next_due = shared->worker->shared_due;
  shared->worker->shared_due = shared;
}
/* An entry that the device has given back. */
static inline void vb_srq_back(struct vb_srq *shared, uint32_t entry)
{
  shared->posted--;
  shared->back[shared->back_count++] = entry;
  vb_srq_due(shared);
}
/* Gives back the entry of a completion, whichever endpoint has it now. */
static inline void vb_srq_give_back(const struct pst_worker *worker, const struct ibv_wc *wc)
{
  struct vb_srq *shared = vb_srq_of(worker, wc->wr_id);

  if (shared)
    vb_srq_back(shared, vb_srq_entry(wc->wr_id));
}
/* Posts the receives that were taken. 0 or -errno. */
int vb_srq_post(struct vb_srq *shared);
/* At the end of a poll: posts what was taken; where that fails, the endpoints fail. */
void vb_srq_post_due(struct pst_worker *worker);

/* Events of shared queues, left by vb_events. */
void vb_srq_notices(struct pst_worker *worker);

#endif
