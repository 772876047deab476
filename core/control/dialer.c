/* SPDX-License-Identifier: Apache-2.0 */
/* Connects: to which address, and when the next try is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "listener.h"
#include "peer.h"
#include "util/clock.h"
#include "util/log.h"

#define CONNECT_PAUSE_MIN_NS (20 * PST_NS_PER_MS)
#define CONNECT_PAUSE_MAX_NS (500 * PST_NS_PER_MS)

int dialer_resolve(struct control *control, const char *address, bool insecure,
                   struct pst_error *error)
{
  int rc = address_resolve(control, address, false, insecure, &control->targets, error);

  if (rc < 0)
    return rc;
  control->connect_insecure = insecure;
  control->connect_text = strdup(address);
  control->connect_pause_ns = CONNECT_PAUSE_MIN_NS;
  return control->connect_text
             ? 0
             : pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
}

void dialer_again(struct control *control, const char *why)
{
  snprintf(control->connect_why, sizeof control->connect_why, "%s", why);
  control->link = NULL;
  if (++control->target_next < control->targets.count) {
    control->connect_at_ns = control->now_ns;
    return;
  }
  control->target_next = 0;
  control->connect_at_ns = control->now_ns + control->connect_pause_ns;
  control->connect_pause_ns = sooner(2 * control->connect_pause_ns, CONNECT_PAUSE_MAX_NS);
}

struct peer *dialer_connect(struct control *control, const struct socket_address *target,
                            bool insecure, int *code)
{
  int fd = socket_connect(target);

  if (fd < 0) {
    *code = fd;
    return NULL;
  }
  struct peer *peer = peer_new(control, fd, PEER_CONNECTING, true);
  if (!peer) {
    struct watch none = {WATCH_PEER, fd, UINT32_MAX, NULL};
    watch_close(control, &none);
    *code = -ENOMEM;
    return NULL;
  }
  peer->must_show = !insecure;
  socket_text(target, peer->place);
  snprintf(peer->text, sizeof peer->text, "what answers at %s", peer->place);
  peer_watch(peer);
  return peer;
}
