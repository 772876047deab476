/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver's counters, the medium's losses by cause among them; and what it says once, in the
 * log, of datagrams that are no messages. */
#ifndef DATAGRAM_COUNTERS_H
#define DATAGRAM_COUNTERS_H

#include "endpoint.h"

/* By causes of the medium, in flow.h's units and in messages. */
struct dg_losses {
  uint64_t tail[DG_CAUSES_MAX];     /* units behind the last that a gap was matched with */
  uint64_t messages[DG_CAUSES_MAX]; /* lost for certain */
  uint64_t behind[DG_CAUSES_MAX];   /* lost behind the last message, at most */
  uint64_t no_gap;                  /* of `messages`, those that left no gap in the numbers */
};

/* In three steps, so that a transport can put in what it knows: the tail of what the flow has
 * learnt (the transport adds what it has counted since and told with no arrival yet, or takes off);
 * what follows from it (the transport may move messages from one cause to another); the counters.
 */
void dg_losses_tail(const struct dg_endpoint *endpoint, struct dg_losses *losses);
void dg_losses_count(const struct dg_receiver *receiver, struct dg_losses *losses);
/* datagrams == messages_received + bad_header + bad_checksum + too_long + not_ours + wrong_nonce
 *              + displaced + too_late + too_far + held */
void dg_counters_receiver(struct pst_counter_list *list, struct dg_endpoint *endpoint,
                          const struct dg_losses *losses);

#endif
