/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTRACT_COMMON_H
#define CONTRACT_COMMON_H

#include <stdint.h>

/* Nothing here takes longer, unless it never ends. */
#define CONTRACT_DEADLINE_NS UINT64_C(20000000000)

uint64_t contract_now_ns(void);
/* The same numbers in each run. */
uint64_t contract_random(void);

#endif
