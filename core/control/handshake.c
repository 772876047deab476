/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"
#include "util/log.h"

void handshake_hello(struct peer *peer, bool side_open)
{
  struct control *control = peer->control;
  struct wire_message *hello = &control->say;

  memset(hello, 0, sizeof *hello);
  hello->type = WIRE_HELLO;
  hello->major = WIRE_MAJOR;
  hello->minor = WIRE_MINOR;
  hello->role = peer->is_connector ? control->flow->connector : control->flow->acceptor;
  hello->pid = (uint64_t)getpid();
  memcpy(hello->host, control->host, sizeof hello->host);
  memcpy(hello->boot_id, control->boot_id, sizeof hello->boot_id);
  snprintf(hello->library, sizeof hello->library, "%s", PST_API_VERSION);
  if (!peer->is_connector && control->side_listener.fd >= 0) {
    memcpy(hello->side, control->side_name, sizeof hello->side);
    memcpy(hello->token, peer->token, sizeof hello->token);
    hello->has_token = true;
  }
  hello->side_open = side_open;
  peer_send(peer, hello);
}

/* Sender: connect to the side-socket that the receiver has named. */
static void open_side(struct peer *peer, const struct wire_message *hello)
{
  struct control *control = peer->control;
  uint32_t uid = 0;

  if (peer->side_state == SIDE_OPEN || !hello->side[0] || !hello->has_token)
    return;
  if (!control->boot_id[0] || strcmp(control->boot_id, hello->boot_id) != 0)
    return;
  int fd = side_connect(hello->side);
  if (fd < 0) {
    pst_log(PST_LOG_DEBUG, "control: no side-socket to %s: %s", peer->text, strerror(-fd));
    return;
  }
  int rc = side_check_peer(fd, &uid);
  if (rc == 0)
    rc = side_send_token(fd, hello->token);
  if (rc < 0) {
    pst_log(PST_LOG_WARN,
            "control: no descriptors to or from %s: %s (its user is %u); run both ends as one user",
            peer->text, strerror(-rc), uid);
    close(fd);
    return;
  }
  peer->side.fd = fd;
  peer->side_state = SIDE_OPEN;
  watch_set(control, &peer->side, EPOLLIN);
}

void handshake_got_hello(struct peer *peer, const struct wire_message *hello)
{
  const struct control_flow *flow = peer->control->flow;
  uint32_t wanted = peer->is_connector ? flow->acceptor : flow->connector;

  if (peer->state != PEER_HELLO) {
    peer_drop(peer, -EPROTO, "said HELLO twice");
    return;
  }
  if (hello->major != WIRE_MAJOR) {
    /* Ours goes first, so that the other end can say the same. */
    if (peer->is_connector)
      handshake_hello(peer, false);
    peer_drop(peer, -EPROTO,
              "speaks version %u.%u of the control protocol, this end %u.%u: install the same "
              "release of Penstock on both",
              hello->major, hello->minor, WIRE_MAJOR, WIRE_MINOR);
    return;
  }
  if (hello->role != wanted && (hello->role == WIRE_NODE || wanted == WIRE_NODE)) {
    peer_drop(peer, -EPROTO, "%s",
              wanted == WIRE_NODE
                  ? "has streams (`penstock send`, `receive`), and this end serves on demand "
                    "(`penstock serve`): give each a port of its own"
                  : "serves on demand (`penstock serve`), and this end has streams (`penstock "
                    "send`, `receive`): give each a port of its own");
    return;
  }
  if (hello->role != wanted) {
    peer_drop(peer, -EPROTO,
              "is a %s, as this end is: run `penstock send` on one and `penstock "
              "receive` on the other",
              peer->is_connector ? "sender" : "receiver");
    return;
  }
  snprintf(peer->text, sizeof peer->text, "%s, process %llu %s%s",
           hello->host[0] ? hello->host : "unnamed host", (unsigned long long)hello->pid,
           peer->in_process ? "(this one)" : "at ", peer->in_process ? "" : peer->place);
  if (peer->is_connector) {
    open_side(peer, hello);
    handshake_hello(peer, peer->side_state == SIDE_OPEN);
  } else if (hello->side_open && peer->side_state == SIDE_NONE &&
             peer->control->side_listener.fd >= 0) {
    peer->side_state = SIDE_PENDING;
  }
  if (peer->state != PEER_HELLO)
    return;
  peer->state = PEER_UP;
  pst_log(PST_LOG_DEBUG, "control: %s is here (Penstock %s%s)", peer->text, hello->library,
          peer->side_state == SIDE_OPEN ? ", passes descriptors" : "");
  if (peer->is_connector)
    flow->up(peer);
}
