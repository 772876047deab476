// SPDX-License-Identifier: Apache-2.0
// The device list, contexts, and what the library says about itself.
#include "front.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_device **ibv_get_device_list(int *num_devices)
{
  struct sim_device *const *devices;
  unsigned count;

  if (num_devices)
    *num_devices = 0;
  int error = sim_devices(&devices, &count);
  if (error && error != ENODEV)
    return SIM_FAIL(error, NULL);
  if (error)
    count = 0;
  struct ibv_device **list = calloc(count + 1, sizeof(struct ibv_device *));
  if (!list)
    return SIM_FAIL(ENOMEM, NULL);
  for (unsigned i = 0; i < count; i++)
    list[i] = &devices[i]->dev;
  if (num_devices)
    *num_devices = (int)count;
  return list;
}

// The devices themselves live until the process ends.
void ibv_free_device_list(struct ibv_device **list)
{
  free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
  return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
  return (int)sim_device_of(device)->number;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
  return sim_device_of(device)->guid;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
  struct sim_context *context = sim_context_open(sim_device_of(device));

  if (!context)
    return NULL;
  front_context_fill(context);
  return &context->verbs.context;
}

int ibv_close_device(struct ibv_context *context)
{
  int error = sim_context_close(sim_context_of(context));

  return error ? SIM_FAIL(error, -1) : 0;
}

void front_context_fill(struct sim_context *context)
{
  struct ibv_context_ops *ops = &context->verbs.context.ops;
  struct verbs_context *verbs = &context->verbs;

  ops->poll_cq = front_poll_cq;
  ops->req_notify_cq = front_req_notify_cq;
  ops->post_send = front_post_send;
  ops->post_recv = front_post_recv;
  ops->post_srq_recv = front_post_srq_recv;
  ops->alloc_mw = front_alloc_mw;
  ops->dealloc_mw = front_dealloc_mw;
  ops->bind_mw = front_bind_mw;
  front_refuse_ops(verbs);
  verbs->query_port = front_query_port;
  verbs->query_device_ex = front_query_device_ex;
  verbs->query_rt_values = front_query_rt_values;
  verbs->create_cq_ex = front_create_cq_ex;
  verbs->modify_cq = front_modify_cq;
  verbs->create_qp_ex = front_create_qp_ex;
  verbs->create_srq_ex = front_create_srq_ex;
  verbs->get_srq_num = front_get_srq_num;
  verbs->alloc_td = front_alloc_td;
  verbs->dealloc_td = front_dealloc_td;
  verbs->alloc_parent_domain = front_alloc_parent_domain;
}

// A child shares no pages with the NIC here: it is not attached to the fabric, and peers reach its
// parent by process id. So, as on kernels that copy at fork, nothing needs to be done.
int ibv_fork_init(void)
{
  return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
  return IBV_FORK_UNNEEDED;
}

SIM_EXPORT int ibv_dontfork_range(void *base, size_t size);
SIM_EXPORT int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
  (void)base;
  (void)size;
  return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
  (void)base;
  (void)size;
  return 0;
}

// Providers announce themselves when they are loaded (libefa, which perftest links): no device here
// is theirs, so nobody asks them. Nothing is lost that they could miss.
SIM_EXPORT void verbs_register_driver_34(const void *ops);
// Read by providers only.
SIM_EXPORT bool verbs_allow_disassociate_destroy;

void verbs_register_driver_34(const void *ops)
{
  (void)ops;
}
