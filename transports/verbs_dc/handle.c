/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address handles: one for each peer's port, shared by the endpoints to it. The kernel resolves a
 * neighbour to make one, which takes a second if there is nobody: the host's threads make them,
 * those of different peers side by side.
 */
#include "../verbs/worker.h"
#include "endpoint.h"

static void dc_handle_notify_all(struct pst_device *device)
{
  pthread_mutex_lock(&device->events);
  for (struct pst_worker *worker = device->workers; worker; worker = worker->next)
    vb_notify(worker);
  pthread_mutex_unlock(&device->events);
}

static struct dc_handle **dc_handle_chain_of(struct dc_device *dc, const struct ibv_ah_attr *attr)
{
  uint64_t half[2];

  memcpy(half, attr->grh.dgid.raw, sizeof(half));
  const uint64_t all = (half[0] ^ half[1] ^ attr->dlid) * UINT64_C(0x9e3779b97f4a7c15);
  return &dc->handles[all >> 32 & (DC_HANDLE_CHAINS - 1)];
}

static void dc_handle_unlink_and_free(struct dc_handle *handle)
{
  struct dc_device *dc = dc_device_of(handle->device);
  struct dc_handle **at = dc_handle_chain_of(dc, &handle->attr);

  while (*at != handle)
    at = &(*at)->next;
  *at = handle->next;
  dc->handle_count--;
  if (handle->ah)
    ibv_destroy_ah(handle->ah);
  free(handle);
}

static void dc_handle_end_making(struct dc_handle *handle, struct ibv_ah *ah, int error)
{
  struct pst_device *device = handle->device;

  pthread_mutex_lock(&dc_device_of(device)->handles_lock);
  handle->ah = ah;
  handle->error = error;
  atomic_store_explicit(&handle->state, ah ? DC_HANDLE_READY : DC_HANDLE_FAILED,
                        memory_order_release);
  if (handle->users == 0)
    dc_handle_unlink_and_free(handle);
  pthread_mutex_unlock(&dc_device_of(device)->handles_lock);
  dc_handle_notify_all(device);
}

static void dc_handle_make(void *arg)
{
  struct dc_handle *handle = arg;
  struct ibv_ah_attr attr = handle->attr;
  struct ibv_ah *ah = ibv_create_ah(handle->device->own.pd, &attr);

  dc_handle_end_making(handle, ah, ah ? 0 : errno ? errno : EIO);
}

static bool dc_handle_is_same(const struct ibv_ah_attr *a, const struct ibv_ah_attr *b)
{
  return a->dlid == b->dlid && a->sl == b->sl && a->src_path_bits == b->src_path_bits &&
         a->static_rate == b->static_rate && a->is_global == b->is_global &&
         a->port_num == b->port_num && a->grh.flow_label == b->grh.flow_label &&
         a->grh.sgid_index == b->grh.sgid_index && a->grh.hop_limit == b->grh.hop_limit &&
         a->grh.traffic_class == b->grh.traffic_class &&
         memcmp(a->grh.dgid.raw, b->grh.dgid.raw, sizeof(a->grh.dgid.raw)) == 0;
}

static struct dc_handle *dc_handle_find(struct dc_device *dc, const struct ibv_ah_attr *attr,
                                        const uint8_t gid[16])
{
  struct dc_handle *one = *dc_handle_chain_of(dc, attr);

  /* A handle that failed is not used again: the next endpoint makes a new one. */
  while (one && (!dc_handle_is_same(&one->attr, attr) || one->is_stale ||
                 memcmp(one->gid, gid, sizeof(one->gid)) != 0 ||
                 atomic_load_explicit(&one->state, memory_order_acquire) == DC_HANDLE_FAILED))
    one = one->next;
  return one;
}

static struct dc_handle *dc_handle_add(struct dc_device *dc, const struct ibv_ah_attr *attr,
                                       const uint8_t gid[16])
{
  struct dc_handle *made = calloc(1, sizeof(*made));

  if (!made)
    return NULL;
  made->device = &dc->device;
  made->attr = *attr;
  memcpy(made->gid, gid, sizeof(made->gid));
  struct dc_handle **chain = dc_handle_chain_of(dc, attr);
  made->next = *chain;
  *chain = made;
  dc->handle_count++;
  dc->handles_made++;
  return made;
}

int dc_handle_take(struct dc_endpoint *endpoint, const struct dc_blob *to)
{
  struct pst_device *device = endpoint->endpoint.device;
  struct dc_device *dc = dc_device_of(device);
  struct vb_peer peer = {.is_ethernet = to->is_ethernet, .lid = to->lid};
  struct vb_gid gid = {.index = endpoint->home.gid_index, .type = endpoint->home.gid_type};
  const struct vb_local_port own = {device->open.port->number, device->open.port->needs_grh, &gid};
  struct ibv_ah_attr attr;

  memcpy(gid.raw, endpoint->home.gid, sizeof(gid.raw));
  memcpy(peer.gid, to->gid, sizeof(peer.gid));
  vb_address_vector(&device->path, &peer, &own, &attr);
  pthread_mutex_lock(&dc->handles_lock);
  struct dc_handle *handle = dc_handle_find(dc, &attr, gid.raw);
  const bool is_new = !handle;
  if (is_new)
    handle = dc_handle_add(dc, &attr, gid.raw);
  if (handle)
    handle->users++;
  pthread_mutex_unlock(&dc->handles_lock);
  if (!handle)
    return -ENOMEM;
  endpoint->handle = handle;
  if (is_new && device->host->defer(device->host, handle, dc_handle_make, handle) < 0)
    dc_handle_end_making(handle, NULL, ENOMEM);
  return 0;
}

void dc_handle_doubt(struct dc_endpoint *endpoint)
{
  struct dc_device *dc = dc_device_of(endpoint->endpoint.device);

  pthread_mutex_lock(&dc->handles_lock);
  endpoint->handle->is_stale = true;
  pthread_mutex_unlock(&dc->handles_lock);
}

void dc_handle_give(struct dc_endpoint *endpoint)
{
  dc_handle_drop(endpoint->handle);
  endpoint->handle = NULL;
}

void dc_handle_drop(struct dc_handle *handle)
{
  if (!handle)
    return;
  struct dc_device *dc = dc_device_of(handle->device);
  pthread_mutex_lock(&dc->handles_lock);
  if (--handle->users == 0 &&
      atomic_load_explicit(&handle->state, memory_order_acquire) != DC_HANDLE_MAKING)
    dc_handle_unlink_and_free(handle);
  pthread_mutex_unlock(&dc->handles_lock);
}
