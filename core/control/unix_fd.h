/* SPDX-License-Identifier: Apache-2.0 */
/* The Unix socket: who is at the other end of a TCP connection on this host, and descriptors
 * between the two processes.
 *
 * A Unix socket in a folder that its user alone may enter, $XDG_RUNTIME_DIR/penstock-unix-XXXXXX or
 * /tmp/penstock-unix-XXXXXX. Both ends look at the other's user id, which must be their own. An end
 * that is open to all users (`insecure`) does not look, and lets others enter the folder. First
 * each says what it sees of the TCP connection: a relay in between has two of them, whose
 * addresses differ. Then come ids with the descriptors of one frame each.
 *
 * closer_close() closes descriptors that came from a peer. */
#ifndef PST_CONTROL_UNIX_FD_H
#define PST_CONTROL_UNIX_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define UNIX_FDS_MAX WIRE_FDS_MAX
#define UNIX_CLAIM_BYTES (WIRE_TOKEN_BYTES + 8 + 2 * 18)

struct unix_fds {
  uint64_t id;
  uint32_t count;
  int fds[UNIX_FDS_MAX];
};

struct unix_listener {
  int fd;
  int folder_fd;                     /* holds a lock: without it the folder is a dead process's */
  char path[WIRE_UNIX_PATH_MAX + 1]; /* of the socket */
};

/* A TCP connection as the end says that connected: its token, the network namespace, its own
 * address, the other's. */
struct unix_claim {
  uint8_t bytes[UNIX_CLAIM_BYTES];
};

/* Descriptors of a Unix socket, or -errno. They do not block. */
int unix_listen(bool is_open, struct unix_listener *listener);
void unix_unlisten(struct unix_listener *listener);
/* -EACCES: of another user, and not open; whose it is says *uid; it is closed. */
int unix_accept(int listener, bool is_open, uint32_t *uid);
/* -EACCES: as above, or the folder is. -ENOENT: not on this host, or in none of our folders.
 * -EINVAL: no Unix socket's path. */
int unix_connect(const char *path, bool is_open, uint32_t *uid);

/* Makes the claim that names the connection `tcp_fd`. 0 or -errno. */
int unix_claim_make(int tcp_fd, bool has_connected, const uint8_t token[WIRE_TOKEN_BYTES],
                    struct unix_claim *claim);
/* Sends a claim on a Unix socket. 0 or -errno. */
int unix_send_claim(int fd, const struct unix_claim *claim);
/* 0; -EAGAIN; -ECONNRESET: closed; -EPROTO: something else came. */
int unix_receive_claim(int fd, struct unix_claim *claim);
/* The descriptors stay the caller's. */
int unix_send_fds(int fd, const struct unix_fds *batch);
/* The descriptors are the caller's. As above; -EPROTO: malformed or too many; -EMFILE: this
 * process has too many open. None is left open then. */
int unix_receive_fds(int fd, struct unix_fds *batch);

/* Close the descriptors that a peer has sent. */
void unix_close_fds(struct unix_fds *batch);

int unix_random(void *bytes, size_t length);

#endif
