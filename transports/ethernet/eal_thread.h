/* SPDX-License-Identifier: Apache-2.0 */
/* Work on DPDK's interrupt thread: what its drivers do there does not run beside it. */
#ifndef ETHERNET_EAL_THREAD_H
#define ETHERNET_EAL_THREAD_H

/* Run work(arg) there, and wait for its end. Where no alarm can be set it is run here. */
void eal_thread_run(void (*work)(void *arg), void *arg);

#endif
