/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a session, and finding what is in it. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lane.h"
#include "receiver.h"
#include "sender.h"
#include "session.h"

/*
 * `control: none`: the peers are not Penstock, or do not say so. Nobody agrees to anything: a
 * sender has ended when all of it is with the device, a receiver by silence or when its
 * application has had enough. What was sent is what the numbers of the messages span.
 */
static int session_foreign_refuse(const struct session_end *end, int rc, struct pst_error *error)
{
  if (pst_fail_said(error, engine_exit_status(rc), rc) == rc)
    return rc;
  return pst_fail(error, engine_exit_status(rc), rc,
                  "stream %s: transport %s cannot begin without a peer's address (`control: "
                  "none`): %s; its options name the peer, see `penstock plugins %s`",
                  end->name, end->device->plugin->name, strerror(-rc), end->device->plugin->name);
}

static int session_foreign_begin(struct session_end *end, struct pst_error *error)
{
  const struct pst_transport_ops *ops = end->lane->ops;
  char words[sizeof(end->peer_text)] = "";
  int rc;

  if (!(end->device->limits.capabilities & PST_CAP_FOREIGN))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: transport %s speaks to no peer without Penstock, which `control: "
                    "none` is for; take one that does, such as udp, or leave `control: none` out",
                    end->name, end->device->plugin->name);
  if (end->state == PST_STATE_FAILED) /* the application has left already */
    return 0;
  pst_log_clear_error();
  rc = ops->endpoint_connect(end->endpoint, NULL);
  if (rc < 0)
    return session_foreign_refuse(end, rc, error);
  if (ops->describe(end->endpoint, words, sizeof(words)) < 0)
    words[0] = 0;
  pthread_mutex_lock(&end->text_lock);
  snprintf(end->peer_text, sizeof(end->peer_text), "%s", words);
  pthread_mutex_unlock(&end->text_lock);
  return 0;
}

static int session_foreign_open(struct pst_session *session, struct pst_error *error)
{
  int rc = 0;

  if (session->roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "`control: none` is for one end alone, whose peer is not Penstock: run "
                    "`penstock receive` or `penstock send`; for both in one process leave it out");
  for (uint32_t i = 0; i < session->sender_count && rc == 0; i++)
    rc = session_foreign_begin(&session->senders[i]->end, error);
  for (uint32_t i = 0; i < session->receiver_count && rc == 0; i++)
    rc = session_foreign_begin(&session->receivers[i]->end, error);
  return rc;
}

#define SESSION_LAST_WORD_NS PST_NS_PER_S

static int session_select_streams(struct pst_session *session,
                                  const struct pst_session_params *params, struct pst_error *error)
{
  bool all = !params->streams || params->stream_count == 0;

  for (uint32_t i = 0; all && i < session->config->stream_count; i++)
    session->streams[i].is_selected = true;
  for (uint32_t i = 0; !all && i < params->stream_count; i++) {
    struct session_stream *stream = session_stream_find(session, params->streams[i]);
    if (!stream)
      return pst_fail(error, PST_EXIT_USAGE, -ENOENT, "no stream \"%s\" in the configuration",
                      params->streams[i]);
    stream->is_selected = true;
  }
  return 0;
}

static int session_add_ends(struct pst_session *session, const struct config_stream *config,
                            struct session_stream *stream)
{
  int rc = 0;

  if (session->roles & PST_SESSION_SENDER) {
    stream->sender = calloc(1, sizeof(*stream->sender));
    if (!stream->sender)
      return -ENOMEM;
    session->senders[session->sender_count++] = stream->sender;
    rc = end_init(&stream->sender->end, &sender_ops, session, config);
  }
  if (rc == 0 && (session->roles & PST_SESSION_RECEIVER)) {
    stream->receiver = calloc(1, sizeof(*stream->receiver));
    if (!stream->receiver)
      return -ENOMEM;
    session->receivers[session->receiver_count++] = stream->receiver;
    stream->receiver->pair = stream->sender;
    rc = end_init(&stream->receiver->end, &receiver_ops, session, config);
    if (config->receiver.share)
      session_stream_find(session, config->receiver.share)->sharers++;
  }
  return rc;
}

static int session_make_ends(struct pst_session *session, const struct pst_session_params *params,
                             struct pst_error *error)
{
  uint32_t count = session->config->stream_count;
  int rc;

  session->streams = calloc(count ? count : 1, sizeof(*session->streams));
  session->senders = calloc(count ? count : 1, sizeof(*session->senders));
  session->receivers = calloc(count ? count : 1, sizeof(*session->receivers));
  if (!session->streams || !session->senders || !session->receivers)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  rc = session_select_streams(session, params, error);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < count; i++) {
    if (!session->streams[i].is_selected)
      continue;
    rc = session_add_ends(session, &session->config->streams[i], &session->streams[i]);
    if (rc < 0)
      return pst_fail(error, PST_EXIT_FAILED, rc, "out of memory");
  }
  if (session->sender_count + session->receiver_count == 0)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "the configuration has no streams to run");
  return 0;
}

/* Those that share come after those they share with. */
static int session_open_ends(struct pst_session *session, struct pst_error *error)
{
  int rc = 0;

  for (int sharing = 0; sharing <= 1; sharing++) {
    for (uint32_t i = 0; i < session->receiver_count && rc == 0; i++)
      if ((session->receivers[i]->end.config->receiver.share != NULL) == sharing)
        rc = receiver_open(session, session->receivers[i], error);
    for (uint32_t i = 0; i < session->sender_count && rc == 0; i++)
      if ((session->senders[i]->end.config->sender.share != NULL) == sharing)
        rc = sender_open(session, session->senders[i], error);
  }
  for (uint32_t i = 0; i < session->engine.device_count && rc == 0; i++)
    rc = engine_device_start(session->engine.devices[i], error);
  return rc;
}

int pst_session_open(const struct pst_config *config, const struct pst_session_params *params,
                     struct pst_session **session, struct pst_error *error)
{
  struct pst_session *opened;
  int rc;

  if (params->struct_size < sizeof(*params))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "pst_session_params has a struct_size of %u, and %zu at least; set it to its "
                    "sizeof",
                    params->struct_size, sizeof(*params));
  if (!(params->roles & (PST_SESSION_SENDER | PST_SESSION_RECEIVER)))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "a session needs a role: sender, receiver, or both");
  opened = calloc(1, sizeof(*opened));
  if (!opened)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  opened->owner = (struct pst_config *)config;
  config_hold(opened->owner);
  opened->config = config_of(config);
  opened->roles = params->roles;
  rc = session_make_ends(opened, params, error);
  if (rc == 0)
    rc = setup_threads(opened, error);
  if (rc == 0)
    rc = setup_devices(opened, error);
  if (rc == 0)
    rc = session_open_ends(opened, error);
  if (rc < 0) {
    pst_session_close(opened);
    return rc;
  }
  *session = opened;
  return 0;
}

int pst_session_start(struct pst_session *session, struct pst_error *error)
{
  if (session->is_started)
    return -EALREADY;
  session->is_started = true;
  return session->config->control.none ? session_foreign_open(session, error)
                                       : control_adapter_open(session, error);
}

static bool session_awaits_last_word(const struct pst_receiver *receiver)
{
  return receiver->phase == RECEIVER_FINISHED && receiver->end.state != PST_STATE_ENDED;
}

/* Receivers that are through wait for their senders' last word, or these would take
 * the end for a failure. */
static void session_await_last_words(struct pst_session *session)
{
  uint64_t deadline = clock_now_ns() + SESSION_LAST_WORD_NS;
  bool waiting = true;

  while (waiting && session->control && clock_now_ns() < deadline) {
    waiting = false;
    for (uint32_t i = 0; i < session->thread_count; i++)
      thread_progress(session->threads[i]);
    for (uint32_t i = 0; i < session->receiver_count; i++)
      waiting |= session_awaits_last_word(session->receivers[i]) &&
                 end_check(&session->receivers[i]->end) == 0;
    if (waiting)
      nanosleep(&(struct timespec){.tv_nsec = (long)PST_NS_PER_MS}, NULL);
  }
}

static bool session_any_awaits_last(const struct pst_session *session)
{
  for (uint32_t i = 0; i < session->receiver_count; i++)
    if (session->receivers[i]->end.control == END_CONTROL_AWAITS)
      return true;
  for (uint32_t i = 0; i < session->sender_count; i++)
    if (session->senders[i]->end.control == END_CONTROL_AWAITS)
      return true;
  return false;
}

int pst_session_settle(struct pst_session *session, uint64_t timeout_ns)
{
  uint64_t deadline = clock_now_ns() + timeout_ns;

  while (session->control && session_any_awaits_last(session)) {
    for (uint32_t i = 0; i < session->thread_count; i++)
      thread_progress_now(session->threads[i]);
    if (!session_any_awaits_last(session))
      break;
    if (clock_now_ns() >= deadline)
      return -ETIMEDOUT;
    nanosleep(&(struct timespec){.tv_nsec = (long)PST_NS_PER_MS}, NULL);
  }
  return 0;
}

static bool session_poll_closing(struct pst_session *session, struct session_end **ends,
                                 uint32_t count)
{
  bool open = false;

  for (uint32_t t = 0; t < session->thread_count; t++)
    for (uint32_t l = 0; l < session->threads[t]->lane_count; l++)
      lane_poll_closing(session->threads[t]->lanes[l]);
  for (uint32_t i = 0; i < count; i++)
    open |= ends[i]->endpoint && ends[i]->endpoint_state != END_ENDPOINT_CLOSED;
  return open;
}

static void session_close_endpoints(struct pst_session *session)
{
  uint64_t deadline = clock_now_ns() + PST_NS_PER_S;
  uint64_t give_up = deadline + PST_NS_PER_S;

  for (uint32_t t = 0; t < session->thread_count; t++)
    for (uint32_t e = 0; e < session->threads[t]->end_count; e++) {
      struct session_end *end = session->threads[t]->ends[e];
      end_close_endpoint(end, end->state == PST_STATE_ENDED ? PST_CLOSE_DRAIN : PST_CLOSE_ABORT,
                         deadline);
    }
  for (uint32_t t = 0; t < session->thread_count; t++) {
    struct session_thread *thread = session->threads[t];
    while (session_poll_closing(session, thread->ends, thread->end_count)) {
      if (clock_now_ns() > give_up) {
        pst_log(PST_LOG_WARN,
                "an endpoint did not close within its deadline: a bug of its transport");
        return;
      }
      sched_yield();
    }
  }
}

void pst_session_close(struct pst_session *session)
{
  if (!session)
    return;
  session_await_last_words(session);
  control_close(session->control);
  for (uint32_t i = 0; i < session->thread_count; i++)
    mailbox_drop(&session->threads[i]->mailbox);
  session->control = NULL;
  session_close_endpoints(session);
  for (uint32_t i = 0; i < session->receiver_count; i++)
    if (session->receivers[i]->ring)
      receive_ring_close_ring(session->receivers[i]->ring);
  setup_close_workers(session);
  for (uint32_t i = 0; i < session->receiver_count; i++)
    receiver_close(session->receivers[i]);
  /* A follower may have its leader's slots registered with a device of its own. */
  for (int leading = 0; leading <= 1; leading++)
    for (uint32_t i = 0; i < session->sender_count; i++)
      if (session->senders[i] && (session->senders[i]->leader == NULL) == leading) {
        sender_close(session->senders[i]);
        session->senders[i] = NULL;
      }
  setup_close(session);
  free(session->streams);
  free(session->senders);
  free(session->receivers);
  pst_config_close(session->owner);
  free(session);
}

uint32_t pst_session_plugins(const struct pst_session *session)
{
  return session->engine.plugin_count;
}

int pst_session_plugin(const struct pst_session *session, uint32_t index,
                       struct pst_plugin_info *info)
{
  return engine_plugin_info(&session->engine, index, info);
}

uint32_t pst_session_threads(const struct pst_session *session)
{
  return session->thread_count;
}

int pst_session_thread_cpu(const struct pst_session *session, uint32_t thread)
{
  return thread < session->thread_count ? session->threads[thread]->cpu : -1;
}

struct pst_sender *pst_session_sender(struct pst_session *session, const char *name)
{
  const struct session_stream *stream = session_stream_find(session, name);
  return stream ? stream->sender : NULL;
}

struct pst_receiver *pst_session_receiver(struct pst_session *session, const char *name)
{
  const struct session_stream *stream = session_stream_find(session, name);
  return stream ? stream->receiver : NULL;
}
