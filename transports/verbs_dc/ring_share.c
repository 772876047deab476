/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the endpoints of a ring share its slots, any of which takes any message.
 *
 * A slot is an endpoint's from the time at which its peer may send for it until the host has given
 * it back. One is kept for each endpoint that has none, come or not. `ring->free_count` counts the
 * slots that are nobody's.
 */
#include <assert.h>

#include "ring_share.h"

static uint32_t dc_share_slots_of(const struct vb_rx *rx)
{
  return rx->granted + rx->out + rx->ungranted;
}

/* Slots that an endpoint may be granted: one is kept for each of the others that have none. */
static uint32_t dc_share_room_for(const struct vb_rx *rx)
{
  const struct pst_ring *ring = rx->ring;
  const uint32_t others = ring->idle - (dc_share_slots_of(rx) == 0);

  return ring->free_count > others ? ring->free_count - others : 0;
}

void dc_share_grant(struct dc_endpoint *dc, uint32_t count)
{
  struct vb_rx *rx = dc->endpoint.rx;
  struct pst_ring *ring = rx->ring;

  assert(count <= dc_share_room_for(rx));
  if (dc_share_slots_of(rx) == 0 && count)
    ring->idle--;
  ring->free_count -= count;
  rx->granted += count;
  dc->granted += count;
}

/* An equal share; where endpoints may grow, as much as any may have if that is there for all, else
 * one slot. */
static uint32_t dc_share_base_of_next(const struct pst_ring *ring)
{
  const struct pst_ring_params *params = &ring->params;
  const uint32_t come =
      ring->open_count < params->endpoints ? params->endpoints - ring->open_count : 1;

  if (!params->endpoint_slots)
    return vb_smaller(pst_slots_share(params->slots - ring->bases, come), DC_CREDITS_MAX);
  if (params->endpoint_slots <= params->slots / params->endpoints)
    return vb_smaller(params->endpoint_slots, DC_CREDITS_MAX);
  return 1;
}

int dc_share_begin(struct dc_endpoint *dc)
{
  struct vb_rx *rx = dc->endpoint.rx;
  struct pst_ring *ring = rx->ring;

  dc->base = dc_share_base_of_next(ring);
  /* There are more endpoints than announced: no slot was kept for those. */
  if (ring->open_count >= ring->params.endpoints)
    ring->idle++;
  const uint32_t room = dc_share_room_for(rx);
  if (room == 0) {
    if (ring->open_count >= ring->params.endpoints)
      ring->idle--;
    return -ENOSPC;
  }
  rx->share = dc->base;
  ring->open_count++;
  ring->bases += dc->base;
  dc_share_grant(dc, vb_smaller(dc->base, room));
  return 0;
}

void dc_share_settle(struct dc_endpoint *dc)
{
  struct vb_rx *rx = dc->endpoint.rx;
  const bool had = dc_share_slots_of(rx) > 0;

  rx->ring->free_count += rx->ungranted;
  rx->ungranted = 0;
  if (had && dc_share_slots_of(rx) == 0)
    rx->ring->idle++;
}

/* Removes an endpoint from its ring; slots that the host still has belong to no endpoint once it
 * releases them. */
void dc_share_end(struct dc_endpoint *dc)
{
  struct vb_rx *rx = dc->endpoint.rx;
  struct pst_ring *ring = rx->ring;

  if (dc_share_slots_of(rx))
    ring->idle++;
  ring->free_count += rx->granted + rx->ungranted;
  ring->open_count--;
  if (ring->open_count >= ring->params.endpoints)
    ring->idle--;
  ring->bases -= dc->base;
}

uint32_t dc_share_more(const struct dc_endpoint *dc)
{
  const struct vb_rx *rx = dc->endpoint.rx;
  const uint32_t most = vb_smaller(rx->ring->params.endpoint_slots, DC_CREDITS_MAX);
  const uint32_t has = rx->granted + rx->out;
  uint32_t more;

  if (has < dc->base) {
    more = dc->base - has;
    /* Not each by itself while the peer has others to go on with. */
    if (more < dc->base / 4 && rx->granted > dc->base / 2)
      return 0;
  } else {
    if (has >= most || rx->granted > has / 2)
      return 0;
    more = vb_smaller(most - has, has ? has : 1);
  }
  return vb_smaller(more, dc_share_room_for(rx));
}
