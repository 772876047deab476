/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for a peer: who is waited for is said, and one that nobody comes for fails. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "listener.h"
#include "peer.h"
#include "streams.h"
#include "util/limit_remedy.h"
#include "util/log.h"

/* When streams of that side may fail for want of a peer. */
static uint64_t deadline(const struct control *control)
{
  return control->connect_timeout_ns ? control->opened_ns + control->connect_timeout_ns
                                     : UINT64_MAX;
}

static void fail_waiting(struct control *control, bool senders, int code, const char *text)
{
  pst_log(PST_LOG_ERROR, "control: %s", text);
  for (uint32_t i = 0; i < control->stream_count; i++) {
    struct stream *s = &control->streams[i];
    if (s->is_sender == senders && s->state == STREAM_WAITING)
      streams_fail(control, s, code, text, NULL);
  }
}

static uint64_t wait_receivers(struct control *control)
{
  char text[REPORT_MAX];
  char names[256];
  char seconds[24];

  names_list(control, false, STREAM_WAITING, names, sizeof names);
  if (!names[0] || !control->listen_text)
    return UINT64_MAX;
  if (control->now_ns >= deadline(control)) {
    seconds_text(control->connect_timeout_ns, seconds);
    snprintf(text, sizeof text,
             "no sender came to %s within %s for: %s; start the sender with the same "
             "configuration, check its control.connect, or raise control.timeout",
             control->listen_text, seconds, names);
    fail_waiting(control, false, -ETIMEDOUT, text);
    return UINT64_MAX;
  }
  if (control->now_ns >= control->listen_notice_ns) {
    pst_log(PST_LOG_INFO, "waiting at %s for the sender of: %s", control->listen_text, names);
    control->listen_notice_ns = control->now_ns + control->limits.notice_ns;
  }
  return sooner(deadline(control), control->listen_notice_ns);
}

static void try_connect(struct control *control)
{
  int code = 0;

  control->connect_at_ns = 0;
  control->link = dialer_connect(control, &control->targets.at[control->target_next],
                                 control->connect_insecure, &code);
  if (control->link)
    return;
  if (!limit_remedy(code)[0]) {
    dialer_again(control, strerror(-code));
    return;
  }
  char text[REPORT_MAX];
  snprintf(text, sizeof text, "no connection to %s: this process has no room for one: %s%s",
           control->connect_text, strerror(-code), limit_remedy(code));
  fail_waiting(control, true, code, text);
}

static uint64_t wait_senders(struct control *control)
{
  char text[REPORT_MAX];
  char names[256];
  char seconds[24];

  if (!control->connect_text)
    return UINT64_MAX;
  names_list(control, true, STREAM_WAITING, names, sizeof names);
  if (!names[0]) {
    /* Over, failed, or with a peer. */
    if (control->link && control->link->state < PEER_UP)
      peer_enter(control->link, PEER_DEAD);
    control->connect_at_ns = 0;
    return UINT64_MAX;
  }
  const char *why = control->connect_why[0] ? control->connect_why : "no answer yet";
  if (control->now_ns >= deadline(control)) {
    seconds_text(control->connect_timeout_ns, seconds);
    snprintf(text, sizeof text,
             "no receiver took %s at %s within %s (%s); start the receiver with the same "
             "configuration, check control.connect, or raise control.timeout",
             names, control->connect_text, seconds, why);
    fail_waiting(control, true, -ETIMEDOUT, text);
    return control->now_ns;
  }
  if (control->now_ns >= control->connect_notice_ns) {
    pst_log(PST_LOG_INFO, "waiting for a receiver at %s (%s) to take: %s", control->connect_text,
            why, names);
    control->connect_notice_ns = control->now_ns + control->limits.notice_ns;
  }
  if (control->connect_at_ns != 0 && control->now_ns >= control->connect_at_ns)
    try_connect(control);
  return sooner(sooner(deadline(control), control->connect_notice_ns),
                control->connect_at_ns ? control->connect_at_ns : UINT64_MAX);
}

uint64_t streams_wait(struct control *control)
{
  return sooner(wait_receivers(control), wait_senders(control));
}
