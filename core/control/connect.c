/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

#define ACCEPTS_A_ROUND 64
#define ACCEPT_PAUSE_NS (100 * PST_NS_PER_MS)
#define CONNECT_PAUSE_MIN_NS (20 * PST_NS_PER_MS)
#define CONNECT_PAUSE_MAX_NS (500 * PST_NS_PER_MS)

/* ---- Addresses ---------------------------------------------------------------- */

int control_address_is_remote(const char *host_port)
{
  struct socket_addresses addresses;
  char why[WIRE_TEXT_MAX + 1];
  int rc = socket_resolve(host_port, true, &addresses, why, sizeof why);

  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < addresses.count; i++) {
    if (socket_is_remote(&addresses.at[i]))
      return 1;
  }
  return 0;
}

const struct connect_words connect_stream_words = {
    .listen = "control.listen",
    .connect = "control.connect",
    .insecure = "set control.insecure: true",
    .is_set = "control.insecure",
    .check = "check control.address",
    .in_use = "another receiver is running? stop it, or choose another control.address",
    .not_ours =
        "the receiver binds an address of its own host: choose one of those `ip address` shows"};

static int resolve(const struct control *control, const char *address, bool listener, bool insecure,
                   struct socket_addresses *addresses, struct pst_error *error)
{
  const char *key = listener ? control->words->listen : control->words->connect;
  char why[WIRE_TEXT_MAX + 1];
  bool remote = false;
  int rc = socket_resolve(address, listener, addresses, why, sizeof why);

  if (rc < 0)
    return pst_fail(error, rc == -EINVAL ? PST_EXIT_USAGE : PST_EXIT_UNAVAILABLE, rc, "%s: %s", key,
                    why);
  for (uint32_t i = 0; i < addresses->count; i++)
    remote |= socket_is_remote(&addresses->at[i]);
  if (remote && !insecure)
    return pst_fail(error, PST_EXIT_USAGE, -EPERM,
                    "%s: %s lies beyond loopback, and the control channel has no credentials yet: "
                    "whoever reaches it can take part; where the network is trusted, %s",
                    key, address, control->words->insecure);
  if (remote)
    pst_log(PST_LOG_WARN, "%s is set: %s %s is open to whoever reaches it, without credentials",
            control->words->is_set, key, address);
  return 0;
}

static int no_memory(struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
}

int connect_resolve(struct control *control, const char *address, bool insecure,
                    struct pst_error *error)
{
  int rc = resolve(control, address, false, insecure, &control->targets, error);

  if (rc < 0)
    return rc;
  control->connect_insecure = insecure;
  control->connect_text = strdup(address);
  control->connect_pause_ns = CONNECT_PAUSE_MIN_NS;
  return control->connect_text ? 0 : no_memory(error);
}

int connect_targets(const struct control *control, const char *address, bool insecure,
                    struct socket_addresses *targets, struct pst_error *error)
{
  return resolve(control, address, false, insecure, targets, error);
}

static int listen_failed(const struct control *control, const char *address, int rc,
                         struct pst_error *error)
{
  const char *remedy = control->words->check;

  if (rc == -EADDRINUSE)
    remedy = control->words->in_use;
  else if (rc == -EADDRNOTAVAIL)
    remedy = control->words->not_ours;
  else if (rc == -EACCES)
    remedy = "ports below 1024 need privileges: choose a higher one";
  else if (limit_remedy(rc)[0])
    remedy = limit_remedy(rc) + sizeof "; " - 1;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s: cannot listen on %s: %s; %s",
                  control->words->listen, address, strerror(-rc), remedy);
}

static void keep_spare(struct control *control)
{
  if (control->listener_count > 0 && control->spare_fd < 0)
    control->spare_fd = fcntl(control->epoll_fd, F_DUPFD_CLOEXEC, 3);
}

int connect_listen(struct control *control, const char *address, bool insecure,
                   struct pst_error *error)
{
  struct socket_addresses addresses;
  int rc = resolve(control, address, true, insecure, &addresses, error);
  int skipped = 0;

  if (rc < 0)
    return rc;
  control->listen_insecure = insecure;
  control->listen_text = strdup(address);
  if (!control->listen_text)
    return no_memory(error);
  for (uint32_t i = 0; i < addresses.count; i++) {
    int fd = socket_listen(&addresses.at[i]);
    /* "localhost" is often two addresses, of which one is not set up. */
    if (addresses.count > 1 && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT)) {
      skipped = fd;
      continue;
    }
    if (fd < 0)
      return listen_failed(control, address, fd, error);
    struct watch *watch = &control->listeners[control->listener_count++];
    *watch = (struct watch){WATCH_LISTENER, fd, UINT32_MAX, control};
    if ((rc = watch_set(control, watch, EPOLLIN)) < 0)
      return listen_failed(control, address, rc, error);
  }
  if (control->listener_count == 0)
    return listen_failed(control, address, skipped, error);
  keep_spare(control);
  rc = side_listen(insecure, &control->side);
  if (limit_remedy(rc)[0])
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s: no side-socket: %s%s",
                    control->words->listen, strerror(-rc), limit_remedy(rc));
  if (rc < 0 && !insecure)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "%s: no side-socket, by which peers show which user they belong to: %s; set "
                    "XDG_RUNTIME_DIR to a writable folder of this user with mode 0700, or, where "
                    "all users of the host may take part, %s",
                    control->words->listen, strerror(-rc), control->words->insecure);
  if (rc < 0) {
    pst_log(PST_LOG_WARN, "control: no side-socket for descriptors: %s", strerror(-rc));
    return 0;
  }
  control->side_watch.fd = control->side.fd;
  rc = watch_set(control, &control->side_watch, EPOLLIN);
  return rc < 0 ? pst_fail(error, PST_EXIT_FAILED, rc, "control: epoll: %s", strerror(-rc)) : 0;
}

/* ---- Receivers -------------------------------------------------------------------- */

/* Of those without a stream the oldest, of those that have not shown which user they belong to
 * before others; or NULL. */
static struct peer *oldest_stranger(const struct control *control)
{
  struct peer *oldest = NULL;

  for (struct peer *peer = control->peers; peer; peer = peer->next) {
    if (peer->is_connector || peer->state == PEER_DEAD || control->flow->has(peer, false))
      continue;
    if (!oldest || peer->side_state != SIDE_OPEN || oldest->side_state == SIDE_OPEN)
      oldest = peer;
  }
  return oldest;
}

static void evict(struct peer *stranger)
{
  control_complain(stranger->control,
                   "control: dropped: %s, which has no stream, to make room: %u connections",
                   stranger->text, stranger->control->peer_count);
  stranger->state = PEER_DEAD;
}

static bool is_full(const struct control *control)
{
  return control->peer_count >= control->limits.peers_max;
}

static bool make_room(struct control *control)
{
  if (!is_full(control))
    return true;
  struct peer *oldest = oldest_stranger(control);
  if (oldest)
    evict(oldest);
  return oldest;
}

/* NULL: out of memory. */
static struct peer *admit(struct control *control, int fd)
{
  struct peer *peer = peer_new(control, fd, false);

  if (!peer) {
    struct watch none = {WATCH_PEER, fd, UINT32_MAX, NULL};
    watch_close(control, &none);
    return NULL;
  }
  socket_peer_text(fd, peer->place);
  snprintf(peer->text, sizeof peer->text, "%s", peer->place);
  peer->must_show = !control->listen_insecure;
  if (side_random(peer->token, sizeof peer->token) < 0)
    peer->state = PEER_DEAD;
  handshake_open(peer);
  peer_watch(peer);
  return peer;
}

/* ---- Out of descriptors ----------------------------------------------------------- */

bool connect_use_spare(struct control *control)
{
  if (control->spare_fd < 0)
    return false;
  close(control->spare_fd);
  control->spare_fd = -1;
  return true;
}

/* All are in use. A stranger that has had its time makes room; where there is none, who comes is
 * told. False: neither now. */
static bool accept_without_room(struct control *control, struct watch *listener, int code)
{
  struct peer *oldest = oldest_stranger(control);

  if (oldest && control->now_ns - oldest->born_ns < ACCEPT_PAUSE_NS)
    return false;
  if (oldest) {
    evict(oldest);
    return true;
  }
  if (!connect_use_spare(control))
    return false;
  int fd = socket_accept(listener->fd);
  struct peer *peer = fd < 0 ? NULL : admit(control, fd);
  if (peer)
    peer_fail(peer, code, "has no room for another connection");
  return peer;
}

static void pause_accepting(struct control *control, int code)
{
  control_complain(control, "control: cannot take a connection: %s%s", strerror(-code),
                   limit_remedy(code));
  control->accept_again_ns = control->now_ns + ACCEPT_PAUSE_NS;
  for (uint32_t i = 0; i < control->listener_count; i++)
    watch_set(control, &control->listeners[i], 0);
}

void connect_accept(struct control *control, struct watch *listener)
{
  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    /* Those of this round may have left again, which the next will tell. */
    if (i > 0 && is_full(control))
      return;
    int fd = socket_accept(listener->fd);
    if (fd == -EAGAIN)
      return;
    if (fd < 0) {
      bool is_limit = fd == -EMFILE || fd == -ENFILE;
      if (!is_limit || !accept_without_room(control, listener, fd))
        pause_accepting(control, fd);
      return;
    }
    if (make_room(control)) {
      admit(control, fd);
      continue;
    }
    control_complain(control, "control: turned a connection away: there are %u already",
                     control->peer_count);
    struct watch none = {WATCH_PEER, fd, UINT32_MAX, NULL};
    watch_close(control, &none);
  }
}

/* When streams of that side may fail for want of a peer. */
static uint64_t deadline(const struct control *control)
{
  return control->connect_timeout_ns ? control->opened_ns + control->connect_timeout_ns
                                     : UINT64_MAX;
}

static void fail_waiting(struct control *control, bool senders, int code, const char *text)
{
  pst_log(PST_LOG_ERROR, "control: %s", text);
  for (uint32_t i = 0; i < control->stream_count; i++) {
    struct stream *s = &control->streams[i];
    if (s->is_sender == senders && s->state == STREAM_WAITING)
      flow_fail(control, s, code, text);
  }
}

static uint64_t tick_receivers(struct control *control)
{
  uint64_t next = UINT64_MAX;
  char text[REPORT_MAX];
  char names[256];
  char seconds[24];

  keep_spare(control);
  if (control->accept_again_ns != 0 && control->now_ns >= control->accept_again_ns) {
    control->accept_again_ns = 0;
    for (uint32_t i = 0; i < control->listener_count; i++)
      watch_set(control, &control->listeners[i], EPOLLIN);
    watch_set(control, &control->side_watch, EPOLLIN);
  }
  if (control->accept_again_ns != 0)
    next = control->accept_again_ns;
  names_list(control, false, STREAM_WAITING, names, sizeof names);
  if (!names[0] || !control->listen_text)
    return next;
  if (control->now_ns >= deadline(control)) {
    seconds_text(control->connect_timeout_ns, seconds);
    snprintf(text, sizeof text,
             "no sender came to %s within %s for: %s; start the sender with the same "
             "configuration, check its control.connect, or raise control.timeout",
             control->listen_text, seconds, names);
    fail_waiting(control, false, -ETIMEDOUT, text);
    return next;
  }
  if (control->now_ns >= control->listen_notice_ns) {
    pst_log(PST_LOG_INFO, "waiting at %s for the sender of: %s", control->listen_text, names);
    control->listen_notice_ns = control->now_ns + control->limits.notice_ns;
  }
  return sooner(next, sooner(deadline(control), control->listen_notice_ns));
}

/* ---- Senders ----------------------------------------------------------------------- */

void connect_again(struct control *control, const char *why)
{
  snprintf(control->connect_why, sizeof control->connect_why, "%s", why);
  control->link = NULL;
  if (++control->target_next < control->targets.count) {
    control->connect_at_ns = control->now_ns;
    return;
  }
  control->target_next = 0;
  control->connect_at_ns = control->now_ns + control->connect_pause_ns;
  control->connect_pause_ns = sooner(2 * control->connect_pause_ns, CONNECT_PAUSE_MAX_NS);
}

struct peer *connect_begin(struct control *control, const struct socket_address *target,
                           bool insecure, int *code)
{
  int fd = socket_connect(target);

  if (fd < 0) {
    *code = fd;
    return NULL;
  }
  struct peer *peer = peer_new(control, fd, true);
  if (!peer) {
    struct watch none = {WATCH_PEER, fd, UINT32_MAX, NULL};
    watch_close(control, &none);
    *code = -ENOMEM;
    return NULL;
  }
  peer->state = PEER_CONNECTING;
  peer->must_show = !insecure;
  socket_text(target, peer->place);
  snprintf(peer->text, sizeof peer->text, "what answers at %s", peer->place);
  peer_watch(peer);
  return peer;
}

static void try_connect(struct control *control)
{
  int code = 0;

  control->connect_at_ns = 0;
  control->link = connect_begin(control, &control->targets.at[control->target_next],
                                control->connect_insecure, &code);
  if (control->link)
    return;
  if (!limit_remedy(code)[0]) {
    connect_again(control, strerror(-code));
    return;
  }
  char text[REPORT_MAX];
  snprintf(text, sizeof text, "no connection to %s: this process has no room for one: %s%s",
           control->connect_text, strerror(-code), limit_remedy(code));
  fail_waiting(control, true, code, text);
}

static uint64_t tick_senders(struct control *control)
{
  char text[REPORT_MAX];
  char names[256];
  char seconds[24];

  if (!control->connect_text)
    return UINT64_MAX;
  names_list(control, true, STREAM_WAITING, names, sizeof names);
  if (!names[0]) {
    /* Over, failed, or with a peer. */
    if (control->link && control->link->state < PEER_UP)
      control->link->state = PEER_DEAD;
    control->connect_at_ns = 0;
    return UINT64_MAX;
  }
  const char *why = control->connect_why[0] ? control->connect_why : "no answer yet";
  if (control->now_ns >= deadline(control)) {
    seconds_text(control->connect_timeout_ns, seconds);
    snprintf(text, sizeof text,
             "no receiver took %s at %s within %s (%s); start the receiver with the same "
             "configuration, check control.connect, or raise control.timeout",
             names, control->connect_text, seconds, why);
    fail_waiting(control, true, -ETIMEDOUT, text);
    return control->now_ns;
  }
  if (control->now_ns >= control->connect_notice_ns) {
    pst_log(PST_LOG_INFO, "waiting for a receiver at %s (%s) to take: %s", control->connect_text,
            why, names);
    control->connect_notice_ns = control->now_ns + control->limits.notice_ns;
  }
  if (control->connect_at_ns != 0 && control->now_ns >= control->connect_at_ns)
    try_connect(control);
  return sooner(sooner(deadline(control), control->connect_notice_ns),
                control->connect_at_ns ? control->connect_at_ns : UINT64_MAX);
}

uint64_t connect_tick(struct control *control)
{
  return sooner(tick_receivers(control), tick_senders(control));
}
