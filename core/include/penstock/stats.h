/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream has moved, dropped and waited for, and what limits it.
 */
#ifndef PENSTOCK_STATS_H
#define PENSTOCK_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_sender;
struct pst_session;
struct pst_receiver;

/* Where a stream's time goes when it does not flow. */
enum pst_stage {
  PST_STAGE_SOURCE = 0, /* sender: free slots, but nothing submitted */
  PST_STAGE_RATE = 1,   /* sender: `rate` or `chunk` holds back what could be sent */
  PST_STAGE_CREDIT = 2, /* sender: the receiver has no free slot */
  PST_STAGE_TRANSPORT =
      3,                 /* sender: the transport's queue is full, or all slots are on their way */
  PST_STAGE_STAGING = 4, /* receiver: arrived, but copies to the final memory are under way;
                            sender: copies out of its memory are */
  PST_STAGE_SINK = 5,    /* receiver: the application holds what it was given */
  PST_STAGE_EMPTY = 6,   /* receiver: nothing has arrived */
  PST_STAGES = 7,
};

/* What limits a stream that no stage does. */
enum pst_limit {
  PST_LIMIT_CPU = -1,        /* its own work */
  PST_LIMIT_STARVATION = -2, /* its thread was ready to run, and others had the CPU */
};

enum pst_sent_basis {
  PST_SENT_COUNTED = 1,   /* the sender's own count, or its word at the end */
  PST_SENT_HEARTBEAT = 2, /* its last heartbeat: it died */
  PST_SENT_SEQUENCE = 3,  /* inferred from sequence numbers */
  PST_SENT_UNKNOWN = 4,
};

/* Causes are the transport's, and core's own: those of frames (below); `wire` and `unattributed`
 * for what no other accounts for; and of a stream that has broken off, `memory_failed` where the
 * receiver's memory did, else `aborted`, for what was sent by then and neither delivered nor
 * dropped.
 */
struct pst_drop {
  char cause[32];
  uint64_t messages;
};

/* Times of many samples. Percentiles are at most 3.2% too high. */
struct pst_times {
  uint64_t count; /* 0: not measured */
  uint64_t min_ns;
  uint64_t mean_ns;
  uint64_t p50_ns;
  uint64_t p90_ns;
  uint64_t p99_ns;
  uint64_t p99_9_ns;
  uint64_t max_ns;
};

/* One side of a stream. Readable from any thread; numbers may be a moment old. */
struct pst_stats {
  uint32_t struct_size;
  uint32_t state;      /* enum pst_state */
  int32_t error;       /* FAILED: -errno */
  uint32_t sent_basis; /* enum pst_sent_basis */
  uint64_t messages_sent;
  uint64_t bytes_sent;
  uint64_t messages_delivered; /* without duplicates */
  uint64_t bytes_delivered;
  uint64_t duplicates;
  uint64_t reordered;
  uint64_t started_ns; /* connected; from a foreign sender, the first message; 0: not yet.
                        * CLOCK_MONOTONIC */
  uint64_t ended_ns;   /* ended or failed; 0: not yet */
  uint64_t blocked_ns[PST_STAGES];      /* of this side */
  uint64_t peer_blocked_ns[PST_STAGES]; /* of the other, known at the end */
  uint64_t peer_seconds_ns;             /* the other's running time; 0: not known */
  uint64_t verified;                    /* messages checked */
  uint64_t corrupted;
  uint64_t peer_delivered; /* sender: the receiver's count, known at the end */
  uint32_t peer_known;     /* 1: peer_* hold */
  uint32_t drop_count;
  struct pst_drop drops[16];
  struct pst_path_info path;
  uint64_t capabilities; /* of the transport here: enum pst_transport_capability */
  uint32_t memory_kind;  /* of this side: enum pst_memory_kind */
  uint32_t peer_final;   /* 1: what the other side told was its last word, at the stream's end or
                            as it failed */
  char memory_backing[48];
  char peer[128];       /* "host, pid 4711, 127.0.0.1:41000" */
  char error_text[512]; /* FAILED: the first error, with its remedy */
  /* Receivers that assemble frames; frame_packets is 0 for others. A message is
   * delivered when its frame is handed over. Those that are not have the causes
   * `late` (its frame was closed), `incomplete_frame` (its frame was dropped) and
   * `misframed` (its marker or timestamp fits no frame of so many packets). */
  uint64_t frame_packets;
  uint64_t frames_complete;   /* handed over with all packets */
  uint64_t frames_incomplete; /* handed over without some */
  uint64_t frames_dropped;    /* incomplete, by `missing: drop` */
  uint64_t frames_lost;       /* by sequence: nothing came in time */
  /* Receiver, where `intervals` is set: between arrivals, in the order of their coming, as
   * the transport stamped them; as of the last heartbeat, or the end. */
  struct pst_times intervals;
  uint64_t stopped; /* enum pst_stop, with PST_STOP_SHORT: by pst_sender_stop(), here or there */
  /* This side's thread, from connected until the end, or until the last
   * heartbeat. Time asleep is in none of them but the span. */
  uint64_t cpu_span_ns;          /* wall clock; 0: not known yet */
  uint64_t cpu_ns;               /* it ran */
  uint64_t cpu_wait_ns;          /* it was ready to run, and others had the CPU; UINT64_MAX: the
                                    kernel does not say (CONFIG_SCHED_INFO) */
  uint64_t involuntary_switches; /* its CPU was taken away */
  uint32_t peer_failed;          /* FAILED: 1: as the other side reports, or as it has gone */
  uint32_t reserved;
};

PST_EXPORT int pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats);
PST_EXPORT int pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats);

/* What the transport counted of the stream's endpoint, filters included: read by
 * the thread with each heartbeat and at the end. Any thread. Returns how many there
 * are; writes up to max. */
PST_EXPORT int pst_sender_counters(const struct pst_sender *sender,
                                   struct pst_counter_value *values, uint32_t max);
PST_EXPORT int pst_receiver_counters(const struct pst_receiver *receiver,
                                     struct pst_counter_value *values, uint32_t max);

/* What the transport counted of a device beside its endpoints: asked for once a second, and by this
 * call, which may block for some ms. Drops explain messages that its streams miss. As
 * pst_sender_counters(); -ENOENT: no such device. Any thread. */
PST_EXPORT int pst_session_device_counters(struct pst_session *session, uint32_t index,
                                           struct pst_counter_value *values, uint32_t max);
/* The same of the device's worker on a thread of the session: read by that thread once a second,
 * and as its streams end. -ENOENT: the device has none there. */
PST_EXPORT int pst_session_worker_counters(struct pst_session *session, uint32_t index,
                                           uint32_t thread, struct pst_counter_value *values,
                                           uint32_t max);

/* What limits a stream, from the blocked times of one or both ends and the CPU that their threads
 * had (either may be NULL), and its share of the time, 0 to 1. Returns enum pst_stage, or enum
 * pst_limit. */
PST_EXPORT int pst_verdict(const struct pst_stats *sender, const struct pst_stats *receiver,
                           double *share);
PST_EXPORT const char *pst_stage_name(int stage);

#ifdef __cplusplus
}
#endif
#endif
