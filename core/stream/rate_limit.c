/* SPDX-License-Identifier: Apache-2.0 */
/* A sender's pace, as a token bucket. */
#include "rate_limit.h"

/* A thread that shares its core is away for some milliseconds at a time; a bucket
 * smaller than that would lose them for good and miss the mean. */
#define RATE_LIMIT_BURST_NS 20e6

void rate_limit_init(struct rate_limit *rate, uint64_t rate_bps, uint64_t burst_bytes,
                     uint64_t message_bytes)
{
  *rate = (struct rate_limit){0};
  if (rate_bps == 0)
    return;
  rate->is_on = true;
  rate->ns_per_byte = 8e9 / (double)rate_bps;
  rate->burst_ns = burst_bytes ? (double)burst_bytes * rate->ns_per_byte : RATE_LIMIT_BURST_NS;
  rate->burst_ns -= (double)message_bytes * rate->ns_per_byte;
  if (rate->burst_ns < 0)
    rate->burst_ns = 0;
}

void rate_limit_chunks(struct rate_limit *rate, uint32_t messages, uint64_t sleep_ns)
{
  rate->is_on |= messages > 0;
  rate->chunk = rate->left = messages;
  rate->sleep_ns = sleep_ns;
}

static uint32_t rate_limit_by_rate(struct rate_limit *rate, uint64_t now_ns, uint64_t message_bytes,
                                   uint32_t limit)
{
  double now = (double)now_ns;

  if (rate->ns_per_byte == 0 || limit == 0)
    return limit;
  if (rate->next_ns == 0)
    rate->next_ns = now;
  if (rate->next_ns < now - rate->burst_ns) {
    rate->lost_ns += now - rate->burst_ns - rate->next_ns;
    rate->next_ns = now - rate->burst_ns;
  }
  if (rate->next_ns > now + rate->lead_ns)
    return 0;
  double messages =
      (now + rate->lead_ns - rate->next_ns) / ((double)message_bytes * rate->ns_per_byte) + 1;
  return messages < (double)limit ? (uint32_t)messages : limit;
}

uint32_t rate_limit_allow(struct rate_limit *rate, uint64_t now_ns, uint64_t message_bytes,
                          uint32_t limit)
{
  if (rate->chunk == 0)
    return rate_limit_by_rate(rate, now_ns, message_bytes, limit);
  if (rate->left == 0) {
    if (rate->wake_ns == 0 || now_ns < rate->wake_ns)
      return 0;
    rate->left = rate->chunk;
    rate->wake_ns = 0;
  }
  limit = rate_limit_by_rate(rate, now_ns, message_bytes, limit < rate->left ? limit : rate->left);
  rate->left -= limit;
  return limit;
}

void rate_limit_sent(struct rate_limit *rate, uint64_t now_ns)
{
  if (rate->chunk && rate->left == 0 && rate->wake_ns == 0)
    rate->wake_ns = now_ns + rate->sleep_ns;
}

uint64_t rate_limit_line_ns(const struct rate_limit *rate)
{
  return rate->ns_per_byte == 0 ? 0 : (uint64_t)rate->next_ns;
}

void rate_limit_spend(struct rate_limit *rate, uint64_t bytes)
{
  rate->next_ns += (double)bytes * rate->ns_per_byte;
}

uint64_t rate_limit_next_ns(const struct rate_limit *rate)
{
  uint64_t line = rate->ns_per_byte == 0 ? 0 : (uint64_t)(rate->next_ns - rate->lead_ns);

  return rate->chunk && rate->left == 0 && rate->wake_ns > line ? rate->wake_ns : line;
}
