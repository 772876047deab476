/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket that holds a mean rate of payload bits. Tokens are nanoseconds
 * of line time: what was sent moves `next_ns` on, and sending is allowed while
 * the clock has reached it. A pacer that falls behind catches up by at most
 * `burst_ns`, so that no more than the burst's bytes go at once.
 *
 * And chunks: so many messages, then a sleep, as Rivermax's senders have them.
 */
#ifndef PST_STREAM_RATE_LIMIT_H
#define PST_STREAM_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct rate_limit {
  bool is_on;
  double ns_per_byte; /* 0: unlimited */
  double next_ns;     /* when the line is free again */
  double burst_ns;    /* of a burst but its first message */
  double lost_ns;     /* line time that nobody used; whoever reads it sets it back */
  double lead_ns;     /* how long before its line time a message may be taken */
  uint32_t chunk;     /* messages; 0: no chunks */
  uint32_t left;      /* of the chunk */
  uint64_t sleep_ns;
  uint64_t wake_ns; /* when the next chunk may go; 0: this one has not gone yet */
};

void rate_limit_init(struct rate_limit *rate, uint64_t rate_bps, uint64_t burst_bytes,
                     uint64_t message_bytes);
void rate_limit_chunks(struct rate_limit *rate, uint32_t messages, uint64_t sleep_ns);
/* How many messages of at most `message_bytes` may go now, which will; `limit` when
 * unlimited. */
uint32_t rate_limit_allow(struct rate_limit *rate, uint64_t now_ns, uint64_t message_bytes,
                          uint32_t limit);
/* The line time of the next byte: when the next message is to leave, whose transport takes it
 * before that. 0: it is not known, without a rate. */
uint64_t rate_limit_line_ns(const struct rate_limit *rate);
void rate_limit_spend(struct rate_limit *rate, uint64_t bytes);
/* All that was allowed has gone. */
void rate_limit_sent(struct rate_limit *rate, uint64_t now_ns);
/* When rate_limit_allow will give again; 0: now. */
uint64_t rate_limit_next_ns(const struct rate_limit *rate);

#endif
