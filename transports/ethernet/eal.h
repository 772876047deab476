/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's environment layer: one a process, started empty by the first port and never ended.
 *
 * It is started without a device: ports are probed afterwards, one by one. EAL takes nothing from
 * the process: the calling thread's CPUs are put back, nothing goes to standard output or syslog,
 * and the runtime folder is removed as soon as it has been made. Where somebody else in the process
 * has started it (the program itself, or another image of this plugin), that one is used.
 *
 * Threads: device calls, which the host serialises; a lock guards images against each other no
 * more than DPDK does.
 */
#ifndef ETHERNET_EAL_H
#define ETHERNET_EAL_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/plugin.h>

/* Start it, or find it started. `is_huge`: with huge pages, which drivers of physical devices need.
 * 0; -ENOMEM: no huge pages, or not so much memory; -EBUSY: it runs without huge pages, and this
 * port needs them; -EACCES; another -errno of DPDK's. Logged. */
int eal_start(const struct pst_host *host, const struct pst_options *options, bool is_huge);

/* Forget what DPDK has said. */
void eal_words_clear(void);
/* The first error that DPDK has logged since, as ": TEXT"; "" for none. For our own messages. */
const char *eal_words(void);

#endif
