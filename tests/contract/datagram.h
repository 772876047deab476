/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the cases for transports of datagrams. */
#ifndef CONTRACT_DATAGRAM_H
#define CONTRACT_DATAGRAM_H

#include "harness.h"

/* A counter of the side's only endpoint. The case fails if there is none of that name. */
uint64_t datagram_counter(struct contract_side *side, const char *name);
/* A receiver: what was read is delivered or classified. */
void datagram_check_counters(struct contract_side *side);

int contract_datagram_run(const struct contract_variant *variant);
/* Runs the cases of transports that announce SHARED_RING. */
int contract_datagram_share_run(const struct contract_variant *variant);

#endif
