/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that ids are on: opened once, and open to the end, as librdmacm has it. */
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_device *devices;

static struct cm_device *cm_devices_find(const struct sim_device *device)
{
  struct cm_device *at = devices;
  while (at && at->device != device)
    at = at->next;
  return at;
}

static struct cm_device *cm_devices_open_device(struct sim_device *device)
{
  struct cm_device *made = cm_devices_find(device);
  struct ibv_device_attr attr;
  if (made)
    return made;
  struct ibv_context *verbs = ibv_open_device(&device->dev);
  if (!verbs)
    return NULL;
  made = ibv_query_device(verbs, &attr) ? NULL : calloc(1, sizeof(*made));
  if (!made) {
    ibv_close_device(verbs);
    return NULL;
  }
  *made = (struct cm_device){
      .next = devices,
      .device = device,
      .verbs = verbs,
      .initiator_depth = (uint8_t)attr.max_qp_init_rd_atom,
      .responder_resources = (uint8_t)attr.max_qp_rd_atom,
  };
  devices = made;
  return made;
}

static struct cm_device *cm_devices_take(struct sim_device *device)
{
  pthread_mutex_lock(&lock);
  struct cm_device *taken = cm_devices_open_device(device);
  if (taken && !taken->pd)
    taken->pd = ibv_alloc_pd(taken->verbs);
  if (taken && taken->pd)
    taken->users++;
  else
    taken = NULL;
  pthread_mutex_unlock(&lock);
  return taken;
}

int cm_device_take(struct cm_id *id)
{
  struct rdma_addr *addr = &id->id.route.addr;
  pthread_mutex_lock(&cm.lock);
  const struct sim_cm_path path = id->path;
  const struct cm_address own = id->own, peer = id->peer_address;
  pthread_mutex_unlock(&cm.lock);
  if (!id->device)
    id->device = cm_devices_take(path.device);
  if (!id->device)
    return cm_fail(ENODEV);
  id->id.verbs = id->device->verbs;
  if (!id->id.pd)
    id->id.pd = id->device->pd;
  id->id.port_num = (uint8_t)path.port;
  addr->addr.ibaddr.sgid = path.own;
  addr->addr.ibaddr.dgid = path.peer;
  addr->addr.ibaddr.pkey = htobe16(0xffff);
  cm_address_write(&own, &addr->src_addr);
  if (peer.port)
    cm_address_write(&peer, &addr->dst_addr);
  return 0;
}

void cm_device_put(struct cm_device *device)
{
  if (!device)
    return;
  pthread_mutex_lock(&lock);
  if (!--device->users) {
    ibv_dealloc_pd(device->pd);
    device->pd = NULL;
  }
  pthread_mutex_unlock(&lock);
}

void cm_devices_close(void)
{
  while (devices) {
    struct cm_device *first = devices;
    devices = first->next;
    ibv_close_device(first->verbs);
    free(first);
  }
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
  struct sim_device *const *all;
  unsigned count = 0, given = 0;
  int error = sim_devices(&all, &count);
  struct ibv_context **list = error ? NULL : calloc(count + 1, sizeof(struct ibv_context *));
  if (num_devices)
    *num_devices = 0;
  if (!list || !count) {
    free(list);
    errno = list ? ENODEV : error ? error : ENOMEM;
    return NULL;
  }
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < count; i++) {
    struct cm_device *device = cm_devices_open_device(all[i]);
    if (device)
      list[given++] = device->verbs;
  }
  pthread_mutex_unlock(&lock);
  if (num_devices)
    *num_devices = (int)given;
  return list;
}

void rdma_free_devices(struct ibv_context **list)
{
  free(list);
}
