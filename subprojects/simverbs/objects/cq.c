/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues. */
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sim_ring_alloc(struct fab_ring *ring, uint32_t entries, uint32_t stride)
{
  uint32_t size = 1;
  while (size < entries)
    size *= 2;
  *ring = (struct fab_ring){.size = size, .stride = (stride + 15) & ~15u};
  ring->offset = fab_block_alloc((size_t)ring->size * ring->stride);
  return ring->offset ? 0 : ENOMEM;
}

void sim_ring_free(struct fab_ring *ring)
{
  fab_block_free(ring->offset, (size_t)ring->size * ring->stride);
}

/* As mlx5: a power of two, one of which the program never gets. */
static uint32_t sim_cq_round_up(uint32_t cqe)
{
  uint32_t size = 1;
  while (size < cqe + 1)
    size *= 2;
  return size;
}

enum { CLEAN_US = 200 };

static int sim_cq_take(struct ibv_context *context, const struct fab_ring *ring,
                       bool ignore_overrun, uint32_t *index)
{
  struct fab_device *device = sim_fab_device(context);
  if (!fab_count(device, FAB_KIND_CQ, device->caps.max_cq))
    return ENOMEM;
  fab_lock(&fab->lock);
  int64_t i = fab_entry(FAB_KIND_CQ);
  if (i >= 0) {
    struct fab_cq *cq = &fab->cq[i];
    cq->owner = (uint16_t)fab_slot;
    cq->device = (uint16_t)sim_device_number(context);
    cq->ring = *ring;
    cq->armed = FAB_ARM_NONE;
    cq->ignore_overrun = ignore_overrun;
    cq->overrun = 0;
    cq->event = 0;
    cq->async_bits = 0;
    cq->users = 0;
    cq->finisher = 0;
    atomic_store_explicit(&cq->number, (uint32_t)i, memory_order_release);
    *index = (uint32_t)i;
  }
  fab_unlock(&fab->lock);
  if (i < 0)
    fab_uncount(device, FAB_KIND_CQ);
  return i < 0 ? ENOMEM : 0;
}

struct sim_cq *sim_cq_create(struct sim_context *context, const struct ibv_cq_init_attr_ex *attr)
{
  struct ibv_context *verbs = &context->verbs.context;
  if (!attr->cqe || attr->cqe > sim_fab_device(verbs)->caps.max_cqe ||
      attr->comp_vector >= (uint32_t)verbs->num_comp_vectors)
    return sim_fail(EINVAL);
  struct sim_cq *cq = calloc(1, sizeof(*cq));
  if (!cq)
    return sim_fail(ENOMEM);
  struct fab_ring ring;
  const uint32_t given = sim_grant_cqe(&sim_fab_device(verbs)->caps, attr->cqe);
  int error = sim_ring_alloc(&ring, sim_cq_round_up(given), sizeof(struct sim_entry));
  if (!error) {
    bool ignore = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
                  (attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
    error = sim_cq_take(verbs, &ring, ignore, &cq->index);
    if (error)
      sim_ring_free(&ring);
  }
  if (error) {
    free(cq);
    return sim_fail(error);
  }
  cq->wc_flags = attr->wc_flags;
  cq->create_flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
  cq->cq.context = verbs;
  cq->cq.channel = attr->channel;
  cq->cq.cq_context = attr->cq_context;
  cq->cq.handle = cq->index;
  cq->cq.cqe = (int)ring.size - 1;
  pthread_mutex_init(&cq->cq.mutex, NULL);
  pthread_cond_init(&cq->cq.cond, NULL);
  pthread_mutex_lock(&sim_self.lock);
  sim_list_add(&sim_self.cqs, &cq->link);
  context->cqs++;
  if (attr->channel)
    attr->channel->refcnt++;
  pthread_mutex_unlock(&sim_self.lock);
  return cq;
}

int sim_cq_destroy(struct sim_cq *cq)
{
  struct fab_cq *entry = sim_fab_cq(cq);
  struct sim_context *context = sim_context_of(cq->cq.context);
  pthread_mutex_lock(&sim_self.lock);
  bool busy = entry->users;
  if (!busy) {
    sim_list_del(&cq->link);
    context->cqs--;
  }
  pthread_mutex_unlock(&sim_self.lock);
  if (busy)
    return EBUSY;
  fab_lock(&entry->lock);
  atomic_store(&entry->number, 0);
  struct fab_ring ring = entry->ring;
  fab_unlock(&entry->lock);
  sim_ring_free(&ring);
  fab_uncount(sim_fab_device(cq->cq.context), FAB_KIND_CQ);
  sim_events_forget(&context->async, cq);
  if (cq->cq.channel) {
    sim_events_forget(&sim_channel_of(cq->cq.channel)->events, cq);
    pthread_mutex_lock(&sim_self.lock);
    cq->cq.channel->refcnt--;
    pthread_mutex_unlock(&sim_self.lock);
  }
  sim_await_acks(&cq->cq.mutex, &cq->cq.cond, &cq->cq.comp_events_completed, cq->events_given);
  sim_await_acks(&cq->cq.mutex, &cq->cq.cond, &cq->cq.async_events_completed, cq->async_given);
  free(cq);
  return 0;
}

int sim_cq_resize(struct sim_cq *cq, unsigned cqe)
{
  const struct fab_caps *caps = &sim_fab_device(cq->cq.context)->caps;
  if (!caps->resize_cq)
    return EOPNOTSUPP;
  if (!cqe || cqe > caps->max_cqe)
    return EINVAL;
  struct fab_ring ring;
  const uint32_t given = sim_grant_cqe(caps, cqe);
  int error = sim_ring_alloc(&ring, sim_cq_round_up(given), sizeof(struct sim_entry));
  if (error)
    return error;
  struct fab_cq *entry = sim_fab_cq(cq);
  fab_lock(&entry->lock);
  struct fab_ring old = entry->ring;
  uint32_t count = old.head - old.tail;
  if (count >= ring.size) {
    fab_unlock(&entry->lock);
    sim_ring_free(&ring);
    return EINVAL;
  }
  for (uint32_t i = 0; i < count; i++)
    memcpy(sim_ring_at(&ring, i), sim_ring_at(&old, old.tail + i), sizeof(struct sim_entry));
  ring.head = count;
  entry->ring = ring;
  fab_unlock(&entry->lock);
  sim_ring_free(&old);
  cq->cq.cqe = (int)ring.size - 1;
  return 0;
}

/* Moderation changes when events come on hardware, not whether: here it is accepted alone. */
int sim_cq_modify(struct sim_cq *cq, const struct ibv_modify_cq_attr *attr)
{
  (void)cq;
  if (!attr->attr_mask || (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE))
    return EINVAL;
  return 0;
}

int sim_cq_arm(struct sim_cq *cq, bool solicited_only)
{
  struct fab_cq *entry = sim_fab_cq(cq);
  fab_lock(&entry->lock);
  if (!solicited_only)
    entry->armed = FAB_ARM_ANY;
  else if (entry->armed == FAB_ARM_NONE)
    entry->armed = FAB_ARM_SOLICITED;
  fab_unlock(&entry->lock);
  return 0;
}

/* With MLX5_SINGLE_THREADED=1 mlx5 takes no locks, and ends the process where it notices that it
 * should have: rdma-core 65, providers/mlx5/mlx5.h, mlx5_spin_lock. mlx5 does not notice it for a
 * queue that was made for a single thread; this device does. */
static bool sim_cq_is_single_threaded(void)
{
  static _Atomic int known = -1;
  int is = atomic_load_explicit(&known, memory_order_relaxed);
  if (is < 0) {
    const char *env = getenv("MLX5_SINGLE_THREADED");
    is = env && !strcmp(env, "1");
    atomic_store_explicit(&known, is, memory_order_relaxed);
  }
  return is;
}

static bool sim_cq_has_one_thread(const struct sim_cq *cq)
{
  return (cq->create_flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) || sim_cq_is_single_threaded();
}

static void sim_cq_enter(struct sim_cq *cq)
{
  if (!sim_cq_has_one_thread(cq))
    return;
  if (atomic_exchange(&cq->in_use, true)) {
    fprintf(stderr,
            "*** ERROR: multithreading violation ***\n"
            "You are running a multithreaded application but\n"
            "%s.\n",
            sim_cq_is_single_threaded()
                ? "you set MLX5_SINGLE_THREADED=1. Please unset it"
                : "the completion queue is of IBV_CREATE_CQ_ATTR_SINGLE_THREADED");
    abort();
  }
}

static void sim_cq_leave(struct sim_cq *cq)
{
  if (sim_cq_has_one_thread(cq))
    atomic_store(&cq->in_use, false);
}

/* Gives back the place of a completed request in its queue. */
static void sim_cq_give_back(const struct sim_cqe *cqe)
{
  struct fab_qp *qp = fab_qp_of(cqe->qp_num);
  if (cqe->is_send) {
    if (qp)
      atomic_store_explicit(&qp->sq_freed, cqe->sq_count, memory_order_release);
  } else if (cqe->srq) {
    atomic_fetch_add_explicit(&fab->srq[cqe->srq - 1].ring.freed, 1, memory_order_release);
  } else if (qp) {
    atomic_fetch_add_explicit(&qp->rq.freed, 1, memory_order_release);
  }
}

/* By the CPU, to the address that the receive names, whatever is there: rdma-core 65,
 * providers/mlx5/cq.c handle_responder, qp.c copy_to_scat. */
static void sim_cq_scatter(const struct sim_entry *entry)
{
  const uint8_t *from = entry->scatter.bytes;

  for (uint32_t i = 0; i < entry->cqe.scattered; i++) {
    memcpy((void *)(uintptr_t)entry->scatter.to[i].address, from, // NOLINT
           entry->scatter.to[i].length);
    from += entry->scatter.to[i].length;
  }
}

static int sim_cq_poll_entries(struct sim_cq *cq, struct sim_cqe *cqes, int n)
{
  struct fab_cq *entry = sim_fab_cq(cq);
  struct fab_ring *ring = &entry->ring;
  if (atomic_load_explicit(&ring->head, memory_order_acquire) ==
      atomic_load_explicit(&ring->tail, memory_order_relaxed))
    return 0;
  int taken = 0;
  fab_lock(&entry->lock);
  uint32_t tail = ring->tail;
  for (; taken < n && tail != ring->head; taken++, tail++) {
    const struct sim_entry *from = sim_ring_at(ring, tail);
    memcpy(&cqes[taken], &from->cqe, sizeof(*cqes));
    if (from->cqe.scattered)
      sim_cq_scatter(from);
    sim_cq_give_back(&cqes[taken]);
  }
  atomic_store_explicit(&ring->tail, tail, memory_order_release);
  fab_unlock(&entry->lock);
  if (fab->strict) {
    for (int i = 0; i < taken; i++)
      sim_strict_polled(&cqes[i]);
  }
  return taken;
}

int sim_cq_poll(struct sim_cq *cq, struct sim_cqe *cqes, int n)
{
  sim_cq_enter(cq);
  const int taken = sim_cq_poll_entries(cq, cqes, n);
  sim_cq_leave(cq);
  return taken;
}

void sim_cq_purge(struct ibv_cq *of, uint32_t qpn)
{
  struct sim_cq *cq = sim_cq_of(of);
  struct fab_cq *entry = sim_fab_cq(cq);
  sim_cq_enter(cq);
  /* As long as it takes a NIC, so that whoever polls meanwhile is noticed. */
  if (sim_cq_is_single_threaded())
    usleep(CLEAN_US);
  struct fab_ring *ring = &entry->ring;
  fab_lock(&entry->lock);
  sim_cq_repair(entry);
  uint32_t to = ring->tail;
  for (uint32_t from = ring->tail; from != ring->head; from++) {
    struct sim_cqe *cqe = sim_ring_at(ring, from);
    if (cqe->qp_num == qpn)
      sim_cq_give_back(cqe);
    else if (from != to)
      memcpy(sim_ring_at(ring, to++), cqe, sizeof(struct sim_entry));
    else
      to++;
  }
  ring->head = to;
  fab_unlock(&entry->lock);
  sim_cq_leave(cq);
}
