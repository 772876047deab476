/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a control channel: its loop, how it begins and ends, and what others tell it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "listener.h"
#include "node_dial.h"
#include "streams.h"
#include "util/clock.h"
#include "util/log.h"

#define EVENTS_A_ROUND 64
#define TURNS_A_ROUND 16
#define WAIT_MAX_MS 60000
#define HEARTBEAT_DEFAULT_NS PST_NS_PER_S
#define FOR_EVER_NS (UINT64_MAX / 4)

const struct control_limits control_default_limits = {
    .answer_ns = 5 * PST_NS_PER_S,
    .idle_ns = 5 * PST_NS_PER_S,
    .drain_ns = PST_NS_PER_S,
    .notice_ns = 10 * PST_NS_PER_S,
    .peers_max = 1024,
    .refusals_max = 1024,
};

/* ---- Commands ----------------------------------------------------------------------- */

int commands_say(struct control *control, const struct command *what)
{
  const struct control_node_message *say = &what->say;
  const uint32_t length_max = say->type == WIRE_MESSAGE ? CONTROL_MESSAGE_MAX : CONTROL_ADDRESS_MAX;
  struct command *command = malloc(sizeof(*command));
  int rc;

  if (!command)
    return -ENOMEM;
  *command = *what;
  if (say->text)
    snprintf(command->text, sizeof(command->text), "%s", say->text);
  if (say->blob && (rc = blob_copy(say->blob, length_max, &command->mail.blob)) < 0) {
    free(command);
    return rc;
  }
  mailbox_put(&control->commands, &command->mail, NULL);
  return 0;
}

static void control_commands_take(struct control *control, bool are_run)
{
  struct mail *next;

  for (struct mail *mail = mailbox_take(&control->commands); mail; mail = next) {
    struct command *command = (struct command *)mail;
    next = mail->next;
    if (are_run)
      control->protocol->command(control, command);
    node_join_free(command->join);
    mail_free(mail);
  }
}

/* ---- The thread --------------------------------------------------------------------- */

static void control_dispatch(struct control *control, struct watch *watch, uint32_t events)
{
  /* Closed by an earlier event of this round. */
  if (watch->fd < 0)
    return;
  switch (watch->kind) {
  case WATCH_WAKE:
    break; /* commands run every round */
  case WATCH_LISTENER:
    control->listeners_ready |= 1u << (watch - control->listeners);
    break;
  case WATCH_UNIX_LISTENER:
    unix_pending_accept(control);
    break;
  case WATCH_PEER:
    connection_event(watch->owner, events);
    break;
  case WATCH_FD_CHANNEL:
    connection_unix_event(watch->owner, events);
    break;
  case WATCH_UNIX_PENDING:
    unix_pending_event(control, watch->owner);
    break;
  }
}

static void control_bury(struct control *control)
{
  for (struct connection **at = &control->peers; *at;) {
    struct connection *peer = *at;
    if (peer->state != PEER_DEAD) {
      at = &peer->next;
      continue;
    }
    *at = peer->next;
    connection_free(peer);
  }
}

static void control_tick(struct control *control)
{
  control->next_ns = UINT64_MAX;
  unix_pending_tick(control);
  control->protocol->tick(control);
  for (struct connection *peer = control->peers; peer; peer = peer->next)
    connection_tick(peer);
  if (!control->quiet)
    listener_tick(control);
  control_bury(control);
}

/* Time that this process did not run (stopped, suspended with its host) is not a
 * peer's silence. */
static void control_excuse(struct control *control, uint64_t late_ns)
{
  for (struct connection *peer = control->peers; peer; peer = peer->next) {
    peer->heard_ns += late_ns;
    peer->taken_ns += late_ns;
  }
}

/* Accepts new connections last: connections that have ended make room first, so that no other has
 * to. */
static void control_accept_all(struct control *control)
{
  control_bury(control);
  for (uint32_t i = 0; i < control->listener_count; i++)
    if (control->listeners_ready & 1u << i)
      listener_accept(control, &control->listeners[i]);
  control->listeners_ready = 0;
}

/* Handles events before deadlines (tick), for the same reason. */
static void control_round_once(struct control *control, uint64_t next_ns)
{
  struct epoll_event events[EVENTS_A_ROUND];
  uint64_t now_ns = clock_now_ns();
  int wait_ms = -1;
  int n;

  if (next_ns != UINT64_MAX) {
    uint64_t ns = next_ns > now_ns ? next_ns - now_ns : 0;
    uint64_t ms = (ns + PST_NS_PER_MS - 1) / PST_NS_PER_MS;
    wait_ms = ms > WAIT_MAX_MS ? WAIT_MAX_MS : (int)ms;
  }
  for (int turn = 0; turn < TURNS_A_ROUND; turn++) {
    n = epoll_wait(control->epoll_fd, events, EVENTS_A_ROUND, turn == 0 ? wait_ms : 0);
    control->now_ns = clock_now_ns();
    if (turn == 0 && control->now_ns > next_ns)
      control_excuse(control, control->now_ns - next_ns);
    for (int i = 0; i < n; i++)
      control_dispatch(control, events[i].data.ptr, events[i].events);
    if (n < EVENTS_A_ROUND)
      break;
  }
  control_accept_all(control);
}

static void control_say_goodbye(struct control *control)
{
  uint64_t until_ns = control->now_ns + control->limits.drain_ns;

  control->quiet = true;
  control->protocol->close_all(control);
  for (struct connection *peer = control->peers; peer; peer = peer->next) {
    if (peer->state == PEER_UP)
      connection_close(peer, 0, NULL);
    else if (peer->state != PEER_CLOSING)
      peer_enter(peer, PEER_DEAD);
  }
  for (uint32_t i = 0; i < control->listener_count; i++)
    watch_close(control, &control->listeners[i]);
  unix_pending_unlisten(control);
  control_bury(control);
  while (control->peers && control->now_ns < until_ns) {
    control_round_once(control, until_ns);
    mailbox_drain(&control->commands); /* control_close() may wake it only now */
    control_tick(control);
  }
}

static void *control_run(void *argument)
{
  struct control *control = argument;
  bool is_stopping;

  pthread_setname_np(pthread_self(), "pst-control");
  do {
    control_round_once(control, control->next_ns);
    mailbox_drain(&control->commands);
    is_stopping = atomic_load(&control->is_stopping); /* what was said before still goes out */
    control_commands_take(control, true);
    if (!is_stopping)
      control_tick(control);
  } while (!is_stopping);
  control_say_goodbye(control);
  return NULL;
}

/* ---- Open --------------------------------------------------------------------------- */

static int control_make_pair(int type, int fds[2])
{
  return socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ? -errno : 0;
}

/* Both ends here: a peer each, over socketpairs. */
static int control_join_ends(struct control *control, struct pst_error *error)
{
  int main_fds[2];
  int unix_fds[2];
  int rc = control_make_pair(SOCK_STREAM, main_fds);

  if (rc == 0 && (rc = control_make_pair(SOCK_SEQPACKET, unix_fds)) < 0) {
    close(main_fds[0]);
    close(main_fds[1]);
  }
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "control: no socketpair: %s; raise `ulimit -n`",
                    strerror(-rc));
  for (int i = 0; i < 2; i++) {
    struct connection *peer = connection_new(control, main_fds[i], PEER_HELLO, i == 0);
    if (!peer) {
      close(unix_fds[i]);
      for (int k = i + 1; k < 2; k++) {
        close(main_fds[k]);
        close(unix_fds[k]);
      }
      return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
    }
    peer->in_process = true;
    peer->fd_channel.fd = unix_fds[i];
    peer->fd_channel_state = FD_CHANNEL_OPEN;
    snprintf(peer->text, sizeof(peer->text), "the %s in this process", i ? "sender" : "receiver");
    watch_set(control, &peer->fd_channel, EPOLLIN);
    if (peer->is_connector)
      control->streams->link = peer;
    else
      handshake_open(peer);
    connection_watch(peer);
  }
  return 0;
}

/* Added to a time it must not wrap: longer than a machine runs is never. */
static uint64_t control_bounded(uint64_t ns)
{
  return ns > FOR_EVER_NS ? 0 : ns;
}

static void control_free(struct control *control)
{
  control_commands_take(control, false);
  for (struct connection *peer = control->peers; peer; peer = peer->next)
    peer_enter(peer, PEER_DEAD);
  control_bury(control);
  unix_pending_close(control);
  for (uint32_t i = 0; i < control->listener_count; i++)
    watch_close(control, &control->listeners[i]);
  unix_pending_unlisten(control);
  tls_context_close(control->tls);
  listener_use_spare(control);
  streams_free(control->streams);
  node_control_free(control->node);
  free(control->listen_text);
  if (control->epoll_fd >= 0)
    close(control->epoll_fd);
  mailbox_close(&control->commands);
  free(control);
}

int control_new(const struct control_params *params, const struct control_protocol *protocol,
                struct control **result, struct pst_error *error)
{
  struct control *control = calloc(1, sizeof(*control));

  if (!control)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
  control->protocol = protocol;
  control->words = &address_stream_words;
  control->limits = params->limits ? *params->limits : control_default_limits;
  control->in_process = params->in_process;
  control->connect_timeout_ns = control_bounded(params->connect_timeout_ns);
  control->heartbeat_ns = control_bounded(params->heartbeat_ns);
  if (control->heartbeat_ns == 0)
    control->heartbeat_ns = HEARTBEAT_DEFAULT_NS;
  control->peer_timeout_ns = control_bounded(params->peer_timeout_ns);
  /* One late beat is not a death. */
  if (control->peer_timeout_ns && control->heartbeat_ns > control->peer_timeout_ns / 3)
    control->heartbeat_ns = control->peer_timeout_ns / 3 + 1;
  control->now_ns = control->opened_ns = clock_now_ns();
  control->next_ns = control->opened_ns;
  control->unix_listener_watch = (struct watch){WATCH_UNIX_LISTENER, -1, UINT32_MAX, control};
  control->unix_listener = (struct unix_listener){.fd = -1, .folder_fd = -1};
  control->spare_fd = -1;
  for (uint32_t i = 0; i < UNIX_PENDING_MAX; i++)
    control->pending[i].watch.fd = -1;
  control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  int rc = mailbox_open(&control->commands);
  control->wake = (struct watch){WATCH_WAKE, control->commands.wake_fd, UINT32_MAX, control};
  if (gethostname(control->host, sizeof(control->host)) < 0)
    control->host[0] = '\0';
  control->host[sizeof(control->host) - 1] = '\0';
  if (control->epoll_fd < 0 || rc < 0)
    rc = pst_fail(error, PST_EXIT_FAILED, -EMFILE,
                  "control: no descriptors left for epoll: raise `ulimit -n`");
  else if ((rc = watch_set(control, &control->wake, EPOLLIN)) < 0)
    pst_fail(error, PST_EXIT_FAILED, rc, "control: epoll: %s", strerror(-rc));
  else if (params->tls && params->insecure)
    rc = pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                  "tls: `insecure` accepts peers without credentials, and `tls` does not; remove "
                  "one");
  else if (params->tls && !params->in_process)
    rc = tls_context_open(params->tls, &control->tls, error);
  if (rc < 0)
    control_free(control);
  else
    *result = control;
  return rc;
}

/* Signals are the application's: none runs a handler on this thread. */
static int control_start_thread(struct control *control)
{
  sigset_t all, before;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int rc = -pthread_create(&control->thread, NULL, control_run, control);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

int control_start(struct control *control, int rc, struct control **result, struct pst_error *error)
{
  struct control *before = *result;

  if (rc == 0) {
    /* Before the thread runs: its callbacks may want it at once. */
    *result = control;
    rc = control_start_thread(control);
    if (rc == 0)
      return 0;
    *result = before;
    pst_fail(error, PST_EXIT_FAILED, rc, "control: no thread: %s", strerror(-rc));
  }
  control_free(control);
  return rc;
}

int control_open(const struct control_params *params, const struct control_callbacks *callbacks,
                 const struct control_stream *streams, uint32_t stream_count,
                 struct control **result, struct pst_error *error)
{
  struct control *control;
  int rc = control_new(params, &stream_protocol, &control, error);

  if (rc < 0)
    return rc;
  rc = streams_copy(control, streams, stream_count, callbacks, error);
  if (rc == 0)
    rc = control->in_process ? control_join_ends(control, error)
                             : streams_open(control, params, error);
  return control_start(control, rc, result, error);
}

uint16_t control_port(const struct control *control)
{
  return control->listener_count > 0 ? socket_port(control->listeners[0].fd) : 0;
}

/* ---- From any thread ------------------------------------------------------------------ */

void control_close(struct control *control)
{
  if (!control)
    return;
  atomic_store(&control->is_stopping, true);
  mailbox_wake(&control->commands);
  pthread_join(control->thread, NULL);
  control_free(control);
}

static int control_submit(struct control *control, void *context, enum wire_type type,
                          const struct control_totals *totals, const struct pst_blob *address,
                          int code, const char *text)
{
  struct stream *stream = streams_of_context(control, context);
  struct command command = {.say = {.type = type, .code = code, .text = text, .blob = address},
                            .stream = stream,
                            .has_totals = totals};

  if (!stream)
    return -ENOENT;
  if (type == WIRE_FINISH && stream->role->finish_from == STREAM_STATES)
    return -EINVAL;
  if (totals)
    command.totals = *totals;
  return commands_say(control, &command);
}

int control_readdress(struct control *control, void *stream, const struct pst_blob *address)
{
  return control_submit(control, stream, WIRE_ADDRESS, NULL, address, 0, NULL);
}

int control_beat(struct control *control, void *stream, const struct control_totals *totals)
{
  return control_submit(control, stream, WIRE_BEAT, totals, NULL, 0, NULL);
}

int control_finish(struct control *control, void *stream, const struct control_totals *totals)
{
  return control_submit(control, stream, WIRE_FINISH, totals, NULL, 0, NULL);
}

int control_counts(struct control *control, void *stream, const struct control_totals *totals)
{
  return control_submit(control, stream, WIRE_COUNTS, totals, NULL, 0, NULL);
}

int control_fail(struct control *control, void *stream, int code, const char *text,
                 const struct control_totals *totals)
{
  return control_submit(control, stream, WIRE_FAIL, totals, NULL, code < 0 ? code : -EPROTO, text);
}
