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

/* First step of counting losses: the tail of what the flow has learnt. The transport then adds what
 * it has counted and not yet reported. */
void dg_losses_tail(const struct dg_endpoint *endpoint, struct dg_losses *losses);
/* Second step: what follows from the tail. The transport may then move messages from one cause to
 * another, before the counters are written. */
void dg_losses_count(const struct dg_receiver *receiver, struct dg_losses *losses);
/* datagrams == messages_received + bad_header + bad_checksum + too_long + not_ours + wrong_nonce
 *              + displaced + too_late + too_far + unauthentic + replayed + held */
void dg_counters_receiver(struct pst_counter_list *list, struct dg_endpoint *endpoint,
                          const struct dg_losses *losses);

#endif
