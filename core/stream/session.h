/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: the ends of its streams, on threads, on lanes.
 *
 * A session has threads. A thread has lanes, one
 * for each device it uses: a lane is a transport's worker. Senders and receivers
 * ("ends") sit on a lane and belong to its thread. The control thread never touches an end: it
 * leaves mail for the thread.
 */
#ifndef PST_STREAM_SESSION_H
#define PST_STREAM_SESSION_H

#include <string.h>

#include "config/config.h"
#include "engine/engine.h"

#include "end.h"

/* A stream of the configuration, by its place there. */
struct session_stream {
  bool is_selected;
  struct pst_sender *sender;     /* NULL: not in this session */
  struct pst_receiver *receiver; /* NULL: not in this session */
  uint32_t sharers;              /* receivers whose messages land in this one's ring */
};

struct pst_session {
  struct pst_config *owner;
  const struct config *config;
  uint32_t roles;
  struct session_stream *streams; /* as many as the configuration has */
  struct engine engine;
  struct session_thread **threads;
  uint32_t thread_count;
  /* In the order of the file, a stream's sender before its receiver. */
  struct session_end **ends;
  uint32_t end_count;
  bool is_started;
  struct control *control;
};

static inline bool session_has_both(const struct pst_session *session)
{
  return session->roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER);
}

/* NULL: the configuration has no such stream. */
static inline struct session_stream *session_stream_find(const struct pst_session *session,
                                                         const char *name)
{
  const struct config_stream *stream = config_stream_find(session->config, name, strlen(name));

  return stream ? &session->streams[stream - session->config->streams] : NULL;
}

/* setup.c: threads, devices, lanes */
int setup_threads(struct pst_session *session, struct pst_error *error);
int setup_devices(struct pst_session *session, struct pst_error *error);
void setup_close(struct pst_session *session);

/* control_adapter.c: starts the control channel, whose messages become mail. */
int control_adapter_open(struct pst_session *session, struct pst_error *error);

#endif
