/* SPDX-License-Identifier: Apache-2.0 */
/* Executing work requests: in the caller as they are posted, or on the process' NIC thread. */
#ifndef ENGINE_H
#define ENGINE_H

#include "objects/objects.h"

/* A work request in the send queue; its scatter entries follow, and then its inline data. */
struct sim_slot {
  uint64_t wr_id;
  uint32_t opcode, flags;
  uint32_t imm_or_rkey;
  uint32_t rkey;
  uint64_t remote_addr;
  uint64_t compare_add, swap;
  uint32_t remote_qpn, remote_qkey;
  uint64_t dc_key;
  struct ibv_ah_attr ah;
  struct sim_mw *mw;
  struct ibv_mw_bind_info bind;
  uint64_t not_before_ns; /* a deferred engine's */
  uint32_t hash;          /* of the payload as posted: strict */
  uint16_t stream;
  uint8_t delayed; /* a delay was served */
  uint8_t done;    /* before others that stand before it */
  uint8_t hashed;
  uint32_t num_sge;
  uint32_t length;        /* bytes of payload */
  uint32_t inline_length; /* those that are in the slot */
  struct ibv_sge sges[];
};

/* How often the first request of a stream was tried, and what it waits for. A queue without streams
 * has one of these, one with streams as many as the device serves at a time. */
struct sim_flow {
  uint64_t wake_ns; /* 0: it does not wait */
  uint16_t stream;
  uint8_t retries, rnr_retries;
  bool is_used;  /* that request was tried, or waits to be */
  bool timed;    /* wake_ns is when the acknowledgement is given up */
  bool was_seen; /* it waits: requests behind it are passed over */
};

struct sim_sq {
  pthread_mutex_t lock;
  _Atomic bool attention; /* the NIC thread found the lock taken: its holder runs the queue */
  _Atomic bool waits;     /* something is left in it, for the NIC thread */
  char *slots;
  uint32_t size, stride; /* size a power of two */
  uint32_t room;         /* what the program asked for */
  uint32_t max_sge, max_inline;
  uint32_t pending; /* being added by a batch */
  uint32_t head;    /* next to be posted */
  uint32_t next; /* the first that is not executed; of later ones, those of other streams may be */
  uint32_t psn;  /* of the next request */
  struct sim_flow *flows;
  uint32_t flow_count;
  bool draining;        /* to SQD: nothing new begins */
  struct fab_path path; /* of a connected queue pair, as of this topology */
  uint32_t path_topology;
  uint32_t answer_topology, answer_number; /* acknowledgements from there were found to come */
  uint32_t checked;                        /* strict: requests before this one were compared */
  struct sim_delayed_write *delayed_write; /* a WRITE that is acknowledged and not placed */
  uint64_t *stream_errors;                 /* a bit each; stream_words of them */
  uint32_t stream_words;
};

static inline struct sim_slot *sim_slot_at(const struct sim_sq *sq, uint32_t i)
{
  return (struct sim_slot *)(sq->slots + (size_t)(i & (sq->size - 1)) * sq->stride);
}
static inline char *sim_slot_inline(const struct sim_sq *sq, struct sim_slot *slot)
{
  return (char *)(slot->sges + sq->max_sge);
}

struct sim_sq *sim_sq_alloc(const struct ibv_qp_cap *cap, unsigned log_streams);
void sim_sq_free(struct sim_sq *sq);

/* Executes what can be; the queue's lock is held. */
void sim_sq_run(struct sim_qp *qp);
/* When the first request of those that wait is to be tried again; 0: none waits. The lock is held.
 */
uint64_t sim_sq_wake(const struct sim_sq *sq);
/* Completes all that is not executed as flushed; the lock is held. */
void sim_sq_flush(struct sim_qp *qp);
/* Lets go of the lock, and runs the queue for a NIC thread that came meanwhile. */
void sim_sq_unlock(struct sim_qp *qp);

/* ---- the outcome of an attempt ---- */
enum sim_fate {
  SIM_DONE,
  SIM_LOST,  /* nothing came back */
  SIM_RNR,   /* not ready: again after wait_ns */
  SIM_WAIT,  /* delayed: again at wake_ns */
  SIM_ERROR, /* status */
};
struct sim_outcome {
  enum sim_fate fate;
  enum ibv_wc_status status;
  uint64_t wait_ns;
  uint32_t length;
};
struct sim_outcome sim_attempt(struct sim_qp *qp, struct sim_slot *slot);
static inline struct sim_outcome sim_error(enum ibv_wc_status status)
{
  return (struct sim_outcome){.fate = SIM_ERROR, .status = status};
}

/* ---- memory ---- */

/* A run of bytes of a process. */
struct sim_bytes {
  uint32_t slot; /* of the process */
  uint64_t address;
  uint64_t length;
};
enum { SIM_MAX_RUNS = 64 };
struct sim_runs {
  unsigned count;
  struct sim_bytes run[SIM_MAX_RUNS];
};

/* Finds a region for a local key: 0, or the status. The region's lock is not taken: deregistering
 * it meanwhile is the program's own. */
enum ibv_wc_status sim_local(const struct fab_qp *qp, const struct ibv_sge *sge, uint32_t access,
                             struct sim_bytes *bytes);
/* Finds and locks the region of a remote key, for sim_release after the bytes have moved. */
enum ibv_wc_status sim_remote(const struct fab_qp *qp, uint32_t rkey, uint64_t address,
                              uint64_t length, uint32_t access, struct fab_mr **mr,
                              struct sim_bytes *bytes);
void sim_release(struct fab_mr *mr);
/* Moves `length` bytes between runs of this process, from byte `skip` on, and one run of any
 * process: 0, ESRCH (it is dead), EFAULT, EPERM. */
int sim_dma(const struct sim_runs *ours, uint64_t skip, const struct sim_bytes *theirs,
            bool to_them);

/* ---- the responder's part ---- */
struct sim_message {
  const struct sim_slot *slot;
  const struct fab_qp *from;
  const struct ibv_ah_attr *ah;
  const struct sim_runs *data; /* ours: gathered, or to be scattered to */
  uint32_t length;             /* of what is sent, a UD's header included */
  uint16_t slid;
};
/* The target's lock is held, and everything on the way to it is checked. */
struct sim_outcome sim_respond(struct fab_qp *to, const struct sim_message *message);

/* delayed_write.c: WRITEs that are placed after their acknowledgement, where the target's device
 * has `late_writes`. True: this one is, or will be; its region is locked. */
bool sim_delayed_write_takes(const struct fab_qp *to, const struct sim_message *message,
                             const struct fab_mr *mr);
/* Places what `from` has waiting before a completion (bytes NULL), or before a READ or an atomic of
 * the region that it goes into. No region is locked. */
void sim_delayed_write_before(const struct fab_qp *from, const struct sim_bytes *bytes);
/* Before a WRITE, which passes none of its own way. */
void sim_delayed_write_before_write(const struct fab_qp *from, uint32_t rkey);
void sim_delayed_write_place(struct sim_qp *qp);
/* Places it if it is due; when it will be, or 0. */
uint64_t sim_delayed_write_due(struct sim_qp *qp);

/* Windows: what a request does to the keys of its own device. */
struct sim_outcome sim_bind(struct sim_qp *qp, const struct sim_slot *slot);
struct sim_outcome sim_invalidate_local(struct sim_qp *qp, uint32_t rkey);
/* By a send with invalidation; false: that key is not the peer's to take. */
bool sim_invalidate_remote(struct fab_qp *to, uint32_t rkey);

/* ---- completions, errors ---- */
void sim_complete(uint32_t cq, const struct sim_cqe *cqe);
/* The same, of the receive that `qp` has taken: with it, it is no longer taken. */
void sim_complete_taken(struct fab_qp *qp, const struct sim_cqe *cqe,
                        const struct sim_scatter *scatter);
/* Checks a completion queue whose lock's last holder may have died: did its entry get there? */
void sim_cq_repair(struct fab_cq *cq);
/* vendor_err of a status, as mlx5 gives it. */
uint32_t sim_syndrome(enum ibv_wc_status status);
/* To ERR, its receive queue flushed; the QP's lock is held. Its owner flushes the send queue. */
void sim_qp_fail(struct fab_qp *qp);
/* Makes the completion queue take no more completions; its owner gets an event and fails the queue
 * pairs that use it. */
void sim_cq_fail(struct fab_cq *cq);
/* Completes what a dead holder of the QP's lock left unfinished. */
void sim_qp_repair(struct fab_qp *qp);
/* Repairs the lock of a shared queue. */
void sim_srq_repair(struct fab_srq *srq);
/* Before a receive is taken off its queue: so that its completion is not lost with whoever does
 * it. */
void sim_note_taken(struct fab_qp *qp, const struct fab_recv *recv, uint32_t tail);
void sim_qp_event(struct fab_qp *qp, enum ibv_event_type event);
static inline void sim_qp_lock(struct fab_qp *qp)
{
  if (fab_lock(&qp->lock))
    sim_qp_repair(qp);
}

/* ---- the NIC thread ---- */
int sim_nic_start(void);
void sim_nic_stop(void);

/* ---- strict mode ---- */
void sim_strict_posted(struct sim_qp *qp, struct sim_slot *slot);
void sim_strict_polled(const struct sim_cqe *cqe);
/* Strict mode: a receive is posted, and bytes come to it. `view` has its owner, device and
 * domain. */
void sim_strict_recv_posted(const struct fab_qp *view, struct fab_recv *recv);
void sim_strict_recv_taken(const struct fab_qp *view, const struct fab_recv *recv);
/* As the process ends. */
void sim_strict_left(void);
void sim_strict_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
