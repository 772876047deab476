/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the port and of the host it is on, for the errors that they explain. */
#ifndef VERBS_COUNTERS_H
#define VERBS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gid.h"

#define VB_COUNTERS_MAX 128u

struct vb_counters {
  uint32_t count;
  struct {
    char name[48];
    uint64_t value;
  } at[VB_COUNTERS_MAX];
};

/* The file in which the kernel counts what routers and hosts answer, by ICMP, to packets from that
 * address; of the calling thread's network namespace. NULL where the address is of another one, or
 * is none of RoCE v2. */
const char *vb_counters_host(const struct vb_gid *gid);
/* Read hw_counters/ and counters/ of `port`, a port's folder in sysfs, and which packets were
 * refused from the file `host`, NULL for none. Absent counters are not among them. */
void vb_counters_read(const char *port, const char *host, struct vb_counters *counters);
/* By how much the one of that name has grown. */
uint64_t vb_counters_growth(const struct vb_counters *before, const struct vb_counters *now,
                            const char *name);
/* Were 100 packets or more sent again or discarded, and one in 1000 of those that were sent, where
 * the port counts them? `text` names the counters that count these and have grown, and those of
 * congestion, waits and receivers that were not ready, as below. */
bool vb_counters_slow(const struct vb_counters *before, const struct vb_counters *now, char *text,
                      size_t size);
/* Writes the counters that show trouble and have grown, and how many packets went where none came:
 * "completer_retry_err +6, sent_pkts +7, rcvd_pkts +0"; "none has grown"; "none can be read".
 * Always terminated. */
void vb_counters_text(const struct vb_counters *before, const struct vb_counters *now, char *text,
                      size_t size);

#endif
