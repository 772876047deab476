/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"
#include "util/clock.h"
#include "util/closer.h"
#include "util/limit_remedy.h"
#include "util/log.h"

#define GUESTS_MAX 64
#define ACCEPTS_A_ROUND 64
#define ACCEPT_PAUSE_NS (100 * PST_NS_PER_MS)

/* Ours: nobody else says how long that takes. */
static void close_own(struct side_fds *batch)
{
  for (uint32_t i = 0; i < batch->count; i++)
    close(batch->fds[i]);
  batch->count = 0;
}

static void free_first_out(struct peer *peer)
{
  struct side_out *first = peer->side_out;

  peer->side_out = first->next;
  close_own(&first->batch);
  free(first);
}

void pass_close(struct peer *peer)
{
  watch_discard(peer->control, &peer->side);
  peer->side_state = SIDE_NONE;
  for (uint32_t i = 0; i < peer->side_in_count; i++)
    side_close_fds(&peer->side_in[i]);
  peer->side_in_count = 0;
  while (peer->side_out)
    free_first_out(peer);
}

static void watch_side(struct peer *peer)
{
  watch_set(peer->control, &peer->side,
            (peer->side_in_count < SIDE_QUEUE ? (uint32_t)EPOLLIN : 0) |
                (peer->side_out ? (uint32_t)EPOLLOUT : 0));
}

static void send_queued(struct peer *peer)
{
  while (peer->side_out) {
    int rc = side_send_fds(peer->side.fd, &peer->side_out->batch);
    if (rc == -EAGAIN)
      return;
    if (rc < 0) {
      pst_log(PST_LOG_WARN,
              "control: descriptors cannot be passed to %s: %s; a transport that needs them for "
              "shared memory will say so",
              peer->text, strerror(-rc));
      pass_close(peer);
      return;
    }
    free_first_out(peer);
  }
}

static int add_fds(struct side_fds *batch, const struct pst_blob *blob)
{
  for (uint32_t i = 0; i < blob->fd_count && batch->count < SIDE_FDS_MAX; i++) {
    int fd = fcntl(blob->fds[i], F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
      return -errno;
    batch->fds[batch->count++] = fd;
  }
  return 0;
}

bool pass_send(struct peer *peer, const struct pst_blob *address, const struct pst_blob *remote,
               struct wire_message *message)
{
  uint32_t remote_count = remote ? remote->fd_count : 0;

  message->fd_count = message->remote_fd_count = 0;
  if (address->fd_count + remote_count == 0 || peer->side_state != SIDE_OPEN || peer->side.fd < 0)
    return true;
  struct side_out *last = calloc(1, sizeof *last);
  int rc = last ? add_fds(&last->batch, address) : -ENOMEM;
  if (rc == 0 && remote)
    rc = add_fds(&last->batch, remote);
  if (rc < 0) {
    if (last)
      close_own(&last->batch);
    free(last);
    peer_fail(peer, rc, "cannot pass descriptors");
    return false;
  }
  last->batch.id = ++peer->side_id;
  message->fd_count = address->fd_count;
  message->remote_fd_count = remote_count;
  message->fd_id = last->batch.id;

  struct side_out **end = &peer->side_out;
  while (*end)
    end = &(*end)->next;
  *end = last;
  send_queued(peer);
  watch_side(peer);
  return true;
}

int pass_claim(struct peer *peer, const char *path, uint32_t *uid)
{
  struct side_claim claim;
  int fd = side_connect(path, !peer->must_show, uid);

  if (fd < 0)
    return fd;
  int rc = side_claim_make(peer->main.fd, true, peer->token, &claim);
  if (rc == 0)
    rc = side_send_claim(fd, &claim);
  if (rc < 0) {
    close(fd);
    return rc;
  }
  peer->side.fd = fd;
  peer->side_state = SIDE_CLAIMING;
  return watch_set(peer->control, &peer->side, EPOLLIN);
}

/* Who listens says what it sees of the connection. */
static void got_answer(struct peer *peer)
{
  struct side_claim ours, theirs;
  int rc = side_receive_claim(peer->side.fd, &theirs);

  if (rc == -EAGAIN)
    return;
  if (rc == 0)
    rc = side_claim_make(peer->main.fd, true, peer->token, &ours);
  if (rc == 0 && peer->must_show && memcmp(&ours, &theirs, sizeof ours) != 0)
    rc = -EPERM;
  if (rc < 0) {
    pass_close(peer);
  } else {
    peer->side_state = SIDE_OPEN;
    watch_side(peer);
  }
  handshake_side(peer, rc);
}

void pass_event(struct peer *peer, uint32_t events)
{
  int rc = 0;

  if (peer->state == PEER_DEAD || peer->side.fd < 0)
    return;
  if (peer->side_state == SIDE_CLAIMING) {
    got_answer(peer);
    return;
  }
  if (events & EPOLLOUT)
    send_queued(peer);
  while (peer->side.fd >= 0 && rc == 0 && peer->side_in_count < SIDE_QUEUE) {
    rc = side_receive_fds(peer->side.fd, &peer->side_in[peer->side_in_count]);
    if (rc == 0)
      peer->side_in_count++;
  }
  if (rc == -EMFILE) {
    peer_fail(peer, rc, "cannot take descriptors");
    pass_close(peer);
    return;
  }
  if (rc == -EPROTO) {
    peer_drop(peer, -EPROTO, "sent too many descriptors, or something else, by the side-socket");
    pass_close(peer);
    return;
  }
  /* Once it has ended, what came before still belongs to frames on their way. */
  if ((rc < 0 && rc != -EAGAIN) || (events & (EPOLLHUP | EPOLLERR) && rc == 0))
    watch_discard(peer->control, &peer->side);
  if (peer->side.fd < 0 && peer->side_in_count == 0)
    pass_close(peer);
  watch_side(peer);
  if (peer->awaits_fds)
    peer_process(peer);
}

int pass_take(struct peer *peer, const struct wire_message *message, struct side_fds *batch)
{
  uint32_t count = message->fd_count + message->remote_fd_count;

  if (count == 0 || peer->side_state != SIDE_OPEN)
    return 0;
  while (peer->side_in_count > 0) {
    struct side_fds first = peer->side_in[0];
    if (first.id > message->fd_id)
      return -EPROTO;
    peer->side_in_count--;
    memmove(&peer->side_in[0], &peer->side_in[1], peer->side_in_count * sizeof first);
    watch_side(peer);
    if (first.id == message->fd_id && first.count == count) {
      *batch = first;
      return 0;
    }
    side_close_fds(&first);
    if (first.id == message->fd_id)
      return -EPROTO;
  }
  return peer->side.fd >= 0 ? -EAGAIN : 0;
}

/* ---- Those who come to the side-socket ------------------------------------------ */

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
  pass_guest_event(guest);
  if (watch_set(control, &guest->watch, EPOLLIN) < 0)
    guest_close(guest);
}

void pass_accept(struct control *control)
{
  uint32_t uid = 0;

  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    int fd = side_accept(control->side.fd, control->listen_insecure, &uid);
    if ((fd == -EMFILE || fd == -ENFILE) && connect_use_spare(control))
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
  watch_side(peer);
  return 0;
}

void pass_guest_event(struct guest *guest)
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

uint64_t pass_tick(struct control *control)
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

void pass_close_guests(struct control *control)
{
  for (struct guest *guest = control->guests; guest; guest = guest->next)
    guest_close(guest);
  pass_tick(control);
}

void pass_unlisten(struct control *control)
{
  watch_discard(control, &control->side_watch);
  control->side.fd = -1;
  side_unlisten(&control->side);
}
