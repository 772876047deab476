/* SPDX-License-Identifier: Apache-2.0 */
/* What the peer of a stream says, from the control thread to the stream's end. */
#ifndef PST_STREAM_CONTROL_MAIL_H
#define PST_STREAM_CONTROL_MAIL_H

#include "control/control.h"
#include "engine/mailbox.h"

struct session_end;

struct session_mail {
  struct mail mail; /* PEER, ADDRESS: its blob is the peer's address */
  enum control_heard type;
  struct session_end *end;
  int code;
  char text[512];
  struct control_totals totals;
  bool has_totals; /* FAIL, LAST: the peer has said them */
  uint32_t param_count;
  struct control_pair params[CONTROL_PARAMS_MAX];
};

/* On the control thread: it becomes mail for the thread of the end. A callback of control. */
void control_mail_put(void *context, void *stream, const struct control_stream_message *heard);
/* On the end's thread. */
void control_mail_read(const struct session_mail *mail);

#endif
