/* SPDX-License-Identifier: Apache-2.0 */
/* The side-socket: descriptors between two processes of one host.
 *
 * A Unix socket of the abstract namespace under a name nobody can guess, so that
 * nothing is left on disk. Both ends look at the other's credentials: the same
 * user, or root. Its messages are a token (once, from the one that connects) and
 * then an id with the descriptors of one frame of the main connection. */
#ifndef PST_CONTROL_SIDE_H
#define PST_CONTROL_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define SIDE_FDS_MAX (2 * WIRE_FDS_MAX) /* of an address and a region */

struct side_fds {
  uint64_t id;
  uint32_t count;
  int fds[SIDE_FDS_MAX];
};

/* Descriptors of a side-socket, or -errno. They do not block. */
int side_listen(char name[WIRE_SIDE_MAX + 1]);
int side_accept(int listener);
int side_connect(const char *name);
int side_pair(int fds[2]);

/* 0; -EACCES: the other end is another user's, *uid says which. */
int side_check_peer(int fd, uint32_t *uid);

int side_send_token(int fd, const uint8_t token[WIRE_TOKEN_BYTES]);
/* 0; -EAGAIN; -ECONNRESET: closed; -EPROTO: something else came. */
int side_receive_token(int fd, uint8_t token[WIRE_TOKEN_BYTES]);
/* The descriptors stay the caller's. */
int side_send_fds(int fd, const struct side_fds *batch);
/* The descriptors are the caller's. As above; -EPROTO: malformed, too many, or
 * cut off since this process has too many open; none is left open then. */
int side_receive_fds(int fd, struct side_fds *batch);

void side_close_fds(struct side_fds *batch);

/* Of the running kernel; "" when it does not tell. */
void side_boot_id(char *boot_id, size_t size);
int side_random(void *bytes, size_t length);

#endif
