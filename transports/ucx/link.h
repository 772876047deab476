/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: a ucp_worker with one ucp_ep, from endpoint_open to after CLOSED.
 *
 * An endpoint has a link of its own. Two endpoints so never share a connection that UCX pairs by
 * order of creation, a peer's messages need no number that says whose they are, and what a dead
 * peer leaves unfinished is freed with its ucp_worker, at once.
 *
 * Ownership. UCX reads headers, sources and destinations until a request's callback. All of
 * them lie in the link, or are the host's memory that the DONE gives back. A link outlives its
 * endpoint as a leaving link, until the peer has what was sent; and its worker, in the device's
 * keeper, where a peer that lives has had no room for the BYE.
 */
#ifndef UCX_LINK_H
#define UCX_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

#include "stage.h"

/* For the peer to answer a BYE, and for what is fetched. */
#define UCX_LINGER_NS UINT64_C(100000000)

struct ucx_am;
struct ucx_arrival;
struct ucx_asked;
struct ucx_op;
struct ucx_record;

/* The peer of a link, as endpoint_connect found it. */
struct ucx_peer {
  uint64_t nonce;
  ucp_address_t *address; /* for a herald */
  int pidfd;              /* of its process; -1: that is not watched */
  bool is_here;           /* on this host */
  bool by_ucx;            /* its failures are UCX's to notice */
  bool has_died;          /* its process has: ucx_timers_poll() ends the link */
};

struct ucx_link {
  struct ucx_stage stage; /* changed by ucx_enter() alone */
  enum ucx_line line;     /* by ucx_enter_line() */
  struct pst_worker *worker;
  struct pst_endpoint *endpoint; /* NULL: it has been closed */
  struct ucx_link *next;         /* of the links that leave */
  ucp_worker_h ucp;
  ucp_ep_h ep;
  int efd;
  ucp_am_recv_callback_t receive;
  uint64_t nonce;
  struct ucx_peer peer;
  /* By the lanes, once it has joined. */
  bool is_shared;      /* what was sent lies in the receiver's memory */
  uint64_t part_max;   /* bytes of payload in one active message */
  uint64_t whole_from; /* messages of at least this many bytes go by rendezvous */
  char lanes[192];
  /* WRITE, READ and atomics are active messages of ours: UCX's software puts, gets and atomics end
   * the owner's process (1.13) or are missing (1.22) where failures are UCX's to notice. */
  bool by_messages;
  uint64_t writes_begun, writes_come; /* UCX_WRITEs, of WRITEs that are still cut, too */
  uint32_t ask_number;                /* of the last READ or atomic */
  struct ucx_asked *asked;            /* READs and atomics of the peer's, UCX_ASKED_MAX */
  uint32_t asked_head, asked_tail;
  uint32_t controls_under_way, fetches, ops_under_way;
  struct ucx_am *free_ams, *free_controls;
  uint32_t ams_under_way, window;
  struct ucx_am *ams;
  ucp_dt_iov_t *sources;
  struct ucx_record *records;
  uint8_t *gathered;     /* NULL, or part_max bytes for each of `ams`: what they carry */
  struct pst_ring *ring; /* that fetches write to */
  struct ucx_arrival *arrivals;
  uint64_t arrival_mask;
  struct ucx_op *ops, *free_ops;
  ucp_dt_iov_t *op_pieces;
  uint32_t op_count;
  struct pst_remote *remotes;
};

/* The connection is no more. */
static inline bool ucx_link_is_lost(const struct ucx_link *link)
{
  return link->stage.name >= UCX_LOST;
}
/* Why; 0: it is there, or its endpoint is closed. */
static inline int32_t ucx_link_status(const struct ucx_link *link)
{
  return link->stage.name == UCX_LOST || link->stage.name == UCX_GONE ? link->stage.lost.status : 0;
}
/* The peer's BYE has come, and the connection is there. */
static inline bool ucx_link_has_left(const struct ucx_link *link)
{
  const enum ucx_stage_name name = link->stage.name;
  return name == UCX_LEFT || name == UCX_DRAINED ||
         (name == UCX_LEAVING && link->stage.leaving.answer != UCX_NO_WORD);
}
static inline bool ucx_link_owes_greeting(const struct ucx_link *link)
{
  const enum ucx_stage_name name = link->stage.name;
  return (name == UCX_CONNECTING || name == UCX_JOINED) &&
         (link->stage.greeting.hello == UCX_OWED || link->stage.greeting.answer == UCX_OWED);
}
/* Returns whether the peer knows the link, and the connection is there. */
static inline bool ucx_link_is_joined(const struct ucx_link *link)
{
  const enum ucx_stage_name name = link->stage.name;
  return name == UCX_JOINED ||
         ((name == UCX_LEFT || name == UCX_DRAINED) && link->stage.left.was_joined);
}
/* UCX has nothing for it but, perhaps, a BYE. */
static inline bool ucx_link_is_cut(const struct ucx_link *link)
{
  return link->line >= UCX_LINE_CUT;
}

/* 0; -ENOMEM, -ENODEV or what UCX says, logged with `label`. */
int ucx_link_open(struct pst_worker *worker, const char *label, ucp_am_recv_callback_t receive,
                  bool with_payload, struct ucx_link **link);
/* Frees a link that is on no worker's list of those that leave. Blocks for a millisecond. */
void ucx_link_free(struct ucx_link *link);
/* The ucp_ep to the peer of this address of UCX's. 0; -EPROTO, -EHOSTUNREACH, -ENOMEM, logged. */
int ucx_link_connect(struct ucx_link *link, const void *address, size_t length);
/* UCX uses no memory of the host for it any more, and the peer, unless it has gone, hears BYE with
 * ABORT: from UCX, or from a ucp_worker that has nothing else to do. Takes milliseconds. */
void ucx_link_end_requests(struct ucx_link *link);
/* Leaves after the link's endpoint is closed: the link stays with the worker until the peer has
 * what was sent. */
void ucx_link_leave(struct ucx_link *link);
/* Links that leave: send what is owed, and free those that are done with. */
void ucx_links_step(struct pst_worker *worker, uint64_t now_ns);
/* When the first one is given up; UINT64_MAX: there is none. */
uint64_t ucx_links_deadline_ns(const struct pst_worker *worker);
/* When the last one would be given up if no peer were seen to live; 0: there is none. */
uint64_t ucx_links_clock_ns(const struct pst_worker *worker);
/* UCX's progress of all of them. */
void ucx_links_progress(struct pst_worker *worker);
/* One that has no clock, since its peer lives and has no room for the BYE, and has lingered: it is
 * on no list any more, and not watched. NULL: there is none. */
struct ucx_link *ucx_links_take_waiting(struct pst_worker *worker, uint64_t now_ns);
/* Free all of them now. Blocks. */
void ucx_links_free(struct pst_worker *worker);
/* None of them writes to `ring` any more. */
void ucx_links_leave_ring(struct pst_worker *worker, const struct pst_ring *ring);

#endif
