/* SPDX-License-Identifier: Apache-2.0 */
/* Derives what limits a stream from its numbers. */
#include <stdbool.h>

#include <penstock/stats.h>

#include "util/clock.h"

/* A share of the time below this is noise, not a limit. */
#define VERDICT_LEAST 0.10
#define STARVED_LEAST 0.05
/* A thread that ran for less may have waited for one turn of the scheduler. */
#define STARVED_SPAN_NS UINT64_C(100000000)
#define NEARLY_ALWAYS 0.85
#define MOSTLY 0.5

struct shares {
  double of[PST_STAGES];
  bool known;
};

static uint64_t verdict_running_ns(const struct pst_stats *stats)
{
  if (stats->started_ns == 0)
    return 0;
  return (stats->ended_ns ? stats->ended_ns : clock_now_ns()) - stats->started_ns;
}

/* A last word from early in the run says nothing of most of it. */
static bool verdict_peer_tells(const struct pst_stats *stats)
{
  return stats && stats->peer_known && stats->peer_seconds_ns >= verdict_running_ns(stats) / 2;
}

/* An end's own measurement, or else the one that its peer received. */
static struct shares verdict_shares(const struct pst_stats *own, const struct pst_stats *peers)
{
  const uint64_t *blocked = own ? own->blocked_ns : NULL;
  uint64_t running = own ? verdict_running_ns(own) : 0;
  struct shares shares = {0};

  if (!own && verdict_peer_tells(peers)) {
    blocked = peers->peer_blocked_ns;
    running = peers->peer_seconds_ns;
  }
  shares.known = running > 0;
  for (int i = 0; i < PST_STAGES && running; i++)
    shares.of[i] = (double)blocked[i] / (double)running;
  return shares;
}

/* The share of its thread's time in which the thread waited for a CPU. */
static double verdict_starved_share(const struct pst_stats *stats)
{
  if (!stats || stats->cpu_span_ns < STARVED_SPAN_NS || stats->cpu_wait_ns == UINT64_MAX)
    return 0;
  double share = (double)stats->cpu_wait_ns / (double)stats->cpu_span_ns;
  return share > 1 ? 1 : share;
}

/* A thread without a CPU is in one of its stages, and its peer waits for it in another: starvation
 * lengthens all of them. But if a stage of this thread lasts nearly all the time, the thread would
 * wait there with a CPU, too. */
static bool verdict_is_starved(int best, double share, double starved)
{
  bool is_peers = best == PST_STAGE_CREDIT || best == PST_STAGE_EMPTY;

  if (starved < STARVED_LEAST || (best >= 0 && !is_peers && share >= NEARLY_ALWAYS))
    return false;
  return share * (1 - starved) <= starved;
}

int pst_verdict(const struct pst_stats *sender, const struct pst_stats *receiver, double *share)
{
  const struct shares s = verdict_shares(sender, receiver), r = verdict_shares(receiver, sender);
  double candidates[PST_STAGES] = {0};
  int best = PST_STAGE_SOURCE;

  candidates[PST_STAGE_SOURCE] = s.of[PST_STAGE_SOURCE];
  candidates[PST_STAGE_RATE] = s.of[PST_STAGE_RATE];
  candidates[PST_STAGE_TRANSPORT] = s.of[PST_STAGE_TRANSPORT];
  /* Copies out of the sender's memory and into the receiver's overlap. */
  candidates[PST_STAGE_STAGING] = s.of[PST_STAGE_STAGING] > r.of[PST_STAGE_STAGING]
                                      ? s.of[PST_STAGE_STAGING]
                                      : r.of[PST_STAGE_STAGING];
  candidates[PST_STAGE_SINK] = r.of[PST_STAGE_SINK];
  /* Missing credit is the receiver's doing as far as it was busy itself; the rest
   * is a ring too small for the way there and back. */
  candidates[PST_STAGE_CREDIT] =
      s.of[PST_STAGE_CREDIT] - (r.known ? r.of[PST_STAGE_SINK] + r.of[PST_STAGE_STAGING] : 0);
  if (!s.known)
    candidates[PST_STAGE_EMPTY] = r.of[PST_STAGE_EMPTY];
  for (int i = 1; i < PST_STAGES; i++)
    if (candidates[i] > candidates[best])
      best = i;
  double most = candidates[best] > 1 ? 1 : candidates[best];
  double out = verdict_starved_share(sender), in = verdict_starved_share(receiver);
  /* A source or a rate that takes most of the time is the limit, whatever the receiver lacks. */
  bool is_senders = best == PST_STAGE_SOURCE || best == PST_STAGE_RATE;
  double starved = out > in || (is_senders && most >= MOSTLY) ? out : in;
  if (most < VERDICT_LEAST)
    best = PST_LIMIT_CPU;
  if (verdict_is_starved(best, best >= 0 ? most : 0, starved)) {
    best = PST_LIMIT_STARVATION;
    most = starved;
  }
  if (share)
    *share = most;
  return best;
}

const char *pst_stage_name(int stage)
{
  static const char *const names[PST_STAGES] = {"source",  "rate", "credit", "transport",
                                                "staging", "sink", "empty"};

  if (stage == PST_LIMIT_STARVATION)
    return "starvation";
  return stage >= 0 && stage < PST_STAGES ? names[stage] : "cpu";
}
