/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: what those of all transports of verbs have. */
#ifndef VERBS_ENDPOINT_H
#define VERBS_ENDPOINT_H

#include "send_queue.h"
#include "worker.h"

struct rc_connection;

/* Kinds of the transport's own SENDs, in their immediate data. */
enum vb_control {
  VB_HELLO = 1,    /* in the lowest two bits; the others have what reconnect.c says */
  VB_FAREWELL = 2, /* drained */
  VB_ABORTED = 3,
  VB_CREDIT = 4, /* struct vb_run, one after the other */
};

struct vb_run {
  uint32_t first; /* slot; big-endian, both */
  uint32_t count;
};

/* Receives of a queue pair: how many there are to be, and how many are posted. Where they are
 * shared, srq.h, what is reserved of them, and 1 as long as the queue pair may have some. */
struct vb_receive_queue {
  struct ibv_qp *qp;
  uint32_t size, posted;
};

struct vb_tx {
  uint64_t initial;            /* what sequence 0 travels as */
  struct vb_slot_fifo credits; /* slots that may be filled */
  uint64_t address, stride;
  uint64_t message_max; /* of this end, and of the peer's slots */
  uint32_t rkey;
  uint32_t slots;
  uint32_t turn;           /* of several queue pairs: rc_turn() */
  uint16_t opcode;         /* enum ibv_wr_opcode */
  uint16_t run_max;        /* messages that one WRITE may have; 1: no runs */
  uint64_t run_length_min; /* of shorter ones too much padding would travel along; without runs
                              UINT64_MAX */
  uint64_t messages, bytes, credit_messages, runs;
};

/* Slots that no other endpoint has. */
struct vb_own_slots {
  struct vb_slot_fifo line; /* those that are granted */
  uint64_t *held;           /* bits: slots of the ring that the host has */
  uint64_t grants;          /* slots ever granted by messages */
  uint64_t *first_of;       /* by credit message, VB_CONTROL_RECEIVES: its first slot in `grants` */
  uint32_t turn;            /* of several queue pairs: rc_turn() */
  uint32_t control_receives; /* that the peer has */
  uint32_t runs_max;         /* that one of them has room for */
};

struct vb_rx {
  struct pst_ring *ring;
  bool has_runs; /* one WRITE may fill several slots */
  bool sends;
  uint32_t share;
  uint32_t ungranted;       /* of SENDs: slots that are posted and not yet granted */
  uint32_t granted;         /* of shared slots: how many may come */
  uint32_t out;             /* of shared slots: which the host has */
  uint32_t credits_taken;   /* of `credits_sent`, modulo: known to have arrived */
  struct vb_slot_fifo back; /* slots that were released, and are not yet granted again */
  uint64_t before;          /* slots granted by the address; of DC messages that had come when its
                               target failed */
  uint64_t arrived;         /* messages */
  uint64_t credits_sent;    /* messages */
  uint64_t highest;         /* sequence */
  uint64_t initial;
  uint64_t bytes;
  struct vb_own_slots *own; /* NULL: DC, whose slots are any endpoint's */
};

/* The resource that the last post() had too little of. */
enum vb_want {
  VB_WANT_NOTHING,
  VB_WANT_CREDIT,
  VB_WANT_QUEUE,
  VB_WANT_TOLD, /* it is there: ROOM is to be polled */
};

/* Buffers of an endpoint that sends or receives credit by messages. */
struct vb_credit_buffers {
  uint8_t *control;          /* a sender's receive buffers; NULL: it has none */
  struct ibv_mr *control_mr; /* of `domain` */
  uint8_t *credit;           /* what credit messages are sent from */
  struct ibv_mr *credit_mr;  /* of `local`; NULL: they go inline */
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_device *device;
  struct rc_connection *rc; /* what verbs_rc has beside this */
  uint32_t place;           /* its number among the worker's */
  uint32_t roles;
  uint64_t cookie;
  uint64_t timeout_ns;
  uint64_t message_max;
  const char *label;        /* behind the endpoint: vb_endpoint_alloc() */
  struct pst_mr *mostly;    /* what a sender will mostly send from */
  struct vb_domain *domain; /* what the peer may reach */
  struct vb_domain *local;  /* what requests name */

  bool is_connected;   /* requests go, and what arrives is reported */
  bool is_refused;     /* its device takes no more, though there is room */
  bool is_cut;         /* completions that still come are of nothing */
  bool tell_connected; /* CONNECTED is to be polled, and comes before DISCONNECTED */
  bool wants_rma_done; /* requests before `rma_before` are to be done, too */
  bool has_place;
  bool is_pending;
  bool hellos_are_writes; /* receives that name a slot are for messages' SENDs */
  _Atomic bool last_wqe;  /* it takes no more shared receives, as its device says */
  enum vb_want want;
  _Atomic int event; /* enum ibv_event_type + 1 of this queue pair, 0: none */
  struct pst_endpoint *next_pending;
  struct pst_closing closing;

  uint32_t pieces_max;
  uint32_t lane_count; /* queue pairs, one at least */
  struct vb_send_queue sq;
  struct vb_receive_queue *rq; /* of the first queue pair; NULL: it has none */

  uint32_t completions;                /* that there may be at a time, of all its queue pairs */
  uint32_t receive_buffers;            /* a sender has one for each receive; else none */
  uint32_t credit_depth, credit_bytes; /* messages of credit, of either direction */
  struct vb_receives *receives;        /* without buffers, or for SENDs into slots */
  struct vb_credit_buffers *buffers;

  struct vb_tx *tx;
  struct vb_rx *rx;
  uint64_t arrivals; /* completions of receives */
  struct pst_remote *remotes;
  struct pst_remote *written;   /* the last that a WRITE named: it may; NULL: none since a FLUSH */
  struct pst_remote *unflushed; /* those that were written since, and may be read: a list */
  uint64_t rma_before;          /* one-sided requests are before this index */

  struct vb_srq *shared; /* receives, srq.h; NULL: it has its own */
  struct pst_endpoint *next_numbered;
  uint32_t number; /* of the queue pair, as completions name it; 0: not yet */
};

/* An endpoint, first of what a transport has of it in `size` bytes, with what all endpoints take
 * from their parameters. free() ends it. NULL: out of memory. */
static inline struct pst_endpoint *
vb_endpoint_alloc(struct pst_worker *worker, const struct pst_endpoint_params *in, size_t size)
{
  const char *label = in->label ? in->label : "endpoint";
  const size_t label_bytes = strlen(label) + 1;
  struct pst_endpoint *made = calloc(1, size + label_bytes);

  if (!made)
    return NULL;
  made->worker = worker;
  made->device = worker->device;
  made->roles = in->roles;
  made->cookie = in->cookie;
  made->timeout_ns = in->timeout_ns;
  made->message_max = in->message_max ? in->message_max : worker->device->message_max;
  made->label = memcpy((char *)made + size, label, label_bytes);
  made->mostly = in->mr;
  made->lane_count = 1;
  made->sq.requests_max = in->requests;
  made->sq.failed_from = made->sq.refused_at = made->closing.deadline_ns = VB_NEVER;
  return made;
}

/* There is credit to give, and no reason to wait: the sender has less than half of its slots, or a
 * quarter of them is back. */
static inline bool vb_credit_is_due(const struct pst_endpoint *endpoint)
{
  const struct vb_rx *rx = endpoint->rx;
  const uint32_t waits = rx->back.count + rx->ungranted;

  if (waits == 0 || waits >= rx->share / 4)
    return waits != 0;
  return (rx->sends && endpoint->shared ? rx->granted : rx->own->line.count - rx->ungranted) <
         rx->share / 2;
}

static inline struct pst_endpoint *vb_endpoint_of(struct vb_send_queue *sq)
{
  return (struct pst_endpoint *)(void *)((char *)sq - offsetof(struct pst_endpoint, sq));
}

/* Returns the operation that carries hellos and farewells. */
static inline enum ibv_wr_opcode vb_control_opcode(const struct pst_endpoint *endpoint)
{
  return endpoint->hellos_are_writes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
}

static inline void vb_fail(struct pst_endpoint *endpoint, int status, const char *why)
{
  endpoint->device->transport->failed(endpoint, status, why);
}

/* Checks an endpoint's parameters against the limits: 0, or -errno, logged. */
static inline int vb_endpoint_check(struct pst_worker *worker,
                                    const struct pst_endpoint_params *params)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  const struct pst_ring *ring = params->ring;
  const char *wrong = ring && ring->worker != worker ? "its ring is another worker's" : NULL;

  worker->device->transport->limits(worker->device, &limits);
  return pst_endpoint_params_check(worker->device->host, params,
                                   ring ? ring->params.payload_max : 0, &limits, wrong);
}

#endif
