/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket that holds a mean rate of payload bits. Tokens are nanoseconds
 * of line time: what was sent moves `next_ns` on, and sending is allowed while
 * the clock has reached it. A pacer that falls behind catches up by at most
 * `burst_ns`.
 */
#ifndef PST_STREAM_PACE_H
#define PST_STREAM_PACE_H

#include <stdint.h>

struct pace {
  double ns_per_byte; /* 0: unlimited */
  double next_ns;     /* when the line is free again */
  double burst_ns;
};

void pace_init(struct pace *pace, uint64_t rate_bps, uint64_t burst_bytes, uint64_t message_bytes);
/* How many messages of at most `message_bytes` may go now; `limit` when unlimited. */
uint32_t pace_allow(struct pace *pace, uint64_t now_ns, uint64_t message_bytes, uint32_t limit);
void pace_spend(struct pace *pace, uint64_t bytes);
/* When pace_allow will give again; 0: now. */
uint64_t pace_next_ns(const struct pace *pace);

#endif
