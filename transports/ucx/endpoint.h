/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: what they send, what they receive, what they owe. */
#ifndef UCX_ENDPOINT_H
#define UCX_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport-cpu.h>

#include "device.h"
#include "link.h"
#include "ring_share.h"
#include "send.h"
#include "units.h"
#include "worker.h"

struct ucx_fence_queue;
struct ucx_op;

/* Sends of an endpoint, and what it owes. */
struct ucx_tx {
  uint64_t position;   /* of the next SEND */
  uint64_t limit;      /* first that the peer has no slot for */
  uint64_t length_max; /* of the peer's slots */
  bool must_fetch;
  struct ucx_units sends, writes;
  struct ucx_fragments cut;
  /* A ring of those that wait behind a FENCE. */
  struct ucx_fence_queue *held;
  struct pst_piece *held_pieces;
  uint64_t held_mask, held_head, held_tail;
  uint64_t held_sends;
  bool is_fencing;             /* a flush that a FENCE waits for is under way */
  uint64_t puts, puts_flushed; /* WRITEs that began, and that are known to be placed */
  uint32_t fetching;           /* READs and atomics under way */
  uint64_t flush_known;        /* position: the peer has all before it */
  uint64_t writes_known;       /* so many UCX_WRITEs, too */
  struct ucx_op *flushing, **flushing_end;
  bool owes_flush;
  uint64_t messages, bytes; /* counters */
};

struct ucx_rx {
  uint64_t head;          /* position of the next MESSAGE */
  struct ucx_share share; /* of the ring's slots */
  uint64_t flush_asked, flush_writes;
  bool owes_flushed;
  uint64_t highest; /* position behind the last that has come */
  uint64_t messages, bytes;
};

struct pst_endpoint {
  struct pst_cpu_endpoint cpu;
  struct pst_worker *worker;
  struct ucx_link *link;
  char label[64];
  struct ucx_tx tx;
  struct ucx_rx rx;
  bool has_cancelled; /* its close has taken back requests */
  uint32_t waits_for; /* enum pst_wait: why post() took fewer than it was given */
  uint32_t pieces_max;
  uint64_t waits_since_ns; /* an answer of the peer's; 0: none is owed */
};

/* A line of the log that begins with the endpoint's label. */
#define UCX_TELL(endpoint, level, text, ...)                                                       \
  UCX_LOG((endpoint)->worker->device, level, "%s: " text,                                          \
          (endpoint)->label __VA_OPT__(, ) __VA_ARGS__)
#define UCX_REFUSE(endpoint, code, ...) (UCX_TELL(endpoint, PST_LOG_ERROR, __VA_ARGS__), (code))

#endif
