/* SPDX-License-Identifier: Apache-2.0 */
/* For wrappers: counts, and says whether this one fails. */
#ifndef FUZZ_ALLOCATION_WRAP_H
#define FUZZ_ALLOCATION_WRAP_H

#include <stdbool.h>

bool allocation_fails(void);

#endif
