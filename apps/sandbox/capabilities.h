/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities of the process, given up for good: capabilities(7). */
#ifndef APP_SANDBOX_CAPABILITIES_H
#define APP_SANDBOX_CAPABILITIES_H

#include <stdint.h>

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* The calling thread, and those that it starts, have none but `kept`. 0 or -errno. */
int capabilities_keep(uint64_t kept);

#endif
