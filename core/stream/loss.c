/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that were lost, by cause. */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "receiver.h"
#include "sender.h"

/* Causes of what a stream that broke off had not delivered. */
#define MEMORY_FAILED "memory_failed"
#define ABORTED "aborted"

static void loss_name_drop(struct pst_drop *drops, uint32_t *count, const char *cause,
                           uint64_t messages)
{
  for (uint32_t i = 0; i < *count; i++)
    if (strcmp(drops[i].cause, cause) == 0) {
      drops[i].messages += messages;
      return;
    }
  if (*count == SESSION_DROPS_MAX)
    return;
  snprintf(drops[*count].cause, sizeof(drops[*count].cause), "%s", cause);
  drops[(*count)++].messages = messages;
}

/* A foreign sender gives no total: what its numbers say, less those that were no messages, and
 * at the end what left no gap in them. */
static uint64_t loss_correct(const struct pst_receiver *receiver, uint64_t messages)
{
  uint64_t no_message = end_sum_counters(&receiver->end, PST_COUNTER_NO_MESSAGE);

  messages -= no_message < messages ? no_message : messages;
  return messages + ((stat_get(receiver->phase) != RECEIVER_TAKING)
                         ? end_sum_counters(&receiver->end, PST_COUNTER_NO_GAP)
                         : 0);
}

uint64_t loss_foreign_sent(const struct pst_receiver *receiver)
{
  return receiver->is_numbered ? loss_correct(receiver, stat_get(receiver->span)) : 0;
}

void loss_add(struct pst_drop *drops, uint32_t *count, const char *cause, uint64_t messages)
{
  if (messages)
    loss_name_drop(drops, count, cause, messages);
}

/* Adds the drops that an end's transport has counted. A gauge may count messages
 * that are not missing: at most `behind_last` of them, which are known to be, are added. */
static void loss_drops(const struct session_end *end, uint64_t behind_last, struct pst_drop *drops,
                       uint32_t *count)
{
  for (uint32_t i = 0; i < end->counts.count; i++) {
    const struct pst_counter_value *counter = &end->counts.values[i];
    uint64_t messages = counter->value;
    if (!(counter->flags & PST_COUNTER_DROP))
      continue;
    if ((counter->flags & PST_COUNTER_GAUGE) && messages > behind_last)
      messages = behind_last;
    loss_add(drops, count, counter->cause[0] ? counter->cause : counter->name, messages);
  }
}

void loss_of_sender(const struct pst_sender *sender, struct pst_drop *drops, uint32_t *count)
{
  loss_drops(&sender->end, 0, drops, count);
}

/* By its client and its application: what had come. */
static void loss_after_arrival(const struct pst_receiver *receiver, struct pst_drop *drops,
                               uint32_t *count)
{
  const struct receiver_client_ops *client = stat_get(receiver->client);

  if (client && client->drops)
    client->drops(receiver, drops, count);
  loss_add(drops, count, "given_up", stat_get(receiver->given_up));
}

/* Causes of messages that did arrive come first: strangers cannot raise these counts, as they can a
 * transport's. */
static void loss_own_drops(const struct pst_receiver *receiver, struct pst_drop *drops,
                           uint32_t *count)
{
  loss_after_arrival(receiver, drops, count);
  loss_drops(&receiver->end, stat_get(receiver->behind_last), drops, count);
}

/* Messages that were sent, as numbers show, and will not be delivered. A frame's messages are
 * delivered with it; until then they are not missing. */
static uint64_t loss_missing_by_number(const struct pst_receiver *receiver)
{
  struct pst_drop drops[SESSION_DROPS_MAX];
  uint64_t missing = stat_get(receiver->unseen);
  uint32_t count = 0;

  loss_after_arrival(receiver, drops, &count);
  for (uint32_t i = 0; i < count; i++)
    missing += drops[i].messages;
  return missing;
}

/* Returns the cause of losses that no end has counted: they were lost between the ends. */
static const char *loss_rest_cause(const struct session_end *end)
{
  return end->lane->device->limits.capabilities & PST_CAP_RELIABLE ? "unattributed" : "wire";
}

static void loss_add_rest(struct pst_drop *drops, uint32_t *count, const char *cause,
                          uint64_t messages)
{
  if (messages && *count == SESSION_DROPS_MAX)
    drops[SESSION_DROPS_MAX - 1].messages += messages;
  else
    loss_add(drops, count, cause, messages);
}

/* By causes of this end and its peer, each for no more than is missing. Returns what is left. */
static uint64_t loss_by_ends(const struct pst_receiver *receiver, uint64_t missing,
                             struct pst_drop *drops, uint32_t *count)
{
  const struct control_totals *sent = &receiver->end.peer;
  struct pst_drop causes[SESSION_DROPS_MAX];
  uint32_t cause_count = 0;

  for (uint32_t i = 0; i < sent->drop_count && i < SESSION_DROPS_MAX; i++)
    loss_add(causes, &cause_count, sent->drops[i].cause, sent->drops[i].messages);
  loss_own_drops(receiver, causes, &cause_count);
  for (uint32_t i = 0; i < cause_count; i++) {
    uint64_t messages = causes[i].messages < missing ? causes[i].messages : missing;
    loss_add(drops, count, causes[i].cause, messages);
    missing -= messages;
  }
  return missing;
}

/* Level 0: of its worker; 1: of its device. */
static struct counts *loss_counts(const struct pst_receiver *receiver, uint32_t level)
{
  struct session_lane *lane = receiver->end.lane;

  return level == 0 ? &lane->counts : &lane->device->counts;
}

/* By what the end has claimed of its worker's drops and its device's. */
static uint64_t loss_by_claims(const struct pst_receiver *receiver, uint64_t missing,
                               struct pst_drop *drops, uint32_t *count)
{
  for (uint32_t level = 0; level < SESSION_LEVELS; level++) {
    struct counts *counts = loss_counts(receiver, level);

    pthread_mutex_lock(&counts->lock);
    for (uint32_t i = 0; i < counts->drop_count; i++) {
      uint64_t claim = receiver->claims[level][i];
      uint64_t messages = claim < missing ? claim : missing;
      loss_add(drops, count, counts->drops[i].cause, messages);
      missing -= messages;
    }
    pthread_mutex_unlock(&counts->lock);
  }
  return missing;
}

/* The ends' own causes come first. Losses that no cause accounts for are reported as such. */
static void loss_missing(const struct pst_receiver *receiver, uint64_t missing,
                         struct pst_drop *drops, uint32_t *count)
{
  missing = loss_by_ends(receiver, missing, drops, count);
  missing = loss_by_claims(receiver, missing, drops, count);
  loss_add_rest(drops, count, loss_rest_cause(&receiver->end), missing);
}

/* Messages that were sent before the stream broke off and are in no other count. Failed memory is
 * named even where this end knows of none: the sender gets the cause, and may know of some. */
static void loss_broken_off(const char *cause, uint64_t sent, uint64_t delivered,
                            struct pst_drop *drops, uint32_t *count)
{
  for (uint32_t i = 0; i < *count; i++)
    delivered += drops[i].messages;
  if (sent > delivered)
    loss_add_rest(drops, count, cause, sent - delivered);
  else if (strcmp(cause, MEMORY_FAILED) == 0)
    loss_name_drop(drops, count, cause, 0);
}

/* As far as it is known here: by the sender's last word, by what has come, and in a session of
 * both ends wholly. */
static uint64_t loss_sent_before(const struct pst_receiver *receiver, uint64_t told)
{
  uint64_t sent = receiver->is_numbered ? stat_get(receiver->span) : 0;

  if (receiver->pair && stat_get(receiver->pair->messages) > sent)
    sent = stat_get(receiver->pair->messages);
  return told > sent ? told : sent;
}

static uint64_t loss_told(const struct pst_receiver *receiver)
{
  const uint64_t told = receiver->end.peer.messages;

  return told == UINT64_MAX ? 0 : told;
}

uint64_t loss_missing_told(const struct pst_receiver *receiver)
{
  const uint64_t told = loss_told(receiver), delivered = stat_get(receiver->delivered);

  if (stat_get(receiver->phase) == RECEIVER_TAKING)
    return loss_missing_by_number(receiver);
  return told > delivered ? told - delivered : 0;
}

uint64_t loss_missing_foreign(const struct pst_receiver *receiver)
{
  const uint64_t missing = loss_missing_by_number(receiver);

  return receiver->is_numbered ? loss_correct(receiver, missing) : missing;
}

void loss_claim(struct session_end *end)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  struct pst_drop drops[SESSION_DROPS_MAX];
  uint32_t count = 0;

  assert(pthread_mutex_trylock(&end->counts.lock) == EBUSY);
  uint64_t missing = loss_by_ends(receiver, end->peer_ops->missing(receiver), drops, &count);

  for (uint32_t level = 0; level < SESSION_LEVELS; level++)
    missing = counts_claim(loss_counts(receiver, level), receiver->claims[level], missing);
}

void loss_unnumbered(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count)
{
  if (!receiver->is_numbered)
    loss_own_drops(receiver, drops, count);
}

void loss_of_receiver(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count)
{
  const struct session_end *end = &receiver->end;
  uint64_t delivered = stat_get(receiver->delivered), missing = end->peer_ops->missing(receiver);
  bool is_complete = (stat_get(receiver->phase) != RECEIVER_TAKING);

  if (missing)
    loss_missing(receiver, missing, drops, count);
  else if (end->peer_ops->unnumbered)
    end->peer_ops->unnumbered(receiver, drops, count);
  if (stat_get(end->state) == PST_STATE_FAILED && !is_complete)
    loss_broken_off(stat_get(receiver->memory_failed) ? MEMORY_FAILED : ABORTED,
                    loss_sent_before(receiver, loss_told(receiver)), delivered, drops, count);
}

void loss_unheard(const struct pst_sender *sender, uint64_t sent, struct pst_drop *drops,
                  uint32_t *count)
{
  const char *cause = ABORTED;

  for (uint32_t i = 0; i < *count; i++)
    if (strcmp(drops[i].cause, MEMORY_FAILED) == 0)
      cause = MEMORY_FAILED;
  loss_broken_off(cause, sent, sender->end.peer.messages, drops, count);
}
