/* SPDX-License-Identifier: Apache-2.0 */
/* Closes descriptors that came from a peer.
 *
 * The last close of a descriptor can wait as long as its maker likes: a socket that lingers, a
 * file of a FUSE server. So threads that serve others hand such descriptors over. */
#ifndef PST_UTIL_CLOSER_H
#define PST_UTIL_CLOSER_H

/* Another thread closes it, soon. Does not wait. Any thread; -1 does nothing. Without memory or
 * threads for that it is closed at once. */
void closer_close(int fd);

#endif
