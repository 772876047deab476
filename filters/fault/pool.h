/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of our own for corrupted copies. */
#ifndef FAULT_POOL_H
#define FAULT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include <penstock/transport.h>

#define FAULT_COPIES 16u /* corrupted messages of one sender under way at once */

struct fault_pool {
  struct pst_region region;
  struct pst_mr *mr;
  uint64_t stride;
  uint32_t parts; /* of FAULT_COPIES each */
  _Atomic uint32_t parts_used;
};

int fault_pool_open(struct pst_device *device, const struct pst_plan *plan,
                    const struct pst_limits *limits);
void fault_pool_close(struct pst_device *device);
/* Takes a part of the pool for one sender. 0 or -ENOSPC. */
int fault_part_take(struct pst_device *device, uint32_t *part);
/* Gives a part back, as long as no other was taken since. */
void fault_part_untake(struct pst_device *device, uint32_t part);
/* Copy the payload, one bit changed, to that copy of the part, and write the request that sends the
 * copy. false: the request is not one that could be sent. */
bool fault_corrupt(struct pst_device *device, uint32_t part, uint16_t copy,
                   const struct pst_request *request, struct pst_request *corrupted);

#endif
