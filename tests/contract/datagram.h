/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases for transports of datagrams share. */
#ifndef CONTRACT_DATAGRAM_H
#define CONTRACT_DATAGRAM_H

#include "harness.h"

/* Of the side's one endpoint; fails the case when there is none of that name. */
uint64_t datagram_counter(struct contract_side *side, const char *name);
/* A receiver: what was read is delivered or classified. */
void datagram_check_counters(struct contract_side *side);

int contract_datagram_run(const struct contract_variant *variant);
/* Of those that announce SHARED_RING. */
int contract_datagram_share_run(const struct contract_variant *variant);

#endif
