/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a session, and finding what is in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define SESSION_LAST_WORD_NS PST_NS_PER_S

struct session_stream *session_stream_find(const struct pst_session *session, const char *name)
{
  const struct config_stream *stream = config_stream_find(session->config, name, strlen(name));
  return stream ? &session->streams[stream - session->config->streams] : NULL;
}

static int select_streams(struct pst_session *session, const struct pst_session_params *params,
                          struct pst_error *error)
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

static int add_ends(struct pst_session *session, const struct config_stream *config,
                    struct session_stream *stream)
{
  int rc = 0;

  if ((session->roles & PST_SESSION_SENDER) && config->region) {
    stream->initiator = calloc(1, sizeof(*stream->initiator));
    if (!stream->initiator)
      return -ENOMEM;
    session->initiators[session->initiator_count++] = stream->initiator;
    session->outs[session->out_count++] = &stream->initiator->end;
    rc = end_init(&stream->initiator->end, session, config, true);
  } else if (session->roles & PST_SESSION_SENDER) {
    stream->sender = calloc(1, sizeof(*stream->sender));
    if (!stream->sender)
      return -ENOMEM;
    session->senders[session->sender_count++] = stream->sender;
    session->outs[session->out_count++] = &stream->sender->end;
    rc = end_init(&stream->sender->end, session, config, true);
  }
  if (rc == 0 && (session->roles & PST_SESSION_RECEIVER) && config->region) {
    stream->target = calloc(1, sizeof(*stream->target));
    if (!stream->target)
      return -ENOMEM;
    session->targets[session->target_count++] = stream->target;
    session->ins[session->in_count++] = &stream->target->end;
    rc = end_init(&stream->target->end, session, config, false);
  } else if (rc == 0 && (session->roles & PST_SESSION_RECEIVER)) {
    stream->receiver = calloc(1, sizeof(*stream->receiver));
    if (!stream->receiver)
      return -ENOMEM;
    session->receivers[session->receiver_count++] = stream->receiver;
    session->ins[session->in_count++] = &stream->receiver->end;
    rc = end_init(&stream->receiver->end, session, config, false);
    if (config->receiver.share)
      session_stream_find(session, config->receiver.share)->sharers++;
  }
  return rc;
}

static int make_ends(struct pst_session *session, const struct pst_session_params *params,
                     struct pst_error *error)
{
  uint32_t count = session->config->stream_count;
  int rc;

  session->streams = calloc(count ? count : 1, sizeof(*session->streams));
  session->senders = calloc(count ? count : 1, sizeof(*session->senders));
  session->receivers = calloc(count ? count : 1, sizeof(*session->receivers));
  session->initiators = calloc(count ? count : 1, sizeof(*session->initiators));
  session->targets = calloc(count ? count : 1, sizeof(*session->targets));
  session->outs = calloc(count ? count : 1, sizeof(*session->outs));
  session->ins = calloc(count ? count : 1, sizeof(*session->ins));
  if (!session->streams || !session->senders || !session->receivers || !session->initiators ||
      !session->targets || !session->outs || !session->ins)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  rc = select_streams(session, params, error);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < count; i++) {
    if (!session->streams[i].is_selected)
      continue;
    rc = add_ends(session, &session->config->streams[i], &session->streams[i]);
    if (rc < 0)
      return pst_fail(error, PST_EXIT_FAILED, rc, "out of memory");
  }
  if (session->out_count + session->in_count == 0)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "the configuration has no streams to run");
  return 0;
}

/* Those that share come after those they share with. */
static int open_ends(struct pst_session *session, struct pst_error *error)
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
  for (uint32_t i = 0; i < session->target_count && rc == 0; i++)
    rc = target_open(session, session->targets[i], error);
  for (uint32_t i = 0; i < session->initiator_count && rc == 0; i++)
    rc = initiator_open(session, session->initiators[i], error);
  for (uint32_t i = 0; i < session->device_count && rc == 0; i++) {
    struct session_device *device = session->devices[i];
    rc = device->ops->start(device->device);
    if (rc == -EOPNOTSUPP)
      rc = 0;
    if (rc < 0)
      pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s does not start: %s",
               device->plugin->name, strerror(-rc));
  }
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
  rc = make_ends(opened, params, error);
  if (rc == 0)
    rc = setup_threads(opened, error);
  if (rc == 0)
    rc = setup_devices(opened, error);
  if (rc == 0)
    rc = open_ends(opened, error);
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
  return session->config->control.none ? foreign_open(session, error) : glue_open(session, error);
}

/* Receivers and targets that are through wait for their senders' last word, or these would take
 * the end for a failure. */
static void await_last_words(struct pst_session *session)
{
  uint64_t deadline = clock_now_ns() + SESSION_LAST_WORD_NS;
  bool waiting = true;

  while (waiting && session->control && clock_now_ns() < deadline) {
    waiting = false;
    for (uint32_t i = 0; i < session->thread_count; i++)
      thread_progress(session->threads[i]);
    for (uint32_t i = 0; i < session->in_count; i++)
      waiting |= end_awaits(session->ins[i]) && end_check(session->ins[i]) == 0;
    if (waiting)
      nanosleep(&(struct timespec){.tv_nsec = (long)PST_NS_PER_MS}, NULL);
  }
}

static bool any_awaits_last(const struct pst_session *session)
{
  for (uint32_t i = 0; i < session->in_count; i++)
    if (session->ins[i]->awaits_last)
      return true;
  for (uint32_t i = 0; i < session->out_count; i++)
    if (session->outs[i]->awaits_last)
      return true;
  return false;
}

int pst_session_settle(struct pst_session *session, uint64_t timeout_ns)
{
  uint64_t deadline = clock_now_ns() + timeout_ns;

  while (session->control && any_awaits_last(session)) {
    for (uint32_t i = 0; i < session->thread_count; i++)
      thread_progress_now(session->threads[i]);
    if (!any_awaits_last(session))
      break;
    if (clock_now_ns() >= deadline)
      return -ETIMEDOUT;
    nanosleep(&(struct timespec){.tv_nsec = (long)PST_NS_PER_MS}, NULL);
  }
  return 0;
}

void pst_session_close(struct pst_session *session)
{
  if (!session)
    return;
  await_last_words(session);
  control_close(session->control);
  for (uint32_t i = 0; i < session->thread_count; i++)
    thread_drop_mail(session->threads[i]);
  session->control = NULL;
  lanes_close_endpoints(session);
  for (uint32_t i = 0; i < session->receiver_count; i++)
    if (session->receivers[i]->landing)
      landing_close_ring(session->receivers[i]->landing);
  setup_close_workers(session);
  for (uint32_t i = 0; i < session->initiator_count; i++)
    initiator_close(session->initiators[i]);
  for (uint32_t i = 0; i < session->target_count; i++)
    target_close(session->targets[i]);
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
  free(session->initiators);
  free(session->targets);
  free(session->outs);
  free(session->ins);
  pst_config_close(session->owner);
  free(session);
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

struct pst_initiator *pst_session_initiator(struct pst_session *session, const char *name)
{
  const struct session_stream *stream = session_stream_find(session, name);
  return stream ? stream->initiator : NULL;
}

struct pst_target *pst_session_target(struct pst_session *session, const char *name)
{
  const struct session_stream *stream = session_stream_find(session, name);
  return stream ? stream->target : NULL;
}

uint32_t pst_session_plugins(const struct pst_session *session)
{
  return session->plugin_count;
}

int pst_session_plugin(const struct pst_session *session, uint32_t index,
                       struct pst_plugin_info *info)
{
  const struct loader_plugin *plugin;

  if (index >= session->plugin_count)
    return -ENOENT;
  plugin = session->plugins[index];
  struct pst_plugin_info full = {.struct_size = info->struct_size,
                                 .kind = plugin->kind,
                                 .description = plugin->description,
                                 .path = plugin->path,
                                 .reason = "",
                                 .remedy = "",
                                 .libraries = loader_libraries(plugin),
                                 .shadowed_by = ""};
  memcpy(info, &full, info->struct_size < sizeof(full) ? info->struct_size : sizeof(full));
  return 0;
}

uint32_t pst_session_workers(const struct pst_session *session)
{
  return session->thread_count;
}

int pst_session_worker_cpu(const struct pst_session *session, uint32_t worker)
{
  return worker < session->thread_count ? session->threads[worker]->cpu : -1;
}
