/* SPDX-License-Identifier: Apache-2.0 */
/* Receive queues: the shared ones, and the posting to any. */
#include "engine/engine.h"
#include "front/refused.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sim_ring_post(const struct fab_qp *view, struct fab_ring *ring, const struct ibv_recv_wr *wr)
{
  if (wr->num_sge < 0 || (uint32_t)wr->num_sge > ring->max_sge)
    return EINVAL;
  uint32_t head = ring->head;
  if (head - atomic_load_explicit(&ring->freed, memory_order_acquire) >= ring->room)
    return ENOMEM;
  struct fab_recv *recv = sim_ring_at(ring, head);
  recv->wr_id = wr->wr_id;
  recv->num_sge = (uint32_t)wr->num_sge;
  if (wr->num_sge)
    memcpy(recv->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(recv->sges[0]));
  recv->hash = 0;
  if (fab->strict)
    sim_strict_recv_posted(view, recv);
  atomic_store_explicit(&ring->head, head + 1, memory_order_release);
  return 0;
}

static int sim_srq_take(struct ibv_context *context, const struct fab_ring *ring, uint32_t pd,
                        uint32_t *index)
{
  struct fab_device *device = sim_fab_device(context);
  if (!fab_count(device, FAB_KIND_SRQ, device->caps.max_srq))
    return ENOMEM;
  fab_lock(&fab->lock);
  int64_t i = fab_entry(FAB_KIND_SRQ);
  if (i >= 0) {
    struct fab_srq *srq = &fab->srq[i];
    srq->owner = (uint16_t)fab_slot;
    srq->device = (uint16_t)sim_device_number(context);
    srq->pd = pd;
    srq->ring = *ring;
    srq->limit = 0;
    srq->async_bits = 0;
    srq->users = 0;
    atomic_store_explicit(&srq->number, (uint32_t)i, memory_order_release);
    *index = (uint32_t)i;
  }
  fab_unlock(&fab->lock);
  if (i < 0)
    fab_uncount(device, FAB_KIND_SRQ);
  return i < 0 ? ENOMEM : 0;
}

static int sim_srq_check(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
  const struct fab_caps *caps = &sim_fab_device(context)->caps;
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)
    return sim_refused("a shared receive queue of XRC, or for tags");
  if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
    return EINVAL;
  if (attr->attr.max_wr > caps->max_srq_wr || attr->attr.max_sge > caps->max_srq_sge)
    return EINVAL;
  return 0;
}

struct sim_srq *sim_srq_create(struct sim_context *context, struct ibv_srq_init_attr_ex *attr)
{
  struct ibv_context *verbs = &context->verbs.context;
  int error = sim_srq_check(verbs, attr);
  if (error)
    return sim_fail(error);
  struct sim_srq *srq = calloc(1, sizeof(*srq));
  if (!srq)
    return sim_fail(ENOMEM);
  struct fab_ring ring;
  struct ibv_srq_attr given = attr->attr;
  sim_grant_srq(&sim_fab_device(verbs)->caps, &given);
  uint32_t sges = given.max_sge ? given.max_sge : 1;
  uint32_t wrs = given.max_wr ? given.max_wr : 1;
  error = sim_ring_alloc(&ring, wrs,
                         (uint32_t)(sizeof(struct fab_recv) + sges * sizeof(struct ibv_sge)));
  if (!error) {
    ring.max_sge = sges;
    ring.room = wrs;
    error = sim_srq_take(verbs, &ring, sim_pd_of(attr->pd)->id, &srq->index);
    if (error)
      sim_ring_free(&ring);
  }
  if (error) {
    free(srq);
    return sim_fail(error);
  }
  attr->attr.max_wr = wrs;
  attr->attr.max_sge = sges;
  srq->type = IBV_SRQT_BASIC;
  srq->number = srq->index;
  srq->max_wr = wrs;
  srq->max_sge = sges;
  srq->srq.context = verbs;
  srq->srq.srq_context = attr->srq_context;
  srq->srq.pd = attr->pd;
  srq->srq.handle = srq->index;
  pthread_mutex_init(&srq->srq.mutex, NULL);
  pthread_cond_init(&srq->srq.cond, NULL);
  pthread_mutex_lock(&sim_self.lock);
  sim_list_add(&sim_self.srqs, &srq->link);
  context->srqs++;
  sim_pd_of(attr->pd)->users++;
  pthread_mutex_unlock(&sim_self.lock);
  return srq;
}

int sim_srq_modify(struct sim_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
  if (mask & IBV_SRQ_MAX_WR)
    return EINVAL; /* mlx5 does not resize them */
  if (!(mask & IBV_SRQ_LIMIT))
    return mask ? EINVAL : 0;
  struct fab_srq *entry = sim_fab_srq(srq);
  if (attr->srq_limit >= srq->max_wr)
    return EINVAL;
  if (fab_lock(&entry->lock))
    sim_srq_repair(entry);
  entry->limit = attr->srq_limit;
  bool reached = entry->limit && entry->ring.head - entry->ring.tail < entry->limit;
  if (reached) {
    entry->limit = 0;
    atomic_fetch_or(&entry->async_bits, 1u << IBV_EVENT_SRQ_LIMIT_REACHED);
  }
  fab_unlock(&entry->lock);
  if (reached)
    fab_kick(fab_slot);
  return 0;
}

int sim_srq_query(struct sim_srq *srq, struct ibv_srq_attr *attr)
{
  *attr = (struct ibv_srq_attr){
      .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srq_limit = sim_fab_srq(srq)->limit};
  return 0;
}

int sim_srq_destroy(struct sim_srq *srq)
{
  struct fab_srq *entry = sim_fab_srq(srq);
  struct sim_context *context = sim_context_of(srq->srq.context);
  pthread_mutex_lock(&sim_self.lock);
  bool busy = entry->users;
  if (!busy) {
    sim_list_del(&srq->link);
    context->srqs--;
    sim_pd_of(srq->srq.pd)->users--;
  }
  pthread_mutex_unlock(&sim_self.lock);
  if (busy)
    return EBUSY;
  fab_lock(&entry->lock);
  atomic_store(&entry->number, 0);
  struct fab_ring ring = entry->ring;
  fab_unlock(&entry->lock);
  sim_ring_free(&ring);
  fab_uncount(sim_fab_device(srq->srq.context), FAB_KIND_SRQ);
  sim_events_forget(&context->async, srq);
  sim_await_acks(&srq->srq.mutex, &srq->srq.cond, &srq->srq.events_completed, srq->async_given);
  free(srq);
  return 0;
}

int sim_srq_post(struct sim_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  struct fab_srq *entry = sim_fab_srq(srq);
  const struct fab_qp view = {.owner = entry->owner, .device = entry->device, .pd = entry->pd};
  int error = 0;
  if (fab_lock(&entry->lock))
    sim_srq_repair(entry);
  for (; wr && !error; wr = error ? wr : wr->next)
    error = sim_ring_post(&view, &entry->ring, wr);
  fab_unlock(&entry->lock);
  if (error && bad)
    *bad = wr;
  return error;
}
