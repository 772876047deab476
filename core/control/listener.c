/* SPDX-License-Identifier: Apache-2.0 */
/* Listens, takes connections, and makes room for them when there is none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "connection.h"
#include "listener.h"
#include "protocol.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

const struct connect_words address_stream_words = {
    .listen = "control.listen",
    .connect = "control.connect",
    .tls = "write `tls` under `control`",
    .insecure = "set control.insecure: true",
    .is_set = "control.insecure",
    .check = "check control.address",
    .in_use = "another receiver is running? stop it, or choose another control.address",
    .not_ours =
        "the receiver binds an address of its own host: choose one of those `ip address` shows"};

int address_resolve(const struct control *control, const char *address, bool listener,
                    bool insecure, struct socket_addresses *addresses, struct pst_error *error)
{
  const char *key = listener ? control->words->listen : control->words->connect;
  char why[WIRE_TEXT_MAX + 1];
  bool remote = false;
  int rc = socket_resolve(address, listener, addresses, why, sizeof(why));

  if (rc < 0)
    return pst_fail(error, rc == -EINVAL ? PST_EXIT_USAGE : PST_EXIT_UNAVAILABLE, rc, "%s: %s", key,
                    why);
  for (uint32_t i = 0; i < addresses->count; i++)
    remote |= socket_is_remote(&addresses->at[i]);
  if (remote && !insecure && !control->tls)
    return pst_fail(error, PST_EXIT_USAGE, -EPERM,
                    "%s: %s lies beyond loopback, where peers need credentials: %s; or, where "
                    "whoever reaches it may take part, %s",
                    key, address, control->words->tls, control->words->insecure);
  if (remote && insecure)
    pst_log(PST_LOG_WARN, "%s is set: %s %s is open to whoever reaches it, without credentials",
            control->words->is_set, key, address);
  return 0;
}

#define ACCEPTS_A_ROUND 64
#define ACCEPT_PAUSE_NS (100 * PST_NS_PER_MS)

static int listener_listen_failed(const struct control *control, const char *address, int rc,
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

static void listener_keep_spare(struct control *control)
{
  if (control->listener_count > 0 && control->spare_fd < 0)
    control->spare_fd = fcntl(control->epoll_fd, F_DUPFD_CLOEXEC, 3);
}

/* Listens at all addresses that the text resolves to. 0, or -errno with *error; control_free()
 * closes the sockets. */
int listener_open(struct control *control, const char *address, bool insecure,
                  struct pst_error *error)
{
  struct socket_addresses addresses;
  int rc = address_resolve(control, address, true, insecure, &addresses, error);
  int skipped = 0;

  if (rc < 0)
    return rc;
  control->listen_insecure = insecure;
  control->listen_text = strdup(address);
  if (!control->listen_text)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
  for (uint32_t i = 0; i < addresses.count; i++) {
    int fd = socket_listen(&addresses.at[i]);
    /* "localhost" is often two addresses, of which one is not set up. */
    if (addresses.count > 1 && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT)) {
      skipped = fd;
      continue;
    }
    if (fd < 0)
      return listener_listen_failed(control, address, fd, error);
    struct watch *watch = &control->listeners[control->listener_count++];
    *watch = (struct watch){WATCH_LISTENER, fd, UINT32_MAX, control};
    if ((rc = watch_set(control, watch, EPOLLIN)) < 0)
      return listener_listen_failed(control, address, rc, error);
  }
  if (control->listener_count == 0)
    return listener_listen_failed(control, address, skipped, error);
  listener_keep_spare(control);
  rc = unix_listen(insecure, &control->unix_listener);
  if (limit_remedy(rc)[0])
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s: no Unix socket: %s%s",
                    control->words->listen, strerror(-rc), limit_remedy(rc));
  if (rc < 0 && !insecure && !control->tls)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "%s: no Unix socket, by which peers show which user they belong to: %s; set "
                    "XDG_RUNTIME_DIR to a writable folder of this user with mode 0700, or, where "
                    "all users of the host may take part, %s",
                    control->words->listen, strerror(-rc), control->words->insecure);
  if (rc < 0) {
    pst_log(PST_LOG_WARN, "control: no Unix socket for descriptors: %s", strerror(-rc));
    return 0;
  }
  control->unix_listener_watch.fd = control->unix_listener.fd;
  rc = watch_set(control, &control->unix_listener_watch, EPOLLIN);
  return rc < 0 ? pst_fail(error, PST_EXIT_FAILED, rc, "control: epoll: %s", strerror(-rc)) : 0;
}

/* ---- Taking connections ------------------------------------------------------------ */

/* Whether it has shown which user it belongs to, or by TLS who it is. */
static bool listener_knows(const struct connection *peer)
{
  return peer->fd_channel_state == FD_CHANNEL_OPEN ||
         (peer->tls && peer->state > PEER_SECURING && peer->state < PEER_CLOSING);
}

/* Returns the oldest connection without a stream, first among those that have shown nothing; NULL:
 * none. */
static struct connection *listener_oldest_stranger(const struct control *control)
{
  struct connection *oldest = NULL;

  for (struct connection *peer = control->peers; peer; peer = peer->next) {
    if (peer->is_connector || peer->state == PEER_DEAD || control->protocol->has(peer, false))
      continue;
    if (!oldest || !listener_knows(peer) || listener_knows(oldest))
      oldest = peer;
  }
  return oldest;
}

static void listener_evict(struct connection *stranger)
{
  control_complain(stranger->control, PST_LOG_WARN,
                   "control: dropped: %s, which has no stream, to make room: %u connections",
                   stranger->text, stranger->control->peer_count);
  peer_enter(stranger, PEER_DEAD);
}

static bool listener_is_full(const struct control *control)
{
  return control->peer_count >= control->limits.peers_max;
}

static bool listener_make_room(struct control *control)
{
  struct connection *oldest = listener_is_full(control) ? listener_oldest_stranger(control) : NULL;

  if (oldest)
    listener_evict(oldest);
  return oldest || !listener_is_full(control);
}

/* NULL: out of memory. */
static struct connection *listener_admit(struct control *control, int fd)
{
  struct connection *peer =
      connection_new(control, fd, control->tls ? PEER_SECURING : PEER_HELLO, false);

  if (!peer)
    return NULL;
  socket_end_text(fd, true, peer->place);
  snprintf(peer->text, sizeof(peer->text), "%s", peer->place);
  peer->is_insecure = control->listen_insecure;
  peer->must_show = !control->listen_insecure && !control->tls;
  if (unix_random(peer->token, sizeof(peer->token)) < 0)
    peer_enter(peer, PEER_DEAD);
  else if (!control->tls)
    handshake_open(peer);
  else
    connection_begin_tls(peer);
  connection_watch(peer);
  return peer;
}

/* ---- Out of descriptors ----------------------------------------------------------- */

bool listener_use_spare(struct control *control)
{
  if (control->spare_fd < 0)
    return false;
  close(control->spare_fd);
  control->spare_fd = -1;
  return true;
}

void listener_refuse(struct connection *peer, int code)
{
  if (peer->state == PEER_SECURING)
    peer->refusal = code; /* connection_secured() calls again, when the peer can read why */
  else
    connection_fail(peer, code, "has no room for another connection");
}

/* All are in use. A stranger that has had its time makes room; where there is none, who comes is
 * told. False: neither now. */
static bool listener_accept_without_room(struct control *control, struct watch *listener, int code)
{
  struct connection *oldest = listener_oldest_stranger(control);

  if (oldest && control->now_ns - oldest->born_ns < ACCEPT_PAUSE_NS)
    return false;
  if (oldest) {
    listener_evict(oldest);
    return true;
  }
  if (!listener_use_spare(control))
    return false;
  int fd = socket_accept(listener->fd);
  struct connection *peer = fd < 0 ? NULL : listener_admit(control, fd);
  if (peer)
    listener_refuse(peer, code);
  return peer;
}

void listener_pause(struct control *control, struct watch *watches, uint32_t count, int code)
{
  control_complain(control, PST_LOG_WARN, "control: cannot take a connection: %s%s",
                   strerror(-code), limit_remedy(code));
  listener_rest(control, watches, count);
}

void listener_rest(struct control *control, struct watch *watches, uint32_t count)
{
  control->accept_again_ns = control->now_ns + ACCEPT_PAUSE_NS;
  for (uint32_t i = 0; i < count; i++)
    watch_set(control, &watches[i], 0);
}

void listener_accept(struct control *control, struct watch *listener)
{
  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    /* Connections of this round may have closed again, which the next round will see. */
    if (i > 0 && listener_is_full(control))
      return;
    int fd = socket_accept(listener->fd);
    if (fd == -EAGAIN)
      return;
    if (fd < 0) {
      bool is_limit = fd == -EMFILE || fd == -ENFILE;
      if (!is_limit || !listener_accept_without_room(control, listener, fd))
        listener_pause(control, control->listeners, control->listener_count, fd);
      return;
    }
    if (listener_make_room(control)) {
      listener_admit(control, fd);
      continue;
    }
    control_complain(control, PST_LOG_WARN,
                     "control: refused a connection: %u are open, the most that fit",
                     control->peer_count);
    close(fd);
  }
}

void listener_tick(struct control *control)
{
  listener_keep_spare(control);
  if (control->accept_again_ns == 0 || !control_is_due(control, control->accept_again_ns))
    return;
  control->accept_again_ns = 0;
  for (uint32_t i = 0; i < control->listener_count; i++)
    watch_set(control, &control->listeners[i], EPOLLIN);
  watch_set(control, &control->unix_listener_watch, EPOLLIN);
}
