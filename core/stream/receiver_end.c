/* SPDX-License-Identifier: Apache-2.0 */
/* How a stream ends at its receiver: when all has come, when nothing more can be waited for, and
 * what is told the sender then. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "session.h"

/* A datagram stream whose sender has finished is over when nothing more has come
 * for so long. */
#define RECEIVER_QUIET_NS (200 * PST_NS_PER_MS)

void receiver_give_up_pending(struct pst_receiver *receiver)
{
  const struct session_lane *lane = receiver->end.lane;

  receiver_give_up_parked(receiver);
  while (receiver->pending_head != receiver->pending_tail) {
    uint32_t at = receiver->pending_head++ % receiver->pending_capacity;
    lane->ops->release(lane->worker, &receiver->pending[at].u.message.token, 1);
  }
}

int receiver_note_memory(struct pst_receiver *receiver, int rc)
{
  if (rc < 0 && rc != -EAGAIN && rc != -EOPNOTSUPP && rc != -EINVAL) {
    stat_set(receiver->memory_failed, true);
    stat_set(receiver->span, receiver->track.next - receiver->track.base);
  }
  return rc;
}

static bool is_reliable(const struct pst_receiver *receiver)
{
  return receiver->end.lane->device->limits.capabilities & PST_CAP_RELIABLE;
}

/* Messages that need not be waited for any more. */
static uint64_t arrived(const struct pst_receiver *receiver)
{
  return receiver->frames ? frames_arrived(receiver->frames) : receiver->delivered;
}

static int fail_short(struct pst_receiver *receiver)
{
  char text[256];

  snprintf(text, sizeof(text),
           "stream %s: the sender sent %lu messages, %lu arrived, and nothing more came for %.1f s "
           "on a transport that loses none: a bug of the transport, or of its peer",
           receiver->end.name, receiver->sent.messages, arrived(receiver),
           (double)receiver->end.config->timeout_ns / 1e9);
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(&receiver->end, -EPROTO, text);
  return -EPROTO;
}

/* How long a sender's last messages may be on their way, once it has finished. */
static uint64_t patience(const struct pst_receiver *receiver)
{
  return is_reliable(receiver) ? receiver->end.config->timeout_ns : RECEIVER_QUIET_NS;
}

static uint64_t silent_since(const struct pst_receiver *receiver)
{
  return receiver->alive_ns > receiver->quiet_since_ns ? receiver->alive_ns
                                                       : receiver->quiet_since_ns;
}

uint64_t receiver_due_ns(const struct pst_receiver *receiver)
{
  if (receiver->quiet_since_ns == 0 || receiver->complete)
    return 0;
  if (receiver->end.is_foreign)
    return silent_since(receiver) + receiver->end.config->receiver.silence_ns;
  return silent_since(receiver) + patience(receiver);
}

/* What the sender says has left it: a filter there may have dropped some. */
static uint64_t expected(const struct pst_receiver *receiver)
{
  uint64_t messages = receiver->sent.messages;

  for (uint32_t i = 0; i < receiver->sent.drop_count && i < SESSION_DROPS_MAX; i++)
    messages -=
        receiver->sent.drops[i].messages < messages ? receiver->sent.drops[i].messages : messages;
  return messages;
}

/* Nobody says so but the application, or silence. */
static void end_foreign(struct pst_receiver *receiver, uint64_t over_ns)
{
  receiver->end.over_ns = over_ns;
  if (over_ns)
    end_stage_forget(&receiver->end);
  receiver_give_up_pending(receiver);
  if (receiver->frames)
    stat_add(receiver->given_up, frames_give_up(receiver));
  stat_set(receiver->complete, true);
}

/* Has nothing come for so long? Had this thread been away, the poll before it was an old one: one
 * more has to find nothing. */
static bool is_silent(struct pst_receiver *receiver, uint64_t silence_ns)
{
  uint64_t now = clock_now_ns();

  if (receiver->quiet_since_ns == 0)
    receiver->quiet_since_ns = now;
  if (now - silent_since(receiver) < silence_ns)
    return false;
  if (receiver->was_silent)
    return true;
  receiver->was_silent = true;
  return false;
}

static void note_life(struct pst_receiver *receiver)
{
  receiver->alive_ns = clock_now_ns();
  receiver->was_silent = false;
}

/* A foreign sender that has begun, and fallen silent, has ended. */
static int check_silence(struct pst_receiver *receiver)
{
  uint64_t silence = receiver->end.config->receiver.silence_ns;
  int rc = end_check(&receiver->end);

  if (rc < 0 || silence == 0 || receiver->end.started_ns == 0 || !is_silent(receiver, silence))
    return rc;
  if (count_is_heard(receiver)) {
    note_life(receiver);
    return rc;
  }
  end_foreign(receiver, receiver->quiet_since_ns);
  return -ENODATA;
}

int pst_receiver_stop(struct pst_receiver *receiver)
{
  int rc = end_check(&receiver->end);

  if (!receiver->end.is_foreign)
    return -EINVAL;
  if (rc == 0 && !receiver->complete)
    end_foreign(receiver, 0);
  return rc;
}

/* What is not here yet will not come. */
static int end_without(struct pst_receiver *receiver)
{
  if (is_reliable(receiver))
    return fail_short(receiver);
  if (!receiver->is_numbered && expected(receiver) > arrived(receiver))
    stat_set(receiver->behind_last, expected(receiver) - arrived(receiver));
  if (receiver->is_numbered && receiver->sent.last_sequence + 1 > receiver->track.next)
    stat_set(receiver->behind_last, receiver->sent.last_sequence + 1 - receiver->track.next);
  stat_set(receiver->complete, true);
  return -ENODATA;
}

/* Nothing has arrived: is it over? */
int receiver_check_end(struct pst_receiver *receiver)
{
  if (receiver->duplicates != receiver->track.duplicates) { /* a poll of nothing else */
    stat_set(receiver->duplicates, receiver->track.duplicates);
    note_life(receiver);
  }
  if (receiver->end.is_foreign)
    return check_silence(receiver);
  if (!receiver->finish_known)
    return end_check(&receiver->end);
  if (arrived(receiver) == expected(receiver)) {
    stat_set(receiver->complete, true);
    return -ENODATA;
  }
  if (is_silent(receiver, patience(receiver)))
    return end_without(receiver);
  return end_check(&receiver->end);
}

/* A frame's messages are delivered with it; until then they are not missing. */
uint64_t receiver_missing(const struct pst_receiver *receiver)
{
  const struct assemble_counts *frames = &receiver->frame_counts;

  return stat_get(receiver->unseen) + stat_get(receiver->given_up) + stat_get(frames->late) +
         stat_get(frames->misframed) + stat_get(frames->incomplete_messages);
}

void receiver_totals(const struct pst_receiver *receiver, struct control_totals *totals)
{
  const struct session_end *end = &receiver->end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();

  *totals = (struct control_totals){.messages = receiver->delivered,
                                    .bytes = receiver->bytes,
                                    .last_sequence = receiver->track.next - 1,
                                    .duplicates = receiver->track.duplicates,
                                    .reordered = receiver->track.reordered,
                                    .verified = receiver->verified,
                                    .corrupted = receiver->corrupted,
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
  memcpy(totals->blocked_ns, end->blocked_ns, sizeof(totals->blocked_ns));
  count_undelivered(receiver, totals->drops, &totals->drop_count);
}

int pst_receiver_finish(struct pst_receiver *receiver)
{
  struct control_totals totals;

  if (receiver->finished)
    return 0;
  if (!receiver->complete || receiver->held)
    return -EBUSY;
  receiver->finished = true;
  end_stage(&receiver->end, -1);
  count_read(&receiver->end);
  if (receiver->end.is_foreign) {
    end_state(&receiver->end, PST_STATE_ENDED);
    return 0;
  }
  receiver_totals(receiver, &totals);
  return control_counts(receiver->end.session->control, &receiver->end, &totals);
}

int pst_receiver_abort(struct pst_receiver *receiver, int code, const char *text)
{
  end_fail(&receiver->end, code, text);
  receiver_give_up_pending(receiver);
  return 0;
}
