/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamically connected queue pairs: what a device, a worker and an endpoint have of them.
 *
 * A worker has a pool of initiators (DCI), a target (DCT) with a shared receive queue for control
 * words, and a target for each ring, whose slots are the receives of its queue. An endpoint has no
 * queue pair: it holds an initiator as long as requests of it are under way, so that one peer's
 * requests keep their order and one peer's error reaches no other.
 */
#ifndef DC_POOL_H
#define DC_POOL_H

#include "../verbs/send_queue.h"
#include "../verbs/srq.h"
#include "device.h"

struct dc_endpoint;

#define DC_INLINE_REQUESTED 64u /* bytes */
#define DC_BACKOFFS 7u          /* of probes: each but the first is twice the one before */
#define DC_PEER_CHAINS 1024u

/* Lines of endpoints that wait for an initiator, each in the order in which they came. */
enum dc_line {
  DC_ANSWERED, /* a probe, or said hello: these go first, and may have the reserve */
  DC_ASKING,
  DC_SILENT, /* has missed one probe; the next line two, and so on: each waits as long as the
                others of its line for the next probe */
  DC_LINES = DC_SILENT + DC_BACKOFFS
};

struct dc_queue {
  struct dc_endpoint *first, *last;
};

/* A send queue, which one endpoint has at a time. */
struct dc_initiator {
  struct ibv_qp *qp;
  struct ibv_qp_ex *ex;
  struct mlx5dv_qp_ex *dv;
  struct vb_send_queue kept; /* requests as they were posted, until they are done */
  uint8_t rd_atomic;
  bool is_reserve;  /* of those that have answered a probe */
  bool is_broken;   /* it could not be set up again: the next one that takes it tries once more */
  bool is_flushing; /* its stream has failed, and requests of it are still to be flushed */
  uint16_t stream;  /* of its requests */
  struct dc_initiator *next_free;
};

struct dc_worker {
  struct pst_worker *worker;
  struct ibv_pd *pd;
  uint32_t count; /* initiators that were made */
  struct dc_initiator *all, *free, *reserve;
  struct dc_initiator *prober; /* probe.c; NULL: there is none */
  struct dc_queue lines[DC_LINES];
  uint32_t waiting, silent;   /* endpoints in all lines, and in those from DC_SILENT on */
  uint64_t gives, gives_seen; /* of initiators not of the reserve; by the last look */
  uint64_t stuck_ns;          /* since then none was given back; 0: the next look says */
  struct dc_endpoint *probed[DC_PROBES]; /* NULL: it is closed, and its handle is in `kept` */
  struct dc_handle *kept[DC_PROBES];
  uint64_t probe_ids[DC_PROBES]; /* wr_id: no two batches have the same */
  uint32_t probe_count;          /* of the batch: posted, and, a bit each, answered */
  uint32_t probes_answered, batches;
  bool probes_pass;  /* one was answered before another that had been posted before it */
  uint64_t probe_ns; /* the batch's last answer, or its beginning */
  uint64_t probes_missed;
  struct vb_send_queue shape;    /* of each initiator: its sizes */
  uint8_t rd_atomic;             /* the least of all peers */
  struct pst_endpoint **numbers; /* DC_NUMBERS of them */
  uint32_t next_number;
  struct dc_endpoint *peers[DC_PEER_CHAINS]; /* by their address: connect.c */
  struct vb_queue queue;                     /* the initiators' context */
  _Atomic bool has_lost_target;              /* whose shared queue has the event */
  uint64_t targets_made;                     /* anew */
  uint64_t dropped;                          /* receives of nobody's */
  uint64_t resets;                           /* of initiators; of streams */
  uint64_t stream_resets;
};

static inline struct dc_worker *dc_worker_of(const struct pst_worker *worker)
{
  return worker->own;
}

int dc_worker_open(struct pst_worker *worker);
void dc_worker_close(struct pst_worker *worker);
/* Takes an initiator for the endpoint, unless it holds one. Returns whether it holds one now.
 * Otherwise it waits for one, and its work() is called once it has one. */
bool dc_take(struct dc_endpoint *dc);
/* All that it posted is done, and told. */
void dc_give(struct dc_endpoint *dc);
/* Takes the endpoint off the list of those that wait. */
void dc_wait_no_more(struct dc_endpoint *dc);
/* The endpoint waits, and its peer has answered a probe. */
void dc_has_answered(struct dc_endpoint *dc);
/* The endpoint waits, in that line from now on. */
void dc_wait_in(struct dc_endpoint *dc, uint32_t line);
/* RESET takes its completions out of the completion queue, and what it has is read no more. 0 or an
 * errno. */
int dc_reset(struct dc_worker *pool, struct dc_initiator *initiator);
/* Others wait, and it has had its share. */
bool dc_is_spent(const struct dc_endpoint *dc);
/* Ends the requests under way, with `sq.error` from `sq.failed_from` on: the initiator is reset,
 * and touches no memory any more. */
void dc_abandon(struct dc_endpoint *dc);
/* Makes the endpoint post no more. Requests under way end: as dc_abandon(), or by the device, which
 * flushes what is behind a request that has failed. */
void dc_stop(struct dc_endpoint *dc);
/* A request was flushed, or the one before them failed: once none is left the stream can be used
 * again. */
void dc_flushed(struct dc_endpoint *dc);
/* Takes the endpoint's completions that were polled, and drops errors. Called before requests are
 * posted again: RESET removes only completions that are still in the completion queue. */
void dc_take_sent(struct dc_endpoint *dc);
/* Posts the requests under way again, to where the peer is now, each at its place in the send
 * queue: without the first `arrived` SENDs, the requests that those announced, and credit that
 * newer credit replaces. */
void dc_post_again(struct dc_endpoint *dc, uint64_t arrived);
/* Sets where the request being built goes: this target of the peer, by this stream of the
 * initiator, which is not used where the device has no streams. */
void dc_set_peer(const struct dc_endpoint *dc, const struct dc_initiator *initiator,
                 uint32_t target, uint16_t stream);
int dc_spread(struct vb_send_queue *sq, uint64_t from, uint64_t to);

#endif
