/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that the control thread waits for. */
#ifndef PST_CONTROL_EPOLL_H
#define PST_CONTROL_EPOLL_H

#include <stdint.h>

struct control;

enum watch_kind {
  WATCH_WAKE,
  WATCH_LISTENER,
  WATCH_SIDE_LISTENER,
  WATCH_PEER,
  WATCH_PEER_SIDE,
  WATCH_GUEST,
};

/* What epoll hands back. */
struct watch {
  enum watch_kind kind;
  int fd; /* -1: none */
  uint32_t events;
  void *owner;
};

int watch_set(struct control *control, struct watch *watch, uint32_t events);
void watch_close(struct control *control, struct watch *watch);
/* Likewise, but another thread closes it: unread descriptors of a peer's may be in it. */
void watch_discard(struct control *control, struct watch *watch);

#endif
