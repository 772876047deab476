/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a stream, and how each comes by a peer: senders connect, who is waited for is
 * said, and one that nobody comes for fails. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "listener.h"
#include "protocol.h"
#include "streams.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

#define CONNECT_PAUSE_MIN_NS (20 * PST_NS_PER_MS)
#define CONNECT_PAUSE_MAX_NS (500 * PST_NS_PER_MS)
/* The sender says for whom it waits only when it does wait. */
#define FIRST_NOTICE_NS (300 * PST_NS_PER_MS)

static int streams_receivers_open(struct control *control, const struct control_params *params,
                                  struct pst_error *error)
{
  if (!params->listen)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "control.listen: receivers need an address");
  return listener_open(control, params->listen, params->insecure, error);
}

static int streams_senders_open(struct control *control, const struct control_params *params,
                                struct pst_error *error)
{
  struct stream_control *own = control->streams;

  if (!params->connect)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "control.connect: senders need an address");
  int rc = address_resolve(control, params->connect, false, params->insecure, &own->targets, error);
  if (rc < 0)
    return rc;
  own->connect_at_ns = control->now_ns;
  own->connect_notice_ns = control->now_ns + FIRST_NOTICE_NS;
  own->connect_insecure = params->insecure;
  own->connect_text = strdup(params->connect);
  own->connect_pause_ns = CONNECT_PAUSE_MIN_NS;
  return own->connect_text ? 0
                           : pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
}

void streams_connect_again(struct control *control, const char *why)
{
  struct stream_control *own = control->streams;

  snprintf(own->connect_why, sizeof(own->connect_why), "%s", why);
  own->link = NULL;
  if (++own->target_next < own->targets.count) {
    own->connect_at_ns = control->now_ns;
    return;
  }
  own->target_next = 0;
  own->connect_at_ns = control->now_ns + own->connect_pause_ns;
  own->connect_pause_ns = control_sooner(2 * own->connect_pause_ns, CONNECT_PAUSE_MAX_NS);
}

static void streams_fail_waiting(struct control *control, const struct stream_role *role, int code,
                                 const char *text)
{
  pst_log(PST_LOG_ERROR, "control: %s", text);
  for (struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (s->role == role && s->state == STREAM_WAITING)
      streams_fail(control, s, code, text, false, NULL);
  }
}

/* Returns whether streams have waited too long for a peer. *seconds: for how long. */
static bool streams_is_too_late(struct control *control, char seconds[24])
{
  seconds_text(control->connect_timeout_ns, seconds);
  return control->connect_timeout_ns &&
         control_is_due(control, control->opened_ns + control->connect_timeout_ns);
}

static bool streams_is_notice_due(struct control *control, uint64_t *notice_ns)
{
  if (!control_is_due(control, *notice_ns))
    return false;
  *notice_ns = control->now_ns + control->limits.notice_ns;
  return true;
}

static void streams_receivers_wait(struct control *control)
{
  char text[REPORT_MAX];
  char names[256];
  char seconds[24];

  names_waiting(control, &stream_receiver, names, sizeof(names));
  if (!names[0] || !control->listen_text)
    return;
  if (streams_is_too_late(control, seconds)) {
    snprintf(text, sizeof(text),
             "no sender came to %s within %s for: %s; start the sender with the same "
             "configuration, check its control.connect, or raise control.timeout",
             control->listen_text, seconds, names);
    streams_fail_waiting(control, &stream_receiver, -ETIMEDOUT, text);
  } else if (streams_is_notice_due(control, &control->streams->listen_notice_ns)) {
    pst_log(PST_LOG_INFO, "waiting at %s for the sender of: %s", control->listen_text, names);
  }
}

static void streams_try_connect(struct control *control)
{
  struct stream_control *own = control->streams;
  char text[REPORT_MAX];
  int code = 0;

  own->connect_at_ns = 0;
  own->link = connection_connect(control, &own->targets.at[own->target_next], own->connect_text,
                                 own->connect_insecure, &code);
  if (own->link)
    return;
  if (!limit_remedy(code)[0]) {
    streams_connect_again(control, strerror(-code));
    return;
  }
  snprintf(text, sizeof(text), "no connection to %s: this process has no room for one: %s%s",
           own->connect_text, strerror(-code), limit_remedy(code));
  streams_fail_waiting(control, &stream_sender, code, text);
}

/* Connects again while senders wait for their receivers, until the time for it is over. */
static void streams_senders_wait(struct control *control)
{
  struct stream_control *own = control->streams;
  char text[REPORT_MAX];
  char names[256];
  char seconds[24];

  if (!own->connect_text)
    return;
  names_waiting(control, &stream_sender, names, sizeof(names));
  if (!names[0]) {
    /* Over, failed, or with a peer. */
    if (own->link && own->link->state < PEER_UP)
      peer_enter(own->link, PEER_DEAD);
    own->connect_at_ns = 0;
    return;
  }
  const char *why = own->connect_why[0] ? own->connect_why : "no answer yet";
  if (streams_is_too_late(control, seconds)) {
    snprintf(text, sizeof(text),
             "no receiver took %s at %s within %s (%s); start the receiver with the same "
             "configuration, check control.connect, or raise control.timeout",
             names, own->connect_text, seconds, why);
    streams_fail_waiting(control, &stream_sender, -ETIMEDOUT, text);
    return;
  }
  if (streams_is_notice_due(control, &own->connect_notice_ns))
    pst_log(PST_LOG_INFO, "waiting for a receiver at %s (%s) to take: %s", own->connect_text, why,
            names);
  if (own->connect_at_ns != 0 && control_is_due(control, own->connect_at_ns))
    streams_try_connect(control);
}

const struct stream_role stream_receiver = {
    .name = "receiver",
    .peer_name = "sender",
    .finish_from = STREAM_STATES,
    .finish_heard_in = STREAM_LIVE,
    .finish_unheard = "twice",
    .counts_from = STREAM_FINISHED,
    .counts_heard_in = STREAM_COUNTED,
    .open = streams_receivers_open,
    .wait = streams_receivers_wait,
};

const struct stream_role stream_sender = {
    .name = "sender",
    .peer_name = "receiver",
    .connects = true,
    .finish_from = STREAM_LIVE,
    .finish_heard_in = STREAM_STATES,
    .finish_unheard = "though it receives it",
    .counts_from = STREAM_COUNTED,
    .counts_heard_in = STREAM_FINISHED,
    .open = streams_senders_open,
    .wait = streams_senders_wait,
};

static const struct stream_role *const roles[] = {&stream_receiver, &stream_sender};

const struct stream_role *stream_role_with(const struct connection *peer)
{
  return roles[peer->is_connector];
}

int streams_open(struct control *control, const struct control_params *params,
                 struct pst_error *error)
{
  int rc = 0;

  for (size_t i = 0; rc == 0 && i < sizeof(roles) / sizeof(roles[0]); i++)
    if (streams_have(control, roles[i]))
      rc = roles[i]->open(control, params, error);
  return rc;
}

void streams_wait(struct control *control)
{
  for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
    roles[i]->wait(control);
}
