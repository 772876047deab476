/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: its life, what goes out, and its end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "messages.h"
#include "protocol.h"
#include "util/limit_remedy.h"
#include "util/log.h"

struct connection *connection_new(struct control *control, int fd, enum peer_state state,
                                  bool is_connector)
{
  struct connection *peer = calloc(1, sizeof(*peer));

  if (!peer) {
    close(fd);
    return NULL;
  }
  peer->control = control;
  peer->is_connector = is_connector;
  peer->state = state;
  peer->main = (struct watch){WATCH_PEER, fd, UINT32_MAX, peer};
  peer->fd_channel = (struct watch){WATCH_FD_CHANNEL, -1, UINT32_MAX, peer};
  peer->answer_by_ns = control->now_ns + control->limits.answer_ns;
  peer->born_ns = peer->heard_ns = peer->sent_ns = peer->taken_ns = control->now_ns;
  peer->next = control->peers;
  control->peers = peer;
  control->peer_count++;
  return peer;
}

struct connection *connection_connect(struct control *control, const struct socket_address *target,
                                      const char *host_port, bool insecure, int *code)
{
  int fd = socket_connect(target);
  struct connection *peer = fd < 0 ? NULL : connection_new(control, fd, PEER_CONNECTING, true);

  if (!peer) {
    *code = fd < 0 ? fd : -ENOMEM;
    return NULL;
  }
  peer->is_insecure = insecure;
  peer->must_show = !insecure && !control->tls;
  peer->tls_host = control->tls ? strdup(host_port) : NULL;
  socket_text(target, peer->place);
  snprintf(peer->text, sizeof(peer->text), "what answers at %s", peer->place);
  connection_watch(peer);
  return peer;
}

void connection_free_input(struct connection *peer)
{
  if (peer->in_capacity > PEER_INPUT_KEPT_BYTES)
    munmap(peer->in, peer->in_capacity);
  else
    free(peer->in);
  peer->in = NULL;
  peer->in_capacity = 0;
}

/* The caller has taken it from the list. */
void connection_free(struct connection *peer)
{
  assert(peer->state == PEER_DEAD);
  peer->control->protocol->forget(peer);
  fd_channel_close(peer);
  if (peer->is_silent) {
    const struct linger reset = {.l_onoff = 1};
    setsockopt(peer->main.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  watch_close(peer->control, &peer->main);
  connection_free_input(peer);
  tls_session_free(peer->tls);
  free(peer->tls_host);
  free(peer->out);
  peer->control->peer_count--;
  free(peer);
}

bool connection_is_reading(const struct connection *peer)
{
  return peer->state == PEER_CLOSING ||
         (!peer->awaits_fds && peer->out_length < PEER_BACKLOG_BYTES);
}

void connection_watch(struct connection *peer)
{
  uint32_t events = 0;

  if (peer->state == PEER_DEAD)
    return;
  if (peer->state == PEER_CONNECTING)
    events = EPOLLOUT;
  else
    events =
        (connection_is_reading(peer) ? (uint32_t)EPOLLIN : 0) | (peer->out_length ? EPOLLOUT : 0);
  if (watch_set(peer->control, &peer->main, events) < 0)
    peer_enter(peer, PEER_DEAD);
}

/* ---- Out ---------------------------------------------------------------------------- */

void connection_flush(struct connection *peer)
{
  while (peer->out_length > 0) {
    ssize_t n = send(peer->main.fd, peer->out + peer->out_at, peer->out_length, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN) {
      peer->out_broken = true;
      peer->out_length = 0;
    }
    if (n < 0)
      break;
    peer->out_at += (size_t)n;
    peer->out_length -= (size_t)n;
    peer->taken_ns = peer->control->now_ns;
  }
  if (peer->out_length == 0) {
    peer->out_at = 0;
    if (peer->state == PEER_CLOSING && !peer->out_shut) {
      /* Not close(): with bytes unread that would be a reset, which overtakes what
       * the other has not read yet. */
      shutdown(peer->main.fd, SHUT_WR);
      peer->out_shut = true;
    }
  }
}

int connection_queue(struct connection *peer, const uint8_t *bytes, size_t length)
{
  if (peer->out_at > 0 && peer->out_at + peer->out_length + length > peer->out_capacity) {
    memmove(peer->out, peer->out + peer->out_at, peer->out_length);
    peer->out_at = 0;
  }
  if (peer->out_length + length > peer->out_capacity) {
    size_t capacity = 2 * (peer->out_length + length);
    uint8_t *larger = realloc(peer->out, capacity);
    if (!larger)
      return -ENOMEM;
    peer->out = larger;
    peer->out_capacity = capacity;
  }
  memcpy(peer->out + peer->out_at + peer->out_length, bytes, length);
  peer->out_length += length;
  return 0;
}

/* Shuts the connection down: queued bytes are lost, and the other end must not wait for them. */
static void connection_break(struct connection *peer)
{
  peer->out_broken = true;
  shutdown(peer->main.fd, SHUT_RDWR);
}

int connection_queue_tls(struct connection *peer)
{
  uint8_t bytes[4096];
  size_t length;
  int rc = 0;

  while (rc == 0 && (length = tls_session_take(peer->tls, bytes, sizeof(bytes))) > 0)
    rc = connection_queue(peer, bytes, length);
  if (rc < 0)
    connection_break(peer); /* without a record, nothing behind it can be decrypted */
  return rc;
}

static int connection_queue_frame(struct connection *peer, const uint8_t *frame, size_t length)
{
  if (!peer->tls)
    return connection_queue(peer, frame, length);
  int rc = tls_session_write(peer->tls, frame, length);
  return rc < 0 ? rc : connection_queue_tls(peer);
}

void connection_send(struct connection *peer, const struct wire_message *message)
{
  struct control *control = peer->control;
  size_t length;

  if (peer->state == PEER_CONNECTING || peer->state == PEER_DEAD || peer->out_broken)
    return;
  if (peer->state == PEER_SECURING && peer->tls)
    return;
  if (peer->out_length == 0)
    peer->taken_ns = control->now_ns;
  int rc = wire_encode(message, control->frame, sizeof(control->frame), &length);
  if (rc == 0)
    rc = connection_queue_frame(peer, control->frame, length);
  if (rc == -EPIPE) /* why, was said when TLS failed */
    return;
  if (rc < 0) {
    pst_log(PST_LOG_ERROR,
            "control: cannot encode a %s message for %s: %s; the connection is closed",
            wire_type_name(message->type), peer->text, strerror(-rc));
    connection_break(peer);
    return;
  }
  peer->sent_ns = control->now_ns;
  connection_flush(peer);
  connection_watch(peer);
}

/* ---- Ends --------------------------------------------------------------------------- */

void connection_send_bye(struct connection *peer, int code, const char *text)
{
  connection_send(peer, message_new_text(peer->control, WIRE_BYE, code, text));
}

void connection_close(struct connection *peer, int code, const char *text)
{
  if (peer->state == PEER_CLOSING || peer->state == PEER_DEAD)
    return;
  if (peer->state == PEER_CONNECTING) {
    peer_enter(peer, PEER_DEAD);
    return;
  }
  connection_send_bye(peer, code, text);
  if (peer->state == PEER_DEAD)
    return;
  peer_enter(peer, PEER_CLOSING);
  peer->answer_by_ns = peer->control->now_ns + peer->control->limits.drain_ns;
  peer->awaits_fds = false;
  if (peer->tls) {
    tls_session_finish(peer->tls);
    connection_queue_tls(peer);
  }
  connection_flush(peer);
  connection_watch(peer);
}

/* `text` is for this end: an error that names its streams, else a line of that level; -1: none.
 * `said` is for the other. */
static void connection_end_with(struct connection *peer, int code, int level, const char *text,
                                const char *said)
{
  const struct control_protocol *protocol = peer->control->protocol;
  char names[512];

  if (protocol->has(peer, false) && protocol->names) {
    protocol->names(peer, names, sizeof(names));
    pst_log(PST_LOG_ERROR, "control: dropped: %s%s%s", text, names[0] ? "; streams: " : "", names);
  } else if (level >= 0) {
    control_complain(peer->control, level, "control: dropped: %s", text);
  }
  connection_close(peer, code, said);
  protocol->fail_peer(peer, code, text);
}

void connection_drop(struct connection *peer, int code, const char *format, ...)
{
  char why[WIRE_TEXT_MAX + 1];
  char text[REPORT_MAX];
  char said[WIRE_TEXT_MAX + 1];
  va_list args;

  if (peer->state == PEER_CLOSING || peer->state == PEER_DEAD)
    return;
  va_start(args, format);
  vsnprintf(why, sizeof(why), format, args);
  va_end(args);
  snprintf(text, sizeof(text), "%s %s", peer->text, why);
  snprintf(said, sizeof(said), "your end %.*s", (int)(sizeof(said) - sizeof "your end "), why);
  connection_end_with(peer, code, PST_LOG_WARN, text, said);
}

void connection_fail(struct connection *peer, int code, const char *what)
{
  char text[REPORT_MAX];
  char said[WIRE_TEXT_MAX + 1];

  if (peer->state == PEER_CLOSING || peer->state == PEER_DEAD)
    return;
  snprintf(text, sizeof(text), "%s: this process %s: %s%s", peer->text, what, strerror(-code),
           limit_remedy(code));
  snprintf(said, sizeof(said), "its process %s: %s%s", what, strerror(-code),
           code == -EMFILE ? "; raise its `ulimit -n`" : limit_remedy(code));
  /* A connector's application learns it from the protocol, without a log line. */
  connection_end_with(peer, code, peer->is_connector ? -1 : PST_LOG_ERROR, text, said);
}

void connection_gone(struct connection *peer, int code, const char *why)
{
  struct control *control = peer->control;
  char text[REPORT_MAX];
  char names[512];

  if (peer->state == PEER_DEAD)
    return;
  bool closing = peer->state == PEER_CLOSING;
  bool greeted = peer->state == PEER_UP;
  peer_enter(peer, PEER_DEAD);
  if (closing)
    return;
  if (greeted)
    snprintf(text, sizeof(text), "lost the %s (%s): %s",
             peer->is_connector ? control->protocol->acceptor_name
                                : control->protocol->connector_name,
             peer->text, why);
  else
    snprintf(text, sizeof(text), "%s: %s", peer->text, why);
  if (peer->is_connector && !peer->in_process && !control->protocol->has(peer, true)) {
    control->protocol->retry(peer, code, why);
    return;
  }
  if (control->protocol->has(peer, false)) {
    if (control->protocol->names) {
      control->protocol->names(peer, names, sizeof(names));
      pst_log(PST_LOG_ERROR, "%s. Streams: %s", text, names);
    } else {
      control_complain(control, PST_LOG_WARN, "control: %s", text);
    }
    control->protocol->fail_peer(peer, code, text);
  } else if (!greeted) {
    control_complain(control, PST_LOG_WARN, "control: dropped: %s", text);
  } else {
    pst_log(PST_LOG_DEBUG, "control: %s; none of its streams was still open here", text);
  }
}
