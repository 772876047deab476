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
  pace->is_on = true;
  pace->ns_per_byte = 8e9 / (double)rate_bps;
  pace->burst_ns = burst_bytes ? (double)burst_bytes * pace->ns_per_byte : PACE_BURST_NS;
  pace->burst_ns -= (double)message_bytes * pace->ns_per_byte;
  if (pace->burst_ns < 0)
    pace->burst_ns = 0;
}

void pace_chunks(struct pace *pace, uint32_t messages, uint64_t sleep_ns)
{
  pace->is_on |= messages > 0;
  pace->chunk = pace->left = messages;
  pace->sleep_ns = sleep_ns;
}

static uint32_t allow_by_rate(struct pace *pace, uint64_t now_ns, uint64_t message_bytes,
                              uint32_t limit)
{
  double now = (double)now_ns;

  if (pace->ns_per_byte == 0 || limit == 0)
    return limit;
  if (pace->next_ns == 0)
    pace->next_ns = now;
  if (pace->next_ns < now - pace->burst_ns) {
    pace->lost_ns += now - pace->burst_ns - pace->next_ns;
    pace->next_ns = now - pace->burst_ns;
  }
  if (pace->next_ns > now)
    return 0;
  double messages = (now - pace->next_ns) / ((double)message_bytes * pace->ns_per_byte) + 1;
  return messages < (double)limit ? (uint32_t)messages : limit;
}

uint32_t pace_allow(struct pace *pace, uint64_t now_ns, uint64_t message_bytes, uint32_t limit)
{
  if (pace->chunk == 0)
    return allow_by_rate(pace, now_ns, message_bytes, limit);
  if (pace->left == 0) {
    if (pace->wake_ns == 0 || now_ns < pace->wake_ns)
      return 0;
    pace->left = pace->chunk;
    pace->wake_ns = 0;
  }
  limit = allow_by_rate(pace, now_ns, message_bytes, limit < pace->left ? limit : pace->left);
  pace->left -= limit;
  return limit;
}

void pace_sent(struct pace *pace, uint64_t now_ns)
{
  if (pace->chunk && pace->left == 0 && pace->wake_ns == 0)
    pace->wake_ns = now_ns + pace->sleep_ns;
}

void pace_spend(struct pace *pace, uint64_t bytes)
{
  pace->next_ns += (double)bytes * pace->ns_per_byte;
}

uint64_t pace_next_ns(const struct pace *pace)
{
  uint64_t line = pace->ns_per_byte == 0 ? 0 : (uint64_t)pace->next_ns;

  return pace->chunk && pace->left == 0 && pace->wake_ns > line ? pace->wake_ns : line;
}
