/* SPDX-License-Identifier: Apache-2.0 */
/* Events of rdma_cm, in words. */
#ifndef VERBS_CM_STATUS_H
#define VERBS_CM_STATUS_H

#include <stddef.h>

#include "status.h"

/* enum rdma_cm_event_type. Never NULL. */
const struct vb_status *vb_cm_event(int event);
/* The reason of a refusal, `status` of RDMA_CM_EVENT_REJECTED, as a message of cause, usual reasons
 * and checks. Never NULL. */
const struct vb_status *vb_cm_rejection(int status);
/* Is it worth another try: the other end, or the way to it, may be there later. */
int vb_cm_is_passing(int event, int status);
/* One line: name, status, cause, reasons, checks. Always terminated. */
void vb_cm_text(int event, int status, char *text, size_t size);

#endif
