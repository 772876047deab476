/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that drive the senders and receivers of a session. */
#ifndef APP_THREAD_H
#define APP_THREAD_H

#include "drive.h"

/* Before the session begins: may each thread run on the CPU that it is given? */
int threads_check(struct drive *drive);
/* Start all; on failure those started are joined. */
int threads_start(struct drive *drive, struct pst_error *error);
/* Wait until each side of each stream is over. */
void threads_join(struct drive *drive);
bool threads_over(const struct drive *drive);

/* One round of a side; how many messages it moved. *until_ns is lowered to when it
 * wants to be called again at the latest. */
uint32_t sender_step(struct flow *flow, uint64_t *until_ns);
uint32_t receiver_step(struct flow *flow, uint64_t *until_ns);

#endif
