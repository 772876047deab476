/* SPDX-License-Identifier: Apache-2.0 */
/* Enhanced connection establishment: options of the vendor's that two ends of one vendor may use,
 * selective retransmission among them (ibv_query_ece(3), ibv_set_ece(3)). */
#ifndef VERBS_ECE_H
#define VERBS_ECE_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* Without options: none. */
struct vb_ece {
  uint32_t vendor, options;
};

/* Returns the enhanced connection options of a queue pair's device; none with an rdma-core before
 * 29. */
struct vb_ece vb_ece_of(struct ibv_qp *qp);
/* Returns the options that both ends have. */
struct vb_ece vb_ece_common(struct vb_ece own, struct vb_ece peer);
/* From RTR on; before it. Nothing is done without options. 0 or errno. */
int vb_ece_set(struct ibv_qp *qp, struct vb_ece ece);

#endif
