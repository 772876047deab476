/* SPDX-License-Identifier: Apache-2.0 */
/* A host's log, and DPDK's words, for tests of units of transports/ethernet. */
#ifndef ETHERNET_STUBS_H
#define ETHERNET_STUBS_H

#include <stdint.h>

#include "eal.h"

/* The last line that take_log() was given, its level, and how many were warnings. */
extern char logged[1024];
extern int logged_level;
extern uint32_t warnings;

void take_log(const struct pst_host *host, int level, const char *format, ...);

#endif
