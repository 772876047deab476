/* SPDX-License-Identifier: Apache-2.0 */
/* Targets (DCT): target.c. */
#ifndef DC_TARGET_H
#define DC_TARGET_H

#include "../verbs/srq.h"
#include "device.h"

/* One with that shared queue, in RTR: only then has it its number. NULL: errno, and
 * *step says what failed. */
struct ibv_qp *dc_target_create(struct dc_device *dc, struct ibv_cq *cq, struct ibv_srq *srq,
                                void *context, const struct vb_port_address *where,
                                const char **step);
/* shared->target, made if it is not there yet. 0 or -errno, logged. */
int dc_target_open(struct pst_worker *worker, struct vb_srq *shared, const char *label);

/* Replaces each target that has failed by one of another number, and reports that to the hosts of
 * its endpoints. Not by the first call behind its event. Nothing is left in the completion
 * queue. */
void dc_target_mend(struct pst_worker *worker);

#endif
