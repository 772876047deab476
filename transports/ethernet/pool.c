/* SPDX-License-Identifier: Apache-2.0 */
/* Slots in order: the mempool's operations, and the pool that is made with them. */
#include "pool.h"

#include <stdio.h>

#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>

#include "eal.h"

#define POOL_OPS "penstock"

/* Free mbufs: those of slots in a ring, spares in a stack. */
struct order {
  rte_spinlock_t lock;
  bool is_shared;
  void **slots;
  uint32_t mask;
  uint32_t head, tail; /* free-running: taken from head, put back at tail */
  uint32_t last;       /* slots that the last call took, which may come back unused */
  uint32_t count;      /* slots that there are */
  uint32_t used;       /* taken since all were free, or more */
  void **spares;
  uint32_t spare_count;
  const uint8_t *spare_from, *spare_to; /* their buffers; equal while the pool is being filled */
};

static bool eth_pool_order_is_spare(const struct order *order, const void *object)
{
  const uint8_t *at = ((const struct rte_mbuf *)object)->buf_addr;

  return order->spare_from != order->spare_to && at >= order->spare_from && at < order->spare_to;
}

/* The end of what was taken last, in the same order: it is next again. */
static bool eth_pool_order_untake(struct order *order, void *const *objects, uint32_t n)
{
  if (n > order->last)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (order->slots[(order->head - n + i) & order->mask] != objects[i])
      return false;
  order->head -= n;
  order->last -= n;
  order->used -= n;
  return true;
}

/* All slots are free: those that were put back last are next again, in the same order. A consumer
 * that releases at once then has a few slots, which stay in the CPU's caches. */
static void eth_pool_order_begin_anew(struct order *order)
{
  for (uint32_t i = order->used; order->used < order->count && i-- > 0;)
    order->slots[(order->head - order->used + i) & order->mask] =
        order->slots[(order->tail - order->used + i) & order->mask];
  if (order->used < order->count) {
    order->head -= order->used;
    order->tail -= order->used;
  }
  order->used = order->last = 0;
}

static void eth_pool_order_put(struct order *order, void *const *objects, uint32_t n)
{
  if (eth_pool_order_untake(order, objects, n))
    return;
  for (uint32_t i = 0; i < n; i++) {
    if (eth_pool_order_is_spare(order, objects[i]))
      order->spares[order->spare_count++] = objects[i];
    else
      order->slots[order->tail++ & order->mask] = objects[i];
  }
}

static int eth_pool_order_take(struct order *order, void **objects, uint32_t n)
{
  const uint32_t there = order->tail - order->head;
  const uint32_t slots = there < n ? there : n;

  if (there == order->count && order->used)
    eth_pool_order_begin_anew(order);
  if (n == 1 && there) { /* as memif allocates */
    objects[0] = order->slots[order->head++ & order->mask];
    order->last = 1;
    order->used++;
    return 0;
  }
  if (n - slots > order->spare_count)
    return -ENOBUFS;
  for (uint32_t i = 0; i < slots; i++)
    objects[i] = order->slots[order->head++ & order->mask];
  for (uint32_t i = slots; i < n; i++)
    objects[i] = order->spares[--order->spare_count];
  order->last = slots;
  order->used += slots;
  return 0;
}

static int eth_pool_ops_alloc(struct rte_mempool *mempool)
{
  mempool->pool_data = mempool->pool_config;
  return 0;
}

static void eth_pool_ops_free(struct rte_mempool *mempool)
{
  (void)mempool; /* eth_pool_close() does */
}

static int eth_pool_ops_enqueue(struct rte_mempool *mempool, void *const *objects, unsigned n)
{
  struct order *order = mempool->pool_data;

  if (order->is_shared)
    rte_spinlock_lock(&order->lock);
  eth_pool_order_put(order, objects, n);
  if (order->is_shared)
    rte_spinlock_unlock(&order->lock);
  return 0;
}

static int eth_pool_ops_dequeue(struct rte_mempool *mempool, void **objects, unsigned n)
{
  struct order *order = mempool->pool_data;

  if (order->is_shared)
    rte_spinlock_lock(&order->lock);
  int rc = eth_pool_order_take(order, objects, n);
  if (order->is_shared)
    rte_spinlock_unlock(&order->lock);
  return rc;
}

static unsigned eth_pool_ops_count(const struct rte_mempool *mempool)
{
  const struct order *order = mempool->pool_data;

  return order->tail - order->head + order->spare_count;
}

static const struct rte_mempool_ops ops = {
    .name = POOL_OPS,
    .alloc = eth_pool_ops_alloc,
    .free = eth_pool_ops_free,
    .enqueue = eth_pool_ops_enqueue,
    .dequeue = eth_pool_ops_dequeue,
    .get_count = eth_pool_ops_count,
};
RTE_MEMPOOL_REGISTER_OPS(ops);

void eth_name_make(char *name, size_t size)
{
  static uint32_t count;

  /* Another image of the plugin has another address. */
  snprintf(name, size, "pst%x.%u", (unsigned)((uintptr_t)&count >> 4),
           __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
}

/* Arguments for making the mbufs of the pool. */
struct making {
  struct eth_pool *pool;
  uint64_t stride;
  uint32_t slots;
  bool is_physical, has_failed;
};

static void eth_pool_keep_buffer(void *address, void *opaque)
{
  (void)address;
  (void)opaque; /* pinned: the slot is the mbuf's for ever */
}

/* Objects come in the order in which they were put into the pool. */
static void eth_pool_make_mbuf(struct rte_mempool *mempool, void *opaque, void *object,
                               unsigned index)
{
  struct making *making = opaque;
  struct eth_pool *pool = making->pool;
  struct rte_mbuf *mbuf = object;
  struct rte_mbuf_ext_shared_info *shared;

  rte_pktmbuf_init(mempool, NULL, object, index);
  mbuf->buf_addr = index < making->slots
                       ? pool->first + index * making->stride
                       : pool->spare_memory + (size_t)(index - making->slots) * pool->buffer;
  rte_mbuf_iova_set(mbuf, (rte_iova_t)(uintptr_t)mbuf->buf_addr);
  if (making->is_physical) {
    volatile uint8_t *first = mbuf->buf_addr;
    *first = *first; /* it is there */
    rte_mbuf_iova_set(mbuf, rte_mem_virt2iova(mbuf->buf_addr));
    making->has_failed |= rte_mbuf_iova_get(mbuf) == RTE_BAD_IOVA;
  }
  mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
  shared =
      (struct rte_mbuf_ext_shared_info *)((uint8_t *)rte_mbuf_to_priv(mbuf) + ETH_MBUF_PRIVATE);
  shared->free_cb = eth_pool_keep_buffer;
  shared->fcb_opaque = NULL;
  rte_mbuf_ext_refcnt_set(shared, 1);
  mbuf->shinfo = shared;
  if (index < making->slots)
    pool->mbufs[index] = mbuf;
}

static struct order *eth_pool_order_make(uint32_t slots, uint32_t spares, bool is_shared)
{
  struct order *order = calloc(1, sizeof(*order));
  uint32_t room = 1;

  if (!order)
    return NULL;
  while (room < slots + spares) /* all lie there at first */
    room <<= 1;
  rte_spinlock_init(&order->lock);
  order->is_shared = is_shared;
  order->mask = room - 1;
  order->slots = calloc(room, sizeof(*order->slots));
  order->spares = calloc(spares + 1u, sizeof(*order->spares));
  return order;
}

static void eth_pool_order_free(struct order *order)
{
  if (!order)
    return;
  free(order->slots);
  free(order->spares);
  free(order);
}

/* Moves the mbufs of a split pool that lie behind the slots to its spares. */
static void eth_pool_order_split(struct order *order, const struct eth_pool *pool, uint32_t spares)
{
  for (uint32_t i = 0; i < spares; i++)
    order->spares[order->spare_count++] = order->slots[--order->tail & order->mask];
  order->count = order->tail - order->head;
  order->spare_from = pool->spare_memory;
  order->spare_to = pool->spare_memory + (size_t)spares * pool->buffer;
}

/* Where the buffers lie. NULL, or what is wrong. */
static const char *eth_pool_lay_out(struct eth_pool *pool, const struct pst_ring_params *ring,
                                    uint32_t lead)
{
  uint64_t from = ring->headroom + ETH_SLOT_SHIFT - lead;
  uint64_t to = (uint64_t)ring->headroom + ring->payload_max + ring->tailroom;

  if (lead > ring->headroom + ETH_SLOT_SHIFT)
    return "the headroom is too short for DPDK's own and the headers";
  if (to - from > UINT16_MAX)
    return "slots are longer than a buffer of DPDK can be (64 KiB)";
  pool->first = pool->ring->cpu.base + ring->base + from;
  pool->buffer = (uint32_t)(to - from);
  pool->reciprocal = UINT64_MAX / ring->stride + 1;
  return NULL;
}

/* Makes the mempool whose buffers are the ring's slots. 0, or -errno after a log; the caller
 * frees. */
static int eth_pool_make_mempool(struct eth_pool *pool, const struct eth_pool_params *params)
{
  const struct pst_ring_params *ring = &pool->ring->cpu.params;
  struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = (uint16_t)pool->buffer,
                                             .mbuf_priv_size = ETH_MBUF_PRIVATE,
                                             .flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF};
  struct making making = {.pool = pool,
                          .stride = ring->stride,
                          .slots = ring->slots,
                          .is_physical = params->is_physical};
  struct order *order = eth_pool_order_make(ring->slots, params->spares, params->is_shared);
  const uint32_t size = sizeof(struct rte_mbuf) + ETH_MBUF_PRIVATE +
                        (uint32_t)sizeof(struct rte_mbuf_ext_shared_info);
  char name[RTE_MEMPOOL_NAMESIZE];
  int rc;

  if (!order || !order->slots || !order->spares) {
    eth_pool_order_free(order);
    return -ENOMEM;
  }
  eth_name_make(name, sizeof(name));
  pool->mempool = rte_mempool_create_empty(name, ring->slots + params->spares, size, 0,
                                           sizeof(private), params->socket, 0);
  rc = pool->mempool ? rte_mempool_set_ops_byname(pool->mempool, POOL_OPS, order) : -rte_errno;
  if (rc == 0) {
    rte_pktmbuf_pool_init(pool->mempool, &private);
    rc = RTE_MIN(rte_mempool_populate_default(pool->mempool), 0);
  }
  if (!pool->mempool || rc) {
    rte_mempool_free(pool->mempool);
    eth_pool_order_free(order);
    return rc;
  }
  rte_mempool_obj_iter(pool->mempool, eth_pool_make_mbuf, &making);
  eth_pool_order_split(order, pool, params->spares);
  if (!making.has_failed)
    return 0;
  eth_pool_order_free(order);
  rte_mempool_free(pool->mempool);
  return PST_REFUSE(
      pool->ring->worker->device->dg.host, -EACCES,
      "the kernel hides the ring's physical addresses, which the device needs: be root, or use "
      "vfio-pci with an IOMMU");
}

int eth_pool_open(struct pst_ring *ring, const struct eth_pool_params *params,
                  struct eth_pool **pool)
{
  const struct pst_host *host = ring->worker->device->dg.host;
  struct eth_pool *made = calloc(1, sizeof(*made));
  const char *wrong;
  int rc = -ENOMEM;

  if (!made)
    return -ENOMEM;
  made->ring = ring;
  wrong = eth_pool_lay_out(made, &ring->cpu.params, params->lead);
  if (wrong) {
    free(made);
    return PST_REFUSE(host, -EINVAL,
                      "the ring cannot be a pool of DPDK's: %s; write `receive: "
                      "copy`",
                      wrong);
  }
  made->mbufs = calloc(ring->cpu.params.slots, sizeof(struct rte_mbuf *));
  made->spare_memory = aligned_alloc(64, ((size_t)params->spares * made->buffer + 64) / 64 * 64);
  if (made->mbufs && made->spare_memory)
    rc = eth_pool_make_mempool(made, params);
  if (rc == -EACCES) {
    free(made->mbufs);
    free(made->spare_memory);
    free(made);
    return rc;
  }
  if (rc < 0) {
    free(made->mbufs);
    free(made->spare_memory);
    free(made);
    if (rc != -ENOMEM)
      return PST_REFUSE(host, rc, "DPDK cannot create a pool of the ring's slots%s: %s",
                        eal_words(), strerror(-rc));
    return PST_REFUSE(
        host, rc,
        "out of memory for the mbufs of %u slots, 256 bytes each, in DPDK's; make `ring` smaller",
        ring->cpu.params.slots);
  }
  ring->cpu.slots.free_count = 0; /* all are the pool's */
  *pool = made;
  return 0;
}

void eth_pool_close(struct eth_pool *pool)
{
  struct order *order;

  if (!pool)
    return;
  order = pool->mempool->pool_data;
  rte_mempool_free(pool->mempool);
  eth_pool_order_free(order);
  free(pool->mbufs);
  free(pool->spare_memory);
  free(pool);
}

struct rte_mbuf *eth_pool_take(struct eth_pool *pool)
{
  struct order *order = pool->mempool->pool_data;
  struct rte_mbuf *mbuf = NULL;

  if (order->is_shared)
    rte_spinlock_lock(&order->lock);
  if (order->head != order->tail) {
    mbuf = order->slots[order->head++ & order->mask];
    mbuf->data_off = 0;
    mbuf->data_len = 0;
    order->last = 0;
    order->used++;
  }
  if (order->is_shared)
    rte_spinlock_unlock(&order->lock);
  return mbuf;
}

bool eth_pool_has_slot(const struct eth_pool *pool)
{
  const struct order *order = pool->mempool->pool_data;

  return order->head != order->tail;
}

void eth_pool_leave(struct eth_pool *pool)
{
  struct pst_ring *ring = pool->ring;

  for (uint32_t i = 0; i < ring->cpu.params.slots; i++)
    ring->cpu.slots.free[i] = ring->cpu.params.slots - 1 - i;
  ring->cpu.slots.free_count = ring->cpu.params.slots;
  ring->pool = NULL;
}

struct rte_mbuf *eth_pool_swap(struct eth_pool *pool, struct rte_mbuf *spare)
{
  struct rte_mbuf *mbuf = eth_pool_take(pool);

  if (!mbuf)
    return NULL;
  mbuf->data_off = spare->data_off;
  mbuf->data_len = RTE_MIN(spare->data_len, (uint16_t)(mbuf->buf_len - spare->data_off));
  mbuf->pkt_len = spare->pkt_len;
  /* The first bytes of a frame of several segments, or of one longer than a slot, suffice: it is
   * too long. */
  mbuf->nb_segs = mbuf->data_len < spare->data_len ? 2 : spare->nb_segs;
  mbuf->ol_flags = spare->ol_flags | RTE_MBUF_F_EXTERNAL;
  memcpy(mbuf->dynfield1, spare->dynfield1, sizeof(mbuf->dynfield1)); /* its time of arrival */
  memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *), rte_pktmbuf_mtod(spare, uint8_t *), mbuf->data_len);
  rte_pktmbuf_free(spare);
  return mbuf;
}

/* Behind the others; `objects` are of slots. */
static void eth_pool_order_put_slots(struct order *order, void *const *objects, uint32_t n)
{
  if (order->is_shared)
    rte_spinlock_lock(&order->lock);
  if (!eth_pool_order_untake(order, objects, n))
    for (uint32_t i = 0; i < n; i++)
      order->slots[order->tail++ & order->mask] = objects[i];
  if (order->is_shared)
    rte_spinlock_unlock(&order->lock);
}

void eth_pool_refill(struct eth_pool *pool)
{
  struct pst_slots *slots = &pool->ring->cpu.slots;
  struct rte_mbuf *mbufs[ETH_BURST];

  for (uint32_t at = 0; at < slots->free_count;) {
    uint32_t n = 0;
    for (; n < ETH_BURST && at < slots->free_count; at++) {
      struct rte_mbuf *mbuf = pool->mbufs[slots->free[at]];
      mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
      mbuf->nb_segs = 1;
      mbuf->next = NULL;
      mbufs[n++] = mbuf;
    }
    eth_pool_order_put_slots(pool->mempool->pool_data, (void **)mbufs, n);
  }
  slots->free_count = 0;
}
