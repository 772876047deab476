/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of a connection's frames, which go by a socket of their own: unix_fd.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "connection.h"
#include "util/closer.h"
#include "util/log.h"

static void fd_channel_free_first_out(struct connection *peer)
{
  struct fd_channel_out *first = peer->fd_channel_out;

  peer->fd_channel_out = first->next;
  blob_free(&first->fds);
  free(first);
}

void fd_channel_close(struct connection *peer)
{
  watch_discard(peer->control, &peer->fd_channel);
  peer->fd_channel_state = FD_CHANNEL_NONE;
  for (uint32_t i = 0; i < peer->fd_channel_in_count; i++)
    unix_close_fds(&peer->fd_channel_in[i]);
  peer->fd_channel_in_count = 0;
  while (peer->fd_channel_out)
    fd_channel_free_first_out(peer);
}

void fd_channel_watch(struct connection *peer)
{
  watch_set(peer->control, &peer->fd_channel,
            (peer->fd_channel_in_count < FD_CHANNEL_QUEUE ? (uint32_t)EPOLLIN : 0) |
                (peer->fd_channel_out ? (uint32_t)EPOLLOUT : 0));
}

static void fd_channel_send_queued(struct connection *peer)
{
  while (peer->fd_channel_out) {
    const struct pst_blob *fds = &peer->fd_channel_out->fds;
    struct unix_fds batch = {.id = peer->fd_channel_out->id, .count = fds->fd_count};
    memcpy(batch.fds, fds->fds, sizeof(batch.fds));
    int rc = unix_send_fds(peer->fd_channel.fd, &batch);
    if (rc == -EAGAIN)
      return;
    if (rc < 0) {
      pst_log(PST_LOG_WARN,
              "control: descriptors cannot be passed to %s: %s; a transport that needs them for "
              "shared memory will say so",
              peer->text, strerror(-rc));
      fd_channel_close(peer);
      return;
    }
    fd_channel_free_first_out(peer);
  }
}

bool fd_channel_send(struct connection *peer, const struct pst_blob *blob,
                     struct wire_message *message)
{
  message->fd_count = 0;
  if (blob->fd_count == 0 || peer->fd_channel_state != FD_CHANNEL_OPEN || peer->fd_channel.fd < 0)
    return true;
  struct pst_blob fds = *blob;
  struct fd_channel_out *last = calloc(1, sizeof(*last));
  fds.length = 0;
  int rc = last ? blob_keep(&fds, &last->fds) : -ENOMEM;
  if (rc < 0) {
    free(last);
    connection_fail(peer, rc, "cannot pass descriptors");
    return false;
  }
  message->fd_count = blob->fd_count;
  message->fd_id = last->id = ++peer->fd_channel_id;

  struct fd_channel_out **end = &peer->fd_channel_out;
  while (*end)
    end = &(*end)->next;
  *end = last;
  fd_channel_send_queued(peer);
  fd_channel_watch(peer);
  return true;
}

int fd_channel_claim(struct connection *peer, const char *path, uint32_t *uid)
{
  struct unix_claim claim;
  int fd = unix_connect(path, peer->is_insecure, uid);

  if (fd < 0)
    return fd;
  int rc = unix_claim_make(peer->main.fd, true, peer->token, &claim);
  if (rc == 0)
    rc = unix_send_claim(fd, &claim);
  if (rc < 0) {
    close(fd);
    return rc;
  }
  peer->fd_channel.fd = fd;
  peer->fd_channel_state = FD_CHANNEL_CLAIMING;
  return watch_set(peer->control, &peer->fd_channel, EPOLLIN);
}

bool fd_channel_got_answer(struct connection *peer, int *code)
{
  struct unix_claim ours, theirs;
  int rc = unix_receive_claim(peer->fd_channel.fd, &theirs);

  if (rc == -EAGAIN)
    return false;
  if (rc == 0)
    rc = unix_claim_make(peer->main.fd, true, peer->token, &ours);
  if (rc == 0 && peer->must_show && memcmp(&ours, &theirs, sizeof(ours)) != 0)
    rc = -EPERM;
  if (rc < 0) {
    fd_channel_close(peer);
  } else {
    peer->fd_channel_state = FD_CHANNEL_OPEN;
    fd_channel_watch(peer);
  }
  *code = rc;
  return true;
}

/* Nothing is received while earlier descriptors cannot be closed. */
static bool fd_channel_give_up(struct connection *peer)
{
  control_complain(peer->control, PST_LOG_WARN, "control: refusing descriptors: " CLOSER_BEHIND);
  connection_fail(peer, -EBUSY, "accepts no descriptors: closing earlier ones has not finished");
  fd_channel_close(peer);
  return false;
}

bool fd_channel_event(struct connection *peer, uint32_t events)
{
  int rc = 0;

  if (events & EPOLLOUT)
    fd_channel_send_queued(peer);
  while (peer->fd_channel.fd >= 0 && rc == 0 && peer->fd_channel_in_count < FD_CHANNEL_QUEUE) {
    rc = closer_is_behind() ? -EBUSY
                            : unix_receive_fds(peer->fd_channel.fd,
                                               &peer->fd_channel_in[peer->fd_channel_in_count]);
    if (rc == 0)
      peer->fd_channel_in_count++;
  }
  if (rc == -EBUSY && !(events & (EPOLLIN | EPOLLHUP)))
    rc = -EAGAIN;
  else if (rc == -EBUSY && !(events & EPOLLHUP))
    return fd_channel_give_up(peer);
  if (rc == -EMFILE) {
    connection_fail(peer, rc, "cannot take descriptors");
    fd_channel_close(peer);
    return false;
  }
  if (rc == -EPROTO) {
    connection_drop(peer, -EPROTO,
                    "sent too many descriptors, or something else, by the Unix socket");
    fd_channel_close(peer);
    return false;
  }
  /* Once it has ended, what came before still belongs to frames on their way. */
  if ((rc < 0 && rc != -EAGAIN) || (events & (EPOLLHUP | EPOLLERR) && rc == 0))
    watch_discard(peer->control, &peer->fd_channel);
  if (peer->fd_channel.fd < 0 && peer->fd_channel_in_count == 0)
    fd_channel_close(peer);
  fd_channel_watch(peer);
  return true;
}

int fd_channel_take(struct connection *peer, const struct wire_message *message,
                    struct unix_fds *batch)
{
  const uint32_t count = message->fd_count;

  if (count == 0 || peer->fd_channel_state != FD_CHANNEL_OPEN)
    return 0;
  while (peer->fd_channel_in_count > 0) {
    struct unix_fds first = peer->fd_channel_in[0];
    if (first.id > message->fd_id)
      return -EPROTO;
    peer->fd_channel_in_count--;
    memmove(&peer->fd_channel_in[0], &peer->fd_channel_in[1],
            peer->fd_channel_in_count * sizeof(first));
    fd_channel_watch(peer);
    if (first.id == message->fd_id && first.count == count) {
      *batch = first;
      return 0;
    }
    unix_close_fds(&first);
    if (first.id == message->fd_id)
      return -EPROTO;
  }
  return peer->fd_channel.fd >= 0 ? -EAGAIN : 0;
}
