/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the application's, for operations and offers. */
#ifndef PST_NODE_AREA_H
#define PST_NODE_AREA_H

#include "engine/region_data.h"
#include "node.h"

#define NODE_SEED UINT64_C(0x6e6f6465) /* of the pattern in areas, the same on all nodes */

struct pst_area {
  struct pst_node *node;
  struct pst_area *next;
  struct region_data own;
  uint32_t uses; /* by offers; by operations: operate_names() */
};

#endif
