/* SPDX-License-Identifier: Apache-2.0 */
/* Rings, whose slots their endpoints share out, and tokens. */
#include <stdio.h>

#include "endpoint.h"
#include "ops.h"
#include "pci.h"
#include "srq.h"

static int vb_ring_check(struct pst_worker *worker, const struct pst_ring_params *in)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  const struct pst_mr *mr = in->mr;

  worker->device->transport->limits(worker->device, &limits);
  return pst_ring_params_check(worker->device->host, in, mr ? mr->access : 0, mr ? mr->length : 0,
                               &limits, in->payload_max == 0 ? "its messages are empty" : NULL);
}

/* Registers only the range of the slots, so that peers cannot write beside them. Bytes behind the
 * last slot, up to a stride, belong to nobody. */
static int vb_ring_register_slots(struct pst_ring *ring, struct pst_path_info *path)
{
  struct pst_device *device = ring->worker->device;
  const struct pst_ring_params *in = &ring->params;
  uint64_t length = in->stride * (in->slots - 1) + in->headroom + in->payload_max + in->tailroom;
  char reason[sizeof(path->reason)] = "";

  if (in->base == 0 && in->mr->length - length < in->stride)
    length = in->mr->length;
  int rc =
      vb_mr_register(device->host, &in->mr->domain->mrs, in->mr->region, in->mr->offset + in->base,
                     length, vb_ring_rights(device), true, &ring->verbs, reason);

  ring->base = ring->verbs.address + in->headroom;
  if (rc == 0 || rc == -EOPNOTSUPP)
    pst_path_write(path, ring->verbs.path, ring->verbs.via, device->carrier, reason);
  return rc;
}

static int vb_ring_open_slots(struct pst_ring *ring)
{
  uint32_t slots = ring->params.slots;

  ring->owners = calloc(slots, sizeof(*ring->owners));
  ring->held = vb_bits_open(slots);
  ring->free = calloc(slots, sizeof(*ring->free));
  if (!ring->owners || !ring->held || !ring->free)
    return -ENOMEM;
  while (ring->free_count < slots) { /* the last is taken first */
    const uint32_t slot = slots - 1 - ring->free_count;
    ring->owners[slot] = PST_PLACE_NONE;
    ring->free[ring->free_count++] = slot;
  }
  return 0;
}

static void vb_ring_close_slots(struct pst_ring *ring)
{
  free(ring->owners);
  free(ring->held);
  free(ring->free);
}

/* So long a receiver's pause may be that holds no sender up: an interrupt, a scheduling hiccup or a
 * GPU's batch takes some 50 us, and credit waits until a quarter of the ring is back. */
#define RING_US 100.0

static void vb_ring_tell_short(const struct pst_ring *ring)
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

/* Where a GPU is, as seen from the adapter. */
static void vb_ring_tell_gpu(const struct pst_ring *ring)
{
  struct pst_worker *worker = ring->worker;
  const struct pst_device *device = worker->device;
  const struct pst_region *region = ring->params.mr->region;

  if (region->kind != PST_MEMORY_CUDA || worker->has_told_gpu)
    return;
  worker->has_told_gpu = true;
  const enum vb_pci_distance distance = vb_pci_distance(
      device->open.context->device->ibdev_path, region->device, VB_PCI_GPUS, VB_PCI_DEVICES);
  VB_LOG(device, distance == VB_PCI_SYS ? PST_LOG_WARN : PST_LOG_DEBUG, "from %s to %s: %s%s",
         device->open.info->name, region->device, vb_pci_text(distance),
         distance == VB_PCI_SYS
             ? ", and each message crosses both; take an adapter nearer to the GPU (`device`; "
               "`nvidia-smi topo -m`)"
             : "");
}

/* Warns if the ring's first page, which is there once it is registered, is on another NUMA node
 * than the device. A node has a ring a peer: one warning. */
static void vb_ring_tell_far(const struct pst_ring *ring)
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

/* Opens a ring over registered slots, with a shared receive queue where the device shares. On
 * failure nothing is left. */
int vb_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_ring_params in;

  pst_struct_read(&in, sizeof(in), params);
  int rc = vb_ring_check(worker, &in);
  if (rc < 0)
    return rc;
  struct pst_ring *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->worker = worker;
  made->params = in;
  rc = vb_ring_open_slots(made);
  if (rc == 0)
    rc = vb_ring_register_slots(made, path);
  if (rc == 0)
    rc = pst_places_take(&worker->rings, made, VB_PLACES, &made->place);
  if (rc < 0) {
    vb_mr_close(&made->verbs);
    vb_ring_close_slots(made);
    free(made);
    return rc;
  }
  vb_ring_tell_short(made);
  vb_ring_tell_far(made);
  vb_ring_tell_gpu(made);
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
  vb_ring_close_slots(ring);
  free(ring);
}

static int vb_ring_ascending(const void *a, const void *b)
{
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

static void vb_ring_close_lines(struct vb_rx *rx)
{
  free(rx->own->line.at);
  free(rx->back.at);
  free(rx->own->held);
}

static int vb_ring_open_lines(struct vb_rx *rx, uint32_t slots, uint32_t share)
{
  rx->own->held = vb_bits_open(slots);
  if (rx->own->held && vb_slot_fifo_open(&rx->own->line, share) == 0 &&
      vb_slot_fifo_open(&rx->back, share) == 0)
    return 0;
  vb_ring_close_lines(rx);
  return -ENOMEM;
}

/* Equal shares, with those that are still to come. */
int vb_ring_share(struct pst_ring *ring, struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;
  const uint32_t come =
      ring->open_count < ring->params.endpoints ? ring->params.endpoints - ring->open_count : 1;
  const uint32_t share = pst_slots_share(ring->free_count, come);
  int rc = vb_ring_open_lines(rx, ring->params.slots, share);

  if (rc < 0)
    return rc;
  rx->ring = ring;
  rx->share = share;
  ring->free_count -= share;
  ring->open_count++;
  if (rx->sends && ring->shared)
    return 0;
  uint32_t *mine = ring->free + ring->free_count;
  qsort(mine, share, sizeof(*mine), vb_ring_ascending);
  for (uint32_t i = 0; i < share; i++) {
    ring->owners[mine[i]] = endpoint->place;
    vb_slot_fifo_put(&rx->back, mine[i], 1);
  }
  return 0;
}

/* Removes an endpoint from its ring; slots that the host still has come back when it releases
 * them. */
void vb_ring_unshare(struct pst_ring *ring, struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;

  ring->open_count--;
  ring->last = NULL;
  if (rx->sends && ring->shared)
    ring->free_count += rx->share - rx->out;
  for (uint32_t i = ring->params.slots; i-- > 0;) {
    if (ring->owners[i] != endpoint->place)
      continue;
    ring->owners[i] = PST_PLACE_NONE;
    if (ring->shared)
      continue;
    if (vb_bits_has(rx->own->held, i))
      vb_bits_set(ring->held, i, 1);
    else
      ring->free[ring->free_count++] = i;
  }
  vb_ring_close_lines(rx);
}

static struct pst_ring *vb_ring_find(struct pst_worker *worker, uint64_t token)
{
  uint64_t which = token >> 32;

  if (!worker->last_ring || worker->last_which != which) {
    worker->last_ring = pst_places_find(&worker->rings, (uint32_t)which);
    worker->last_which = which;
  }
  return worker->last_ring;
}

static int vb_ring_refuse(const struct pst_worker *worker, uint64_t token)
{
  VB_LOG(worker->device, PST_LOG_ERROR,
         "token 0x%llx is not out: released twice, or never given; a fault of the program",
         (unsigned long long)token);
  return -EINVAL;
}

/* Into the line of their endpoint, or to all, where it is closed. */
static void vb_ring_give_back(struct pst_ring *ring, struct pst_endpoint *owner, uint32_t first,
                              uint32_t count)
{
  if (owner) {
    vb_slot_fifo_put(&owner->rx->back, first, count);
    if (vb_credit_is_due(owner))
      vb_pend(owner);
    return;
  }
  for (uint32_t at = first; at < first + count; at++) {
    ring->owners[at] = PST_PLACE_NONE;
    ring->free[ring->free_count++] = at;
  }
}

/* How many of them follow one another in the ring. */
static uint32_t vb_ring_count_stretch(const uint64_t *tokens, uint32_t most)
{
  const uint64_t *token = tokens, *end = tokens + most, *fours = tokens + most / 4 * 4;
  uint64_t next = tokens[0];

  for (; token != fours && token[0] == next && token[1] == next + 1 && token[2] == next + 2 &&
         token[3] == next + 3;
       token += 4)
    next += 4;
  while (token != end && *token == next) {
    token++;
    next++;
  }
  return (uint32_t)(token - tokens);
}

/* Releases the tokens at the front that name that slot and its neighbours, as many as one endpoint
 * has had. Returns how many; 0: the first is not out. */
static uint32_t vb_ring_release_some(struct pst_ring *ring, uint32_t first, const uint64_t *tokens,
                                     uint32_t n)
{
  const uint32_t count = vb_ring_count_stretch(tokens, vb_smaller(n, ring->params.slots - first));
  struct pst_endpoint *owner = ring->last;
  uint32_t taken = owner ? vb_bits_take(owner->rx->own->held, first, count) : 0;

  if (taken == 0) {
    owner = pst_places_find(&ring->worker->endpoints, ring->owners[first]);
    taken = vb_bits_take(owner ? owner->rx->own->held : ring->held, first, count);
    ring->last = owner;
  }
  if (taken)
    vb_ring_give_back(ring, owner, first, taken);
  return taken;
}

/* Allows the endpoint at that place `count` more messages; if it is closed, others may have
 * them. */
static void vb_ring_allow_more(struct pst_ring *ring, uint32_t place, uint32_t count)
{
  struct pst_endpoint *owner = pst_places_find(&ring->worker->endpoints, place);

  if (!owner) {
    ring->free_count += count;
    return;
  }
  owner->rx->out -= count;
  owner->rx->ungranted += count;
  if (vb_credit_is_due(owner))
    vb_pend(owner);
}

/* As vb_ring_release_some(), of slots that are entries of a shared queue: each may be another
 * endpoint's than its neighbour. */
static uint32_t vb_ring_release_shared(struct pst_ring *ring, const uint64_t *tokens, uint32_t n)
{
  struct vb_srq *shared = ring->shared;
  const uint64_t first = pst_token(ring->place, 0), slots = ring->params.slots;
  uint64_t *const held = ring->held;
  uint32_t *const back = shared->back + shared->back_count, *const owners = ring->owners;
  uint32_t taken = 0, told = 0, place = PST_PLACE_NONE;

  for (; taken < n; taken++) {
    const uint64_t at = tokens[taken] - first, bit = UINT64_C(1) << at % 64;
    if (at >= slots || !(held[at / 64] & bit))
      break;
    if (owners[at] != place) {
      vb_ring_allow_more(ring, place, taken - told);
      told = taken;
      place = owners[at];
    }
    held[at / 64] &= ~bit;
    back[taken] = (uint32_t)at;
  }
  if (taken == 0)
    return 0;
  vb_ring_allow_more(ring, place, taken - told);
  shared->posted -= taken;
  shared->back_count += taken;
  vb_srq_due(shared);
  return taken;
}

int vb_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0, some; i < n; i += some) {
    const uint32_t at = (uint32_t)tokens[i];
    struct pst_ring *ring = vb_ring_find(worker, tokens[i]);
    if (!ring || at >= ring->params.slots)
      return vb_ring_refuse(worker, tokens[i]);
    some = ring->shared ? vb_ring_release_shared(ring, tokens + i, n - i)
                        : vb_ring_release_some(ring, at, tokens + i, n - i);
    if (some == 0)
      return vb_ring_refuse(worker, tokens[i]);
  }
  return 0;
}
