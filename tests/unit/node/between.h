/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger between a node and its server, who sees the frames of the control channel, adds to
 * them, and hangs up. */
#ifndef NODE_BETWEEN_H
#define NODE_BETWEEN_H

#include "control/wire.h"
#include "support.h"

/* One direction, by whole frames. */
struct way {
  int from, to;
  uint8_t bytes[2 * WIRE_FRAME_MAX];
  size_t length;
  uint32_t frames; /* that went through */
};

struct between {
  int listener;
  char address[64];
  struct way up, down; /* to the server, to the client */
  uint32_t most;       /* frames in all, then it hangs up */
  uint8_t key[1024];   /* of the last REGION that went up */
  size_t key_bytes;
  uint64_t key_length; /* of the region */
};

void between_listen(struct between *between);
/* All that there is to pass on, once; whoever calls is connected to the server at `port`. */
void between_pass(struct between *between, uint16_t port);
/* Say something to the server as if the client had. */
void between_add(struct between *between, const struct wire_message *said);
void between_hang_up(struct between *between);

#endif
