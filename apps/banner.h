/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a stream once, when both ends are connected. */
#ifndef APP_BANNER_H
#define APP_BANNER_H

#include "drive.h"

/* "packets: 1462 B messages, 8192 slots, direct by reference over memory, …" */
void banner_stream(const struct flow *flow);

#endif
