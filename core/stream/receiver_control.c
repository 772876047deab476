/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver's messages to its sender by the control channel, and those from its sender. */
#include <stdio.h>
#include <string.h>

#include "receiver.h"

/* How long messages are on their way at most. */
#define UNHEARD_NS PST_NS_PER_S

const char *pst_receiver_param(struct pst_receiver *receiver, const char *key)
{
  for (uint32_t i = 0; i < receiver->param_count; i++)
    if (strcmp(receiver->params[i].key, key) == 0)
      return receiver->params[i].value;
  return NULL;
}

void receiver_met(struct session_end *end, const struct session_mail *mail)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;

  memcpy(receiver->params, mail->params, sizeof(receiver->params));
  receiver->param_count = mail->param_count;
  const char *seed = pst_receiver_param(receiver, "pattern.seed");
  if (seed)
    sscanf(seed, "%lu", &receiver->seed);
}

void receiver_finish_heard(struct session_end *end, const struct control_totals *totals)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;

  end_note_peer(end, totals, END_PEER_HEARD);
  receiver->sent = *totals;
  stat_set(receiver->finish_known, true);
  if (end->state == PST_STATE_CONNECTED)
    end_state(end, PST_STATE_ENDING);
}

void receiver_totals(const struct session_end *end, struct control_totals *totals)
{
  const struct pst_receiver *receiver = (const struct pst_receiver *)end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();

  *totals = (struct control_totals){.messages = receiver->delivered,
                                    .bytes = receiver->bytes,
                                    .last_sequence = receiver->window.next - 1,
                                    .duplicates = receiver->window.duplicates,
                                    .reordered = receiver->window.reordered,
                                    .verified = receiver->verified,
                                    .corrupted = receiver->corrupted,
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
  end_blocked(end, end->ended_ns, totals->blocked_ns);
  loss_of_receiver(receiver, totals->drops, &totals->drop_count);
}

/* True once a message has arrived; messages may still wait for the consumer. */
static bool receiver_has_arrived(struct session_end *end)
{
  struct control_totals own;
  bool has = false;

  receiver_totals(end, &own);
  for (uint32_t i = 0; i < end->counts.count; i++)
    has |= strcmp(end->counts.values[i].name, "messages_received") == 0 &&
           end->counts.values[i].value != 0;
  return has || own.messages != 0;
}

/* A receiver that never gets anything over a lossy transport reports that while it runs, not only
 * at its end. */
void receiver_beat_heard(struct session_end *end)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  char words[128] = "";

  if (receiver->unheard_ns == UINT64_MAX || end->peer.messages == 0 ||
      end->peer.messages == UINT64_MAX || (end->device->limits.capabilities & PST_CAP_RELIABLE))
    return;
  uint64_t now = clock_now_ns();
  if (receiver->unheard_ns == 0)
    receiver->unheard_ns = now;
  if (now - receiver->unheard_ns < UNHEARD_NS)
    return;
  receiver->unheard_ns = UINT64_MAX;
  end_read_counters(end);
  if (receiver_has_arrived(end))
    return;
  if (end->endpoint.handle)
    end->lane->worker.ops->describe(end->endpoint.handle, words, sizeof(words));
  pst_log(PST_LOG_WARN,
          "stream %s: none of the %lu messages that were sent has arrived yet; this end is %s. "
          "Check `device` at both ends, the route, and firewalls: they may pass the control "
          "channel and drop the data",
          end->name, end->peer.messages, words);
}
