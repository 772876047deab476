/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

#define IN_FIRST_BYTES 1024
#define IN_KEPT_BYTES 16384
/* Larger ones are mapped, so that they are the kernel's again once they are freed. */
#define IN_LARGE_BYTES (WIRE_FRAME_MAX / 4096 * 4096 + 4096)
/* With so much unread by it, a peer is not listened to: its questions cannot pile
 * up answers here. */
#define OUT_BACKLOG_BYTES (256u * 1024)
#define READS_A_ROUND 16

struct peer *peer_new(struct control *control, int fd, bool is_connector)
{
  struct peer *peer = calloc(1, sizeof *peer);

  if (!peer)
    return NULL;
  peer->control = control;
  peer->is_connector = is_connector;
  peer->state = PEER_HELLO;
  peer->main = (struct watch){WATCH_PEER, fd, UINT32_MAX, peer};
  peer->side = (struct watch){WATCH_PEER_SIDE, -1, UINT32_MAX, peer};
  peer->answer_by_ns = control->now_ns + control->limits.answer_ns;
  peer->born_ns = peer->heard_ns = peer->sent_ns = peer->taken_ns = control->now_ns;
  peer->next = control->peers;
  control->peers = peer;
  control->peer_count++;
  return peer;
}

static void free_in(struct peer *peer)
{
  if (peer->in_capacity > IN_KEPT_BYTES)
    munmap(peer->in, peer->in_capacity);
  else
    free(peer->in);
  peer->in = NULL;
  peer->in_capacity = 0;
}

/* The caller has taken it from the list. */
void peer_free(struct peer *peer)
{
  if (peer->control->link == peer)
    peer->control->link = NULL;
  if (peer->control->flow->forget)
    peer->control->flow->forget(peer);
  pass_close(peer);
  if (peer->is_silent) {
    const struct linger reset = {.l_onoff = 1};
    setsockopt(peer->main.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  watch_close(peer->control, &peer->main);
  free_in(peer);
  free(peer->out);
  peer->control->peer_count--;
  free(peer);
}

static bool is_reading(const struct peer *peer)
{
  return peer->state == PEER_CLOSING || (!peer->awaits_fds && peer->out_length < OUT_BACKLOG_BYTES);
}

void peer_watch(struct peer *peer)
{
  uint32_t events = 0;

  if (peer->state == PEER_DEAD)
    return;
  if (peer->state == PEER_CONNECTING)
    events = EPOLLOUT;
  else
    events = (is_reading(peer) ? (uint32_t)EPOLLIN : 0) | (peer->out_length ? EPOLLOUT : 0);
  if (watch_set(peer->control, &peer->main, events) < 0)
    peer->state = PEER_DEAD;
}

/* ---- Out ---------------------------------------------------------------------------- */

static void flush(struct peer *peer)
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

static int queue(struct peer *peer, const uint8_t *bytes, size_t length)
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

void peer_send(struct peer *peer, const struct wire_message *message)
{
  struct control *control = peer->control;
  size_t length;

  if (peer->state == PEER_CONNECTING || peer->state == PEER_DEAD || peer->out_broken)
    return;
  if (peer->out_length == 0)
    peer->taken_ns = control->now_ns;
  int rc = wire_encode(message, control->frame, sizeof control->frame, &length);
  if (rc == 0)
    rc = queue(peer, control->frame, length);
  if (rc < 0) {
    /* The stream cannot go on without it, and the other end must not wait. */
    pst_log(PST_LOG_ERROR, "control: a %s for %s could not be made: %s",
            wire_type_name(message->type), peer->text, strerror(-rc));
    peer->out_broken = true;
    shutdown(peer->main.fd, SHUT_RDWR);
    return;
  }
  peer->sent_ns = control->now_ns;
  flush(peer);
  peer_watch(peer);
}

/* ---- Ends --------------------------------------------------------------------------- */

static void send_bye(struct peer *peer, int code, const char *text)
{
  struct wire_message *bye = &peer->control->say;

  memset(bye, 0, sizeof *bye);
  bye->type = WIRE_BYE;
  bye->code = code;
  if (text)
    snprintf(bye->text, sizeof bye->text, "%s", text);
  peer_send(peer, bye);
}

void peer_close(struct peer *peer, int code, const char *text)
{
  if (peer->state == PEER_CLOSING || peer->state == PEER_DEAD)
    return;
  if (peer->state == PEER_CONNECTING) {
    peer->state = PEER_DEAD;
    return;
  }
  send_bye(peer, code, text);
  if (peer->state == PEER_DEAD)
    return;
  peer->state = PEER_CLOSING;
  peer->answer_by_ns = peer->control->now_ns + peer->control->limits.drain_ns;
  peer->awaits_fds = false;
  flush(peer);
  peer_watch(peer);
}

/* `text` is for this end, `said` for the other. */
static void end_with(struct peer *peer, int code, const char *text, const char *said)
{
  peer_close(peer, code, said);
  peer->control->flow->fail_peer(peer, code, text);
}

/* Its streams' owners are told by an error. */
static bool log_end(const struct peer *peer, const char *text)
{
  const struct control_flow *flow = peer->control->flow;
  char names[512];

  if (!flow->has(peer, false) || flow->is_quiet)
    return false;
  flow->names(peer->control, peer, names, sizeof names);
  pst_log(PST_LOG_ERROR, "control: dropped: %s%s%s", text, names[0] ? "; streams: " : "", names);
  return true;
}

void peer_drop(struct peer *peer, int code, const char *format, ...)
{
  char why[WIRE_TEXT_MAX + 1];
  char text[REPORT_MAX];
  char said[WIRE_TEXT_MAX + 1];
  va_list args;

  if (peer->state == PEER_CLOSING || peer->state == PEER_DEAD)
    return;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  snprintf(text, sizeof text, "%s %s", peer->text, why);
  snprintf(said, sizeof said, "your end %.*s", (int)(sizeof said - sizeof "your end "), why);
  if (!log_end(peer, text))
    control_complain(peer->control, "control: dropped: %s", text);
  end_with(peer, code, text, said);
}

void peer_fail(struct peer *peer, int code, const char *what)
{
  char text[REPORT_MAX];
  char said[WIRE_TEXT_MAX + 1];

  if (peer->state == PEER_CLOSING || peer->state == PEER_DEAD)
    return;
  snprintf(text, sizeof text, "%s: this process %s: %s%s", peer->text, what, strerror(-code),
           limit_remedy(code));
  snprintf(said, sizeof said, "its process %s: %s%s", what, strerror(-code),
           code == -EMFILE ? "; raise its `ulimit -n`" : limit_remedy(code));
  /* Whoever connects hears it by the flow. */
  if (!log_end(peer, text) && !peer->is_connector)
    control_own_fault(peer->control, "control: dropped: %s", text);
  end_with(peer, code, text, said);
}

static const char *role_of(const struct peer *peer)
{
  const struct control_flow *flow = peer->control->flow;

  switch (peer->is_connector ? flow->acceptor : flow->connector) {
  case WIRE_SENDER:
    return "sender";
  case WIRE_RECEIVER:
    return "receiver";
  default:
    return "peer";
  }
}

void peer_gone(struct peer *peer, int code, const char *why)
{
  struct control *control = peer->control;
  char text[REPORT_MAX];
  char names[512];

  if (peer->state == PEER_DEAD)
    return;
  bool closing = peer->state == PEER_CLOSING;
  bool greeted = peer->state == PEER_UP;
  peer->state = PEER_DEAD;
  if (closing)
    return;
  if (greeted)
    snprintf(text, sizeof text, "lost the %s (%s): %s", role_of(peer), peer->text, why);
  else
    snprintf(text, sizeof text, "%s: %s", peer->text, why);
  if (peer->is_connector && !peer->in_process && !control->flow->has(peer, true)) {
    control->flow->retry(peer, code, why);
    return;
  }
  if (control->flow->has(peer, false)) {
    control->flow->names(control, peer, names, sizeof names);
    if (control->flow->is_quiet)
      control_complain(control, "control: %s", text);
    else
      pst_log(PST_LOG_ERROR, "%s. Streams: %s", text, names);
    control->flow->fail_peer(peer, code, text);
  } else if (!greeted) {
    control_complain(control, "control: dropped: %s", text);
  } else {
    pst_log(PST_LOG_DEBUG, "control: %s; it had nothing left here", text);
  }
}

/* ---- In ------------------------------------------------------------------------------- */

static size_t frame_length(const uint8_t *at, size_t left)
{
  if (left < WIRE_HEADER_BYTES)
    return 0;
  return WIRE_HEADER_BYTES +
         ((size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | (size_t)at[3]);
}

/* From one that has not come up. */
static void early_bye(struct peer *peer, const struct wire_message *bye)
{
  if (peer->is_connector) {
    peer->control->flow->got(peer, bye, NULL);
    return;
  }
  control_complain(peer->control, "control: dropped: %s left before it had shown who it is%s%s",
                   peer->text, bye->text[0] ? ": " : "", bye->text);
  peer_close(peer, 0, NULL);
}

/* One frame. False: not complete, or waiting for descriptors. */
static bool process_one(struct peer *peer, const uint8_t *at, size_t left, size_t *used)
{
  struct control *control = peer->control;
  struct wire_message *message = &control->got;
  struct side_fds fds = {0};
  char why[WIRE_WHY_MAX];

  *used = frame_length(at, left);
  if (*used == 0)
    return false;
  /* Of strangers nothing large is kept. */
  const uint32_t most = peer->state < PEER_UP ? WIRE_HELLO_MAX : WIRE_BODY_MAX;
  if (*used > WIRE_HEADER_BYTES + most) {
    peer_drop(peer, -EPROTO,
              "sent a frame of %zu bytes%s, more than the limit of %u; does it speak "
              "Penstock's control protocol?",
              *used - WIRE_HEADER_BYTES, peer->state < PEER_UP ? " before its HELLO" : "", most);
    return false;
  }
  if (*used > left)
    return false;
  if (wire_decode(at + WIRE_HEADER_BYTES, *used - WIRE_HEADER_BYTES, message, why) < 0) {
    peer_drop(peer, -EPROTO, "sent a frame that is not Penstock's: %s", why);
    return false;
  }
  int rc = pass_take(peer, message, &fds);
  if (rc == -EAGAIN) {
    if (!peer->awaits_fds)
      peer->fds_by_ns = control->now_ns + control->limits.answer_ns;
    peer->awaits_fds = true;
    return false;
  }
  peer->awaits_fds = false;
  if (rc < 0)
    peer_drop(peer, -EPROTO, "sent descriptors that do not belong to its %s",
              wire_type_name(message->type));
  else if (message->type == WIRE_HELLO)
    handshake_got_hello(peer, message);
  else if (message->type == WIRE_BYE && peer->state < PEER_UP)
    early_bye(peer, message);
  else if (peer->state != PEER_UP)
    peer_drop(peer, -EPROTO, "sent a %s before its HELLO", wire_type_name(message->type));
  else
    control->flow->got(peer, message, &fds);
  side_close_fds(&fds);
  return true;
}

void peer_process(struct peer *peer)
{
  struct control *control = peer->control;
  size_t at = 0;
  size_t used = 0;

  while (peer->state < PEER_CLOSING && peer->out_length < OUT_BACKLOG_BYTES &&
         process_one(peer, peer->in + at, peer->in_length - at, &used)) {
    at += used;
    peer->frame_by_ns = 0;
  }
  if (peer->state >= PEER_CLOSING) {
    peer->in_length = 0;
  } else if (at > 0) {
    memmove(peer->in, peer->in + at, peer->in_length - at);
    peer->in_length -= at;
  }
  if (peer->in_length == 0 && peer->in_capacity > IN_KEPT_BYTES)
    free_in(peer);
  if (peer->in_length == 0)
    peer->frame_by_ns = 0;
  else if (peer->frame_by_ns == 0)
    peer->frame_by_ns = control->now_ns + control->limits.answer_ns;
  peer_watch(peer);
}

static uint8_t *map_large(void)
{
  void *at = mmap(NULL, IN_LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  return at == MAP_FAILED ? NULL : at;
}

/* The frame that has begun fits, its length being no more than process_one() allows. */
static int make_room(struct peer *peer)
{
  size_t need = frame_length(peer->in, peer->in_length);

  if (need < IN_FIRST_BYTES)
    need = IN_FIRST_BYTES;
  if (need <= peer->in_capacity && peer->in_length < peer->in_capacity)
    return 0;
  bool is_large = need > IN_KEPT_BYTES;
  if (is_large)
    need = IN_LARGE_BYTES;
  uint8_t *larger = is_large ? map_large() : malloc(need);
  if (!larger)
    return -ENOMEM;
  if (peer->in_length > 0)
    memcpy(larger, peer->in, peer->in_length);
  free_in(peer);
  peer->in = larger;
  peer->in_capacity = need;
  return 0;
}

static const char gone_text[] =
    "the connection closed unexpectedly; it was killed or crashed. Check its log";

static void read_lost(struct peer *peer, int code)
{
  char why[WIRE_WHY_MAX];

  if (code == 0 || code == -ECONNRESET || code == -EPIPE) {
    peer_gone(peer, -ECONNRESET,
              peer->state < PEER_UP ? "it closed the connection during the handshake" : gone_text);
    return;
  }
  snprintf(why, sizeof why, "the connection failed: %s. Check the network and its log",
           strerror(-code));
  peer_gone(peer, code == -ETIMEDOUT ? code : -ECONNRESET, why);
}

static void read_more(struct peer *peer)
{
  struct control *control = peer->control;

  for (int i = 0; i < READS_A_ROUND && peer->state < PEER_CLOSING && is_reading(peer); i++) {
    if (make_room(peer) < 0) {
      peer_drop(peer, -ENOMEM, "needs more memory than there is");
      return;
    }
    ssize_t n =
        recv(peer->main.fd, peer->in + peer->in_length, peer->in_capacity - peer->in_length, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0) {
      read_lost(peer, n < 0 ? -errno : 0);
      return;
    }
    peer->in_length += (size_t)n;
    peer->heard_ns = control->now_ns;
    peer_process(peer);
  }
}

static void read_away(struct peer *peer)
{
  uint8_t nowhere[4096];

  for (int i = 0; i < READS_A_ROUND; i++) {
    ssize_t n = recv(peer->main.fd, nowhere, sizeof nowhere, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0) {
      peer->state = PEER_DEAD;
      return;
    }
  }
}

static void connected(struct peer *peer)
{
  int rc = socket_error(peer->main.fd);

  if (rc < 0) {
    char why[WIRE_WHY_MAX];
    snprintf(why, sizeof why, "%s", strerror(-rc));
    peer_gone(peer, rc, why);
    return;
  }
  peer->state = PEER_HELLO;
  peer_watch(peer);
}

void peer_event(struct peer *peer, uint32_t events)
{
  if (peer->state == PEER_DEAD)
    return;
  if (peer->state == PEER_CONNECTING) {
    connected(peer);
    return;
  }
  if (events & EPOLLOUT)
    flush(peer);
  if (events & (EPOLLHUP | EPOLLERR)) {
    /* Nothing more is taken; what had been sent to us before is read below. */
    peer->out_broken = true;
    peer->out_length = 0;
    if (peer->awaits_fds)
      pass_close(peer);
  }
  if (peer->state < PEER_CLOSING && peer->in_length > 0)
    peer_process(peer);
  if (peer->state == PEER_CLOSING)
    read_away(peer);
  else
    read_more(peer);
  peer_watch(peer);
}

/* ---- Time -------------------------------------------------------------------------------- */

static void check_silence(struct peer *peer)
{
  struct control *control = peer->control;
  uint64_t limit = control->peer_timeout_ns;
  char why[WIRE_WHY_MAX];
  char said[WIRE_WHY_MAX];
  char seconds[24];

  if (limit == 0 || peer->state != PEER_UP)
    return;
  bool silent = control->now_ns >= peer->heard_ns + limit;
  bool stuck = peer->out_length > 0 && control->now_ns >= peer->taken_ns + limit;
  if (!silent && !stuck)
    return;
  seconds_text(limit, seconds);
  snprintf(why, sizeof why,
           "it %s nothing for %s; it was stopped or killed, or the network failed. Check its log",
           silent ? "said" : "read", seconds);
  /* One that was stopped and goes on later learns that it was not its peer that crashed. */
  snprintf(said, sizeof said, "your end %s nothing for %s; was its process stopped?",
           silent ? "said" : "read", seconds);
  send_bye(peer, -ETIMEDOUT, said);
  peer->is_silent = true;
  peer_gone(peer, -ETIMEDOUT, why);
}

static void check_answers(struct peer *peer)
{
  struct control *control = peer->control;
  uint64_t now_ns = control->now_ns;
  char seconds[24];

  seconds_text(control->limits.answer_ns, seconds);
  if (peer->state == PEER_CLOSING && now_ns >= peer->answer_by_ns)
    peer->state = PEER_DEAD;
  if (peer->state == PEER_CONNECTING && now_ns >= peer->answer_by_ns)
    peer_gone(peer, -ETIMEDOUT, "no answer to the connection");
  if (peer->state >= PEER_HELLO && peer->state < PEER_UP && now_ns >= peer->answer_by_ns) {
    if (handshake_has_no_reason(peer))
      return;
    if (peer->is_connector)
      peer_gone(peer, -ETIMEDOUT, "it accepted the connection and did not answer");
    else
      peer_drop(peer, -ETIMEDOUT, "sent no HELLO within %s", seconds);
  }
  if (peer->awaits_fds && now_ns >= peer->fds_by_ns) {
    pst_log(PST_LOG_WARN, "control: descriptors of %s did not come within %s; going on without",
            peer->text, seconds);
    pass_close(peer);
    peer_process(peer);
  } else if (peer->state < PEER_CLOSING && !peer->awaits_fds && peer->frame_by_ns != 0 &&
             peer->out_length < OUT_BACKLOG_BYTES && now_ns >= peer->frame_by_ns) {
    peer_drop(peer, -ETIMEDOUT, "began a frame and did not end it within %s", seconds);
  }
  if (peer->state == PEER_UP && peer->idle_since_ns != 0 &&
      now_ns >= peer->idle_since_ns + control->limits.idle_ns) {
    if (peer->had_stream)
      peer_close(peer, 0, NULL);
    else
      peer_drop(peer, -ETIMEDOUT, "%s", control->flow->idle);
  }
}

static void beat(struct peer *peer)
{
  struct control *control = peer->control;
  struct wire_message *keep = &control->say;

  if (peer->state != PEER_UP || control->now_ns < peer->sent_ns + control->heartbeat_ns)
    return;
  peer->sent_ns = control->now_ns;
  if (peer->out_length > 0)
    return;
  memset(keep, 0, sizeof *keep);
  keep->type = WIRE_KEEP;
  peer_send(peer, keep);
}

uint64_t peer_tick(struct peer *peer)
{
  struct control *control = peer->control;
  uint64_t next = UINT64_MAX;

  if (peer->state == PEER_UP && !peer->is_connector) {
    if (control->flow->has(peer, false))
      peer->idle_since_ns = 0;
    else if (peer->idle_since_ns == 0)
      peer->idle_since_ns = control->now_ns;
  }
  check_answers(peer);
  check_silence(peer);
  beat(peer);
  if (peer->state == PEER_DEAD)
    return control->now_ns;
  if (peer->state != PEER_UP)
    next = peer->answer_by_ns;
  if (peer->awaits_fds)
    next = sooner(next, peer->fds_by_ns);
  else if (peer->frame_by_ns != 0 && peer->out_length < OUT_BACKLOG_BYTES)
    next = sooner(next, peer->frame_by_ns);
  if (peer->state == PEER_UP) {
    next = sooner(next, peer->sent_ns + control->heartbeat_ns);
    if (peer->idle_since_ns != 0)
      next = sooner(next, peer->idle_since_ns + control->limits.idle_ns);
    if (control->peer_timeout_ns != 0)
      next = sooner(next, sooner(peer->heard_ns, peer->out_length ? peer->taken_ns : UINT64_MAX) +
                              control->peer_timeout_ns);
  }
  return next;
}
