/* SPDX-License-Identifier: Apache-2.0 */
#include "pace.h"

/* A thread that shares its core is away for some milliseconds at a time; a bucket
 * smaller than that would lose them for good and miss the mean. */
#define PACE_BURST_NS 20e6

void pace_init(struct pace *pace, uint64_t rate_bps, uint64_t burst_bytes, uint64_t message_bytes)
{
  *pace = (struct pace){0};
  if (rate_bps == 0)
    return;
  pace->ns_per_byte = 8e9 / (double)rate_bps;
  pace->burst_ns = burst_bytes ? (double)burst_bytes * pace->ns_per_byte : PACE_BURST_NS;
  if (pace->burst_ns < (double)message_bytes * pace->ns_per_byte)
    pace->burst_ns = (double)message_bytes * pace->ns_per_byte;
}

uint32_t pace_allow(struct pace *pace, uint64_t now_ns, uint64_t message_bytes, uint32_t limit)
{
  double now = (double)now_ns;

  if (pace->ns_per_byte == 0 || limit == 0)
    return limit;
  if (pace->next_ns == 0)
    pace->next_ns = now;
  if (pace->next_ns < now - pace->burst_ns)
    pace->next_ns = now - pace->burst_ns;
  if (pace->next_ns > now)
    return 0;
  double messages = (now - pace->next_ns) / ((double)message_bytes * pace->ns_per_byte) + 1;
  return messages < (double)limit ? (uint32_t)messages : limit;
}

void pace_spend(struct pace *pace, uint64_t bytes)
{
  pace->next_ns += (double)bytes * pace->ns_per_byte;
}

uint64_t pace_next_ns(const struct pace *pace)
{
  return pace->ns_per_byte == 0 ? 0 : (uint64_t)pace->next_ns;
}
