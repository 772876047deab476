/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a session. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "receiver.h"
#include "sender.h"
#include "session.h"

/* `control: none`: the peers are not Penstock, or do not say so. Nobody agrees to anything: a
 * sender has ended when all of it is with the device, a receiver by silence or when its application
 * has had enough. The count of sent messages is the span of their numbers.
 */
static int session_foreign_begin(struct session_end *end, struct pst_error *error)
{
  const struct pst_transport_ops *ops = end->lane->worker.ops;
  char words[sizeof(end->peer_text)] = "";
  int rc;

  if (!(end->device->limits.capabilities & PST_CAP_FOREIGN))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: `control: none` is for a peer that is not Penstock, and transport "
                    "%s has no such peers; take udp or ethernet, or leave `control: none` out",
                    end->name, end->device->plugin->name);
  if (end->state == PST_STATE_FAILED) /* the application has left already */
    return 0;
  pst_log_clear_error();
  rc = ops->endpoint_connect(end->endpoint.handle, NULL);
  if (rc < 0 && pst_fail_said(error, engine_exit_status(rc), rc) == rc)
    return rc;
  if (rc < 0)
    return pst_fail(error, engine_exit_status(rc), rc,
                    "stream %s: transport %s cannot begin without a peer's address (`control: "
                    "none`): %s; its options name the peer, see `penstock plugins %s`",
                    end->name, end->device->plugin->name, strerror(-rc), end->device->plugin->name);
  if (ops->describe(end->endpoint.handle, words, sizeof(words)) < 0)
    words[0] = 0;
  end_lock(end);
  snprintf(end->peer_text, sizeof(end->peer_text), "%s", words);
  end_unlock(end);
  return 0;
}

static int session_foreign_open(struct pst_session *session, struct pst_error *error)
{
  int rc = 0;

  if (session_has_both(session))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "`control: none` is for one end, whose peer is not Penstock: run `penstock "
                    "receive` or `penstock send`; to run both ends in one process leave it out");
  for (uint32_t i = 0; i < session->end_count && rc == 0; i++)
    rc = session_foreign_begin(session->ends[i], error);
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

static struct session_end *session_add_end(struct pst_session *session,
                                           const struct config_stream *config,
                                           const struct end_ops *ops)
{
  struct session_end *end = calloc(1, ops->size);

  if (!end)
    return NULL;
  end_init(end, ops, session->config->control.none ? &end_peer_foreign : &end_peer_penstock,
           session, config);
  session->ends[session->end_count++] = end;
  return end;
}

static int session_add_ends(struct pst_session *session, const struct config_stream *config,
                            struct session_stream *stream)
{
  if (session->roles & PST_SESSION_SENDER) {
    stream->sender = (struct pst_sender *)session_add_end(session, config, &sender_ops);
    if (!stream->sender)
      return -ENOMEM;
  }
  if (session->roles & PST_SESSION_RECEIVER) {
    stream->receiver = (struct pst_receiver *)session_add_end(session, config, &receiver_ops);
    if (!stream->receiver)
      return -ENOMEM;
    stream->receiver->pair = stream->sender;
    if (config->receiver.share)
      session_stream_find(session, config->receiver.share)->sharers++;
  }
  return 0;
}

static int session_make_ends(struct pst_session *session, const struct pst_session_params *params,
                             struct pst_error *error)
{
  uint32_t count = session->config->stream_count;
  int rc;

  session->streams = calloc(count ? count : 1, sizeof(*session->streams));
  session->ends = calloc(count ? 2 * (size_t)count : 1, sizeof(*session->ends));
  if (!session->streams || !session->ends)
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
  if (session->end_count == 0)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "the configuration has no streams to run");
  return 0;
}

/* Opens the ends: those that share after those they share with, and senders after receivers. */
static int session_open_ends(struct pst_session *session, struct pst_error *error)
{
  int rc = 0;

  for (int pass = 0; pass < 4; pass++)
    for (uint32_t i = 0; i < session->end_count && rc == 0; i++) {
      struct session_end *end = session->ends[i];
      if (2 * (end->share != NULL) + end->ops->is_second == pass)
        rc = end->ops->open(end, error);
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

static bool session_awaits_last_word(struct session_end *end)
{
  return end->ops->awaits_last_word && end->ops->awaits_last_word(end);
}

/* Returns whether an end that has failed still waits for its peer's last counts. */
static bool session_awaits_counts(struct session_end *end)
{
  return end->control == END_CONTROL_AWAITS;
}

/* While any end waits for a word. 0, or -ETIMEDOUT. */
static int session_await(struct pst_session *session, bool (*awaits)(struct session_end *end),
                         uint64_t timeout_ns)
{
  uint64_t deadline = clock_now_ns() + timeout_ns;
  bool waiting = session->control != NULL;

  while (waiting) {
    for (uint32_t i = 0; i < session->thread_count; i++)
      thread_progress_now(session->threads[i]);
    waiting = false;
    for (uint32_t i = 0; i < session->end_count; i++)
      waiting |= awaits(session->ends[i]);
    if (waiting && clock_now_ns() >= deadline)
      return -ETIMEDOUT;
    if (waiting)
      nanosleep(&(struct timespec){.tv_nsec = (long)PST_NS_PER_MS}, NULL);
  }
  return 0;
}

int pst_session_settle(struct pst_session *session, uint64_t timeout_ns)
{
  return session_await(session, session_awaits_counts, timeout_ns);
}

/* As engine_await_closed(). */
static bool session_close_endpoints(struct pst_session *session)
{
  const uint64_t deadline = clock_now_ns() + PST_NS_PER_S;

  for (uint32_t i = 0; i < session->end_count; i++) {
    struct session_end *end = session->ends[i];
    engine_endpoint_close(&end->endpoint,
                          end->state == PST_STATE_ENDED ? PST_CLOSE_DRAIN : PST_CLOSE_ABORT,
                          deadline);
  }
  return engine_await_closed(&session->engine, deadline + PST_NS_PER_S);
}

void pst_session_close(struct pst_session *session)
{
  if (!session)
    return;
  session_await(session, session_awaits_last_word, SESSION_LAST_WORD_NS);
  control_close(session->control);
  for (uint32_t i = 0; i < session->thread_count; i++)
    mailbox_drop(&session->threads[i]->base.mailbox);
  session->control = NULL;
  if (!session_close_endpoints(session))
    return;
  for (uint32_t i = 0; i < session->end_count; i++)
    if (session->ends[i]->ops->ring && session->ends[i]->ops->ring(session->ends[i]))
      receive_ring_close_ring(session->ends[i]->ops->ring(session->ends[i]));
  engine_close_workers(&session->engine);
  /* A stream that shares may have the other's slots registered with a device of its own. */
  for (int sharing = 1; sharing >= 0; sharing--)
    for (uint32_t i = 0; i < session->end_count; i++) {
      struct session_end *end = session->ends[i];
      if (!end || (end->share != NULL) != sharing)
        continue;
      session->ends[i] = NULL;
      end->ops->close(end);
    }
  setup_close(session);
  free(session->streams);
  free(session->ends);
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
