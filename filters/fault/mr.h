/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations that may be sent from: where the CPU finds their bytes. */
#ifndef FAULT_MR_H
#define FAULT_MR_H

#include <stdatomic.h>
#include <stdint.h>

struct pst_device;
struct pst_mr;

/* Entries are added and reused, never freed before the device, so that senders look without a
 * lock. */
struct fault_mr {
  _Atomic(struct pst_mr *) mr; /* NULL: free */
  const uint8_t *host;
  uint64_t length;
  struct fault_mr *next;
};

/* NULL: none of these. */
const struct fault_mr *fault_mr_find(struct pst_device *device, const struct pst_mr *mr);
void fault_mrs_free(struct pst_device *device);

#endif
