/* SPDX-License-Identifier: Apache-2.0 */
/* Closes descriptors that came from a peer.
 *
 * The last close of a descriptor can wait as long as its maker likes: a socket in which others lie,
 * a file of a FUSE server. So threads that serve others hand such descriptors over. Sockets do not
 * linger any more. */
#ifndef PST_UTIL_CLOSER_H
#define PST_UTIL_CLOSER_H

#include <stdbool.h>

/* Another thread closes it, soon. Does not wait. Any thread; -1 does nothing. Without memory or
 * threads for that it is closed at once. */
void closer_close(int fd);

/* True if no more descriptors may be taken from peers: too many wait to be closed, or one has
 * waited too long, and they would use up the descriptors of this process. Any thread. */
bool closer_is_behind(void);
/* Text for a log when the closer is behind, with the remedy. */
#define CLOSER_BEHIND                                                                              \
  "descriptors that came from peers cannot be closed, since close() on them does not return; end " \
  "the processes of this user that pass sockets or FUSE files to this one"

#endif
