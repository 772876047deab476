/* SPDX-License-Identifier: Apache-2.0 */
/* Those who come to the side-socket, until their claim says whose it is. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "connection.h"
#include "listener.h"
#include "util/closer.h"

#define ACCEPTS_A_ROUND 64

/* A free place, or that of the oldest, who goes: an honest one says its claim at once. */
static struct guest *guest_place(struct control *control)
{
  struct guest *oldest = control->guests;

  for (struct guest *guest = control->guests; guest < control->guests + GUESTS_MAX; guest++) {
    if (guest->watch.fd < 0)
      return guest;
    if (guest->number < oldest->number)
      oldest = guest;
  }
  watch_discard(control, &oldest->watch);
  return oldest;
}

static void guests_admit(struct control *control, int fd)
{
  struct guest *guest = guest_place(control);

  *guest = (struct guest){.watch = {WATCH_GUEST, fd, UINT32_MAX, guest},
                          .number = ++control->guest_last,
                          .claim_by_ns = control->now_ns + control->limits.answer_ns};
  guest_event(control, guest);
  if (watch_set(control, &guest->watch, EPOLLIN) < 0)
    watch_discard(control, &guest->watch);
}

void guests_accept(struct control *control)
{
  uint32_t uid = 0;

  if (closer_is_behind()) {
    control_complain(control, PST_LOG_WARN,
                     "control: refusing connections to the side-socket: " CLOSER_BEHIND);
    listener_rest(control, &control->side_watch, 1);
    return;
  }
  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    int fd = unix_accept(control->side.fd, control->listen_insecure, &uid);
    if ((fd == -EMFILE || fd == -ENFILE) && listener_use_spare(control))
      fd = unix_accept(control->side.fd, control->listen_insecure, &uid);
    if (fd == -EAGAIN)
      return;
    if (fd == -EACCES) {
      control_complain(control, PST_LOG_WARN,
                       "control: refused a process of user %u at the side-socket", uid);
    } else if (fd < 0) {
      listener_pause(control, &control->side_watch, 1, fd);
      return;
    } else {
      guests_admit(control, fd);
    }
  }
}

static struct connection *guests_peer_of_token(struct control *control,
                                               const struct unix_claim *claim)
{
  for (struct connection *peer = control->peers; peer; peer = peer->next) {
    if (!peer->is_connector && !peer->in_process && peer->state == PEER_HELLO &&
        memcmp(peer->token, claim->bytes, WIRE_TOKEN_BYTES) == 0)
      return peer;
  }
  return NULL;
}

/* The guest is that peer's side-socket from now on. */
static int guests_move_in(struct control *control, struct guest *guest, struct connection *peer,
                          const struct unix_claim *answer)
{
  int rc = unix_send_claim(guest->watch.fd, answer);

  if (rc < 0)
    return rc;
  peer->side.fd = watch_release(control, &guest->watch);
  peer->side_state = SIDE_OPEN;
  fd_channel_watch(peer);
  return 0;
}

void guest_event(struct control *control, struct guest *guest)
{
  struct unix_claim ours, theirs;

  if (closer_is_behind()) {
    watch_discard(control, &guest->watch);
    return;
  }
  int rc = unix_receive_claim(guest->watch.fd, &theirs);
  if (rc == -EAGAIN)
    return;
  struct connection *peer = rc == 0 ? guests_peer_of_token(control, &theirs) : NULL;
  if (!peer || peer->side_state != SIDE_NONE ||
      unix_claim_make(peer->main.fd, false, peer->token, &ours) < 0)
    rc = -EPERM;
  else if (peer->must_show && memcmp(&ours, &theirs, sizeof(ours)) != 0)
    rc = -EACCES;
  else
    rc = guests_move_in(control, guest, peer, &ours);
  if (rc == -EACCES)
    connection_drop(peer, -EACCES,
                    "is not connected to directly: a relay lies between; connect without port "
                    "forwarding, or, where all users of the host may take part, %s at both ends",
                    control->words->insecure);
  if (rc < 0)
    watch_discard(control, &guest->watch);
}

void guests_tick(struct control *control)
{
  for (struct guest *guest = control->guests; guest < control->guests + GUESTS_MAX; guest++)
    if (guest->watch.fd >= 0 && control_is_due(control, guest->claim_by_ns))
      watch_discard(control, &guest->watch);
}

void guests_close(struct control *control)
{
  for (struct guest *guest = control->guests; guest < control->guests + GUESTS_MAX; guest++)
    watch_discard(control, &guest->watch);
}

void guests_unlisten(struct control *control)
{
  watch_discard(control, &control->side_watch);
  control->side.fd = -1;
  unix_unlisten(&control->side);
}
