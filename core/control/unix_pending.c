/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the Unix socket, until their claim says to which TCP connection they belong. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "connection.h"
#include "listener.h"
#include "util/closer.h"

#define ACCEPTS_A_ROUND 64

/* Returns a free place. If there is none, closes the oldest: an honest process sends its claim at
 * once. */
static struct unix_pending *unix_pending_place(struct control *control)
{
  struct unix_pending *oldest = control->pending;

  for (struct unix_pending *pending = control->pending;
       pending < control->pending + UNIX_PENDING_MAX; pending++) {
    if (pending->watch.fd < 0)
      return pending;
    if (pending->number < oldest->number)
      oldest = pending;
  }
  watch_discard(control, &oldest->watch);
  return oldest;
}

static void unix_pending_admit(struct control *control, int fd)
{
  struct unix_pending *pending = unix_pending_place(control);

  *pending = (struct unix_pending){.watch = {WATCH_UNIX_PENDING, fd, UINT32_MAX, pending},
                                   .number = ++control->pending_last,
                                   .claim_by_ns = control->now_ns + control->limits.answer_ns};
  unix_pending_event(control, pending);
  if (watch_set(control, &pending->watch, EPOLLIN) < 0)
    watch_discard(control, &pending->watch);
}

void unix_pending_accept(struct control *control)
{
  uint32_t uid = 0;

  if (closer_is_behind()) {
    control_complain(control, PST_LOG_WARN,
                     "control: refusing connections to the Unix socket: " CLOSER_BEHIND);
    listener_rest(control, &control->unix_listener_watch, 1);
    return;
  }
  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    int fd = unix_accept(control->unix_listener.fd, control->listen_insecure, &uid);
    if ((fd == -EMFILE || fd == -ENFILE) && listener_use_spare(control))
      fd = unix_accept(control->unix_listener.fd, control->listen_insecure, &uid);
    if (fd == -EAGAIN)
      return;
    if (fd == -EACCES) {
      control_complain(control, PST_LOG_WARN,
                       "control: refused a process of user %u at the Unix socket", uid);
    } else if (fd < 0) {
      listener_pause(control, &control->unix_listener_watch, 1, fd);
      return;
    } else {
      unix_pending_admit(control, fd);
    }
  }
}

static struct connection *unix_pending_find_peer(struct control *control,
                                                 const struct unix_claim *claim)
{
  for (struct connection *peer = control->peers; peer; peer = peer->next) {
    if (!peer->is_connector && !peer->in_process && peer->state == PEER_HELLO &&
        memcmp(peer->token, claim->bytes, WIRE_TOKEN_BYTES) == 0)
      return peer;
  }
  return NULL;
}

/* The connection is the Unix socket of that peer from now on. */
static int unix_pending_claimed(struct control *control, struct unix_pending *pending,
                                struct connection *peer, const struct unix_claim *answer)
{
  int rc = unix_send_claim(pending->watch.fd, answer);

  if (rc < 0)
    return rc;
  peer->fd_channel.fd = watch_release(control, &pending->watch);
  peer->fd_channel_state = FD_CHANNEL_OPEN;
  fd_channel_watch(peer);
  return 0;
}

void unix_pending_event(struct control *control, struct unix_pending *pending)
{
  struct unix_claim ours, theirs;

  if (closer_is_behind()) {
    watch_discard(control, &pending->watch);
    return;
  }
  int rc = unix_receive_claim(pending->watch.fd, &theirs);
  if (rc == -EAGAIN)
    return;
  struct connection *peer = rc == 0 ? unix_pending_find_peer(control, &theirs) : NULL;
  if (!peer || peer->fd_channel_state != FD_CHANNEL_NONE ||
      unix_claim_make(peer->main.fd, false, peer->token, &ours) < 0)
    rc = -EPERM;
  else if (peer->must_show && memcmp(&ours, &theirs, sizeof(ours)) != 0)
    rc = -EACCES;
  else
    rc = unix_pending_claimed(control, pending, peer, &ours);
  if (rc == -EACCES)
    connection_drop(peer, -EACCES,
                    "is not connected to directly: a relay lies between; connect without port "
                    "forwarding, or, where all users of the host may take part, %s at both ends",
                    control->words->insecure);
  if (rc < 0)
    watch_discard(control, &pending->watch);
}

void unix_pending_tick(struct control *control)
{
  for (struct unix_pending *pending = control->pending;
       pending < control->pending + UNIX_PENDING_MAX; pending++)
    if (pending->watch.fd >= 0 && control_is_due(control, pending->claim_by_ns))
      watch_discard(control, &pending->watch);
}

void unix_pending_close(struct control *control)
{
  for (struct unix_pending *pending = control->pending;
       pending < control->pending + UNIX_PENDING_MAX; pending++)
    watch_discard(control, &pending->watch);
}

void unix_pending_unlisten(struct control *control)
{
  watch_discard(control, &control->unix_listener_watch);
  control->unix_listener.fd = -1;
  unix_unlisten(&control->unix_listener);
}
