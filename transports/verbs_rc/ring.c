/* SPDX-License-Identifier: Apache-2.0 */
/* Rings, whose slots their endpoints share out, and tokens. */
#include <stdio.h>

#include "rc.h"

static int check(struct pst_worker *worker, const struct pst_ring_params *in)
{
  struct pst_device *device = worker->device;
  const char *what = NULL;
  uint64_t payload = in->payload_max, used = 0, room = 0;

  if (!in->mr || !(in->mr->access & PST_ACCESS_RING) || !(in->mr->access & PST_ACCESS_LOCAL_WRITE))
    what = "its registration is not for rings";
  else if (in->slots == 0 || in->slots > RC_SLOTS_MAX)
    what = "its number of slots is out of range";
  else if (payload == 0 || payload > device->message_max)
    what = "its messages are empty, or longer than the port's largest";
  else if (__builtin_add_overflow(payload, (uint64_t)in->headroom + in->tailroom, &used) ||
           in->stride < used)
    what = "its slots overlap";
  else if (__builtin_mul_overflow(in->stride, (uint64_t)in->slots - 1, &room) ||
           __builtin_add_overflow(room, used, &room) || in->base > in->mr->length ||
           room > in->mr->length - in->base)
    what = "its slots do not fit into the registration";
  else if (in->endpoints == 0)
    what = "no endpoint is to use it";
  if (!what)
    return 0;
  RC_LOG(device, PST_LOG_ERROR, "ring of %u slots refused: %s", in->slots, what);
  return -EINVAL;
}

/* Of the slots' range alone, so that peers cannot write beside them; what is behind the last one,
 * up to a stride, is nobody's. */
static int register_slots(struct pst_ring *ring, struct pst_path_info *path)
{
  struct pst_device *device = ring->worker->device;
  const struct pst_ring_params *in = &ring->params;
  uint64_t length = in->stride * (in->slots - 1) + in->headroom + in->payload_max + in->tailroom;
  struct pst_path_info info = {0};

  if (in->base == 0 && in->mr->length - length < in->stride)
    length = in->mr->length;
  int rc =
      vb_mr_register(device->host, &device->mrs, in->mr->region, in->mr->offset + in->base, length,
                     RC_RING_RIGHTS | device->relaxed, true, &ring->verbs, info.reason);

  ring->base = ring->verbs.address + in->headroom;
  info.path = ring->verbs.path;
  snprintf(info.via, sizeof(info.via), "%s", ring->verbs.via);
  snprintf(info.carrier, sizeof(info.carrier), "%s", device->carrier);
  if (rc == 0 || rc == -EOPNOTSUPP)
    pst_struct_write(path, &info, sizeof(info));
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

int rc_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
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
  rc = open_slots(made);
  if (rc == 0)
    rc = register_slots(made, path);
  if (rc == 0)
    rc = rc_place_take(&worker->rings, made, &made->place, &made->generation);
  if (rc < 0) {
    vb_mr_close(&made->verbs);
    free(made->slots);
    free(made->free);
    free(made);
    return rc;
  }
  *ring = made;
  return 0;
}

void rc_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  rc_place_give(&worker->rings, ring->place);
  vb_mr_close(&ring->verbs);
  free(ring->slots);
  free(ring->free);
  free(ring);
}

/* ---- Shares ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

/* Equal shares, with those that are still to come. */
void rc_ring_share(struct pst_ring *ring, struct pst_endpoint *endpoint)
{
  struct rc_rx *rx = endpoint->rx;
  uint32_t come =
      ring->open_count < ring->params.endpoints ? ring->params.endpoints - ring->open_count : 1;

  rx->share = (ring->free_count + come - 1) / come;
  ring->free_count -= rx->share;
  uint32_t *mine = ring->free + ring->free_count;
  qsort(mine, rx->share, sizeof(*mine), ascending);
  for (uint32_t i = 0; i < rx->share; i++) {
    ring->slots[mine[i]] = (struct rc_slot){
        .owner = endpoint->place, .owner_generation = endpoint->generation, .state = RC_SLOT_OWNED};
    rc_fifo_put(&rx->back, mine[i]);
  }
  ring->open_count++;
}

/* What the host still has comes back when it is released. */
void rc_ring_unshare(struct pst_ring *ring, struct pst_endpoint *endpoint)
{
  for (uint32_t i = ring->params.slots; i-- > 0;) {
    struct rc_slot *slot = &ring->slots[i];
    if (slot->state != RC_SLOT_OWNED || slot->owner != endpoint->place ||
        slot->owner_generation != endpoint->generation)
      continue;
    slot->state = RC_SLOT_FREE;
    ring->free[ring->free_count++] = i;
  }
  ring->open_count--;
}

/* ---- Tokens -------------------------------------------------------------------------------- */

uint64_t rc_ring_token(struct pst_ring *ring, uint32_t slot)
{
  ring->slots[slot].state = RC_SLOT_OUT;
  return (uint64_t)ring->generation << 48 | (uint64_t)ring->place << 32 | slot;
}

static int release(struct pst_worker *worker, uint64_t token)
{
  struct pst_ring *ring =
      rc_place_find(&worker->rings, (token >> 32) & 0xffff, (uint16_t)(token >> 48));
  uint32_t at = (uint32_t)token;

  if (!ring || at >= ring->params.slots || ring->slots[at].state != RC_SLOT_OUT) {
    RC_LOG(worker->device, PST_LOG_ERROR,
           "token 0x%llx is not out: released twice, or never given; a fault of the program",
           (unsigned long long)token);
    return -EINVAL;
  }
  struct rc_slot *slot = &ring->slots[at];
  struct pst_endpoint *owner =
      rc_place_find(&worker->endpoints, slot->owner, slot->owner_generation);
  if (!owner) {
    slot->state = RC_SLOT_FREE;
    ring->free[ring->free_count++] = at;
    return 0;
  }
  slot->state = RC_SLOT_OWNED;
  rc_fifo_put(&owner->rx->back, at);
  rc_pend(owner);
  return 0;
}

int rc_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    int rc = release(worker, tokens[i]);
    if (rc < 0)
      return rc;
  }
  return 0;
}
