/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a stream for other threads, and what they say of its limit. */
#include <string.h>

#include "session.h"

/* A share of the time below this is noise, not a limit. */
#define VERDICT_LEAST 0.10
#define STARVED_LEAST 0.05
#define NEARLY_ALWAYS 0.85

static void copy_out(struct pst_stats *to, const struct pst_stats *from)
{
  uint32_t size = to->struct_size < sizeof(*from) ? to->struct_size : sizeof(*from);
  uint32_t keep = to->struct_size;

  memcpy(to, from, size);
  to->struct_size = keep;
}

static void peer_stats(const struct session_end *end, struct pst_stats *stats)
{
  const struct control_totals *peer = &end->peer;

  memcpy(stats->peer_blocked_ns, peer->blocked_ns, sizeof(stats->peer_blocked_ns));
  stats->peer_seconds_ns = peer->running_ns;
  stats->peer_known = 1;
  stats->peer_final = stat_get(end->peer_final);
  if (end->is_one_sided) {
    if (!end->is_sender) {
      stats->transfers_done = peer->messages;
      stats->transfer_bytes = peer->bytes;
    }
  } else if (end->is_sender) {
    stats->peer_delivered = peer->messages;
    stats->messages_delivered = peer->messages;
    stats->bytes_delivered = peer->bytes;
    stats->duplicates = peer->duplicates;
    stats->reordered = peer->reordered;
    stats->verified = peer->verified;
    stats->corrupted = peer->corrupted;
    stats->drop_count = peer->drop_count;
    memcpy(stats->drops, peer->drops, sizeof(stats->drops));
  } else {
    stats->messages_sent = peer->messages;
    stats->bytes_sent = peer->bytes;
    stats->stopped = peer->stopped;
  }
}

/* A time that has just been added to its stage must not be counted as still
 * running too: all of it is of one turn. */
static void blocked_stats(const struct session_end *end, struct pst_stats *stats)
{
  uint64_t since, now;
  uint32_t turn;
  int stage;

  do {
    turn = __atomic_load_n(&end->stage_turn, __ATOMIC_ACQUIRE);
    since = __atomic_load_n(&end->stage_since_ns, __ATOMIC_ACQUIRE);
    stage = __atomic_load_n(&end->stage, __ATOMIC_ACQUIRE);
    for (int i = 0; i < PST_STAGES; i++)
      stats->blocked_ns[i] = __atomic_load_n(&end->blocked_ns[i], __ATOMIC_ACQUIRE);
  } while (turn % 2 || turn != stat_get(end->stage_turn));
  now = clock_now_ns();
  if (stage >= 0 && stats->ended_ns == 0 && now > since)
    stats->blocked_ns[stage] += now - since;
}

/* Who shares another's slots waits where that one does. */
static const struct session_end *blocked_end(const struct session_end *end)
{
  if (!end->is_sender || end->is_one_sided)
    return end;
  const struct pst_sender *leader = ((const struct pst_sender *)end)->leader;
  return leader ? &leader->end : end;
}

void end_stats(const struct session_end *end, struct pst_stats *stats)
{
  struct session_end *locked = (struct session_end *)end;

  *stats =
      (struct pst_stats){.struct_size = sizeof(*stats),
                         .state = (uint32_t)__atomic_load_n(&end->state, __ATOMIC_ACQUIRE),
                         .error = stat_get(end->error),
                         .peer_failed = stat_get(end->failing),
                         .capabilities = end->lane ? end->lane->device->limits.capabilities : 0,
                         .memory_kind = end->memory_kind,
                         .ended_ns = stat_get(end->ended_ns)};
  blocked_stats(blocked_end(end), stats);
  usage_stats(end, stats);
  stats->started_ns = stat_get(end->started_ns);
  pthread_mutex_lock(&locked->text_lock);
  if (stat_get(end->peer_known))
    peer_stats(end, stats);
  stats->path = end->path;
  memcpy(stats->memory_backing, end->memory_backing, sizeof(stats->memory_backing));
  memcpy(stats->peer, end->peer_text, sizeof(stats->peer));
  memcpy(stats->error_text, end->error_text, sizeof(stats->error_text));
  if (end->is_sender && stats->drop_count == 0)
    count_own_drops(end, stats->drops, &stats->drop_count);
  if (end->is_sender && !end->is_one_sided && stats->state == PST_STATE_FAILED && stats->peer_final)
    count_unheard(end, stat_get(((const struct pst_sender *)end)->messages), stats->drops,
                  &stats->drop_count);
  if (!end->is_sender && !end->is_one_sided)
    stats->intervals = ((const struct pst_receiver *)end)->times;
  if (!end->is_sender && !end->is_one_sided && end->lane)
    count_undelivered((const struct pst_receiver *)end, stats->drops, &stats->drop_count);
  pthread_mutex_unlock(&locked->text_lock);
}

int pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats)
{
  struct pst_stats full;

  end_stats(&sender->end, &full);
  full.sent_basis = PST_SENT_COUNTED;
  full.messages_sent = stat_get(sender->messages);
  full.bytes_sent = stat_get(sender->bytes);
  full.stopped = sender_stopped(sender);
  copy_out(stats, &full);
  return 0;
}

int pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  struct pst_stats full;

  end_stats(&receiver->end, &full);
  full.messages_delivered = stat_get(receiver->delivered);
  full.bytes_delivered = stat_get(receiver->bytes);
  full.duplicates = stat_get(receiver->duplicates);
  full.reordered = stat_get(receiver->reordered);
  full.verified = stat_get(receiver->verified);
  full.corrupted = stat_get(receiver->corrupted);
  const struct assemble_counts *frames = &receiver->frame_counts;
  full.frame_packets = receiver->end.config->receiver.assemble.packets;
  full.frames_complete = stat_get(frames->complete);
  full.frames_dropped = stat_get(frames->dropped);
  full.frames_incomplete = stat_get(frames->incomplete) - full.frames_dropped;
  full.frames_lost = stat_get(frames->lost);
  if (receiver->end.is_foreign) {
    full.messages_sent = receiver->is_numbered ? count_foreign_sent(receiver) : 0;
    full.sent_basis = full.messages_sent ? PST_SENT_SEQUENCE : PST_SENT_UNKNOWN;
  } else if (stat_get(receiver->finish_known) || full.peer_final)
    full.sent_basis = PST_SENT_COUNTED;
  else
    full.sent_basis = full.peer_known ? PST_SENT_HEARTBEAT : PST_SENT_UNKNOWN;
  /* The sender's last word may be older than its last messages. */
  if (full.sent_basis == PST_SENT_HEARTBEAT && full.messages_sent < full.messages_delivered) {
    full.messages_sent = full.messages_delivered;
    full.bytes_sent = full.bytes_delivered;
    full.sent_basis = PST_SENT_SEQUENCE;
  }
  copy_out(stats, &full);
  return 0;
}

int pst_initiator_stats(const struct pst_initiator *initiator, struct pst_stats *stats)
{
  struct pst_stats full;

  end_stats(&initiator->end, &full);
  full.transfers_posted = stat_get(initiator->posted);
  full.transfers_done = stat_get(initiator->done);
  full.transfers_failed = stat_get(initiator->failed);
  full.transfer_bytes = stat_get(initiator->bytes);
  copy_out(stats, &full);
  return 0;
}

int pst_target_stats(const struct pst_target *target, struct pst_stats *stats)
{
  struct pst_stats full;

  end_stats(&target->end, &full);
  copy_out(stats, &full);
  return 0;
}

/* ---- The verdict --------------------------------------------------------------------- */

struct shares {
  double of[PST_STAGES];
  bool known;
};

static void take_shares(struct shares *shares, const uint64_t *blocked, uint64_t running)
{
  if (running == 0)
    return;
  shares->known = true;
  for (int i = 0; i < PST_STAGES; i++)
    shares->of[i] = (double)blocked[i] / (double)running;
}

static uint64_t running_ns(const struct pst_stats *stats)
{
  if (stats->started_ns == 0)
    return 0;
  return (stats->ended_ns ? stats->ended_ns : clock_now_ns()) - stats->started_ns;
}

/* A last word from early in the run says nothing of most of it. */
static bool peer_tells(const struct pst_stats *stats)
{
  return stats && stats->peer_known && stats->peer_seconds_ns >= running_ns(stats) / 2;
}

/* Of its worker's time, what it waited for a CPU. */
static double starved_share(const struct pst_stats *stats)
{
  if (!stats || stats->cpu_span_ns == 0 || stats->cpu_wait_ns == UINT64_MAX)
    return 0;
  double share = (double)stats->cpu_wait_ns / (double)stats->cpu_span_ns;
  return share > 1 ? 1 : share;
}

/* A thread without a CPU is in one of its stages, and its peer waits for it in another: starvation
 * lengthens all of them. A stage of its own that lasts nearly always is what it would wait for
 * with a CPU, too. */
static bool is_starved(int best, double share, double starved)
{
  bool is_peers = best == PST_STAGE_CREDIT || best == PST_STAGE_EMPTY;

  if (starved < STARVED_LEAST || (best >= 0 && !is_peers && share >= NEARLY_ALWAYS))
    return false;
  return share * (1 - starved) <= starved;
}

int pst_verdict(const struct pst_stats *sender, const struct pst_stats *receiver, double *share)
{
  struct shares s = {0}, r = {0};
  double candidates[PST_STAGES] = {0};
  int best = PST_STAGE_SOURCE;

  if (sender)
    take_shares(&s, sender->blocked_ns, running_ns(sender));
  else if (peer_tells(receiver))
    take_shares(&s, receiver->peer_blocked_ns, receiver->peer_seconds_ns);
  if (receiver)
    take_shares(&r, receiver->blocked_ns, running_ns(receiver));
  else if (peer_tells(sender))
    take_shares(&r, sender->peer_blocked_ns, sender->peer_seconds_ns);

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
  double out = starved_share(sender), in = starved_share(receiver);
  double starved = out > in ? out : in;
  if (most < VERDICT_LEAST)
    best = PST_LIMIT_CPU;
  if (is_starved(best, best >= 0 ? most : 0, starved)) {
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
