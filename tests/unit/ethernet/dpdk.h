/* SPDX-License-Identifier: Apache-2.0 */
/* DPDK in a test's process, without huge pages, devices and files. */
#ifndef ETHERNET_DPDK_H
#define ETHERNET_DPDK_H

/* 0, or -1: it does not start. */
int dpdk_start(void);

#endif
