/* SPDX-License-Identifier: Apache-2.0 */
/* The part of an endpoint that only RC has, beside the part of all transports of verbs: its
 * connection. */
#ifndef RC_ENDPOINT_H
#define RC_ENDPOINT_H

#include "../verbs/ece.h"
#include "../verbs/endpoint.h"
#include "described.h"

/* Under way on an endpoint, however many slots there are: 2048 messages of 1462 bytes are 60 us of
 * 400 Gb/s, and mlx5 has room for as many of 30 pieces. */
#define RC_REQUESTS_MAX 2048u
#define RC_INLINE_REQUESTED                                                                        \
  64u /* two blocks of mlx5's, which gives 92 of them, or 76 with atomics */
#define RC_BLOB_RUNS 16u
#define RC_BLOB_BYTES 384u
#define RC_LANES_MAX 8u
#define RC_TURN_MAX 32u /* messages that go by one queue pair before the next one's turn */
#define RC_RUN_GAP 64u  /* bytes between slots, at most, where runs are: slots are cache lines */
#define RC_LANE_OWN 2u  /* a hello and a farewell under way */
#define RC_EVENT_NS UINT64_C(500000000)  /* that event may be late */
#define RC_FLUSH_NS UINT64_C(1000000000) /* a failed queue pair may take to give all back */

struct rc_cm;

static inline bool rc_is_hello(uint32_t said)
{
  return (said & 3) == VB_HELLO;
}

/* A queue pair as its peer names it. */
struct rc_qp_address {
  uint32_t qpn, psn;
};

/* A peer's parsed address, blob.c. */
struct rc_blob {
  bool is_ethernet;
  uint8_t gid_type;
  uint8_t mtu; /* enum ibv_mtu */
  uint8_t rd_atomic;
  uint16_t lid;
  uint8_t gid[16];
  struct vb_ece ece; /* without options: none is asked for */
  bool is_cm;
  uint16_t cm_port;  /* that it is asked at; 0: it is not */
  uint64_t cm_token; /* tells its requests from others' */
  bool is_receiver;
  bool is_sender;
  bool is_rma;
  bool sends; /* SENDs into receives that name the slots */
  bool reconnects;
  uint8_t has_runs; /* 1: messages that follow one another as one WRITE, if both ends have it */
  uint8_t lanes;    /* queue pairs */
  struct rc_qp_address qps[RC_LANES_MAX];
  bool is_split; /* `qps` ask, and `responders` answer, in the same order */
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
  struct vb_run runs[RC_BLOB_RUNS]; /* what it begins with; the rest comes as credit */
};

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

/* How far a try to reconnect is. */
enum rc_try {
  RC_TRY_NONE, /* the queue pairs have not been reset since the connection failed */
  RC_TRY_BEGUN,
  RC_TRY_ANSWERED,  /* all openings of the peer's were received, and answered */
  RC_TRY_CONFIRMED, /* the peer has heard the answers */
  RC_TRY_LOST,      /* it has failed before it was set up */
};

struct rc_stage {
  enum rc_stage_name name; /* changed by rc_enter() alone */
  union {
    struct {
      uint64_t by_ns;       /* VB_NEVER: it may take any time */
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
      uint64_t flushed; /* of the send queue: what the device has given back */
      enum rc_try progress;
    } again; /* RC_FLUSHING to RC_GREETING_AGAIN */
    struct {
      int status;
      bool is_due; /* DISCONNECTED is to be polled */
    } over;        /* RC_LEFT, RC_FAILED */
  };
};

/* A message, or a run of them, that arrived before its turn. */
struct rc_arrival {
  uint32_t length;
  uint32_t number; /* the immediate data */
};

enum rc_peer {
  RC_PEER_SILENT, /* nothing, of this connection or try */
  RC_PEER_HEARD,  /* an answer or a hello */
  RC_PEER_LEFT,   /* its farewell */
};

/* One of an endpoint's queue pairs, multi_qp.c. It asks and answers by one; or it is split: `qp`
 * asks, in the device's own domain, where all is that it sends from, and is asked nothing; `rq.qp`
 * answers, in the peer's. */
struct rc_lane {
  struct ibv_qp *qp;
  struct ibv_pd *pds[2]; /* vb_thread_domain_take(), of either */
  uint32_t psn, responder_psn;
  struct vb_receive_queue rq; /* of the queue pair that answers */
  uint32_t own;               /* hellos and farewells under way, beside the send queue */
  uint64_t done; /* its requests before this one are complete; kept where there are several */
  uint64_t failed_from; /* its requests from this one on failed */
  uint64_t flushed;     /* of a connection that begins anew: those before it were given back */
  uint32_t said;        /* by the peer's first hello of this try */
  uint32_t
      peer_number;   /* of the peer's try that it is in, as it last said; 0: its first connection */
  uint32_t counted;  /* messages and credits, ever, when the peer said that first */
  uint32_t repeated; /* messages and credits of this try so far */
  uint64_t messages; /* that have come by it, of several queue pairs */
  struct rc_arrival *arrived; /* of several queue pairs: those that wait for their turn */
  uint32_t arrived_head, arrived_tail, arrived_mask;
  bool is_erred;     /* the queue pair is in ERR */
  bool sets_up;      /* a deferred work is to take it to RTS, or does */
  bool greets_again; /* once what was posted is flushed */
  enum rc_peer peer; /* what has come from the peer, on it */
};

/* State that outlives a reconnection: reconnect.c. */
struct rc_reconnect {
  uint64_t last_by_ns;      /* when the last one had to be over, */
  uint64_t last_got;        /* and what had got through by its end: rc_got_through() */
  bool is_exhausted;        /* its time was over without anything but hellos */
  uint32_t number;          /* of the last try, modulo; 0: there was none */
  uint32_t peer_number;     /* of the peer's try that connected; 0: the first connection */
  uint64_t count, repeated; /* reconnections, and messages sent again */
};

/* RC's part of an endpoint, beside struct pst_endpoint. */
struct rc_connection {
  struct rc_lane lanes[RC_LANES_MAX]; /* `lane_count` of them */
  bool is_split;
  struct rc_cm *cm;             /* NULL: the connection is not rdma_cm's */
  struct ibv_qp_cap given;      /* the queues of the first, as the device made them */
  struct vb_port_address where; /* its port's, as it was opened: what `own` says, too */
  struct rc_blob own, peer;
  struct rc_stage stage;
  _Atomic int setup; /* of the deferred work: 0 none, 1 under way, 2 through */
  int setup_rc;
  uint64_t striped; /* messages posted, of several queue pairs */

  /* For shared receives: last_wqe.c. */
  bool has_flushed;    /* it takes no more, as what was posted in ERR says: `last_send` */
  uint32_t last_sends; /* how many such were ever posted */
  uint64_t last_send;  /* its wr_id; 0: none since the queue pair was set up */
  uint64_t erred_ns;
  uint64_t given_at; /* worker->empties when all was given back, + 1 */

  struct rc_reconnect reconnect;
  struct rc_counter_baseline *since; /* NULL: it has not begun to connect */
  uint64_t heard_ns;                 /* when the peer was last known to be there */
  uint64_t heard_done;               /* sq.done and arrivals by then */
  uint64_t heard_arrivals;
  bool owed;        /* by then: whether the peer owed an answer */
  uint64_t over_ns; /* when it was over, or its queue pairs went to ERR to be closed */
  uint64_t late_at; /* worker->empties when it was late to give all back, + 1 */
};

static inline bool rc_is_reconnecting(const struct pst_endpoint *endpoint)
{
  return endpoint->rc->stage.name >= RC_FLUSHING && endpoint->rc->stage.name <= RC_GREETING_AGAIN;
}
static inline bool rc_is_over(const struct pst_endpoint *endpoint)
{
  return endpoint->rc->stage.name >= RC_LEFT;
}
/* DISCONNECTED is to be polled. */
static inline bool rc_tells_gone(const struct pst_endpoint *endpoint)
{
  return rc_is_over(endpoint) && endpoint->rc->stage.over.is_due;
}
/* stage.c: the data of a stage are zero where the one before had others. */
void rc_enter(struct pst_endpoint *endpoint, enum rc_stage_name stage);

#endif
