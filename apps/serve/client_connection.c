/* SPDX-License-Identifier: Apache-2.0 */
/* A client's connection to `serve`: questions and their answers. */
#include "client_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "signals.h"

#define EVENTS 64
#define SPIN_NS 50000 /* an answer often comes within it */
#define SLEEP_MS 200
#define NAP_MS 1 /* where the transport wakes nobody */
#define LEAVE_NS NS_PER_S
#define PINGS_AN_IDLE 3
#define BUSY_SINCE_MINOR 1
/* How long a server that does not answer is waited for after a signal. */
#define STOP_NS (2 * NS_PER_S)
#define PINGS_A_TIMEOUT 3
/* This process itself stood still. */
#define PAUSE_NS NS_PER_S

/* Nothing is known of the program that listens there, except that it did not answer. */
static const char *serve_connection_unmet_remedy(const struct connection *remote, int status,
                                                 const char *text)
{
  if (remote->joined || strstr(text, " says: "))
    return "";
  switch (-status) {
  case ECONNREFUSED:
  case ECONNRESET:
    return "; is a `penstock serve` running there?";
  case ETIMEDOUT:
    return "; check that the server runs, is not stopped (^Z, SIGSTOP) and has a CPU, "
           "or wait longer with --timeout";
  case EHOSTUNREACH:
  case ENETUNREACH:
    return "; check the address, and the route to it";
  default:
    return "";
  }
}

static void serve_connection_fail(struct connection *remote, int status, const char *text)
{
  if (remote->left)
    return;
  remote->left = true;
  remote->status = status < 0 ? status : -ECONNRESET;
  if (status >= 0)
    text = "the server closed the connection";
  const bool is_named = strstr(text, remote->address) != NULL;
  const bool is_offers = !strstr(text, "another peer"); /* or no queue pair, say */
  snprintf(remote->text, sizeof(remote->text), "%s%s%s%s", is_named ? "" : remote->address,
           is_named ? "" : ": ", text,
           status == -EUSERS ? " (the server's --clients)"
           : status == -ENOSPC
               ? (is_offers ? " (the server's --offer-max)" : "; its output says which")
               : serve_connection_unmet_remedy(remote, status, text));
}

/* The server speaks what we do not. */
static void serve_connection_break_off(struct connection *remote, const char *why)
{
  char text[SERVE_TEXT_MAX];

  snprintf(text, sizeof(text), "the server's answer is wrong: %s", why);
  pst_peer_close(remote->peer, -EPROTO, text);
  serve_connection_fail(remote, -EPROTO, text);
}

/* ---- Requests and answers --------------------------------------------------------------- */

/* A place is left for a ping, which goes first. */
static bool serve_connection_has_room(const struct connection *remote,
                                      const struct serve_pending *pending)
{
  const uint32_t left = pending != &remote->ping && remote->limits.window > 1;

  return remote->under_way < remote->limits.window - left;
}

static void serve_connection_send_waiting(struct connection *remote)
{
  while (remote->first && serve_connection_has_room(remote, remote->first) && !remote->left) {
    struct serve_pending *pending = remote->first;
    int rc = pst_peer_send(remote->peer, pending->bytes, pending->length);
    if (rc == -EAGAIN || rc == -ENOTCONN) /* LEFT comes, and says why */
      return;
    if (rc < 0) {
      serve_connection_fail(remote, rc, "cannot send to the server");
      return;
    }
    remote->first = pending->next;
    pending->sent = true;
    remote->under_way++;
    remote->said_ns = app_now_ns();
  }
}

void serve_connection_ask(struct connection *remote, struct serve_pending *pending, uint32_t wanted,
                          const struct serve_message *message, serve_pending_answered *answered)
{
  struct serve_message tagged = *message;
  size_t length = 0;

  while (tagged.tag < REMOTE_PENDING && remote->pending[tagged.tag])
    tagged.tag++;
  if (tagged.tag == REMOTE_PENDING) {
    serve_connection_fail(remote, -ENOBUFS, "too many requests at once");
    return;
  }
  remote->pending[tagged.tag++] = pending;
  if (serve_encode(&tagged, pending->bytes, sizeof(pending->bytes), &length) < 0) {
    serve_connection_fail(remote, -EINVAL, "a request cannot be encoded");
    return;
  }
  pending->length = (uint32_t)length;
  pending->wanted = wanted;
  pending->answered = answered;
  pending->sent = false;
  if (!remote->first)
    remote->last = &remote->first;
  struct serve_pending **at = pending == &remote->ping ? &remote->first : remote->last;
  pending->next = *at;
  *at = pending;
  if (!pending->next)
    remote->last = &pending->next;
  serve_connection_send_waiting(remote);
}

static void serve_connection_take_answer(struct connection *remote,
                                         const struct serve_message *answer)
{
  struct serve_pending *pending =
      answer->tag > 0 && answer->tag <= REMOTE_PENDING ? remote->pending[answer->tag - 1] : NULL;

  if (!pending || !pending->sent) {
    serve_connection_break_off(remote, "it answers a request that this client did not make");
    return;
  }
  if (answer->type != pending->wanted && answer->type != SERVE_REFUSE) {
    serve_connection_break_off(remote, serve_type_name(answer->type));
    return;
  }
  remote->pending[answer->tag - 1] = NULL;
  remote->under_way--;
  pending->answered(pending, answer);
}

static void serve_connection_take_message(struct connection *remote, const void *in_ring,
                                          uint64_t length)
{
  struct serve_message message;
  uint8_t bytes[SERVE_MESSAGE_MAX]; /* a copy: the server can still write to the ring */
  char why[SERVE_WHY_MAX];

  if (length > sizeof(bytes)) {
    serve_connection_break_off(remote, "a message that is too long");
    return;
  }
  memcpy(bytes, in_ring, length);
  if (serve_decode(bytes, length, &message, why) < 0)
    serve_connection_break_off(remote, why);
  else if (message.type == SERVE_WELCOME && remote->limits.type != 0)
    serve_connection_break_off(remote, "a second WELCOME");
  else if (message.type == SERVE_WELCOME && message.major != SERVE_MAJOR)
    serve_connection_break_off(remote, "another version of the protocol");
  else if (message.type == SERVE_WELCOME)
    remote->limits = message;
  else
    serve_connection_take_answer(remote, &message);
}

void serve_connection_work(struct connection *remote, struct work *work, enum io_op op, int fd,
                           uint8_t *bytes, uint64_t length, uint64_t offset,
                           void (*ended)(struct work *work))
{
  work->io = (struct io_request){.op = op,
                                 .fd = fd,
                                 .bytes = bytes,
                                 .sum = work->io.sum,
                                 .to_grow = work->io.to_grow,
                                 .length = length,
                                 .offset = offset};
  work->ended = ended;
  serve_io_submit(remote->io, &work->io);
}

/* ---- Progress --------------------------------------------------------------------------- */

static void serve_connection_take_event(struct connection *remote,
                                        const struct pst_node_event *event)
{
  switch (event->kind) {
  case PST_NODE_JOINED:
    remote->joined = true;
    break;
  case PST_NODE_LEFT:
    serve_connection_fail(remote, event->status, event->text);
    remote->peer = NULL;
    break;
  case PST_NODE_TAKEN:
    remote->taken = true;
    if (event->status < 0)
      serve_connection_fail(remote, event->status, event->text);
    break;
  case PST_NODE_MESSAGE:
    if (!remote->left)
      serve_connection_take_message(remote, event->bytes, event->length);
    break;
  case PST_NODE_ROOM:
    serve_connection_send_waiting(remote);
    break;
  default:
    break;
  }
}

static int serve_connection_take_all(struct connection *remote)
{
  struct pst_node_event events[EVENTS];
  struct io_request *request;
  int n = pst_node_poll(remote->node, events, EVENTS);

  if (n < 0)
    serve_connection_fail(remote, n, "the transport's device has failed");
  remote->has_heard = n > 0;
  for (int i = 0; i < n; i++)
    serve_connection_take_event(remote, &events[i]);
  serve_connection_send_waiting(remote);
  while ((request = serve_io_poll(remote->io))) {
    struct work *work = FROM(struct work, io, request);
    n = n < 0 ? n : n + 1;
    work->ended(work);
  }
  return n;
}

static void serve_connection_sleep_some(struct connection *remote)
{
  struct pollfd fds[] = {{.fd = serve_io_event_fd(remote->io), .events = POLLIN},
                         {.fd = remote->event_fd, .events = POLLIN},
                         {.fd = pst_node_fd(remote->node), .events = POLLIN}};
  int armed = pst_node_arm(remote->node);

  if (armed == -EAGAIN)
    return;
  poll(fds, armed < 0 ? 2 : 3, armed < 0 ? NAP_MS : SLEEP_MS);
}

static void serve_connection_pinged(struct serve_pending *pending,
                                    const struct serve_message *answer)
{
  struct connection *remote = FROM(struct connection, ping, pending);

  (void)answer;
  remote->pinging = false;
}

static void serve_connection_ping(struct connection *remote, uint32_t flags)
{
  const struct serve_message message = {.type = SERVE_PING, .flags = flags};

  if (remote->pinging)
    return;
  remote->pinging = true;
  serve_connection_ask(remote, &remote->ping, SERVE_DONE, &message, serve_connection_pinged);
}

/* The server's control channel is up, but the server does not answer. A server that is only slow
 * with a request still answers a ping. If nothing at all comes from the server, the control channel
 * reports that first. */
static void serve_connection_check_silence(struct connection *remote, uint64_t now)
{
  const bool welcome = remote->limits.type != 0, stopping = app_signals_stop();
  const bool awaits = remote->waiting || remote->under_way > 0 || remote->first;
  uint64_t limit = remote->timeout_ns;
  char text[192];

  if (limit == 0 || !remote->joined || remote->left)
    return;
  if (stopping && limit > STOP_NS)
    limit = STOP_NS;
  else
    limit += limit / 2;
  if (!awaits || remote->has_heard || stopping != remote->stopping ||
      now - remote->stepped_ns > PAUSE_NS)
    remote->heard_ns = now;
  remote->stopping = stopping;
  remote->stepped_ns = now;
  const uint64_t silent_ns = now - remote->heard_ns;
  if (silent_ns < limit / PINGS_A_TIMEOUT)
    return;
  if (welcome)
    serve_connection_ping(remote, 0);
  if (silent_ns < limit)
    return;
  snprintf(text, sizeof(text), "the server is connected, but has not answered for %.3g s; %s%s",
           (double)limit / NS_PER_S,
           stopping ? "stopped by " : "look at its log, or wait longer with --timeout",
           stopping ? app_signals_name() : "");
  pst_peer_close(remote->peer, -ETIMEDOUT, "the server does not answer");
  serve_connection_fail(remote, -ETIMEDOUT, text);
}

int serve_connection_step(struct connection *remote)
{
  int n = serve_connection_take_all(remote);
  uint64_t now = app_now_ns();

  if (n > 0 || remote->awake)
    remote->busy_ns = now;
  else if (now - remote->busy_ns > SPIN_NS && !remote->left)
    serve_connection_sleep_some(remote);
  /* While files are read and written here, nothing is sent to the server. */
  if (!remote->left && remote->limits.type != 0 &&
      now - remote->said_ns >= remote->limits.idle_ns / PINGS_AN_IDLE)
    serve_connection_ping(remote, 0);
  serve_connection_check_silence(remote, now);
  return remote->left ? remote->status : 0;
}

/* ---- Beginning and end -------------------------------------------------------------------- */

static int serve_connection_wait_for(struct connection *remote, const bool *flag,
                                     const uint32_t *number)
{
  int rc = 0;

  remote->waiting = true;
  while (rc == 0 && ((flag && !*flag) || (number && *number == 0)))
    rc = app_signals_stop() ? -EINTR : serve_connection_step(remote);
  remote->waiting = false;
  return rc;
}

/* A call has failed with rc. The reason of a peer that is leaving is its last event. */
static int serve_connection_remote_reason(struct connection *remote, int rc)
{
  return rc == -ENOTCONN && !remote->left ? serve_connection_wait_for(remote, &remote->left, NULL)
                                          : rc;
}

static int serve_connection_report(const struct connection *remote, int rc, const char *what,
                                   struct pst_error *error)
{
  if (rc == -EINTR && !remote->left)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "%s%sstopped by %s", what, what[0] ? ": " : "",
                        app_signals_name());
  return app_log_fail(error, PST_EXIT_FAILED, rc, "%s%s%s", what, what[0] ? ": " : "",
                      remote->left ? remote->text : strerror(-rc));
}

static int serve_connection_greet(struct connection *remote, struct pst_error *error)
{
  struct serve_message hello = {.type = SERVE_HELLO, .major = SERVE_MAJOR, .minor = SERVE_MINOR};
  uint8_t bytes[256];
  size_t length = 0;
  int rc = serve_connection_wait_for(remote, &remote->joined, NULL);

  snprintf(hello.program, sizeof(hello.program), "%s", pst_version());
  if (rc == 0)
    rc = serve_encode(&hello, bytes, sizeof(bytes), &length);
  if (rc == 0)
    rc = serve_connection_remote_reason(remote, pst_peer_send(remote->peer, bytes, length));
  remote->said_ns = app_now_ns();
  if (rc == 0)
    rc = serve_connection_wait_for(remote, NULL, &remote->limits.type);
  return rc < 0 ? serve_connection_report(remote, rc, remote->left ? "" : remote->address, error)
                : 0;
}

int serve_connection_open(const struct remote_params *params, int event_fd,
                          struct connection *remote, struct pst_error *error)
{
  struct pst_node_params node = params->node;

  node.peers = 1;
  *remote = (struct connection){
      .address = params->address, .event_fd = event_fd, .timeout_ns = node.peer_timeout_ns};
  int rc = serve_io_open(&remote->io);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "no way to read files: %s", strerror(-rc));
  rc = pst_node_open(&node, &remote->node, error);
  if (rc == 0)
    rc = pst_node_connect(remote->node, params->address, &remote->peer, error);
  return rc < 0 ? rc : serve_connection_greet(remote, error);
}

void serve_connection_close(struct connection *remote)
{
  uint64_t deadline = app_now_ns() + LEAVE_NS;

  if (remote->node && remote->peer) {
    pst_peer_close(remote->peer, 0, NULL);
    /* The library's own times, of which no descriptor tells, bring the end. */
    while (remote->peer && app_now_ns() < deadline && serve_connection_take_all(remote) >= 0) {
      uint64_t until = app_now_ns() + NAP_MS * NS_PER_MS;
      pst_node_wait(remote->node, &until);
    }
  }
  serve_io_close(remote->io);
  pst_node_close(remote->node);
}

int serve_connection_offer(struct connection *remote, const struct remote_params *params,
                           uint64_t bytes, uint32_t access, struct pst_area **area,
                           uint32_t *region, struct pst_error *error)
{
  struct pst_area_params asked = params->area;

  asked.length = bytes;
  asked.label = "the region that is offered";
  /* Nor while memory is allocated, populated and pinned, which may take seconds. */
  if (remote->limits.minor >= BUSY_SINCE_MINOR)
    serve_connection_ping(remote, SERVE_FLAG_BUSY);
  int rc = pst_node_alloc(remote->node, &asked, area, error);

  if (rc < 0)
    return rc;
  remote->taken = false;
  rc = serve_connection_remote_reason(
      remote, pst_peer_offer(remote->peer, *area, 0, bytes, access, region));
  if (rc == 0)
    rc = serve_connection_wait_for(remote, &remote->taken, NULL);
  return rc < 0 ? serve_connection_report(remote, rc, "the region cannot be offered", error) : 0;
}
