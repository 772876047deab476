/* SPDX-License-Identifier: Apache-2.0 */
/* Interarrival jitter of RTP: RFC 3550, section 6.4.1 and appendix A.8, in nanoseconds. */
#ifndef DATAGRAM_JITTER_H
#define DATAGRAM_JITTER_H

#include <stdbool.h>
#include <stdint.h>

struct dg_jitter {
  bool begun;
  uint32_t clock_rate; /* of the timestamps, in Hz; 0: unknown, and no jitter */
  uint32_t timestamp;  /* of the message before */
  uint64_t arrival_ns;
  uint64_t scaled_ns; /* sixteen times the estimate, as A.8 keeps it */
};

static inline void dg_jitter_see(struct dg_jitter *jitter, uint32_t timestamp, uint64_t arrival_ns)
{
  if (jitter->begun && jitter->clock_rate) {
    int64_t sent = (int64_t)(int32_t)(timestamp - jitter->timestamp) * 1000000000 /
                   (int64_t)jitter->clock_rate;
    int64_t d = (int64_t)(arrival_ns - jitter->arrival_ns) - sent;
    jitter->scaled_ns += (uint64_t)(d < 0 ? -d : d) - ((jitter->scaled_ns + 8) >> 4);
  }
  jitter->begun = true;
  jitter->timestamp = timestamp;
  jitter->arrival_ns = arrival_ns;
}

static inline uint64_t dg_jitter_ns(const struct dg_jitter *jitter)
{
  return jitter->scaled_ns >> 4;
}

#endif
