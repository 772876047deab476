/* SPDX-License-Identifier: Apache-2.0 */
/* Those who come to the side-socket, until their claim says whose it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "internal.h"
#include "listener.h"
#include "peer.h"
#include "util/clock.h"
#include "util/closer.h"
#include "util/limit_remedy.h"

#define GUESTS_MAX 64
#define ACCEPTS_A_ROUND 64
#define ACCEPT_PAUSE_NS (100 * PST_NS_PER_MS)

static void guest_close(struct guest *guest)
{
  if (guest->watch.fd < 0)
    return;
  watch_discard(guest->control, &guest->watch);
  guest->control->guest_count--;
}

/* The oldest goes: an honest one says its claim at once. */
static void make_room(struct control *control)
{
  struct guest *oldest = NULL;

  for (struct guest *guest = control->guests; guest; guest = guest->next)
    if (guest->watch.fd >= 0)
      oldest = guest;
  if (control->guest_count >= GUESTS_MAX && oldest)
    guest_close(oldest);
}

static void admit(struct control *control, int fd)
{
  struct guest *guest = calloc(1, sizeof *guest);

  if (!guest) {
    closer_close(fd);
    return;
  }
  make_room(control);
  guest->control = control;
  guest->watch = (struct watch){WATCH_GUEST, fd, UINT32_MAX, guest};
  guest->claim_by_ns = control->now_ns + control->limits.answer_ns;
  guest->next = control->guests;
  control->guests = guest;
  control->guest_count++;
  guest_event(guest);
  if (watch_set(control, &guest->watch, EPOLLIN) < 0)
    guest_close(guest);
}

void guests_accept(struct control *control)
{
  uint32_t uid = 0;

  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    int fd = side_accept(control->side.fd, control->listen_insecure, &uid);
    if ((fd == -EMFILE || fd == -ENFILE) && listener_use_spare(control))
      fd = side_accept(control->side.fd, control->listen_insecure, &uid);
    if (fd == -EAGAIN)
      return;
    if (fd == -EACCES) {
      control_complain(control, "control: turned away: a process of user %u at the side-socket",
                       uid);
    } else if (fd < 0) {
      control_complain(control, "control: cannot take a connection: %s%s", strerror(-fd),
                       limit_remedy(fd));
      control->accept_again_ns = control->now_ns + ACCEPT_PAUSE_NS;
      watch_set(control, &control->side_watch, 0);
      return;
    } else {
      admit(control, fd);
    }
  }
}

static struct peer *peer_of_token(struct control *control, const struct side_claim *claim)
{
  for (struct peer *peer = control->peers; peer; peer = peer->next) {
    if (!peer->is_connector && !peer->in_process && peer->state == PEER_HELLO &&
        memcmp(peer->token, claim->bytes, WIRE_TOKEN_BYTES) == 0)
      return peer;
  }
  return NULL;
}

/* The guest is that peer's side-socket from now on. */
static int move_in(struct guest *guest, struct peer *peer, const struct side_claim *answer)
{
  struct control *control = guest->control;
  int fd = guest->watch.fd;
  int rc = side_send_claim(fd, answer);

  if (rc < 0)
    return rc;
  if (guest->watch.events != UINT32_MAX)
    epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
  guest->watch = (struct watch){WATCH_GUEST, -1, UINT32_MAX, guest};
  control->guest_count--;
  peer->side.fd = fd;
  peer->side_state = SIDE_OPEN;
  fd_channel_watch(peer);
  return 0;
}

void guest_event(struct guest *guest)
{
  struct control *control = guest->control;
  struct side_claim ours, theirs;

  int rc = side_receive_claim(guest->watch.fd, &theirs);
  if (rc == -EAGAIN)
    return;
  struct peer *peer = rc == 0 ? peer_of_token(control, &theirs) : NULL;
  if (!peer || peer->side_state != SIDE_NONE ||
      side_claim_make(peer->main.fd, false, peer->token, &ours) < 0) {
    guest_close(guest);
    return;
  }
  if (peer->must_show && memcmp(&ours, &theirs, sizeof ours) != 0)
    peer_drop(peer, -EACCES,
              "is not connected to directly: a relay lies between; connect without port "
              "forwarding, or, where all users of the host may take part, %s at both ends",
              control->words->insecure);
  else if (move_in(guest, peer, &ours) == 0)
    return;
  guest_close(guest);
}

uint64_t guests_tick(struct control *control)
{
  uint64_t next = UINT64_MAX;

  for (struct guest **at = &control->guests; *at;) {
    struct guest *guest = *at;
    if (control->now_ns >= guest->claim_by_ns)
      guest_close(guest);
    if (guest->watch.fd >= 0) {
      next = sooner(next, guest->claim_by_ns);
      at = &guest->next;
      continue;
    }
    *at = guest->next;
    free(guest);
  }
  return next;
}

void guests_close(struct control *control)
{
  for (struct guest *guest = control->guests; guest; guest = guest->next)
    guest_close(guest);
  guests_tick(control);
}

void guests_unlisten(struct control *control)
{
  watch_discard(control, &control->side_watch);
  control->side.fd = -1;
  side_unlisten(&control->side);
}
