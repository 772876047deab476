/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains and address handles. */
#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t sim_pd_take(struct fab_device *device, uint32_t device_number)
{
  if (!fab_count(device, FAB_KIND_PD, device->caps.max_pd))
    return 0;
  fab_lock(&fab->lock);
  int64_t i = fab_entry(FAB_KIND_PD);
  if (i >= 0) {
    fab->pd[i].owner = (uint16_t)fab_slot;
    fab->pd[i].device = (uint16_t)device_number;
    atomic_store(&fab->pd[i].number, (uint32_t)i);
  }
  fab_unlock(&fab->lock);
  if (i < 0)
    fab_uncount(device, FAB_KIND_PD);
  return i < 0 ? 0 : (uint32_t)i;
}

struct sim_pd *sim_pd_alloc(struct sim_context *context)
{
  struct sim_pd *pd = calloc(1, sizeof(*pd));
  if (!pd)
    return sim_fail(ENOMEM);
  pd->id = sim_pd_take(&fab->device[context->device->number], context->device->number);
  if (!pd->id) {
    free(pd);
    return sim_fail(ENOMEM);
  }
  pd->pd.context = &context->verbs.context;
  pd->pd.handle = pd->id;
  sim_alive(&context->pds, 1);
  return pd;
}

struct sim_pd *sim_pd_alloc_child(struct sim_pd *parent)
{
  struct sim_pd *pd = calloc(1, sizeof(*pd));
  if (!pd)
    return sim_fail(ENOMEM);
  pd->pd = parent->pd;
  pd->id = parent->id;
  pd->parent = parent;
  sim_alive(&parent->users, 1);
  sim_alive(&sim_context_of(pd->pd.context)->pds, 1);
  return pd;
}

int sim_pd_free(struct sim_pd *pd)
{
  pthread_mutex_lock(&sim_self.lock);
  bool busy = pd->users;
  if (!busy) {
    sim_context_of(pd->pd.context)->pds--;
    if (pd->parent)
      pd->parent->users--;
  }
  pthread_mutex_unlock(&sim_self.lock);
  if (busy)
    return EBUSY;
  if (!pd->parent) {
    atomic_store(&fab->pd[pd->id].number, 0);
    fab_uncount(sim_fab_device(pd->pd.context), FAB_KIND_PD);
  }
  free(pd);
  return 0;
}

int sim_ah_check(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
  const struct fab_port *port = fab_port_of(sim_device_number(context), attr->port_num);
  if (!port)
    return EINVAL;
  if (!attr->is_global)
    return port->link_layer == IBV_LINK_LAYER_ETHERNET ? EINVAL : 0;
  /* The kernel's words for an entry that is empty, or beyond the table. */
  if (attr->grh.sgid_index >= FAB_GIDS || !port->gids[attr->grh.sgid_index].used)
    return ENODATA;
  return 0;
}

static bool sim_pd_is_mapped(const union ibv_gid *gid)
{
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

int sim_ah_resolve(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
  static const union ibv_gid none;
  const struct fab_port *port = fab_port_of(sim_device_number(context), attr->port_num);
  if (port->link_layer != IBV_LINK_LAYER_ETHERNET || attr->grh.dgid.raw[0] == 0xff)
    return 0;
  const struct fab_gid *source = &port->gids[attr->grh.sgid_index];
  if (memcmp(&attr->grh.dgid, &none, sizeof(none)) == 0 ||
      sim_pd_is_mapped(&source->gid) != sim_pd_is_mapped(&attr->grh.dgid))
    return EINVAL;
  return fab_gid_is_somewhere(&attr->grh.dgid) ? 0 : ETIMEDOUT;
}

struct sim_ah *sim_ah_create(struct sim_pd *pd, const struct ibv_ah_attr *attr)
{
  int error = sim_ah_check(pd->pd.context, attr);
  if (!error)
    error = sim_ah_resolve(pd->pd.context, attr);
  if (error)
    return sim_fail(error);
  struct sim_ah *ah = calloc(1, sizeof(*ah));
  if (!ah)
    return sim_fail(ENOMEM);
  ah->ah.context = pd->pd.context;
  ah->ah.pd = &pd->pd;
  ah->attr = *attr;
  sim_alive(&pd->users, 1);
  sim_alive(&sim_context_of(pd->pd.context)->ahs, 1);
  return ah;
}

int sim_ah_destroy(struct sim_ah *ah)
{
  sim_alive(&sim_pd_of(ah->ah.pd)->users, -1);
  sim_alive(&sim_context_of(ah->ah.context)->ahs, -1);
  free(ah);
  return 0;
}
