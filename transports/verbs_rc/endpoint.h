/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: what they know, and how they stand. */
#ifndef RC_ENDPOINT_H
#define RC_ENDPOINT_H

#include "worker.h"

struct rc_cm;

/* A work request in the send queue. */
struct rc_sent {
  uint64_t cookie;
  uint8_t opcode; /* enum pst_opcode; 0: the transport's own */
  uint8_t lane;   /* which queue pair it went by, of several */
};

/* What the transport's own SENDs say, in their immediate data. */
enum rc_control {
  RC_HELLO = 1,    /* in the lowest two bits; the others have what reconnect.c says */
  RC_FAREWELL = 2, /* drained */
  RC_ABORTED = 3,
  RC_CREDIT = 4, /* struct rc_run, one after the other */
};

static inline bool rc_is_hello(uint32_t said)
{
  return (said & 3) == RC_HELLO;
}

struct rc_run {
  uint32_t first; /* slot; big-endian, both */
  uint32_t count;
};

/* A queue pair as its peer names it. */
struct rc_qp_address {
  uint32_t qpn, psn;
};

/* What a peer's address says, blob.c. */
struct rc_blob {
  bool is_ethernet;
  uint8_t gid_type;
  uint8_t mtu; /* enum ibv_mtu */
  uint8_t rd_atomic;
  uint16_t lid;
  uint8_t gid[16];
  bool is_cm;
  uint16_t cm_port;  /* that it is asked at; 0: it is not */
  uint64_t cm_token; /* tells its requests from others' */
  bool is_receiver;
  bool is_sender;
  bool is_rma;
  bool sends; /* SENDs into receives that name the slots */
  bool reconnects;
  uint8_t lanes; /* queue pairs */
  struct rc_qp_address qps[RC_LANES_MAX];
  bool is_split; /* the above ask, and these answer: of each, in its order */
  struct rc_qp_address responders[RC_LANES_MAX];
  uint64_t initial;                         /* sender */
  uint32_t control_receives, control_bytes; /* for credit: how many, how large */
  uint64_t address;                         /* receiver: of slot 0's payload; and so on */
  uint32_t rkey;
  uint64_t stride;
  uint64_t payload_max;
  uint32_t slots; /* of the ring */
  uint32_t share; /* of them, for us */
  uint32_t run_count;
  struct rc_run runs[RC_BLOB_RUNS]; /* what it begins with; the rest comes as credit */
};

struct rc_tx {
  struct rc_fifo credits;
  uint64_t address, stride;
  uint64_t message_max; /* of this end, and of the peer's slots */
  uint32_t rkey;
  uint32_t slots;
  enum ibv_wr_opcode opcode;
  uint32_t turn; /* of several queue pairs: rc_turn() */
  uint64_t messages, bytes, credit_messages;
};

struct rc_rx {
  struct pst_ring *ring;
  uint32_t share;
  bool sends;
  uint32_t turn;      /* of several queue pairs: rc_turn() */
  uint32_t ungranted; /* of SENDs: slots that are posted and not yet granted */
  /* Slots, in the order in which they are filled: those before `given` are granted, those from it
   * on were released and are not yet granted again. */
  struct rc_fifo line;
  uint32_t given;
  uint32_t granted;                       /* of shared slots: how many may come */
  uint32_t out;                           /* likewise: which the host has */
  uint32_t control_receives;              /* that the peer has */
  uint32_t runs_max;                      /* that one of them has room for */
  uint64_t grants;                        /* slots ever granted by messages */
  uint64_t before;                        /* slots granted by the address */
  uint64_t arrived;                       /* messages */
  uint64_t first_of[RC_CONTROL_RECEIVES]; /* by credit message: its first slot in `grants` */
  uint64_t credits_sent;                  /* messages */
  uint64_t credits_taken;                 /* of them, known to have arrived */
  uint64_t highest;                       /* sequence */
  uint64_t initial;
  uint64_t bytes;
};

static inline uint32_t rc_granted_count(const struct rc_rx *rx)
{
  return rx->given - rx->line.tail;
}
static inline uint32_t rc_back_count(const struct rc_rx *rx)
{
  return rx->line.head - rx->given;
}

/* How the connection stands, for all queue pairs of the endpoint; README.md draws it. */
enum rc_stage_name {
  RC_NEW,        /* INIT; the peer is unknown */
  RC_SETTING_UP, /* rdma_cm and a deferred work lead to RTS */
  RC_GREETING,   /* RTS, hellos are posted */
  RC_CONNECTED,
  RC_FLUSHING,         /* failed; ERR, and what was posted comes back */
  RC_SETTING_UP_AGAIN, /* as the first time */
  RC_GREETING_AGAIN,   /* RTS, hellos are exchanged: reconnect.c */
  RC_LEFT,             /* the peer said farewell; what is under way is still answered */
  RC_FAILED,
};

struct rc_stage {
  enum rc_stage_name name; /* changed by rc_enter() alone */
  union {
    struct {
      uint64_t by_ns;       /* RC_NEVER: it may take any time */
      uint32_t hellos_lost; /* that the device has given up */
      uint32_t vendor;      /* its code for the last of them */
      bool is_heard_early;  /* the peer has, while a deferred work was setting the queue pairs up */
    } connecting;           /* to RC_GREETING */
    struct {
      uint64_t flushed_ns; /* when what answers gave its receives back; 0: it has not */
    } connected;
    struct {
      uint64_t by_ns;    /* then it has failed */
      uint64_t again_ns; /* when to try again, at the earliest; 0: something else tells */
      uint64_t began_ns;
      uint64_t flushed;  /* of the send queue: what the device has given back */
      bool has_tried;    /* the queue pairs have been reset since it failed */
      bool is_lost;      /* this try has failed before it was set up */
      bool is_answered;  /* all openings of the peer's were heard, and answered */
      bool is_confirmed; /* the peer has heard the answers */
    } again;             /* RC_FLUSHING to RC_GREETING_AGAIN */
    struct {
      int status;
      bool is_due; /* DISCONNECTED is to be polled */
    } over;        /* RC_LEFT, RC_FAILED */
  };
};

/* A message that arrived before its turn. */
struct rc_arrival {
  uint32_t length;
  uint32_t number; /* the immediate data */
};

enum rc_peer {
  RC_PEER_SILENT, /* nothing, of this connection or try */
  RC_PEER_HEARD,  /* an answer or a hello */
  RC_PEER_LEFT,   /* its farewell */
};

/* One of an endpoint's queue pairs, lanes.c. It asks and answers by one; or it is split: `qp` asks,
 * in the device's own domain, where all is that it sends from, and is asked nothing; `responder`
 * answers, in the peer's. */
struct rc_lane {
  struct ibv_qp *qp, *responder;
  uint32_t psn, responder_psn;
  /* Receives. Where they are shared, shared.c, what is reserved of them, and 1 as long as the queue
   * pair may have some. */
  uint32_t rq_size, rq_posted;
  uint32_t own;  /* hellos and farewells under way, beside the send queue */
  uint64_t done; /* its requests before this one are complete; kept where there are several */
  uint64_t failed_from; /* its requests from this one on failed */
  uint64_t flushed;     /* of a connection that begins anew: those before it were given back */
  uint32_t said;        /* by the peer's first hello of this try */
  uint32_t
      peer_number;   /* of the peer's try that it is in, as it last said; 0: its first connection */
  uint32_t counted;  /* messages and credits, ever, when the peer said that first */
  uint32_t repeated; /* messages and credits of this try so far */
  struct rc_arrival *arrived; /* of several queue pairs: those that wait for their turn */
  uint32_t arrived_head, arrived_tail, arrived_mask;
  bool is_erred;     /* the queue pair is in ERR */
  bool sets_up;      /* a deferred work is to take it to RTS, or does */
  bool greets_again; /* once what was posted is flushed */
  enum rc_peer peer; /* what has come from the peer, on it */
};

/* What reconnections leave behind: reconnect.c. */
struct rc_reconnect {
  uint64_t last_by_ns;      /* when the last one had to be over, */
  uint64_t last_got;        /* and what had got through by its end: rc_got_through() */
  bool is_exhausted;        /* its time was over without anything but hellos */
  uint32_t number;          /* of the last try, modulo; 0: there was none */
  uint32_t peer_number;     /* of the peer's try that connected; 0: the first connection */
  uint64_t count, repeated; /* reconnections, and messages sent again */
};

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_device *device;
  uint32_t place; /* its number among the worker's */
  uint64_t wr_id; /* what those of its work requests have in common: rc_wr_id() */
  uint32_t roles;
  uint64_t cookie;
  uint64_t timeout_ns;
  uint64_t message_max;
  uint32_t requests_max;
  uint32_t pieces_max;
  char label[64];
  struct pst_mr *mostly; /* what a sender will mostly send from */

  struct rc_lane lanes[RC_LANES_MAX];
  uint32_t lane_count; /* of them, one at least */
  bool is_split;
  struct rc_domain *domain; /* what the peer may reach */
  struct rc_domain *local;  /* what requests name */
  struct rc_cm *cm;         /* NULL: the connection is not rdma_cm's */
  uint32_t max_inline;      /* of all its queue pairs */
  struct ibv_qp_cap given;  /* the queues of the first, as the device made them */
  struct vb_place where;    /* its port's, as it was opened: what `own` says, too */
  struct rc_blob own, peer;
  struct rc_stage stage;
  _Atomic int setup; /* of the deferred work: 0 none, 1 under way, 2 through */
  int setup_rc;
  _Atomic int event; /* enum ibv_event_type + 1 of this queue pair, 0: none */

  /* The send queue. Indices run freely; those before sq_done are complete, before sq_told told. */
  uint32_t sq_size, sq_mask;
  uint64_t sq_head, sq_done, sq_told;
  struct rc_sent *sent;
  uint64_t alike_from; /* from here on they have one opcode */
  struct ibv_send_wr *wrs;
  struct ibv_sge *sges;
  uint32_t outstanding; /* requests taken and not told */
  uint64_t failed_from; /* this one failed and those behind it, with `error` */
  uint64_t refused_at;  /* this one, with first_error */
  int first_error;
  int error;

  uint32_t credit_depth, credit_bytes; /* messages of credit, of either direction */
  struct rc_receives receives;         /* without buffers, or for SENDs into slots */
  uint8_t *control;          /* a receiver's credit messages, a sender's receive buffers */
  uint32_t receive_buffers;  /* a sender has one for each receive; else none */
  struct ibv_mr *control_mr; /* of `domain` */
  struct ibv_mr *credit_mr;  /* likewise, or of `local`; NULL: credit is sent inline */

  struct rc_tx *tx;
  struct rc_rx *rx;
  struct pst_remote *remotes;
  struct pst_remote *written;   /* the last that a WRITE named: it may; NULL: none since a FLUSH */
  struct pst_remote *unflushed; /* those that were written since, and may be read: a list */

  uint32_t completions; /* that there may be at a time, of all its queue pairs */
  uint64_t striped;     /* messages posted, of several queue pairs */
  uint64_t rma_before;  /* one-sided requests are before this index */

  struct rc_shared *shared; /* receives, shared.c; NULL: it has its own */
  struct pst_endpoint *next_numbered;
  uint32_t number;       /* of the queue pair, as completions name it; 0: not yet */
  _Atomic bool last_wqe; /* it takes no more, as its device says */
  bool has_flushed;      /* likewise, as what was posted in ERR says: the one of this wr_id */
  uint32_t last_sends;   /* how many such were ever posted */
  uint64_t last_send;    /* 0: none since the queue pair was set up */
  uint64_t erred_ns;
  uint64_t given_at; /* worker->empties when all was given back, + 1 */

  struct rc_reconnect reconnect;
  struct rc_since *since; /* NULL: it has not begun to connect */
  uint64_t heard_ns;      /* when the peer was last known to be there */
  uint64_t heard_done;    /* sq_done and arrivals by then */
  uint64_t heard_arrivals;
  uint64_t arrivals;
  uint64_t over_ns; /* when it was over, or its queue pairs went to ERR to be closed */
  uint64_t late_at; /* worker->empties when it was late to give all back, + 1 */
  struct pst_closing closing;
  bool owed;           /* by then: whether the peer owed an answer */
  bool tell_connected; /* CONNECTED is to be polled, and comes before DISCONNECTED */
  bool is_refused;     /* its device takes no more, though there is room: it does not reconnect */
  bool is_cut;         /* completions that still come are of nothing */
  bool wants_room, wants_queue, wants_rma_done, has_told_room;
  bool has_place;
  bool is_pending;
  struct pst_endpoint *next_pending;
};

static inline bool rc_is_reconnecting(const struct pst_endpoint *endpoint)
{
  return endpoint->stage.name >= RC_FLUSHING && endpoint->stage.name <= RC_GREETING_AGAIN;
}
static inline bool rc_is_over(const struct pst_endpoint *endpoint)
{
  return endpoint->stage.name >= RC_LEFT;
}
/* DISCONNECTED is to be polled. */
static inline bool rc_tells_gone(const struct pst_endpoint *endpoint)
{
  return rc_is_over(endpoint) && endpoint->stage.over.is_due;
}
/* stage.c: the data of a stage are zero where the one before had others. */
void rc_enter(struct pst_endpoint *endpoint, enum rc_stage_name stage);

static inline uint64_t rc_slot(const struct pst_endpoint *endpoint, enum rc_slot_state state)
{
  return (uint64_t)endpoint->place << 32 | state;
}

#endif
