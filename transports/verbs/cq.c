/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: without locks, where the provider has such, since one thread at a time has a
 * worker; they grow with its endpoints. */
#include "worker.h"

struct ibv_cq *vb_cq_create(const struct pst_worker *worker, uint32_t room)
{
  struct ibv_context *context = worker->device->open.context;
  /* Interrupts of workers that sleep go to different CPUs, as the device's vectors do. */
  const uint32_t vectors = context->num_comp_vectors > 0 ? (uint32_t)context->num_comp_vectors : 1;
  struct ibv_cq_init_attr_ex attr = {.cqe = room,
                                     .channel = worker->channel,
                                     .comp_vector = worker->index % vectors,
                                     .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                     .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
  struct ibv_cq_ex *made = ibv_create_cq_ex(context, &attr);

  return made ? ibv_cq_ex_to_cq(made)
              : ibv_create_cq(context, (int)room, NULL, worker->channel, (int)attr.comp_vector);
}

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
      label, wanted, rc ? strerror(rc) : "ibv_resize_cq granted less than was requested",
      worker->cq->cqe, device->attr.max_cqe);
  return -ENOSPC;
}
