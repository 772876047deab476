/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS handshake of a connection, and reading through TLS. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "connection.h"
#include "listener.h"
#include "messages.h"
#include "util/host_port.h"

#define HOST_BYTES 256
#define RECEIVE_BYTES 4096
#define RECEIVES_A_TURN 16

bool connection_begin_tls(struct connection *peer)
{
  struct pst_host_port parts;
  char host[HOST_BYTES] = "";

  if (peer->is_connector && peer->tls_host && pst_host_port_split(peer->tls_host, &parts))
    snprintf(host, sizeof(host), "%.*s", (int)parts.host_length, parts.host);
  peer->tls = tls_session_new(peer->control->tls, peer->is_connector ? host : NULL);
  peer_enter(peer, peer->tls ? PEER_SECURING : PEER_DEAD);
  return peer->tls;
}

/* Continues in clear, so that a peer without TLS can read the BYE with the reason. */
static void connection_forsake_tls(struct connection *peer)
{
  tls_session_free(peer->tls);
  peer->tls = NULL;
}

static void connection_secured(struct connection *peer)
{
  peer_enter(peer, PEER_HELLO);
  peer->has_unread = true; /* bytes may have come with the end of the handshake */
  if (!peer->is_connector)
    handshake_open(peer);
  if (peer->refusal)
    listener_refuse(peer, peer->refusal);
}

/* Checks the first bytes of a peer. False: they are not TLS, and the peer is dropped. */
static bool connection_is_tls(struct connection *peer, const uint8_t *bytes, size_t length)
{
  if (peer->tls_began)
    return true;
  peer->tls_began = true;
  if (tls_is_record(bytes, length))
    return true;
  connection_forsake_tls(peer);
  connection_drop(peer, -EACCES,
                  "speaks without TLS, and this end takes TLS alone: write the same `tls` at both "
                  "ends");
  return false;
}

/* 0: done; -EAGAIN: more bytes are needed; else the peer is dropped. */
static int connection_handshake(struct connection *peer)
{
  char why[TLS_WHY_MAX];
  int rc = tls_session_handshake(peer->tls, why);

  connection_queue_tls(peer);
  connection_flush(peer);
  if (rc == 0)
    connection_secured(peer);
  else if (rc != -EAGAIN)
    connection_drop(peer, rc, "%s", why);
  return rc;
}

void connection_secure(struct connection *peer)
{
  uint8_t bytes[RECEIVE_BYTES];

  for (int i = 0; i < RECEIVES_A_TURN && connection_handshake(peer) == -EAGAIN; i++) {
    ssize_t n = recv(peer->main.fd, bytes, sizeof(bytes), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0) {
      connection_read_lost(peer, n < 0 ? -errno : 0);
      return;
    }
    if (!connection_is_tls(peer, bytes, (size_t)n))
      return;
    int rc = tls_session_feed(peer->tls, bytes, (size_t)n);
    if (rc < 0) {
      connection_drop(peer, rc == -ENOMEM ? rc : -EACCES, "%s",
                      rc == -ENOMEM ? "needs more memory than there is"
                                    : "sent more bytes than a TLS handshake has");
      return;
    }
  }
}

static ssize_t connection_receive_tls(struct connection *peer, void *to, size_t size,
                                      char why[TLS_WHY_MAX])
{
  uint8_t bytes[RECEIVE_BYTES];
  ssize_t n = tls_session_read(peer->tls, to, size, why);

  for (int i = 0; n == -EAGAIN && i < RECEIVES_A_TURN; i++) {
    n = recv(peer->main.fd, bytes, sizeof(bytes), 0);
    if (n <= 0)
      return n < 0 ? -errno : 0;
    n = tls_session_feed(peer->tls, bytes, (size_t)n);
    if (n == 0)
      n = tls_session_read(peer->tls, to, size, why);
  }
  return n;
}

ssize_t connection_receive(struct connection *peer, void *to, size_t size, char why[TLS_WHY_MAX])
{
  if (!peer->tls) {
    ssize_t n = recv(peer->main.fd, to, size, 0);
    return n < 0 ? -errno : n;
  }
  ssize_t n = connection_receive_tls(peer, to, size, why);
  /* Send an alert, or the answer to a key update. */
  connection_queue_tls(peer);
  connection_flush(peer);
  return n;
}

bool connection_check_tls(struct connection *peer)
{
  struct control *control = peer->control;
  const uint64_t half_ns = control->limits.answer_ns / 2;
  char seconds[24];

  if (!peer->is_connector && !peer->tls_began && control_is_due(control, peer->born_ns + half_ns)) {
    seconds_text(half_ns, seconds);
    connection_forsake_tls(peer);
    connection_drop(peer, -EACCES,
                    "began no TLS within %s, and this end takes TLS alone: write the same `tls` at "
                    "both ends",
                    seconds);
    return true;
  }
  if (!control_is_due(control, peer->answer_by_ns))
    return false;
  seconds_text(control->limits.answer_ns, seconds);
  if (peer->is_connector)
    connection_gone(peer, -ETIMEDOUT, "it accepted the connection and did not finish TLS");
  else
    connection_drop(peer, -ETIMEDOUT, "did not finish the TLS handshake within %s", seconds);
  return true;
}
