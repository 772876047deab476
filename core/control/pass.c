/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"
#include "util/log.h"

#define GUESTS_MAX 64

static void free_first_out(struct peer *peer)
{
  struct side_out *first = peer->side_out;

  peer->side_out = first->next;
  side_close_fds(&first->batch);
  free(first);
}

void pass_close(struct peer *peer)
{
  watch_close(peer->control, &peer->side);
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

void pass_send(struct peer *peer, const struct pst_blob *address, const struct pst_blob *remote,
               struct wire_message *message)
{
  uint32_t remote_count = remote ? remote->fd_count : 0;

  message->fd_count = message->remote_fd_count = 0;
  if (address->fd_count + remote_count == 0 || peer->side_state != SIDE_OPEN || peer->side.fd < 0)
    return;
  struct side_out *last = calloc(1, sizeof *last);
  int rc = last ? add_fds(&last->batch, address) : -ENOMEM;
  if (rc == 0 && remote)
    rc = add_fds(&last->batch, remote);
  if (rc < 0) {
    pst_log(PST_LOG_WARN, "control: descriptors for %s could not be duplicated: %s", peer->text,
            strerror(-rc));
    if (last)
      side_close_fds(&last->batch);
    free(last);
    return;
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
}

void pass_event(struct peer *peer, uint32_t events)
{
  int rc = 0;

  if (peer->state == PEER_DEAD || peer->side.fd < 0)
    return;
  if (events & EPOLLOUT)
    send_queued(peer);
  while (peer->side.fd >= 0 && rc == 0 && peer->side_in_count < SIDE_QUEUE) {
    rc = side_receive_fds(peer->side.fd, &peer->side_in[peer->side_in_count]);
    if (rc == 0)
      peer->side_in_count++;
  }
  if (rc == -EPROTO) {
    peer_drop(peer, -EPROTO, "sent too many descriptors, or something else, by the side-socket");
    pass_close(peer);
    return;
  }
  /* Once it has ended, what came before still belongs to frames on their way. */
  if ((rc < 0 && rc != -EAGAIN) || (events & (EPOLLHUP | EPOLLERR) && rc == 0))
    watch_close(peer->control, &peer->side);
  if (peer->side.fd < 0 && peer->side_in_count == 0)
    pass_close(peer);
  watch_side(peer);
  if (peer->awaits_fds)
    peer_process(peer);
}

int pass_take(struct peer *peer, const struct wire_message *message, struct side_fds *batch)
{
  uint32_t count = message->fd_count + message->remote_fd_count;

  /* An answer to an OFFER may carry descriptors: know first whether it can. */
  if (peer->side_state == SIDE_PENDING &&
      (count > 0 || message->type == WIRE_OFFER || message->type == WIRE_JOIN))
    return -EAGAIN;
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

void pass_accept(struct control *control)
{
  for (;;) {
    int fd = side_accept(control->side_listener.fd);
    if (fd < 0)
      return;
    struct guest *guest = control->guest_count < GUESTS_MAX ? calloc(1, sizeof *guest) : NULL;
    if (!guest) {
      close(fd);
      continue;
    }
    guest->control = control;
    guest->watch = (struct watch){WATCH_GUEST, fd, UINT32_MAX, guest};
    guest->token_by_ns = control->now_ns + control->limits.answer_ns;
    guest->next = control->guests;
    control->guests = guest;
    control->guest_count++;
    watch_set(control, &guest->watch, EPOLLIN);
  }
}

static struct peer *peer_of_token(struct control *control, const uint8_t token[WIRE_TOKEN_BYTES])
{
  for (struct peer *peer = control->peers; peer; peer = peer->next) {
    if (!peer->is_connector && !peer->in_process && peer->state < PEER_CLOSING &&
        memcmp(peer->token, token, WIRE_TOKEN_BYTES) == 0)
      return peer;
  }
  return NULL;
}

void pass_guest_event(struct guest *guest)
{
  struct control *control = guest->control;
  uint8_t token[WIRE_TOKEN_BYTES];
  uint32_t uid = 0;

  int rc = side_receive_token(guest->watch.fd, token);
  if (rc == -EAGAIN)
    return;
  struct peer *peer = rc == 0 ? peer_of_token(control, token) : NULL;
  if (!peer || peer->side_state == SIDE_OPEN || peer->side_state == SIDE_DENIED) {
    watch_close(control, &guest->watch);
    return;
  }
  if (side_check_peer(guest->watch.fd, &uid) < 0) {
    pst_log(PST_LOG_WARN,
            "control: no descriptors to or from %s: it belongs to user %u; run both ends as one "
            "user",
            peer->text, uid);
    watch_close(control, &guest->watch);
    peer->side_state = SIDE_DENIED;
  } else {
    int fd = guest->watch.fd;
    epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    guest->watch = (struct watch){WATCH_GUEST, -1, UINT32_MAX, guest};
    peer->side.fd = fd;
    peer->side_state = SIDE_OPEN;
    watch_side(peer);
  }
  if (peer->awaits_fds)
    peer_process(peer);
}

uint64_t pass_tick(struct control *control)
{
  uint64_t next = UINT64_MAX;

  for (struct guest **at = &control->guests; *at;) {
    struct guest *guest = *at;
    if (guest->watch.fd >= 0 && control->now_ns >= guest->token_by_ns)
      watch_close(control, &guest->watch);
    if (guest->watch.fd >= 0) {
      next = sooner(next, guest->token_by_ns);
      at = &guest->next;
      continue;
    }
    *at = guest->next;
    control->guest_count--;
    free(guest);
  }
  return next;
}

void pass_close_guests(struct control *control)
{
  for (struct guest *guest = control->guests; guest; guest = guest->next)
    watch_close(control, &guest->watch);
  pass_tick(control);
}
