/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues grow with the endpoints of their worker. */
#include "worker.h"

int vb_cq_grow(struct pst_worker *worker, uint32_t wanted, const char *label)
{
  const struct pst_device *device = worker->device;
  const uint32_t most = (uint32_t)device->attr.max_cqe;
  const uint32_t room = 2 * wanted < most ? 2 * wanted : most;

  if (wanted <= (uint32_t)worker->cq->cqe)
    return 0;
  int rc = room < wanted ? ENOSPC : ibv_resize_cq(worker->cq, (int)room);
  if (rc == 0 && wanted <= (uint32_t)worker->cq->cqe)
    return 0;
  VB_LOG(
      device, PST_LOG_ERROR,
      "%s: no room for %u completions in a completion queue (%s; it has %d, and the device at "
      "most %d; `ibv_devinfo -v`: max_cqe): fewer endpoints on a worker, smaller rings, or fewer "
      "requests",
      label, wanted, rc ? strerror(rc) : "ibv_resize_cq gave less than it was asked for",
      worker->cq->cqe, device->attr.max_cqe);
  return -ENOSPC;
}
