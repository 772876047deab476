/* SPDX-License-Identifier: Apache-2.0 */
/* Watching a peer's process on this host. */
#ifndef UCX_WATCH_H
#define UCX_WATCH_H

#include <stdbool.h>

#include "wire.h"

struct ucx_link;

/* The identity of this process. False: /proc does not say. */
bool ucx_identity_read(struct ucx_identity *identity);
/* Both see the processes of one host by the same numbers. */
bool ucx_identity_is_near(const struct ucx_identity *own, const struct ucx_identity *peer);
/* A descriptor that is readable once that process is gone; -1: it is this process. -ECONNRESET: it
 * is gone already; another -errno: it cannot be watched. */
int ucx_watch_open(const struct ucx_identity *own, const struct ucx_identity *peer, int *pidfd);
/* From now on ucx_watch_look() marks the link. */
int ucx_watch_begin(int watch_fd, int pidfd, struct ucx_link *link);
void ucx_watch_forget(int watch_fd, int pidfd);
void ucx_watch_end(int pidfd);
/* Mark links whose peer has died. */
void ucx_watch_look(int watch_fd);

#endif
