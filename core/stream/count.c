/* SPDX-License-Identifier: Apache-2.0 */
/* What transports count of an endpoint, kept for other threads, and the messages
 * lost by cause. */
#include <string.h>

#include "session.h"

/* Causes of what a stream that broke off had not delivered. */
#define MEMORY_FAILED "memory_failed"
#define ABORTED "aborted"

static void copy_text(char *to, size_t size, const char *from)
{
  size_t length = from ? strnlen(from, size - 1) : 0;

  memcpy(to, from ? from : "", length);
  to[length] = 0;
}

static void read_times(struct pst_receiver *receiver)
{
  struct pst_times times;

  if (!receiver->intervals)
    return;
  intervals_read(receiver->intervals, &times);
  pthread_mutex_lock(&receiver->end.text_lock);
  receiver->times = times;
  pthread_mutex_unlock(&receiver->end.text_lock);
}

void count_read(struct session_end *end)
{
  struct session_lane *lane = end->lane;
  struct pst_counter raw[SESSION_COUNTERS_MAX];
  int n;

  if (!end->is_sender && !end->is_one_sided)
    read_times((struct pst_receiver *)end);
  if (!end->endpoint || end->endpoint_closed)
    return;
  n = lane->ops->counters(lane->device->device, lane->worker, end->endpoint, raw,
                          SESSION_COUNTERS_MAX);
  if (n < 0)
    return;
  if (n > SESSION_COUNTERS_MAX)
    n = SESSION_COUNTERS_MAX;
  pthread_mutex_lock(&end->text_lock);
  for (int i = 0; i < n; i++) {
    struct pst_counter_value *value = &end->counters[i];
    copy_text(value->name, sizeof(value->name), raw[i].name);
    copy_text(value->cause, sizeof(value->cause), raw[i].cause);
    value->value = raw[i].value;
    value->flags = raw[i].flags;
  }
  end->counter_count = (uint32_t)n;
  pthread_mutex_unlock(&end->text_lock);
}

static void name_drop(struct pst_drop *drops, uint32_t *count, const char *cause, uint64_t messages)
{
  for (uint32_t i = 0; i < *count; i++)
    if (strcmp(drops[i].cause, cause) == 0) {
      drops[i].messages += messages;
      return;
    }
  if (*count == SESSION_DROPS_MAX)
    return;
  copy_text(drops[*count].cause, sizeof(drops[*count].cause), cause);
  drops[(*count)++].messages = messages;
}

/* The sum of the counters that have the flag. */
static uint64_t sum_of(const struct session_end *end, uint64_t flag)
{
  uint64_t sum = 0;

  for (uint32_t i = 0; i < end->counter_count; i++)
    if (end->counters[i].flags & flag)
      sum += end->counters[i].value;
  return sum;
}

/* A foreign sender gives no total: what its numbers say, less those that were no messages, and
 * at the end what left no gap in them. */
static uint64_t correct(const struct pst_receiver *receiver, uint64_t messages)
{
  uint64_t no_message = sum_of(&receiver->end, PST_COUNTER_NO_MESSAGE);

  messages -= no_message < messages ? no_message : messages;
  return messages + (stat_get(receiver->complete) ? sum_of(&receiver->end, PST_COUNTER_NO_GAP) : 0);
}

uint64_t count_foreign_sent(const struct pst_receiver *receiver)
{
  struct session_end *locked = (struct session_end *)&receiver->end;
  uint64_t sent;

  pthread_mutex_lock(&locked->text_lock);
  sent = correct(receiver, stat_get(receiver->span));
  pthread_mutex_unlock(&locked->text_lock);
  return sent;
}

bool count_is_heard(struct pst_receiver *receiver)
{
  uint64_t heard;

  count_read(&receiver->end);
  heard = sum_of(&receiver->end, PST_COUNTER_HEARD);
  if (heard == receiver->heard)
    return false;
  receiver->heard = heard;
  return true;
}

static void add_drop(struct pst_drop *drops, uint32_t *count, const char *cause, uint64_t messages)
{
  if (messages)
    name_drop(drops, count, cause, messages);
}

/* How many are known to be missing where the transport cannot know it. */
static uint64_t behind_last(const struct session_end *end)
{
  if (end->is_sender || end->is_one_sided)
    return 0;
  return stat_get(((const struct pst_receiver *)end)->behind_last);
}

void count_own_drops(const struct session_end *end, struct pst_drop *drops, uint32_t *count)
{
  for (uint32_t i = 0; i < end->counter_count; i++) {
    const struct pst_counter_value *counter = &end->counters[i];
    uint64_t messages = counter->value;
    if (!(counter->flags & PST_COUNTER_DROP))
      continue;
    if ((counter->flags & PST_COUNTER_GAUGE) && messages > behind_last(end))
      messages = behind_last(end);
    add_drop(drops, count, counter->cause[0] ? counter->cause : counter->name, messages);
  }
  if (!end->is_sender && !end->is_one_sided) {
    const struct assemble_counts *frames = &((const struct pst_receiver *)end)->frame_counts;
    add_drop(drops, count, "late", stat_get(frames->late));
    add_drop(drops, count, "misframed", stat_get(frames->misframed));
    add_drop(drops, count, "given_up", stat_get(((const struct pst_receiver *)end)->given_up));
    add_drop(drops, count, "incomplete_frame", stat_get(frames->incomplete_messages));
  }
}

/* What no end has dropped was lost between them. */
static const char *rest_cause(const struct session_end *end)
{
  return end->lane->device->limits.capabilities & PST_CAP_RELIABLE ? "unattributed" : "wire";
}

static void add_rest(struct pst_drop *drops, uint32_t *count, const char *cause, uint64_t messages)
{
  if (messages && *count == SESSION_DROPS_MAX)
    drops[SESSION_DROPS_MAX - 1].messages += messages;
  else
    add_drop(drops, count, cause, messages);
}

/* Causes first, each for no more than is missing; what none accounts for is said so. */
static void count_missing(const struct session_end *end, uint64_t missing, struct pst_drop *drops,
                          uint32_t *count)
{
  const struct control_totals *sent = &end->peer;
  struct pst_drop causes[SESSION_DROPS_MAX];
  uint32_t cause_count = 0;

  for (uint32_t i = 0; i < sent->drop_count && i < SESSION_DROPS_MAX; i++)
    add_drop(causes, &cause_count, sent->drops[i].cause, sent->drops[i].messages);
  count_own_drops(end, causes, &cause_count);
  for (uint32_t i = 0; i < cause_count; i++) {
    uint64_t messages = causes[i].messages < missing ? causes[i].messages : missing;
    add_drop(drops, count, causes[i].cause, messages);
    missing -= messages;
  }
  add_rest(drops, count, rest_cause(end), missing);
}

/* Messages that were sent before the stream broke off and are in no other count. Failed memory is
 * named even where none are known: the sender, which is told this, may know of some. */
static void count_broken_off(const char *cause, uint64_t sent, uint64_t delivered,
                             struct pst_drop *drops, uint32_t *count)
{
  for (uint32_t i = 0; i < *count; i++)
    delivered += drops[i].messages;
  if (sent > delivered)
    add_rest(drops, count, cause, sent - delivered);
  else if (strcmp(cause, MEMORY_FAILED) == 0)
    name_drop(drops, count, cause, 0);
}

/* As far as it is known here: by the sender's last word, by what has come, and in a session of
 * both ends wholly. */
static uint64_t sent_before(const struct pst_receiver *receiver, uint64_t told)
{
  const struct session_stream *stream =
      session_stream_find(receiver->end.session, receiver->end.name);
  uint64_t sent = receiver->is_numbered ? stat_get(receiver->span) : 0;

  if (stream && stream->sender && stat_get(stream->sender->messages) > sent)
    sent = stat_get(stream->sender->messages);
  return told > sent ? told : sent;
}

/* At the end what the sender said it sent is the measure; before, and for a foreign
 * sender, what the numbers say. Without numbers, what this side has seen dropped. */
void count_undelivered(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count)
{
  const struct session_end *end = &receiver->end;
  uint64_t told = end->peer.messages == UINT64_MAX ? 0 : end->peer.messages;
  uint64_t delivered = stat_get(receiver->delivered), missing = receiver_missing(receiver);
  bool is_complete = stat_get(receiver->complete);

  if (!end->is_foreign && is_complete)
    missing = told > delivered ? told - delivered : 0;
  if (end->is_foreign && receiver->is_numbered)
    missing = correct(receiver, missing);
  if (missing)
    count_missing(end, missing, drops, count);
  else if (end->is_foreign && !receiver->is_numbered)
    count_own_drops(end, drops, count);
  if (stat_get(end->state) == PST_STATE_FAILED && !is_complete)
    count_broken_off(stat_get(receiver->memory_failed) ? MEMORY_FAILED : ABORTED,
                     sent_before(receiver, told), delivered, drops, count);
}

void count_unheard(const struct session_end *sender, uint64_t sent, struct pst_drop *drops,
                   uint32_t *count)
{
  const char *cause = ABORTED;

  for (uint32_t i = 0; i < *count; i++)
    if (strcmp(drops[i].cause, MEMORY_FAILED) == 0)
      cause = MEMORY_FAILED;
  count_broken_off(cause, sent, sender->peer.messages, drops, count);
}

static int copy_counters(const struct session_end *end, struct pst_counter_value *values,
                         uint32_t max)
{
  struct session_end *locked = (struct session_end *)end;
  uint32_t count;

  pthread_mutex_lock(&locked->text_lock);
  count = end->counter_count;
  memcpy(values, end->counters, (count < max ? count : max) * sizeof(*values));
  pthread_mutex_unlock(&locked->text_lock);
  return (int)count;
}

int pst_sender_counters(const struct pst_sender *sender, struct pst_counter_value *values,
                        uint32_t max)
{
  return copy_counters(&sender->end, values, max);
}

int pst_receiver_counters(const struct pst_receiver *receiver, struct pst_counter_value *values,
                          uint32_t max)
{
  return copy_counters(&receiver->end, values, max);
}

int pst_initiator_counters(const struct pst_initiator *initiator, struct pst_counter_value *values,
                           uint32_t max)
{
  return copy_counters(&initiator->end, values, max);
}

int pst_target_counters(const struct pst_target *target, struct pst_counter_value *values,
                        uint32_t max)
{
  return copy_counters(&target->end, values, max);
}
