/* SPDX-License-Identifier: Apache-2.0 */
/* Drops capabilities for good: capabilities(7). */
#ifndef APP_SANDBOX_CAPABILITIES_H
#define APP_SANDBOX_CAPABILITIES_H

#include <stdint.h>

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* Drop all capabilities but `kept`, in the calling thread and in threads that it starts. 0 or
 * -errno. */
int capabilities_keep(uint64_t kept);

#endif
