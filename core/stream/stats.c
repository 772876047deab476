/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a stream for other threads. */
#include <string.h>

#include "receiver.h"
#include "sender.h"

/* Copies the peer's last report, for both kinds of end. False: there is none yet. */
static bool stats_of_peer(const struct session_end *end, struct pst_stats *stats)
{
  const struct control_totals *peer = &end->peer;

  const enum end_peer_word word = stat_get(end->peer_word);

  if (word == END_PEER_SILENT)
    return false;
  memcpy(stats->peer_blocked_ns, peer->blocked_ns, sizeof(stats->peer_blocked_ns));
  stats->peer_seconds_ns = peer->running_ns;
  stats->peer_known = 1;
  stats->peer_final = word == END_PEER_FINAL;
  return true;
}

static void stats_of_cpu(const struct session_end *end, struct pst_stats *stats)
{
  struct usage used;

  usage_between(&end->usage_first, &end->usage_last, &used);
  stats->cpu_span_ns = used.at_ns;
  stats->cpu_ns = used.cpu_ns;
  stats->involuntary_switches = used.switches;
  stats->cpu_wait_ns = used.wait_ns;
}

/* Writes the members that both kinds of end have; `blocked` is the end that waits for this one,
 * too. With text_lock held. */
static void stats_of_end(const struct session_end *end, const struct session_end *blocked,
                         struct pst_stats *stats)
{
  *stats =
      (struct pst_stats){.struct_size = sizeof(*stats),
                         .state = (uint32_t)__atomic_load_n(&end->state, __ATOMIC_ACQUIRE),
                         .error = stat_get(end->error),
                         .peer_failed = stat_get(end->trouble.kind) == END_PEER_FAILED,
                         .capabilities = end->lane ? end->lane->device->limits.capabilities : 0,
                         .memory_kind = end->memory_kind,
                         .ended_ns = stat_get(end->ended_ns)};
  end_blocked(blocked, stats->ended_ns, stats->blocked_ns);
  stats_of_cpu(end, stats);
  stats->started_ns = stat_get(end->started_ns);
  stats->path = end->path;
  memcpy(stats->memory_backing, end->memory_backing, sizeof(stats->memory_backing));
  memcpy(stats->peer, end->peer_text, sizeof(stats->peer));
  memcpy(stats->error_text, end->error_text, sizeof(stats->error_text));
}

/* Writes the receiver's report into its sender's statistics. */
static void stats_told_sender(const struct control_totals *peer, struct pst_stats *stats)
{
  stats->peer_delivered = peer->messages;
  stats->messages_delivered = peer->messages;
  stats->bytes_delivered = peer->bytes;
  stats->duplicates = peer->duplicates;
  stats->reordered = peer->reordered;
  stats->verified = peer->verified;
  stats->corrupted = peer->corrupted;
  stats->drop_count = peer->drop_count;
  memcpy(stats->drops, peer->drops, sizeof(stats->drops));
}

int pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats)
{
  const struct session_end *end = &sender->end;
  struct pst_stats full;

  end_lock(end);
  /* A sender that shares another's slots waits where that one does. */
  stats_of_end(end, sender->leader ? &sender->leader->end : end, &full);
  if (stats_of_peer(end, &full))
    stats_told_sender(&end->peer, &full);
  if (full.drop_count == 0)
    loss_of_sender(sender, full.drops, &full.drop_count);
  if (full.state == PST_STATE_FAILED && full.peer_final)
    loss_unheard(sender, stat_get(sender->messages), full.drops, &full.drop_count);
  end_unlock(end);
  full.sent_basis = PST_SENT_COUNTED;
  full.messages_sent = stat_get(sender->messages);
  full.bytes_sent = stat_get(sender->bytes);
  full.stopped = sender_stopped(sender);
  pst_struct_write(stats, &full, sizeof(full));
  return 0;
}

/* Under the end's lock, so that the counts belong together. */
int pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  const struct session_end *end = &receiver->end;
  struct pst_stats full;

  end_lock(end);
  stats_of_end(end, end, &full);
  if (stats_of_peer(end, &full)) {
    full.messages_sent = end->peer.messages;
    full.bytes_sent = end->peer.bytes;
    full.stopped = end->peer.stopped;
  }
  end->peer_ops->sent(receiver, &full);
  full.intervals = receiver->times;
  if (end->lane)
    loss_of_receiver(receiver, full.drops, &full.drop_count);
  end_unlock(end);
  full.ring_slots = receiver->ring ? receiver->ring->slots : 0;
  full.messages_delivered = stat_get(receiver->delivered);
  full.bytes_delivered = stat_get(receiver->bytes);
  full.duplicates = stat_get(receiver->window.duplicates);
  full.reordered = stat_get(receiver->window.reordered);
  full.verified = stat_get(receiver->verified);
  full.corrupted = stat_get(receiver->corrupted);
  const struct receiver_client_ops *client = stat_get(receiver->client);
  if (client && client->stats)
    client->stats(receiver, &full);
  /* The sender's last word may be older than its last messages. */
  if (full.sent_basis == PST_SENT_HEARTBEAT && full.messages_sent < full.messages_delivered) {
    full.messages_sent = full.messages_delivered;
    full.bytes_sent = full.bytes_delivered;
    full.sent_basis = PST_SENT_SEQUENCE;
  }
  pst_struct_write(stats, &full, sizeof(full));
  return 0;
}
