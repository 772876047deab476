/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a connection: bytes that come, and deadlines that pass. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "connection.h"
#include "messages.h"
#include "protocol.h"
#include "util/log.h"

#define IN_FIRST_BYTES 1024
/* Larger ones are mapped, so that they are the kernel's again once they are freed. */
#define IN_LARGE_BYTES (WIRE_FRAME_MAX + IN_FIRST_BYTES)
#define READS_A_ROUND 16

static size_t connection_frame_length(const uint8_t *at, size_t left)
{
  if (left < WIRE_HEADER_BYTES)
    return 0;
  return WIRE_HEADER_BYTES +
         ((size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | (size_t)at[3]);
}

/* From one that came, and has not come up. */
static void connection_early_bye(struct connection *peer, const struct wire_message *bye)
{
  control_complain(peer->control, PST_LOG_WARN,
                   "control: dropped: %s disconnected before it had identified itself%s%s",
                   peer->text, bye->text[0] ? ": " : "", bye->text);
  connection_close(peer, 0, NULL);
}

/* One frame. False: not complete, or waiting for descriptors. */
static bool connection_process_one(struct connection *peer, const uint8_t *at, size_t left,
                                   size_t *used)
{
  struct control *control = peer->control;
  struct wire_message *message = &control->got;
  struct unix_fds fds = {0};
  char why[WIRE_WHY_MAX];

  *used = connection_frame_length(at, left);
  if (*used == 0)
    return false;
  if (peer->state < PEER_UP && !peer->tls && tls_is_record(at, left)) {
    connection_drop(peer, -EACCES,
                    "speaks TLS, and this end does not: write the same `tls` at both ends, or at "
                    "neither");
    return false;
  }
  /* A peer that has not finished the handshake may send small frames only. */
  const uint32_t most = peer->state < PEER_UP ? WIRE_HELLO_MAX : WIRE_BODY_MAX;
  if (*used > WIRE_HEADER_BYTES + most) {
    connection_drop(peer, -EPROTO,
                    "sent a frame of %zu bytes%s, more than the limit of %u; does it speak "
                    "Penstock's control protocol?",
                    *used - WIRE_HEADER_BYTES, peer->state < PEER_UP ? " before its HELLO" : "",
                    most);
    return false;
  }
  if (*used > left)
    return false;
  if (wire_decode(at + WIRE_HEADER_BYTES, *used - WIRE_HEADER_BYTES, message, why) < 0) {
    connection_drop(peer, -EPROTO, "sent a frame that is not Penstock's: %s", why);
    return false;
  }
  int rc = fd_channel_take(peer, message, &fds);
  if (rc == -EAGAIN) {
    if (!peer->awaits_fds)
      peer->fds_by_ns = control->now_ns + control->limits.answer_ns;
    peer->awaits_fds = true;
    return false;
  }
  peer->awaits_fds = false;
  if (rc < 0)
    connection_drop(peer, -EPROTO, "sent descriptors that do not belong to its %s",
                    wire_type_name(message->type));
  else if (message->type == WIRE_HELLO)
    handshake_got_hello(peer, message);
  else if (message->type == WIRE_BYE && peer->state < PEER_UP && !peer->is_connector)
    connection_early_bye(peer, message);
  else if (message->type != WIRE_BYE && peer->state != PEER_UP)
    connection_drop(peer, -EPROTO, "sent a %s before its HELLO", wire_type_name(message->type));
  else
    message_got(peer, message, &fds);
  unix_close_fds(&fds);
  return true;
}

static void connection_process(struct connection *peer)
{
  struct control *control = peer->control;
  size_t at = 0;
  size_t used = 0;

  while (peer->state < PEER_CLOSING && peer->out_length < PEER_BACKLOG_BYTES &&
         connection_process_one(peer, peer->in + at, peer->in_length - at, &used)) {
    at += used;
    peer->frame_by_ns = 0;
  }
  if (peer->state >= PEER_CLOSING) {
    peer->in_length = 0;
  } else if (at > 0) {
    memmove(peer->in, peer->in + at, peer->in_length - at);
    peer->in_length -= at;
  }
  if (peer->in_length == 0 && peer->in_capacity > PEER_INPUT_KEPT_BYTES)
    connection_free_input(peer);
  if (peer->in_length == 0)
    peer->frame_by_ns = 0;
  else if (peer->frame_by_ns == 0)
    peer->frame_by_ns = control->now_ns + control->limits.answer_ns;
  connection_watch(peer);
}

static uint8_t *connection_map_large(void)
{
  void *at = mmap(NULL, IN_LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  return at == MAP_FAILED ? NULL : at;
}

/* The frame that has begun fits, its length being no more than connection_process_one() allows. */
static int connection_make_room(struct connection *peer)
{
  size_t need = connection_frame_length(peer->in, peer->in_length);

  if (need < IN_FIRST_BYTES)
    need = IN_FIRST_BYTES;
  if (need <= peer->in_capacity && peer->in_length < peer->in_capacity)
    return 0;
  bool is_large = need > PEER_INPUT_KEPT_BYTES;
  if (is_large)
    need = IN_LARGE_BYTES;
  uint8_t *larger = is_large ? connection_map_large() : malloc(need);
  if (!larger)
    return -ENOMEM;
  if (peer->in_length > 0)
    memcpy(larger, peer->in, peer->in_length);
  connection_free_input(peer);
  peer->in = larger;
  peer->in_capacity = need;
  return 0;
}

static const char gone_text[] =
    "the connection closed unexpectedly; it was killed or crashed. Check its log";

void connection_read_lost(struct connection *peer, int code)
{
  char why[WIRE_WHY_MAX];

  if (code == 0 || code == -ECONNRESET || code == -EPIPE) {
    connection_gone(peer, -ECONNRESET,
                    peer->state < PEER_UP ? "it closed the connection during the handshake"
                                          : gone_text);
    return;
  }
  snprintf(why, sizeof(why), "the connection failed: %s. Check the network and its log",
           strerror(-code));
  connection_gone(peer, code == -ETIMEDOUT ? code : -ECONNRESET, why);
}

/* Until nothing is there, or READS_A_ROUND; the next round goes on with what TLS holds back. */
static void connection_read_more(struct connection *peer)
{
  struct control *control = peer->control;
  char why[TLS_WHY_MAX];

  peer->has_unread = peer->tls;
  for (int i = 0; i < READS_A_ROUND && peer->state < PEER_CLOSING && connection_is_reading(peer);
       i++) {
    if (connection_make_room(peer) < 0) {
      connection_drop(peer, -ENOMEM, "needs more memory than there is");
      return;
    }
    ssize_t n = connection_receive(peer, peer->in + peer->in_length,
                                   peer->in_capacity - peer->in_length, why);
    if (n == -EAGAIN || n == -EINTR) {
      peer->has_unread = false;
      return;
    }
    if (n == -EACCES && peer->tls) {
      connection_drop(peer, -EACCES, "%s", why);
      return;
    }
    if (n <= 0) {
      connection_read_lost(peer, (int)n);
      return;
    }
    peer->in_length += (size_t)n;
    peer->heard_ns = control->now_ns;
    connection_process(peer);
  }
}

static void connection_read_away(struct connection *peer)
{
  uint8_t nowhere[4096];

  for (int i = 0; i < READS_A_ROUND; i++) {
    ssize_t n = recv(peer->main.fd, nowhere, sizeof(nowhere), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0) {
      peer_enter(peer, PEER_DEAD);
      return;
    }
  }
}

static void connection_connected(struct connection *peer)
{
  int rc = socket_error(peer->main.fd);

  if (rc < 0) {
    char why[WIRE_WHY_MAX];
    snprintf(why, sizeof(why), "%s", strerror(-rc));
    connection_gone(peer, rc, why);
    return;
  }
  if (!peer->control->tls)
    peer_enter(peer, PEER_HELLO);
  else if (connection_begin_tls(peer))
    connection_secure(peer);
  connection_watch(peer);
}

void connection_event(struct connection *peer, uint32_t events)
{
  if (peer->state == PEER_DEAD)
    return;
  if (peer->state == PEER_CONNECTING) {
    connection_connected(peer);
    return;
  }
  if (events & EPOLLOUT)
    connection_flush(peer);
  if (events & (EPOLLHUP | EPOLLERR)) {
    /* Nothing more is taken; what had been sent to us before is read below. */
    peer->out_broken = true;
    peer->out_length = 0;
    if (peer->awaits_fds)
      fd_channel_close(peer);
  }
  if (peer->state == PEER_SECURING)
    connection_secure(peer);
  if (peer->state < PEER_CLOSING && peer->in_length > 0)
    connection_process(peer);
  if (peer->state == PEER_SECURING)
    connection_flush(peer);
  else if (peer->state == PEER_CLOSING)
    connection_read_away(peer);
  else
    connection_read_more(peer);
  connection_watch(peer);
}

void connection_unix_event(struct connection *peer, uint32_t events)
{
  int rc = 0;

  if (peer->state == PEER_DEAD || peer->fd_channel.fd < 0)
    return;
  if (peer->fd_channel_state == FD_CHANNEL_CLAIMING) {
    if (fd_channel_got_answer(peer, &rc))
      handshake_side(peer, rc);
    return;
  }
  if (fd_channel_event(peer, events) && peer->awaits_fds)
    connection_process(peer);
}

/* ---- Time -------------------------------------------------------------------------------- */

static void connection_check_silence(struct connection *peer)
{
  struct control *control = peer->control;
  uint64_t limit = control->peer_timeout_ns;
  char why[WIRE_WHY_MAX];
  char said[WIRE_WHY_MAX];
  char seconds[24];

  if (limit == 0 || peer->state != PEER_UP)
    return;
  bool silent = control_is_due(control, peer->heard_ns + limit);
  bool stuck = peer->out_length > 0 && control_is_due(control, peer->taken_ns + limit);
  if (!silent && !stuck)
    return;
  seconds_text(limit, seconds);
  snprintf(why, sizeof(why),
           "it %s nothing for %s; it was stopped or killed, or the network failed. Check its log",
           silent ? "said" : "read", seconds);
  /* One that was stopped and goes on later learns that it was not its peer that crashed. */
  snprintf(said, sizeof(said), "your end %s nothing for %s; was its process stopped?",
           silent ? "said" : "read", seconds);
  connection_send_bye(peer, -ETIMEDOUT, said);
  peer->is_silent = true;
  connection_gone(peer, -ETIMEDOUT, why);
}

/* Drops a peer whose time for the handshake, or for closing, is over. */
static void connection_check_state(struct connection *peer, const char *seconds)
{
  if (peer->state >= PEER_UP && peer->state != PEER_CLOSING)
    return;
  if (peer->state == PEER_SECURING && connection_check_tls(peer))
    return;
  if (!control_is_due(peer->control, peer->answer_by_ns))
    return;
  if (peer->state == PEER_CLOSING)
    peer_enter(peer, PEER_DEAD);
  else if (peer->state == PEER_CONNECTING)
    connection_gone(peer, -ETIMEDOUT, "no answer to the connection");
  else if (handshake_has_no_reason(peer))
    return;
  else if (peer->is_connector)
    connection_gone(peer, -ETIMEDOUT, "it accepted the connection and did not answer");
  else
    connection_drop(peer, -ETIMEDOUT, "sent no HELLO within %s", seconds);
}

static void connection_check_frame(struct connection *peer, const char *seconds)
{
  if (peer->awaits_fds) {
    if (!control_is_due(peer->control, peer->fds_by_ns))
      return;
    pst_log(PST_LOG_WARN, "control: descriptors of %s did not come within %s; going on without",
            peer->text, seconds);
    fd_channel_close(peer);
    connection_process(peer);
  } else if (peer->state < PEER_CLOSING && peer->frame_by_ns != 0 &&
             peer->out_length < PEER_BACKLOG_BYTES &&
             control_is_due(peer->control, peer->frame_by_ns)) {
    connection_drop(peer, -ETIMEDOUT, "began a frame and did not end it within %s", seconds);
  }
}

static void connection_check_idleness(struct connection *peer)
{
  struct control *control = peer->control;

  if (peer->state != PEER_UP || peer->is_connector)
    return;
  if (control->protocol->has(peer, false))
    peer->idle_since_ns = 0;
  else if (peer->idle_since_ns == 0)
    peer->idle_since_ns = control->now_ns;
  if (peer->idle_since_ns == 0 ||
      !control_is_due(control, peer->idle_since_ns + control->limits.idle_ns))
    return;
  if (peer->had_stream)
    connection_close(peer, 0, NULL);
  else
    connection_drop(peer, -ETIMEDOUT, "%s", control->protocol->idle);
}

static void connection_beat(struct connection *peer)
{
  struct control *control = peer->control;

  if (peer->state != PEER_UP || !control_is_due(control, peer->sent_ns + control->heartbeat_ns))
    return;
  peer->sent_ns = control->now_ns;
  if (peer->out_length == 0)
    connection_send(peer, message_new(control, WIRE_KEEP));
}

/* Whether TLS has bytes to be read, of which epoll does not know. */
static bool connection_holds_back(const struct connection *peer)
{
  return peer->has_unread && peer->state < PEER_CLOSING && connection_is_reading(peer);
}

void connection_tick(struct connection *peer)
{
  char seconds[24];

  seconds_text(peer->control->limits.answer_ns, seconds);
  if (connection_holds_back(peer)) {
    connection_read_more(peer);
    connection_watch(peer);
  }
  connection_check_state(peer, seconds);
  connection_check_frame(peer, seconds);
  connection_check_idleness(peer);
  connection_check_silence(peer);
  connection_beat(peer);
  if (peer->state == PEER_DEAD || connection_holds_back(peer))
    peer->control->next_ns = peer->control->now_ns;
}
