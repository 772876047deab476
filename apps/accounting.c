/* SPDX-License-Identifier: Apache-2.0 */
/* Accounting of a stream's messages: delivered, dropped and why, and by which path. */
#include "accounting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "size.h"
#include "statistics.h"

static uint64_t accounting_running_ns(const struct pst_stats *stats)
{
  return stats->started_ns != 0 && stats->ended_ns > stats->started_ns
             ? stats->ended_ns - stats->started_ns
             : 0;
}

static void accounting_gather_receiver(const struct pst_stats *receiver, struct account *account)
{
  account->receiver_here = account->receiver_known = account->delivered_known = true;
  account->delivered = receiver->messages_delivered;
  account->bytes = receiver->bytes_delivered;
  account->duplicates = receiver->duplicates;
  account->reordered = receiver->reordered;
  account->verified = receiver->verified;
  account->corrupted = receiver->corrupted;
  account->ns = accounting_running_ns(receiver);
}

static void accounting_gather_sender(const struct pst_stats *sender, struct account *account)
{
  /* A receiver that died has told by its last heartbeat only how far it was then. */
  account->delivered_known =
      sender->peer_known != 0 && (sender->state == PST_STATE_ENDED || sender->peer_final);
  account->delivered = sender->peer_delivered;
  account->bytes = sender->bytes_sent;
  account->ns = accounting_running_ns(sender);
  account->receiver_known = account->delivered_known && sender->peer_final;
  if (!account->receiver_known)
    return;
  account->bytes = sender->bytes_delivered;
  account->duplicates = sender->duplicates;
  account->reordered = sender->reordered;
  account->verified = sender->verified;
  account->corrupted = sender->corrupted;
}

/* The transport has not lost them. */
static uint64_t accounting_blameless(const struct account *account)
{
  static const char *const causes[] = {"late",          "incomplete_frame", "misframed",
                                       "memory_failed", "aborted",          "router_restarted"};
  uint64_t sum = 0;

  for (uint32_t i = 0; i < account->drop_count; i++)
    for (size_t k = 0; k < sizeof(causes) / sizeof(causes[0]); k++)
      if (strcmp(account->drops[i].cause, causes[k]) == 0)
        sum += account->drops[i].messages;
  return sum;
}

const struct pst_path_info *app_accounting_path(const struct pst_stats *sender,
                                                const struct pst_stats *receiver)
{
  if (!receiver ||
      (sender && sender->path.path == PST_PATH_STAGED && receiver->path.path != PST_PATH_STAGED))
    return &sender->path;
  return &receiver->path;
}

const char *app_accounting_staged_by(const struct pst_stats *sender,
                                     const struct pst_stats *receiver)
{
  bool out = sender && sender->path.path == PST_PATH_STAGED;
  bool in = receiver && receiver->path.path == PST_PATH_STAGED;

  if (out && in)
    return "both";
  return out ? "sender" : in ? "receiver" : NULL;
}

static double accounting_staging_share(const struct pst_stats *own, const struct pst_stats *other)
{
  if (own)
    return accounting_running_ns(own) > 0
               ? (double)own->blocked_ns[PST_STAGE_STAGING] / (double)accounting_running_ns(own)
               : 0;
  return other && other->peer_seconds_ns > 0
             ? (double)other->peer_blocked_ns[PST_STAGE_STAGING] / (double)other->peer_seconds_ns
             : 0;
}

const char *app_accounting_stager(const struct pst_stats *sender, const struct pst_stats *receiver)
{
  return accounting_staging_share(sender, receiver) > accounting_staging_share(receiver, sender)
             ? "sender"
             : "receiver";
}

void app_accounting_gather(const struct pst_stats *sender, const struct pst_stats *receiver,
                           struct account *account)
{
  memset(account, 0, sizeof(*account));
  if (receiver)
    accounting_gather_receiver(receiver, account);
  else
    accounting_gather_sender(sender, account);
  account->path = *app_accounting_path(sender, receiver);
  account->staged_by = app_accounting_staged_by(sender, receiver);

  const struct pst_stats *counter = sender ? sender : receiver;
  account->sent_basis = sender ? (uint32_t)PST_SENT_COUNTED : receiver->sent_basis;
  account->sent = counter->messages_sent;
  account->sent_known = account->sent_basis != PST_SENT_UNKNOWN && account->sent_basis != 0 &&
                        counter->started_ns != 0;

  /* The receiver sees all that is missing; the sender only what it dropped itself. */
  const struct pst_stats *dropper = receiver ? receiver : sender;
  if (dropper->drop_count == 0 && sender)
    dropper = sender;
  account->drop_count = dropper->drop_count < 16 ? dropper->drop_count : 16;
  memcpy(account->drops, dropper->drops, account->drop_count * sizeof(account->drops[0]));
  account->dropped = app_statistics_dropped(dropper);
  account->blameless = accounting_blameless(account);
  /* A heartbeat is older than the messages that came after it. */
  if (account->sent_basis == PST_SENT_HEARTBEAT && account->sent_known &&
      account->sent < account->delivered + account->dropped) {
    account->sent = account->delivered + account->dropped;
    account->sent_basis = PST_SENT_SEQUENCE;
  }
  /* Nobody can say how many messages a dead sender had on the way. */
  if (!sender && receiver->state == PST_STATE_FAILED && account->sent_basis != PST_SENT_COUNTED) {
    account->sent_known = false;
    account->dropped_at_least = account->dropped > 0;
  }
  account->lossy = !(counter->capabilities & PST_CAP_RELIABLE);
  account->ordered = counter->capabilities & PST_CAP_ORDERED;
}

void app_accounting_least(struct account *account, const struct pst_counter_value *counters,
                          uint32_t count)
{
  const uint64_t both = PST_COUNTER_DROP | PST_COUNTER_GAUGE;

  if (account->sent_known && account->sent_basis != PST_SENT_SEQUENCE)
    return;
  for (uint32_t i = 0; i < count; i++)
    account->dropped_at_least |= (counters[i].flags & both) == both && counters[i].value > 0;
}

double app_accounting_loss(const struct account *account)
{
  if (!account->sent_known || !account->delivered_known)
    return -1;
  if (account->sent == 0 || account->delivered >= account->sent)
    return 0;
  return (double)(account->sent - account->delivered) / (double)account->sent;
}

const char *app_accounting_first_wrong(const struct account *account,
                                       char text[ACCOUNTING_FIRST_WRONG_BYTES])
{
  const struct pst_verify_result *wrong = &account->wrong;

  text[0] = '\0';
  if (wrong->corrupted > 0)
    snprintf(text, ACCOUNTING_FIRST_WRONG_BYTES,
             "; first found: message %" PRIu64 ", byte %" PRIu64 ": expected 0x%02x, found 0x%02x",
             wrong->sequence, wrong->offset, wrong->expected, wrong->found);
  return text;
}

const struct pst_drop *app_accounting_cause(const struct account *account)
{
  const struct pst_drop *most = NULL;

  for (uint32_t i = 0; i < account->drop_count; i++)
    if (!most || account->drops[i].messages > most->messages)
      most = &account->drops[i];
  return most && most->messages && strcmp(most->cause, "wire") != 0 ? most : NULL;
}

static void accounting_say_nothing_arrived(const struct account *account, const char *carrier,
                                           char *why, size_t size)
{
  const struct pst_drop *cause = app_accounting_cause(account);
  int at = snprintf(why, size, "none of %" PRIu64 " message%s sent arrived (%s)", account->sent,
                    app_plural(account->sent), carrier);

  if (at < 0 || (size_t)at >= size)
    return;
  if (cause)
    snprintf(why + at, size - (size_t)at, "; %" PRIu64 " were dropped as %s", cause->messages,
             cause->cause);
  else if (account->lossy)
    snprintf(why + at, size - (size_t)at,
             "; check the receiver's `device` and `port`, firewalls and the route");
}

enum finding app_accounting_check(const struct account *account, char *why, size_t size)
{
  char first[ACCOUNTING_FIRST_WRONG_BYTES];
  const char *carrier =
      account->path.carrier[0] != '\0' ? account->path.carrier : "carrier unknown";

  why[0] = '\0';
  if (account->receiver_known && account->corrupted > 0) {
    snprintf(why, size, "corrupted: %" PRIu64 " of %" PRIu64 " message%s checked%s",
             account->corrupted, account->verified, app_plural(account->verified),
             app_accounting_first_wrong(account, first));
    return FINDING_CORRUPTED;
  }
  if (!account->sent_known || !account->delivered_known) {
    snprintf(why, size, "%s is not known",
             account->sent_known ? "how many messages were delivered"
                                 : "how many messages were sent");
    return FINDING_UNKNOWN_COUNTS;
  }
  if (account->sent != account->delivered + account->dropped) {
    snprintf(why, size,
             "the account does not balance: %" PRIu64 " sent, but %" PRIu64 " delivered + %" PRIu64
             " dropped = %" PRIu64,
             account->sent, account->delivered, account->dropped,
             account->delivered + account->dropped);
    return FINDING_UNBALANCED;
  }
  if (account->sent > 0 && account->delivered == 0) {
    accounting_say_nothing_arrived(account, carrier, why, size);
    return FINDING_NOTHING_ARRIVED;
  }
  if (account->dropped > account->blameless && !account->lossy) {
    snprintf(why, size, "lost on a reliable transport (%s): %" PRIu64 " of %" PRIu64 " message%s",
             carrier, account->dropped - account->blameless, account->sent,
             app_plural(account->sent));
    return FINDING_LOSS;
  }
  if (account->duplicates > 0 && !account->lossy) {
    snprintf(why, size,
             "%" PRIu64 " message%s arrived twice on a transport that promises each once (%s)",
             account->duplicates, app_plural(account->duplicates), carrier);
    return FINDING_DUPLICATES;
  }
  if (account->reordered > 0 && account->ordered) {
    snprintf(why, size,
             "%" PRIu64 " message%s came late on a transport that promises their order (%s)",
             account->reordered, app_plural(account->reordered), carrier);
    return FINDING_REORDERED;
  }
  return FINDING_NONE;
}
