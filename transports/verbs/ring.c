/* SPDX-License-Identifier: Apache-2.0 */
/* Rings, whose slots their endpoints share out, and tokens. */
#include <stdio.h>

#include "endpoint.h"
#include "ops.h"
#include "srq.h"

static int check(struct pst_worker *worker, const struct pst_ring_params *in)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  const struct pst_mr *mr = in->mr;

  worker->device->transport->limits(worker->device, &limits);
  return pst_ring_params_check(worker->device->host, in, mr ? mr->access : 0, mr ? mr->length : 0,
                               &limits, in->payload_max == 0 ? "its messages are empty" : NULL);
}

/* Of the slots' range alone, so that peers cannot write beside them; what is behind the last one,
 * up to a stride, is nobody's. */
static int register_slots(struct pst_ring *ring, struct pst_path_info *path)
{
  struct pst_device *device = ring->worker->device;
  const struct pst_ring_params *in = &ring->params;
  uint64_t length = in->stride * (in->slots - 1) + in->headroom + in->payload_max + in->tailroom;
  char reason[sizeof(path->reason)] = "";

  if (in->base == 0 && in->mr->length - length < in->stride)
    length = in->mr->length;
  int rc =
      vb_mr_register(device->host, &in->mr->domain->mrs, in->mr->region, in->mr->offset + in->base,
                     length, VB_RING_RIGHTS | device->relaxed, true, &ring->verbs, reason);

  ring->base = ring->verbs.address + in->headroom;
  if (rc == 0 || rc == -EOPNOTSUPP)
    pst_path_write(path, ring->verbs.path, ring->verbs.via, device->carrier, reason);
  return rc;
}

static int open_slots(struct pst_ring *ring)
{
  uint32_t slots = ring->params.slots;

  ring->slots = calloc(slots, sizeof(*ring->slots));
  ring->free = calloc(slots, sizeof(*ring->free));
  if (!ring->slots || !ring->free)
    return -ENOMEM;
  while (ring->free_count < slots) { /* the last is taken first */
    ring->free[ring->free_count] = slots - 1 - ring->free_count;
    ring->free_count++;
  }
  return 0;
}

/* So long a receiver's pause may be that holds no sender up: an interrupt, a scheduling hiccup or a
 * GPU's batch takes some 50 us, and credit waits until a quarter of the ring is back. */
#define RING_US 100.0

static void tell_short(const struct pst_ring *ring)
{
  const struct pst_device *device = ring->worker->device;
  const struct pst_ring_params *in = &ring->params;
  const uint32_t mbps = device->open.port->mbps;
  const double slot_us = mbps ? (double)in->payload_max * 8 / mbps : RING_US;
  uint32_t slots = in->slots;

  if (slots * slot_us >= RING_US || (device->plan.flags & PST_PLAN_PEERS))
    return; /* a node has a ring a peer, and no option `ring` */
  while (slots * slot_us < RING_US && slots < VB_SLOTS_MAX)
    slots *= 2;
  VB_LOG(device, PST_LOG_DEBUG,
         "a ring of %u slots of %llu bytes lasts %.1f us at the %g Gbit/s of %s: a receiver that "
         "pauses for longer holds its senders up. `ring: %u` lasts %.0f us",
         in->slots, (unsigned long long)in->payload_max, in->slots * slot_us, mbps / 1e3,
         device->open.info->name, slots, slots * slot_us);
}

/* Its first page, which is there once it is registered. A node has a ring a peer: one warning. */
static void tell_far(const struct pst_ring *ring)
{
  struct pst_worker *worker = ring->worker;
  const struct pst_device *device = worker->device;
  const struct pst_ring_params *in = &ring->params;
  const struct pst_mr *mr = in->mr;
  char where[96];

  if (worker->has_told_far || device->numa_node < 0 || !mr->is_cpu_readable)
    return;
  const uint8_t *at = (const uint8_t *)mr->region->host + mr->offset + in->base;
  const int node = vb_numa_of_page(at);
  if (!vb_numa_cross(node, device->numa_node))
    return;
  worker->has_told_far = true;
  vb_numa_text(device->numa_node, node, where, sizeof(where));
  VB_LOG(device, PST_LOG_WARN,
         "a ring lies in memory of NUMA node %d, and %s is on %s: each message crosses the link "
         "between them. Start on the adapter's node: `numactl --cpunodebind=%d --localalloc`",
         node, device->open.info->name, where, device->numa_node);
}

int vb_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_ring_params in;

  pst_struct_read(&in, sizeof(in), params);
  int rc = check(worker, &in);
  if (rc < 0)
    return rc;
  struct pst_ring *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->worker = worker;
  made->params = in;
  made->last_out = VB_NEVER;
  rc = open_slots(made);
  if (rc == 0)
    rc = register_slots(made, path);
  if (rc == 0)
    rc = pst_places_take(&worker->rings, made, VB_PLACES, &made->place);
  if (rc < 0) {
    vb_mr_close(&made->verbs);
    free(made->slots);
    free(made->free);
    free(made);
    return rc;
  }
  tell_short(made);
  tell_far(made);
  *ring = made;
  return 0;
}

void vb_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  pst_places_give(&worker->rings, ring->place);
  worker->last_ring = NULL;
  vb_srq_close(ring->shared);
  vb_mr_close(&ring->verbs);
  free(ring->slots);
  free(ring->free);
  free(ring);
}

static int ascending(const void *a, const void *b)
{
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

/* Equal shares, with those that are still to come. */
void vb_ring_share(struct pst_ring *ring, struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;
  uint32_t come =
      ring->open_count < ring->params.endpoints ? ring->params.endpoints - ring->open_count : 1;

  rx->share = pst_slots_share(ring->free_count, come);
  ring->free_count -= rx->share;
  ring->open_count++;
  if (rx->sends && ring->shared)
    return;
  uint32_t *mine = ring->free + ring->free_count;
  qsort(mine, rx->share, sizeof(*mine), ascending);
  for (uint32_t i = 0; i < rx->share; i++) {
    ring->slots[mine[i]] = vb_slot(endpoint, VB_SLOT_OWNED);
    vb_fifo_put(&rx->line, mine[i]);
  }
}

/* What the host still has comes back when it is released. */
void vb_ring_unshare(struct pst_ring *ring, struct pst_endpoint *endpoint)
{
  const struct vb_rx *rx = endpoint->rx;

  ring->open_count--;
  ring->last = NULL;
  ring->last_out = VB_NEVER;
  if (rx->sends && ring->shared) {
    ring->free_count += rx->share - rx->out;
    return;
  }
  for (uint32_t i = ring->params.slots; i-- > 0;) {
    if (ring->slots[i] != vb_slot(endpoint, VB_SLOT_OWNED))
      continue;
    ring->slots[i] = VB_SLOT_FREE;
    ring->free[ring->free_count++] = i;
  }
}

static struct pst_ring *find_ring(struct pst_worker *worker, uint64_t token)
{
  uint64_t which = token >> 32;

  if (worker->last_ring == NULL || worker->last_which != which) {
    worker->last_ring = pst_places_find(&worker->rings, (uint32_t)which);
    worker->last_which = which;
  }
  return worker->last_ring;
}

/* Another's than the last one's was. */
static void release_other(struct pst_ring *ring, uint32_t at)
{
  struct pst_worker *worker = ring->worker;
  uint64_t slot = ring->slots[at];
  struct pst_endpoint *owner = pst_places_find(&worker->endpoints, vb_slot_place(slot));

  if (!owner) {
    ring->slots[at] = VB_SLOT_FREE;
    ring->free[ring->free_count++] = at;
    return;
  }
  ring->last = owner;
  ring->last_out = slot;
  ring->slots[at] = vb_slot(owner, VB_SLOT_OWNED);
  vb_fifo_put(&owner->rx->line, at);
  if (vb_credit_is_due(owner))
    vb_pend(owner);
}

/* A slot of all: it is posted again, and who had it may be sent one more. */
static void release_shared(struct pst_ring *ring, uint32_t at)
{
  const uint64_t slot = ring->slots[at];
  struct pst_endpoint *owner = pst_places_find(&ring->worker->endpoints, vb_slot_place(slot));

  ring->slots[at] = VB_SLOT_FREE;
  vb_srq_back(ring->shared, at);
  if (!owner) {
    ring->free_count++;
    return;
  }
  owner->rx->out--;
  owner->rx->ungranted++;
  if (vb_credit_is_due(owner))
    vb_pend(owner);
}

static int refuse(const struct pst_worker *worker, uint64_t token)
{
  VB_LOG(worker->device, PST_LOG_ERROR,
         "token 0x%llx is not out: released twice, or never given; a fault of the program",
         (unsigned long long)token);
  return -EINVAL;
}

/* Slots of the one that was released last: those at the front of the tokens. Returns how many. */
static uint32_t release_alike(const struct pst_ring *ring, const uint64_t *tokens, uint32_t n)
{
  const uint64_t base = pst_token(ring->place, 0), is_out = ring->last_out;
  const uint32_t count = ring->params.slots;
  uint64_t *slots = ring->slots;
  uint32_t i = 0;

  if (!ring->last)
    return 0;
  struct vb_fifo *line = &ring->last->rx->line;
  uint32_t *into = line->at, mask = line->mask, head = line->head;
  for (; i < n; i++) {
    const uint64_t at = tokens[i] - base; /* of another ring it is beyond all slots */
    if (at >= count || slots[at] != is_out)
      break;
    slots[at] = is_out - VB_SLOT_OUT + VB_SLOT_OWNED;
    into[head++ & mask] = (uint32_t)at;
  }
  line->head = head;
  if (i && vb_credit_is_due(ring->last))
    vb_pend(ring->last);
  return i;
}

int vb_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0, some; i < n; i += some) {
    const uint32_t at = (uint32_t)tokens[i];
    struct pst_ring *ring = find_ring(worker, tokens[i]);
    if (!ring || at >= ring->params.slots || (ring->slots[at] & VB_SLOT_STATES) != VB_SLOT_OUT)
      return refuse(worker, tokens[i]);
    some = ring->shared ? 0 : release_alike(ring, tokens + i, n - i);
    if (some)
      continue;
    if (ring->shared)
      release_shared(ring, at);
    else
      release_other(ring, at);
    some = 1;
  }
  return 0;
}
