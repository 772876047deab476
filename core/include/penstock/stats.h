/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of a stream: what it has moved, dropped and waited for, and what
 * limits it.
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

/* Causes that limit a stream if no stage does. */
enum pst_limit {
  PST_LIMIT_CPU = -1,        /* its own work */
  PST_LIMIT_STARVATION = -2, /* its thread was ready to run, but other threads had the CPU */
};

enum pst_sent_basis {
  PST_SENT_COUNTED = 1,   /* the sender's own count, here or as it reported it at the end */
  PST_SENT_HEARTBEAT = 2, /* the count in the last heartbeat of a sender that died */
  PST_SENT_SEQUENCE = 3,  /* inferred from sequence numbers */
  PST_SENT_UNKNOWN = 4,
};

/* Messages lost for one cause. Transports have causes of their own. Core adds those of frames
 * (below), and `wire` and `unattributed` for losses without another cause. In a stream that failed,
 * messages sent but neither delivered nor dropped have the cause `memory_failed` if the receiver's
 * memory failed, else `aborted`. */
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

/* The statistics of one end of a stream. Any thread may read them; they may be a moment old. */
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
  uint64_t started_ns; /* when it connected, or got the first message of a foreign sender; 0: not
                        * yet. CLOCK_MONOTONIC */
  uint64_t ended_ns;   /* when it ended or failed; 0: not yet */
  uint64_t blocked_ns[PST_STAGES];      /* this end's */
  uint64_t peer_blocked_ns[PST_STAGES]; /* the peer's, known at the end */
  uint64_t peer_seconds_ns;             /* the peer's running time in nanoseconds; 0: unknown */
  uint64_t verified;                    /* messages checked */
  uint64_t corrupted;
  uint64_t peer_delivered; /* sender: the receiver's count, known at the end */
  uint32_t peer_known;     /* 1: peer_* are set */
  uint32_t drop_count;
  struct pst_drop drops[16];
  struct pst_path_info path;
  uint64_t capabilities; /* of this end's transport: enum pst_transport_capability */
  uint32_t memory_kind;  /* of this end: enum pst_memory_kind */
  uint32_t peer_final;   /* 1: the peer's counts are final, because its end ended or failed */
  char memory_backing[48];
  char peer[128];       /* "host, pid 4711, 127.0.0.1:41000" */
  char error_text[512]; /* FAILED: the first error, with its remedy */
  /* Receivers that assemble frames; frame_packets is 0 for others. A message is delivered when its
   * frame is handed over. Other messages have the causes `late` (the frame was closed),
   * `incomplete_frame` (the frame was dropped) or `misframed` (marker or timestamp fits no frame of
   * so many packets). */
  uint64_t frame_packets;
  uint64_t frames_complete;   /* handed over with all packets */
  uint64_t frames_incomplete; /* handed over without some */
  uint64_t frames_dropped;    /* incomplete, by `missing: drop` */
  uint64_t frames_lost;       /* by sequence: no packet came in time */
  /* Receivers with `intervals`: times between arrivals by the transport's time stamps, up to the
   * last heartbeat or the end. */
  struct pst_times intervals;
  uint64_t stopped; /* enum pst_stop, with PST_STOP_SHORT, from the sender's pst_sender_stop() */
  /* This end's thread, from CONNECTED to the end or the last heartbeat. Only the span includes time
   * asleep. */
  uint64_t cpu_span_ns;          /* wall-clock time; 0: unknown yet */
  uint64_t cpu_ns;               /* time running */
  uint64_t cpu_wait_ns;          /* time ready to run while other threads had the CPU; UINT64_MAX:
                                    the kernel lacks CONFIG_SCHED_INFO */
  uint64_t involuntary_switches; /* how often the thread lost its CPU */
  uint32_t peer_failed;          /* FAILED: 1: because the peer reported an error, or left */
  uint32_t ring_slots;           /* of the receiver's ring; senders: 0 */
};

/* Read the statistics of an end; stats->struct_size is set before. 0. Any thread. */
PST_EXPORT int pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats);
PST_EXPORT int pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats);

/* The counters of the stream's endpoint, filters included, as of the last heartbeat or the end.
 * Returns how many there are; writes up to max. Any thread. */
PST_EXPORT int pst_sender_counters(const struct pst_sender *sender,
                                   struct pst_counter_value *values, uint32_t max);
PST_EXPORT int pst_receiver_counters(const struct pst_receiver *receiver,
                                     struct pst_counter_value *values, uint32_t max);

/* The counters of a device. The library reads them once a second; this call reads them too, and may
 * block for some ms. The device's drops explain messages that its streams miss. Returns how many
 * there are; writes up to max. -ENOENT: no such device. Any thread. */
PST_EXPORT int pst_session_device_counters(struct pst_session *session, uint32_t index,
                                           struct pst_counter_value *values, uint32_t max);
/* The counters of the device's worker on a thread of the session. That thread reads them once a
 * second, and when its streams end. -ENOENT: the device has no worker on that thread. */
PST_EXPORT int pst_session_worker_counters(struct pst_session *session, uint32_t index,
                                           uint32_t thread, struct pst_counter_value *values,
                                           uint32_t max);

/* Find what limits a stream, from the blocked times and the CPU times of its ends; one of the two
 * may be NULL. *share is the limit's share of the time, 0 to 1. Returns enum pst_stage or enum
 * pst_limit. */
PST_EXPORT int pst_verdict(const struct pst_stats *sender, const struct pst_stats *receiver,
                           double *share);
/* The name of a stage or limit of pst_verdict(), as in a result: "source", "cpu". */
PST_EXPORT const char *pst_stage_name(int stage);

#ifdef __cplusplus
}
#endif
#endif
