/* SPDX-License-Identifier: Apache-2.0 */
/* How a stream ends at its receiver: when all has come, when nothing more can be waited for. */
#include <assert.h>
#include <errno.h>

#include "receiver.h"
#include "session.h"

/* A datagram stream whose sender has finished is over when nothing has come for this long. */
#define RECEIVER_QUIET_NS (200 * PST_NS_PER_MS)

static bool receiver_is_reliable(const struct pst_receiver *receiver)
{
  return receiver->end.lane->device->limits.capabilities & PST_CAP_RELIABLE;
}

static bool receiver_counts_lost(const struct pst_counter_value *counter)
{
  return (counter->flags & (PST_COUNTER_DROP | PST_COUNTER_GAUGE)) == PST_COUNTER_DROP;
}

/* Does the transport count lost messages? Then it makes connections again. */
static bool receiver_may_lose(const struct pst_receiver *receiver)
{
  const struct counts *counts = &receiver->end.counts;
  uint32_t i = 0;

  while (i < counts->count && !receiver_counts_lost(&counts->values[i]))
    i++;
  return i < counts->count;
}

static int receiver_fail_short(struct pst_receiver *receiver)
{
  return end_fail_logged(
      &receiver->end, -EPROTO,
      "the sender sent %lu messages, %lu arrived, and nothing more came for %.1f s, though the "
      "transport is reliable: %sa bug of the transport, or of its peer",
      receiver->sent.messages, receiver->arrived, (double)receiver->end.config->timeout_ns / 1e9,
      receiver_may_lose(receiver)
          ? "if its connection was lost for longer, raise the stream's timeout; else it is "
          : "");
}

static uint64_t receiver_silent_since(const struct pst_receiver *receiver)
{
  return receiver->alive_ns > receiver->quiet_since_ns ? receiver->alive_ns
                                                       : receiver->quiet_since_ns;
}

uint64_t receiver_end_due_ns(const struct pst_receiver *receiver)
{
  if (receiver->quiet_since_ns == 0 || receiver->phase != RECEIVER_TAKING)
    return 0;
  return receiver_silent_since(receiver) + receiver->end.peer_ops->patience_ns(receiver);
}

/* Messages that a reliable transport has lost nevertheless, with the router that served it. */
static uint64_t receiver_lost(const struct pst_receiver *receiver)
{
  const struct counts *counts = &receiver->end.counts;
  uint64_t lost = 0;

  for (uint32_t i = 0; i < counts->count && receiver_is_reliable(receiver); i++)
    if (receiver_counts_lost(&counts->values[i]))
      lost += counts->values[i].value;
  return lost;
}

/* The number of messages that left the sender, and can arrive: a filter there may have dropped
 * some. */
static uint64_t receiver_expected(const struct pst_receiver *receiver)
{
  uint64_t messages = receiver->sent.messages;
  const uint64_t lost = receiver_lost(receiver);

  messages -= lost < messages ? lost : messages;
  for (uint32_t i = 0; i < receiver->sent.drop_count && i < SESSION_DROPS_MAX; i++)
    messages -=
        receiver->sent.drops[i].messages < messages ? receiver->sent.drops[i].messages : messages;
  return messages;
}

/* Ends the receiver: all messages were handed over, or will not come. */
static void receiver_complete(struct pst_receiver *receiver)
{
  if (receiver->phase == RECEIVER_TAKING)
    stat_set(receiver->phase, RECEIVER_COMPLETE);
}

/* True if nothing has come for `silence_ns`. If this thread was away, the last poll is old: then
 * one more poll has to find nothing. */
static bool receiver_is_silent(struct pst_receiver *receiver, uint64_t silence_ns)
{
  uint64_t now = clock_now_ns();

  if (receiver->quiet_since_ns == 0)
    receiver->quiet_since_ns = now;
  if (now - receiver_silent_since(receiver) < silence_ns)
    return false;
  if (receiver->was_silent)
    return true;
  receiver->was_silent = true;
  return false;
}

static void receiver_note_life(struct pst_receiver *receiver)
{
  receiver->alive_ns = clock_now_ns();
  receiver->was_silent = false;
}

/* Ends the stream without the missing messages, which will not come. */
static int receiver_end_without(struct pst_receiver *receiver)
{
  if (receiver_is_reliable(receiver))
    return receiver_fail_short(receiver);
  if (!receiver->is_numbered && receiver_expected(receiver) > receiver->arrived)
    stat_set(receiver->behind_last, receiver_expected(receiver) - receiver->arrived);
  if (receiver->is_numbered && receiver->sent.last_sequence + 1 > receiver->window.next)
    stat_set(receiver->behind_last, receiver->sent.last_sequence + 1 - receiver->window.next);
  receiver_complete(receiver);
  return -ENODATA;
}

/* ---- Penstock ---------------------------------------------------------------------- */

static uint64_t receiver_told_patience_ns(const struct pst_receiver *receiver)
{
  return receiver_is_reliable(receiver) ? receiver->end.config->timeout_ns : RECEIVER_QUIET_NS;
}

static int receiver_told_check_end(struct pst_receiver *receiver)
{
  if (!receiver->finish_known)
    return end_check(&receiver->end);
  if (receiver->arrived == receiver_expected(receiver)) {
    receiver_complete(receiver);
    return -ENODATA;
  }
  if (receiver_is_silent(receiver, receiver_told_patience_ns(receiver)))
    return receiver_end_without(receiver);
  return end_check(&receiver->end);
}

static void receiver_told_sent(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  if (stat_get(receiver->finish_known) || stats->peer_final)
    stats->sent_basis = PST_SENT_COUNTED;
  else
    stats->sent_basis = stats->peer_known ? PST_SENT_HEARTBEAT : PST_SENT_UNKNOWN;
}

static void receiver_told_connected(struct session_end *end)
{
  stat_set(end->started_ns, clock_now_ns());
}

const struct end_peer_ops end_peer_penstock = {.control = END_CONTROL_LIVE,
                                               .connected = receiver_told_connected,
                                               .tell = control_tell,
                                               .check_end = receiver_told_check_end,
                                               .patience_ns = receiver_told_patience_ns,
                                               .missing = loss_missing_told,
                                               .sent = receiver_told_sent};

/* ---- A foreign peer ---------------------------------------------------------------- */

static int receiver_foreign_tell(struct session_end *end, end_say *say)
{
  (void)say;
  end_state(end, PST_STATE_ENDED);
  return 0;
}

static uint64_t receiver_foreign_patience_ns(const struct pst_receiver *receiver)
{
  return receiver->end.config->receiver.silence_ns;
}

/* Ends a foreign stream, which only the application or silence can do. */
static void receiver_foreign_end(struct pst_receiver *receiver, uint64_t over_ns)
{
  receiver->end.over_ns = over_ns;
  if (over_ns)
    end_stage_forget(&receiver->end);
  receiver_give_up_pending(receiver);
  if (receiver->client && receiver->client->give_up)
    stat_add(receiver->given_up, receiver->client->give_up(receiver));
  receiver_complete(receiver);
}

/* Reads the counters: has the peer sent anything since the last call that became no message? */
static bool receiver_foreign_is_heard(struct pst_receiver *receiver)
{
  uint64_t heard;

  end_read_counters(&receiver->end);
  heard = end_sum_counters(&receiver->end, PST_COUNTER_HEARD);
  if (heard == receiver->heard)
    return false;
  receiver->heard = heard;
  return true;
}

/* A foreign sender that began and fell silent has ended. So has one whose datagrams were no
 * messages. The silence begins with the first datagram. */
static int receiver_foreign_check_end(struct pst_receiver *receiver)
{
  uint64_t silence = receiver_foreign_patience_ns(receiver);
  int rc = end_check(&receiver->end);

  if (rc < 0 || silence == 0 || !receiver_is_silent(receiver, silence))
    return rc;
  if (receiver_foreign_is_heard(receiver) ||
      (receiver->end.started_ns == 0 && receiver->heard == 0)) {
    receiver_note_life(receiver);
    return rc;
  }
  receiver_foreign_end(receiver, receiver->quiet_since_ns);
  return -ENODATA;
}

static void receiver_foreign_stop(struct pst_receiver *receiver)
{
  receiver_foreign_end(receiver, 0);
}

static void receiver_foreign_sent(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  stats->messages_sent = loss_foreign_sent(receiver);
  stats->sent_basis = stats->messages_sent ? PST_SENT_SEQUENCE : PST_SENT_UNKNOWN;
}

const struct end_peer_ops end_peer_foreign = {.is_foreign = true,
                                              .control = END_CONTROL_OVER,
                                              .tell = receiver_foreign_tell,
                                              .check_end = receiver_foreign_check_end,
                                              .patience_ns = receiver_foreign_patience_ns,
                                              .stop = receiver_foreign_stop,
                                              .missing = loss_missing_foreign,
                                              .unnumbered = loss_unnumbered,
                                              .sent = receiver_foreign_sent};

/* ---- Either ------------------------------------------------------------------------ */

/* Nothing has arrived: finds out whether the stream is over. */
int receiver_check_end(struct pst_receiver *receiver)
{
  if (receiver->duplicates != receiver->window.duplicates)
    receiver_note_life(receiver);
  receiver->duplicates = receiver->window.duplicates;
  return receiver->end.peer_ops->check_end(receiver);
}

int pst_receiver_stop(struct pst_receiver *receiver)
{
  int rc = end_check(&receiver->end);

  if (!receiver->end.peer_ops->stop)
    return -EINVAL;
  if (rc == 0 && receiver->phase == RECEIVER_TAKING)
    receiver->end.peer_ops->stop(receiver);
  return rc;
}

int pst_receiver_finish(struct pst_receiver *receiver)
{
  if (receiver->phase == RECEIVER_FINISHED)
    return 0;
  if (receiver->phase == RECEIVER_TAKING || receiver->held)
    return -EBUSY;
  assert(receiver->phase == RECEIVER_COMPLETE && !fifo_count(&receiver->tokens));
  stat_set(receiver->phase, RECEIVER_FINISHED);
  end_stage(&receiver->end, -1);
  counters_read_last(receiver->end.lane);
  end_read_counters(&receiver->end);
  return receiver->end.peer_ops->tell(&receiver->end, control_counts);
}

int pst_receiver_abort(struct pst_receiver *receiver, int code, const char *text)
{
  end_fail(&receiver->end, code, text);
  receiver_give_up_pending(receiver);
  return 0;
}
