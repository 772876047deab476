/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO: who may speak to whom. Neither end says who it is before it knows enough of the other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "listener.h"
#include "messages.h"
#include "protocol.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

#define REASON_NS (PST_NS_PER_S / 2)

static struct wire_message *handshake_new_hello(const struct connection *peer)
{
  struct control *control = peer->control;
  struct wire_message *hello = message_new(control, WIRE_HELLO);

  hello->major = WIRE_MAJOR;
  hello->minor = WIRE_MINOR;
  hello->role = peer->is_connector ? control->protocol->connector : control->protocol->acceptor;
  return hello;
}

void handshake_open(struct connection *peer)
{
  const struct control *control = peer->control;
  struct wire_message *hello = handshake_new_hello(peer);

  if (!peer->is_connector && control->unix_listener.fd >= 0 && socket_is_local(peer->main.fd)) {
    memcpy(hello->unix_path, control->unix_listener.path, sizeof(hello->unix_path));
    memcpy(hello->token, peer->token, sizeof(hello->token));
    hello->has_token = true;
  }
  connection_send(peer, hello);
}

/* True: it goes on. */
static bool handshake_introduce(struct connection *peer)
{
  const struct control *control = peer->control;
  struct wire_message *hello = handshake_new_hello(peer);

  hello->has_identity = true;
  hello->pid = (uint64_t)getpid();
  memcpy(hello->host, control->host, sizeof(hello->host));
  snprintf(hello->library, sizeof(hello->library), "%s", PST_API_VERSION);
  connection_send(peer, hello);
  return peer->state < PEER_CLOSING;
}

static void handshake_drop_unshown(struct connection *peer, int rc, uint32_t uid)
{
  const char *insecure = peer->control->words->insecure;

  if (rc == -EACCES)
    connection_drop(
        peer, rc,
        "belongs to user %u, this end to user %u: run both as one user; where all users of "
        "the host may take part, %s at both ends",
        uid, (uint32_t)geteuid(), insecure);
  else if (rc == -EPERM)
    connection_drop(
        peer, -EACCES,
        "is not connected to directly: a relay lies between, or another process answers; "
        "connect without port forwarding, or, where all users of the host may take part, "
        "%s at both ends",
        insecure);
  else
    connection_drop(
        peer, -EACCES,
        "cannot show which user it belongs to: no Unix socket (%s); in containers mount one "
        "folder for both and name it in XDG_RUNTIME_DIR, or, where all users of the host "
        "may take part, %s at both ends",
        strerror(-rc), insecure);
}

static void handshake_claim_failed(struct connection *peer, int rc, uint32_t uid)
{
  if (limit_remedy(rc)[0]) {
    connection_fail(peer, rc, "cannot open the Unix socket");
    return;
  }
  if (peer->must_show && (rc == -ECONNRESET || rc == -EPIPE)) {
    /* Closed without an answer. Why, the connection will tell, unless it is another process that
     * answers there. */
    peer->answer_by_ns = control_sooner(peer->answer_by_ns, peer->control->now_ns + REASON_NS);
    return;
  }
  if (peer->must_show) {
    handshake_drop_unshown(peer, rc, uid);
    return;
  }
  if (rc == -EACCES)
    control_complain(peer->control, PST_LOG_WARN,
                     "control: no descriptors to or from %s: it belongs to user %u; run both ends "
                     "as one user",
                     peer->text, uid);
  else
    pst_log(PST_LOG_DEBUG, "control: no Unix socket to %s: %s", peer->text, strerror(-rc));
  if (handshake_introduce(peer))
    peer_enter(peer, PEER_NAMING);
}

bool handshake_has_no_reason(struct connection *peer)
{
  if (peer->state != PEER_CLAIMING || peer->fd_channel_state != FD_CHANNEL_NONE)
    return false;
  handshake_drop_unshown(peer, -EPERM, 0);
  return true;
}

void handshake_side(struct connection *peer, int rc)
{
  if (peer->state != PEER_CLAIMING)
    return;
  if (rc < 0)
    handshake_claim_failed(peer, rc, 0);
  else if (handshake_introduce(peer))
    peer_enter(peer, PEER_NAMING);
}

/* Connector: who listens has spoken first. */
static void handshake_meet(struct connection *peer, const struct wire_message *hello)
{
  uint32_t uid = 0;
  int rc = -ENOENT;

  peer_enter(peer, PEER_CLAIMING);
  if (peer->in_process) {
    handshake_side(peer, 0);
    return;
  }
  if (hello->unix_path[0] && hello->has_token) {
    memcpy(peer->token, hello->token, sizeof(peer->token));
    rc = fd_channel_claim(peer, hello->unix_path, &uid);
  }
  if (rc < 0)
    handshake_claim_failed(peer, rc, uid);
}

/* Checks the version, role and protocol of a peer's HELLO. A peer that does not fit is dropped with
 * the reason: false. */
static bool handshake_check_hello(struct connection *peer, const struct wire_message *hello)
{
  const struct control_protocol *protocol = peer->control->protocol;
  uint32_t wanted = peer->is_connector ? protocol->acceptor : protocol->connector;

  if (peer->state != PEER_HELLO && peer->state != PEER_NAMING) {
    connection_drop(peer, -EPROTO, "said HELLO twice");
  } else if (hello->major != WIRE_MAJOR) {
    /* Ours goes first, so that the other end can say the same. */
    if (peer->is_connector)
      handshake_open(peer);
    connection_drop(
        peer, -EPROTO,
        "speaks version %u.%u of the control protocol, this end %u.%u: install the same "
        "release of Penstock on both",
        hello->major, hello->minor, WIRE_MAJOR, WIRE_MINOR);
  } else if (!peer->is_connector && peer->must_show && peer->fd_channel_state != FD_CHANNEL_OPEN) {
    connection_drop(
        peer, -EACCES,
        "has not shown which user it belongs to: run both ends as one user of this host, or, "
        "where all users may take part, %s at both ends",
        peer->control->words->insecure);
  } else if (hello->role != wanted && (hello->role == WIRE_NODE || wanted == WIRE_NODE)) {
    connection_drop(
        peer, -EPROTO, "%s",
        wanted == WIRE_NODE
            ? "has streams (`penstock send`, `receive`), and this end serves on demand "
              "(`penstock serve`): give each a port of its own"
            : "serves on demand (`penstock serve`), and this end has streams (`penstock "
              "send`, `receive`): give each a port of its own");
  } else if (hello->role != wanted) {
    connection_drop(peer, -EPROTO,
                    "is a %s, as this end is: run `penstock send` on one and `penstock "
                    "receive` on the other",
                    peer->is_connector ? protocol->connector_name : protocol->acceptor_name);
  } else {
    return true;
  }
  return false;
}

void handshake_got_hello(struct connection *peer, const struct wire_message *hello)
{
  if (!handshake_check_hello(peer, hello))
    return;
  if (peer->is_connector && peer->state == PEER_HELLO) {
    handshake_meet(peer, hello);
    return;
  }
  snprintf(peer->text, sizeof(peer->text), "%s, pid %llu, %s%s%s",
           hello->host[0] ? hello->host : "unnamed host", (unsigned long long)hello->pid,
           peer->in_process ? "this process" : peer->place, peer->tls ? ", " : "",
           peer->tls ? tls_session_peer(peer->tls) : "");
  if (!peer->is_connector && !handshake_introduce(peer))
    return;
  peer_enter(peer, PEER_UP);
  pst_log(PST_LOG_DEBUG, "control: %s is here (Penstock %s%s)", peer->text, hello->library,
          peer->fd_channel_state == FD_CHANNEL_OPEN ? ", passes descriptors" : "");
  if (peer->is_connector)
    peer->control->protocol->up(peer);
}
