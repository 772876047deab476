/* SPDX-License-Identifier: Apache-2.0 */
/* What the peer of a stream says: the control thread writes it down, the end's thread acts on it.
 */
#include "control_mail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"
#include "event_loop.h"
#include "util/limit_remedy.h"

/* ---- On the control thread ------------------------------------------------------- */

static void control_keep_peer(const struct control_peer *peer, struct session_mail *mail)
{
  snprintf(mail->text, sizeof(mail->text), "%s", peer->text);
  mail->param_count =
      peer->param_count < CONTROL_PARAMS_MAX ? peer->param_count : CONTROL_PARAMS_MAX;
  memcpy(mail->params, peer->params, mail->param_count * sizeof(*mail->params));
}

void control_mail_put(void *context, void *stream, const struct control_stream_message *heard)
{
  struct session_end *end = stream;
  struct session_mail *mail = calloc(1, sizeof(*mail));

  (void)context;
  if (!mail) {
    pst_log(PST_LOG_ERROR, "stream %s: out of memory for a control message", end->name);
    if (heard->type != CONTROL_HEARD_FAIL)
      return;
    /* Lost, it would leave the stream waiting for ever. */
    mail = &end->fail_mail;
    *mail = (struct session_mail){.mail.is_kept = true};
  }
  mail->type = heard->type;
  mail->end = end;
  if (heard->type == CONTROL_HEARD_FAIL) {
    mail->code = heard->code < 0 ? heard->code : -EPROTO;
    snprintf(mail->text, sizeof(mail->text), "%s", heard->text);
  }
  if (heard->address)
    mail->code = blob_keep(heard->address, &mail->mail.blob);
  if (heard->peer)
    control_keep_peer(heard->peer, mail);
  mail->has_totals = heard->totals;
  if (heard->totals)
    mail->totals = *heard->totals;
  mailbox_put(&end->thread->mailbox, &mail->mail, NULL);
}

/* ---- On the end's thread ---------------------------------------------------------- */

static void control_take_peer(struct session_end *end, const struct session_mail *mail)
{
  pthread_mutex_lock(&end->text_lock);
  snprintf(end->peer_text, sizeof(end->peer_text), "%.127s", mail->text);
  pthread_mutex_unlock(&end->text_lock);
  if (end->ops->met)
    end->ops->met(end, mail);
}

/* Sender: the receiver's counts end the stream, once ours are on their way. Receiver: the sender's
 * answer does. */
static void control_take_counts(struct session_end *end, const struct session_mail *mail)
{
  end_read_counters(end);
  end_note_peer(end, &mail->totals, END_PEER_FINAL);
  if (end->ops->counts)
    end->ops->counts(end);
  end->control = END_CONTROL_OVER;
  end_state(end, PST_STATE_ENDED);
}

/* The other side's word as it failed, or after this one had. */
static void control_take_last(struct session_end *end, const struct session_mail *mail)
{
  if (mail->has_totals && mail->totals.messages != UINT64_MAX)
    end_note_peer(end, &mail->totals, END_PEER_FINAL);
}

static void control_lack_descriptors(struct session_end *end, int code)
{
  char text[sizeof(end->error_text)];

  snprintf(text, sizeof(text), "stream %s: this process cannot keep its peer's descriptors: %s%s",
           end->name, strerror(-code), limit_remedy(code));
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(end, code, text);
}

void control_mail_read(const struct session_mail *mail)
{
  struct session_end *end = mail->end;

  if (end->control == END_CONTROL_AWAITS &&
      (mail->type == CONTROL_HEARD_LAST || mail->type == CONTROL_HEARD_FAIL)) {
    end->control = END_CONTROL_OVER;
    control_take_last(end, mail);
  }
  if (end_is_over(end))
    return;
  if ((mail->type == CONTROL_HEARD_PEER || mail->type == CONTROL_HEARD_ADDRESS) && mail->code < 0) {
    control_lack_descriptors(end, mail->code);
    return;
  }
  switch (mail->type) {
  case CONTROL_HEARD_PEER:
    control_take_peer(end, mail);
    end_connect(end, &mail->mail.blob);
    break;
  case CONTROL_HEARD_ADDRESS:
    end_connect(end, &mail->mail.blob);
    break;
  case CONTROL_HEARD_BEAT:
    end_note_peer(end, &mail->totals, END_PEER_HEARD);
    if (end->ops->beat)
      end->ops->beat(end);
    break;
  case CONTROL_HEARD_FINISH:
    if (end->ops->finish)
      end->ops->finish(end, &mail->totals);
    break;
  case CONTROL_HEARD_COUNTS:
    control_take_counts(end, mail);
    break;
  case CONTROL_HEARD_FAIL:
    end_peer_failed(end, mail->code, mail->text);
    control_take_last(end, mail);
    end->control = mail->has_totals ? END_CONTROL_OWES : END_CONTROL_OVER;
    break;
  case CONTROL_HEARD_LAST:
    break;
  }
}
